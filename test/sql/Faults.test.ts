/**
 * What goes wrong around a store: a full disk, a locked file, rows that cannot be read, clocks that jump, a newer version.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import { DatabaseSync } from "node:sqlite"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "../../src/index.ts"
import { SqliteAgentStore } from "../../src/sqlite/index.ts"
import { keyOf, load, send, stage } from "../../src/testing/contract/Fixture.ts"
import { folder } from "../fixtures/folder.ts"

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { amountCents: Schema.Int, note: Schema.String },
  success: Schema.String
})

const desk = Agent.make(
  "desk",
  {
    event: Schema.Struct({ amountCents: Schema.Int, note: Schema.String }),
    output: Schema.String,
    maxBytes: 8_000_000
  },
  Effect.fnUntraced(function*(ctx, { amountCents, note }) {
    const receipt = yield* ctx.request(charge({ amountCents, note })).pipe(
      Effect.catchTags({
        IntentNotPerformed: ({ detail, reason }) => Effect.succeed(`${reason}: ${detail}`),
        IntentOutcomeUnknown: ({ detail, reason }) => Effect.succeed(`${reason}: ${detail}`),
        ResultUnavailable: ({ detail }) => Effect.succeed(`unavailable: ${detail}`)
      })
    )
    return Agent.complete(receipt.slice(0, 100))
  })
)

const agents = AgentEngine.layer(desk).pipe(Layer.provide(Effector.elsewhere(charge)))

const effector = (charged: Array<number>, options: Effector.Options = {}) =>
  Effector.layerWith(options)(charge).pipe(
    Layer.provide(charge.toLayer(({ amountCents, note }) =>
      Effect.sync(() => {
        charged.push(amountCents)
        return `receipt for ${amountCents}${note === "echo" ? "x".repeat(5_000_000) : ""}`
      })
    ))
  )

const store = (filename: string, options: Partial<SqliteAgentStore.Options> = {}) =>
  SqliteAgentStore.layer({ filename, synchronous: "normal", ...options })

const order = (key: string, amountCents: number, note = "") =>
  Effect.flatMap(AgentEngine.client, ({ send }) => send(desk, { key, event: { amountCents, note } }))

const outputs = Effect.flatMap(
  AgentStore.AgentStore,
  (store) =>
    Effect.map(store.outputs({ agent: "desk", after: 0, limit: 100 }), (rows) => rows.map(({ output }) => output))
)

const letters = Effect.flatMap(AgentEngine.client, ({ deadLetters }) => deadLetters)

const sql = (text: string) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe<any>(text))

/** Three orders are staged and wait; something happens to the file; then an effector comes. */
const staged = (damage: string, filename: string) =>
  Effect.gen(function*() {
    for (const [index, key] of ["a", "b", "c"].entries()) yield* order(key, index + 1)
    yield* TestClock.adjust("1 second")
    yield* sql(damage)
  }).pipe(Effect.provide(Layer.provideMerge(agents, store(filename))))

const performed = (filename: string, charged: Array<number>) => {
  const live = AgentEngine.layer(desk).pipe(Layer.provide(effector(charged)), Layer.provideMerge(store(filename)))
  return Effect.gen(function*() {
    yield* TestClock.adjust("1 second")
    return { outputs: (yield* outputs).toSorted(), letters: yield* letters }
  }).pipe(Effect.provide(live))
}

