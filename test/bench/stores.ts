// The stores that are measured, and beside each what its driver does at most: rows inserted by hand, no rules.
import * as PgClient from "@effect/sql-pg/PgClient"
import { AgentStore } from "effect-intents"
import { PostgresAgentStore } from "effect-intents/postgres"
import { SqliteAgentStore } from "effect-intents/sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { freshDatabaseOn } from "../fixtures/postgres.ts"
import type { Store } from "./endToEnd.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-intents-bench-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

export const memory: Store = { name: "memory", layer: AgentStore.layerMemory, events: (events) => events }

export const sqlite: Store = {
  name: "SQLite FULL",
  layer: Layer.unwrap(Effect.map(folder, (folder) => SqliteAgentStore.layer({ filename: join(folder, "bench.db") }))),
  // One key waits for the disk at every step.
  events: (events, keys) => keys === 1 ? Math.ceil(events / 20) : events
}

/** Rows of 200 bytes a second through node:sqlite, `size` in each transaction, as durable as the store. */
export const sqliteInserts = (rows: number, size: number): Effect.Effect<number> =>
  Effect.scoped(Effect.map(folder, (folder) => {
    const db = new DatabaseSync(join(folder, "raw.db"))
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    db.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    const insert = db.prepare("INSERT INTO rows (text) VALUES (?)")
    const started = process.hrtime.bigint()
    for (let done = 0; done < rows; done += size) {
      db.exec("BEGIN IMMEDIATE")
      for (let index = 0; index < size; index++) insert.run("x".repeat(200))
      db.exec("COMMIT")
    }
    const seconds = Number(process.hrtime.bigint() - started) / 1e9
    db.close()
    return rows / seconds
  }))

/** A store in a database of its own on a server that was started for it. */
export const postgres = (server: string): Store => ({
  name: "Postgres",
  layer: Layer.unwrap(
    Effect.map(freshDatabaseOn(server), (url) => PostgresAgentStore.layer({ url: Redacted.make(url) }))
  ),
  events: (events, keys) => keys === 1 ? Math.ceil(events / 20) : events
})

/** Rows of 200 bytes a second through the driver, `size` in each statement and transaction. */
export const postgresInserts = (server: string, rows: number, size: number): Effect.Effect<number, unknown> =>
  Effect.scoped(Effect.flatMap(freshDatabaseOn(server), (url) =>
    Effect.gen(function*() {
      const sql = yield* PgClient.PgClient
      yield* sql`CREATE TABLE rows (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL)`
      const texts = JSON.stringify(Array.from({ length: size }, () => "x".repeat(200)))
      const started = process.hrtime.bigint()
      for (let done = 0; done < rows; done += size) {
        yield* sql`INSERT INTO rows (text) SELECT value FROM json_array_elements_text(${texts}::text::json) AS value`
      }
      return rows / (Number(process.hrtime.bigint() - started) / 1e9)
    }).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url) })))))
