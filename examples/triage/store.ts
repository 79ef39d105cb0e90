/**
 * Where the agents live: a SQLite file, Postgres, or memory; and the file in which the world outside is kept beside it.
 */
import { Effect, FileSystem, Layer, Path, Redacted } from "effect"
import { AgentStore } from "effect-intents"
import { SqliteAgentStore } from "effect-intents/sqlite"

export const storeAt = (db: string) =>
  Layer.unwrap(Effect.gen(function*() {
    if (db === "memory") return AgentStore.layerMemory
    if (/^postgres(ql)?:/.test(db)) {
      // Only who uses Postgres has its driver.
      const { PostgresAgentStore } = yield* Effect.promise(() => import("effect-intents/postgres"))
      return PostgresAgentStore.layer({ url: Redacted.make(db) })
    }
    const files = yield* FileSystem.FileSystem
    yield* files.makeDirectory((yield* Path.Path).dirname(db), { recursive: true })
    return SqliteAgentStore.layer({ filename: db })
  }))

/** The path of the file outside; `undefined` where everything ends with this process. */
export const outsideOf = (db: string): string | undefined =>
  db === "memory"
    ? undefined
    : /^postgres(ql)?:/.test(db)
    ? `.effect-intents/${new URL(db).pathname.slice(1)}.outside.ndjson`
    : `${db}.outside.ndjson`