describe("K83 a row that cannot be read", () => {
  for (
    const [what, damage] of [
      ["intent", "UPDATE ei_intents SET intent = 'garbage' WHERE n = 2"],
      ["record", "UPDATE ei_intents SET record = '{\"state\":' WHERE n = 2"],
      ["record of another state", "UPDATE ei_intents SET record = '{}' WHERE n = 2"],
      ["intent of another id", "UPDATE ei_intents SET intent = (SELECT intent FROM ei_intents WHERE n = 1) WHERE n = 2"]
    ] as const
  ) {
    it.effect(`is put aside, the others are performed, and a restart does not meet it again: ${what}`, () =>
      Effect.gen(function*() {
        const filename = `${yield* folder}/agents.db`
        const charged: Array<number> = []
        yield* staged(damage, filename)
        const first = yield* performed(filename, charged)
        assert.deepStrictEqual(charged.toSorted(), [1, 3])
        assert.deepStrictEqual(first.letters.map(({ kind, reason }) => `${kind} ${reason.tag}`), ["Intent undecodable"])
        assert.deepStrictEqual(first.outputs.map((output) => String(output).slice(0, 13)), [
          "Rejected: its",
          "receipt for 1",
          "receipt for 3"
        ])
        const again = yield* performed(filename, charged)
        assert.lengthOf(again.letters, 1)
        assert.lengthOf(charged, 2)
      }))
  }

  it.effect("that was started is an unknown end", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      yield* staged(
        "UPDATE ei_intents SET record = 'x', state = 'Claimed', attempt = 1, holds = 0, claimable_at = NULL, due_at = 0 WHERE n = 2",
        filename
      )
      const charged: Array<number> = []
      const { outputs } = yield* performed(filename, charged)
      assert.deepStrictEqual(charged.toSorted(), [1, 3])
      assert.include(String(outputs[0]), "Crashed: its record cannot be read")
    }))

  for (
    const [what, damage, repair] of [
      ["memory", "UPDATE ei_keys SET memory = '{' WHERE key = 'b'", "UPDATE ei_keys SET memory = '{}' WHERE key = 'b'"],
      [
        "event",
        "UPDATE ei_events SET event = '{' WHERE id = 2",
        "UPDATE ei_events SET event = '{\"amountCents\":2,\"note\":\"\"}' WHERE id = 2"
      ],
      [
        "journal row (K78)",
        "UPDATE ei_journal SET entry = 'x' || entry WHERE event = 2 AND position = 1",
        "UPDATE ei_journal SET entry = substr(entry, 2) WHERE event = 2 AND position = 1"
      ]
    ] as const
  ) {
    it.effect(`of a key blocks that key alone, and it goes on after a repair: ${what}`, () =>
      Effect.gen(function*() {
        const filename = `${yield* folder}/agents.db`
        const charged: Array<number> = []
        yield* staged(damage, filename)
        const { letters, outputs } = yield* performed(filename, charged)
        assert.deepStrictEqual(charged.toSorted(), [1, 2, 3])
        assert.deepStrictEqual(outputs, ["receipt for 1", "receipt for 3"])
        assert.deepStrictEqual(letters.map(({ key, kind }) => `${kind} ${key}`), ["Resume b"])
        const repairing = Effect.gen(function*() {
          yield* sql(repair)
          const { redrive } = yield* AgentEngine.client
          yield* redrive(letters[0]!.id, { by: "maria" })
        })
        yield* Effect.provide(repairing, store(filename))
        assert.deepStrictEqual((yield* performed(filename, charged)).outputs, [
          "receipt for 1",
          "receipt for 2",
          "receipt for 3"
        ])
        assert.lengthOf(charged, 3)
      }))
  }
})

describe("a full disk", () => {
  it.effect("is a typed error, keeps what is there, and takes more when there is room", () =>
    Effect.gen(function*() {
      yield* send(keyOf("before"))
      const [pages] = yield* sql("PRAGMA page_count")
      yield* sql(`PRAGMA max_page_count = ${pages.page_count}`)
      const big = send({ ...keyOf("big"), eventId: "big", event: "x".repeat(200_000) })
      const error = yield* Effect.flip(big)
      assert.strictEqual(error._tag, "StoreError")
      assert.include(error.message, "full")
      yield* load(keyOf("before"))
      yield* sql("PRAGMA max_page_count = 100000")
      assert.isFalse((yield* big).duplicate)
      assert.isTrue((yield* big).duplicate)
    }).pipe(Effect.provide(SqliteAgentStore.layer({ filename: ":memory:" }))))
})

describe("a file that another process has locked", () => {
  it.effect("is a typed error after the busy timeout, and works afterwards", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      const program = Effect.gen(function*() {
        const other = new DatabaseSync(filename)
        other.exec("BEGIN IMMEDIATE")
        const error = yield* Effect.flip(send())
        assert.strictEqual(error._tag, "StoreError")
        assert.include(error.message, "locked")
        other.exec("ROLLBACK")
        other.close()
        yield* send()
        yield* load()
      })
      yield* Effect.provide(program, store(filename, { busyTimeout: 50 }))
    }))

  it.live("tells what another one changed, without being asked", () =>
    Effect.scoped(Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      const waiting = Effect.gen(function*() {
        const { changes } = yield* AgentStore.AgentStore
        const told = yield* changes
        // The other one writes through a connection of its own.
        yield* Effect.provide(send(keyOf("other")), store(filename))
        yield* Effect.timeout(Queue.take(told), "5 seconds")
        yield* load(keyOf("other"))
      })
      yield* Effect.provide(waiting, store(filename))
    })))
})

