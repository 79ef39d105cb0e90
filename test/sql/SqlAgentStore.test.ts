import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { AgentStore } from "../../src/index.ts"
import * as SqlAgentStore from "../../src/sql/SqlAgentStore.ts"
import * as SqlDialect from "../../src/sql/SqlDialect.ts"
import { SqliteAgentStore, SqliteClient } from "../../src/sqlite/index.ts"
import { complete, draft, keyOf, load, send } from "../../src/testing/contract/Fixture.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-intents-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

/** A store in memory that counts its transactions and notes what it looks at without one. */
const observed = (options: SqlAgentStore.Options = {}) => {
  const seen = { transactions: 0, looks: new Map<string, ReadonlyArray<unknown>>() }
  const client = Effect.map(SqlClient.SqlClient, (sql) =>
    new Proxy(sql, {
      get: (target, name) => {
        // How a store looks at rows.
        const unsafe = (text: string, params: ReadonlyArray<unknown>) => {
          seen.looks.set(text, params)
          return target.unsafe(text, params)
        }
        return name === "unsafe" ? unsafe : Reflect.get(target, name)
      }
    }))
  const store = Effect.gen(function*() {
    const backend = {
      dialect: SqlDialect.sqlite,
      signal: () => Effect.sync(() => void seen.transactions++),
      watch: () => Effect.never
    }
    const service = SqlAgentStore.make(backend, options)
    return yield* Effect.provideService(service, SqlClient.SqlClient, yield* client)
  })
  const layer = Layer.provideMerge(
    Layer.effect(AgentStore.AgentStore, store),
    SqliteClient.layer({ filename: ":memory:" })
  )
  return { seen, layer }
}

const sendMany = (count: number) =>
  Effect.forEach(Array.from({ length: count }, (_, index) => index), (index) => send(keyOf(index)), {
    concurrency: "unbounded"
  })

describe("group commit", () => {
  it.effect("gives operations that are ready together one transaction", () => {
    const { layer, seen } = observed()
    return Effect.gen(function*() {
      yield* sendMany(100)
      assert.strictEqual(seen.transactions, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("puts no more operations into a transaction than it may", () => {
    const { layer, seen } = observed({ groupSize: 10 })
    return Effect.gen(function*() {
      yield* sendMany(95)
      assert.strictEqual(seen.transactions, 10)
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for nobody: one operation alone is committed at once", () => {
    const { layer, seen } = observed()
    return Effect.gen(function*() {
      for (let count = 1; count <= 3; count++) {
        yield* send(keyOf(count))
        assert.strictEqual(seen.transactions, count)
      }
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not fail the neighbours of an operation that cannot be written", () => {
    const { layer } = observed()
    return Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql.unsafe(
        "CREATE TRIGGER poison BEFORE INSERT ON ei_events WHEN NEW.version = 'poison' BEGIN SELECT RAISE(ABORT, 'poison'); END"
      )
      const exits = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, index) => index),
        (index) => Effect.exit(send({ ...keyOf(index), version: index === 7 ? "poison" : "1" })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(exits.flatMap((exit, index) => Exit.isSuccess(exit) ? [] : [index]), [7])
      assert.include(String(exits[7]), "poison")
      const rows = yield* sql.unsafe<{ readonly n: number }>("SELECT count(*) AS n FROM ei_events")
      assert.strictEqual(rows[0]!.n, 19)
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not fail the neighbours of an operation that is refused", () => {
    const { layer, seen } = observed()
    return Effect.gen(function*() {
      yield* send({ eventId: "seen", event: "one" })
      const exits = yield* Effect.all([
        Effect.exit(send({ ...keyOf(1) })),
        Effect.exit(send({ eventId: "seen", event: "another" })),
        Effect.exit(send({ ...keyOf(2) }))
      ], { concurrency: "unbounded" })
      assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, false, true])
      assert.strictEqual(seen.transactions, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("acknowledges nothing that another connection does not see", () =>
    Effect.scoped(Effect.gen(function*() {
      const filename = join(yield* folder, "agents.db")
      const sending = Effect.gen(function*() {
        const other = new DatabaseSync(filename, { readOnly: true })
        const count = other.prepare("SELECT count(*) AS n FROM ei_events WHERE id = ?")
        yield* Effect.forEach(Array.from({ length: 50 }, (_, index) => index), (index) =>
          Effect.map(send(keyOf(index)), ({ offset }) => assert.deepInclude(count.get(offset), { n: 1 })), {
          concurrency: "unbounded"
        })
        other.close()
      })
      yield* Effect.provide(sending, SqliteAgentStore.layer({ filename }))
    })))

  it.effect("refuses what comes after the store was closed", () =>
    Effect.gen(function*() {
      const store = yield* Effect.scoped(Effect.map(Layer.build(observed().layer), Context.get(AgentStore.AgentStore)))
      const exit = yield* Effect.exit(store.message({ agent: "agent", key: "key", message: 1 }))
      assert.include(String(exit), "the store was closed")
    }))
})

describe("what workers ask again and again", () => {
  it.effect("is answered by an index, and never by going through a table", () => {
    const { layer, seen } = observed()
    return Effect.gen(function*() {
      const store = yield* AgentStore.AgentStore
      yield* send()
      const snapshot = yield* load()
      yield* complete(snapshot, { intents: [draft(snapshot, 0), draft(snapshot, 1, { approval: "required" })] })
      yield* send()
      seen.looks.clear()
      yield* store.ready({ agents: ["agent", "other"], limit: 10, busy: () => false })
      yield* store.startable({ tools: ["charge", "sendEmail"], except: new Set(["x"]), limit: 10 })
      yield* store.sweep
      assert.isAtLeast(seen.looks.size, 5)
      const sql = yield* SqlClient.SqlClient
      const plans: Array<string> = []
      for (const [text, params] of seen.looks) {
        const plan = yield* sql.unsafe<{ readonly detail: string }>(`EXPLAIN QUERY PLAN ${text}`, params)
        plans.push(...plan.map(({ detail }) => detail))
      }
      assert.deepStrictEqual(plans.filter((detail) => /^SCAN ei_|^SEARCH ei_\w+$/.test(detail)), [])
      for (const index of ["ei_keys_ready", "ei_intents_claimable", "ei_intents_due", "ei_events_inbox"]) {
        assert.isTrue(plans.some((detail) => detail.includes(index)), `${index}: ${plans.join("; ")}`)
      }
    }).pipe(Effect.provide(layer))
  })
})