describe("a store of a newer version", () => {
  it.effect("is refused, and left as it is", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      yield* Effect.provide(send(), store(filename))
      const db = new DatabaseSync(filename)
      db.exec("INSERT INTO ei_migrations (migration_id, name) VALUES (9, 'from the future')")
      db.exec("DROP TABLE ei_locks")
      const before = db.prepare("SELECT group_concat(sql) AS text FROM sqlite_master").get()
      const exit = yield* Effect.exit(Effect.scoped(Effect.asVoid(Layer.build(store(filename)))))
      assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", "schema version 9")
      assert.deepStrictEqual(db.prepare("SELECT group_concat(sql) AS text FROM sqlite_master").get(), before)
      db.close()
    }))
})

describe("a clock that jumps", () => {
  it.effect("back or forth performs nothing twice, and loses nothing", () =>
    Effect.gen(function*() {
      const charged: Array<number> = []
      const live = AgentEngine.layer(desk).pipe(
        Layer.provide(effector(charged, { lease: "10 seconds" })),
        Layer.provideMerge(store(`${yield* folder}/agents.db`))
      )
      const program = Effect.gen(function*() {
        for (const [index, at] of [5_000_000, 1_000, 9_000_000, 2_000].entries()) {
          yield* TestClock.setTime(at)
          yield* order("a", index)
          yield* order(`b${index}`, 10 + index)
          yield* TestClock.adjust("1 minute")
        }
        yield* TestClock.setTime(10_000_000)
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(charged.toSorted(), [0, 1, 10, 11, 12, 13, 2, 3])
        assert.lengthOf(yield* outputs, 8)
        assert.deepStrictEqual(yield* letters, [])
      })
      yield* Effect.provide(program, live)
    }))
})

describe("5 MB", () => {
  it.effect("of arguments go through where the limits allow, and are refused by name where they do not", () =>
    Effect.gen(function*() {
      const charged: Array<number> = []
      const live = AgentEngine.layer(desk).pipe(
        Layer.provide(effector(charged)),
        Layer.provideMerge(store(`${yield* folder}/agents.db`))
      )
      const program = Effect.gen(function*() {
        yield* order("a", 1, "x".repeat(5_000_000))
        const error = yield* Effect.flip(order("a", 1, "x".repeat(9_000_000)))
        assert.strictEqual(error._tag, "TooLarge")
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(charged, [1])
        assert.deepStrictEqual(yield* outputs, ["receipt for 1"])
      })
      yield* Effect.provide(program, live)
    }))

  it.effect("of a result are not handed over, and the outcome is not lost", () =>
    Effect.gen(function*() {
      const charged: Array<number> = []
      const live = AgentEngine.layer(desk).pipe(
        Layer.provide(effector(charged)),
        Layer.provideMerge(store(`${yield* folder}/agents.db`))
      )
      const program = Effect.gen(function*() {
        yield* order("a", 1, "echo")
        yield* TestClock.adjust("1 minute")
        assert.deepStrictEqual(charged, [1])
        assert.match(String((yield* outputs)[0]), /^unavailable: it has 5\d+ bytes, the limit is 1048576$/)
        const { intents } = yield* AgentEngine.client
        assert.deepStrictEqual((yield* intents()).map(({ state }) => state), ["Performed"])
      })
      yield* Effect.provide(program, live)
    }))
})

describe("many waiting keys", () => {
  it.effect("are not brought into memory: a page of them is", () =>
    Effect.gen(function*() {
      const { ready } = yield* AgentStore.AgentStore
      yield* Effect.forEach(Array.from({ length: 2000 }, (_, index) => index), (index) => send(keyOf(index)), {
        concurrency: "unbounded",
        discard: true
      })
      const busy = new Set<string>()
      for (let page = 0; page < 20; page++) {
        const found = yield* ready({ agents: ["agent"], limit: 100, busy: (_, key) => busy.has(key) })
        assert.lengthOf(found, 100)
        for (const { key } of found) busy.add(key)
      }
      assert.strictEqual(busy.size, 2000)
      assert.lengthOf(yield* ready({ agents: ["agent"], limit: 100, busy: (_, key) => busy.has(key) }), 0)
      yield* stage([{}], keyOf("one more"))
    }).pipe(Effect.provide(SqliteAgentStore.layer({ filename: ":memory:" }))))
})
