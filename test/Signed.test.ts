/**
 * Signatures and seals where they are used: engine, effector and client over a SQLite file that somebody else writes to.
 */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Layer, Metric, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { readFileSync } from "node:fs"
import * as EffectorTrust from "../src/EffectorTrust.ts"
import { Agent, AgentEngine, AgentStore, Effector, Signing, Tool } from "../src/index.ts"
import { SqliteAgentStore } from "../src/sqlite/index.ts"
import { folder } from "./fixtures/folder.ts"

const keys = (current: string, ...ids: ReadonlyArray<string>) => ({
  current,
  keys: Object.fromEntries([current, ...ids].map((id) => [id, new Uint8Array(32).fill(id.charCodeAt(0))]))
})

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

const gated = Tool.sideEffect("gated", {
  description: "Charge a customer, if somebody agrees.",
  parameters: { amountCents: Schema.Int },
  approval: "required"
})

const payCard = Tool.sideEffect("pay_card", {
  description: "Pay with a card.",
  parameters: { card: Schema.Redacted(Schema.String), amountCents: Schema.Int },
  success: Schema.String
})

const card = "4111-1111-1111-1111"

const desk = Agent.make(
  "desk",
  { event: Schema.Literals(["charge", "gated", "card"]), output: Schema.String },
  Effect.fnUntraced(function*(ctx, what) {
    if (what === "charge") yield* ctx.act(charge({ customerId: "c1", amountCents: 100 }))
    if (what === "gated") yield* ctx.act(gated({ amountCents: 100 }))
    if (what === "card") {
      return Agent.complete(yield* ctx.request(payCard({ card: Redacted.make(card), amountCents: 5 })))
    }
    return Agent.complete("done")
  })
)

const tools = [charge, gated, payCard] as const

const store = (filename: string) => SqliteAgentStore.layer({ filename, synchronous: "normal" })

/** The agents, and nobody who performs: what is staged waits. */
const agents = AgentEngine.layer(desk).pipe(Layer.provide(Effector.elsewhere(...tools)))

/** An effector that counts what it does. */
const effector = (done: Array<string>) =>
  Effector.layer(...tools).pipe(
    Layer.provide([
      charge.toLayer(({ amountCents }) => Effect.sync(() => `${done.push(`charged ${amountCents}`)}`)),
      gated.toLayer(({ amountCents }) => Effect.sync(() => void done.push(`charged ${amountCents}`))),
      payCard.toLayer(({ card }) => Effect.sync(() => `${done.push(Redacted.value(card))}`))
    ])
  )

const sendTo = (what: "charge" | "gated" | "card") =>
  Effect.gen(function*() {
    const client = yield* AgentEngine.client
    yield* client.send(desk, { key: "c1", event: what })
    yield* TestClock.adjust("1 second")
  })

const letters = Effect.flatMap(
  AgentEngine.client,
  ({ deadLetters }) => Effect.map(deadLetters, (letters) => letters.map(({ kind, reason }) => `${kind} ${reason.tag}`))
)

const states = Effect.flatMap(
  AgentEngine.client,
  ({ intents }) => Effect.map(intents(), (entries) => entries.map(({ state }) => state))
)

/** An event is staged under one signing, changed by a statement, and performed under another. */
const tampered = (options: {
  readonly what?: "charge" | "gated"
  readonly statement: string
  readonly staged: Layer.Layer<never, unknown>
  readonly performed: Layer.Layer<never, unknown>
}) =>
  Effect.gen(function*() {
    const filename = `${yield* folder}/agents.db`
    const done: Array<string> = []
    const { performed, staged, statement, what = "charge" } = options
    const staging = Effect.gen(function*() {
      yield* sendTo(what)
      const { decide, intents } = yield* AgentEngine.client
      if (what === "gated") yield* decide({ id: (yield* intents())[0]!.intent.id, approved: true, by: "maria" })
      yield* Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(statement))
    })
    yield* Effect.provide(staging, agents.pipe(Layer.provideMerge(store(filename)), Layer.provideMerge(staged)))
    const performing = Effect.gen(function*() {
      yield* TestClock.adjust("1 second")
      return { done, letters: yield* letters, states: yield* states }
    })
    return yield* Effect.provide(
      performing,
      Layer.provideMerge(effector(done), store(filename)).pipe(Layer.provideMerge(performed))
    )
  })

const required = Signing.layer({ ...keys("a"), mode: "require" })
const permissive = Signing.layer({ ...keys("a"), mode: "permissive" })

const nothing = "SELECT 1"
const unsign = "UPDATE ei_intents SET intent = json_remove(intent, '$.signature')"
const raise = `UPDATE ei_intents SET intent = replace(intent, '100', '999')`

describe("K82 a signature that was taken off", () => {
  it.effect("is refused before any claim where signatures are required, and becomes a dead letter", () =>
    Effect.gen(function*() {
      const { done, letters, states } = yield* tampered({ statement: unsign, staged: required, performed: required })
      assert.deepStrictEqual({ done, letters, states }, {
        done: [],
        letters: ["Intent SignatureRefused"],
        states: ["Rejected"]
      })
    }))

  it.effect("is let through under permissive, and counted", () =>
    Effect.gen(function*() {
      const before = (yield* Metric.value(EffectorTrust.unsigned)).count
      const { done, letters } = yield* tampered({ statement: unsign, staged: permissive, performed: permissive })
      assert.deepStrictEqual({ done, letters }, { done: ["charged 100"], letters: [] })
      assert.isAbove(Number((yield* Metric.value(EffectorTrust.unsigned)).count), Number(before))
    }))

  for (const [mode, signing] of [["require", required], ["permissive", permissive]] as const) {
    it.effect(`and an amount that was changed under its signature are refused under ${mode}`, () =>
      Effect.gen(function*() {
        const { done, letters } = yield* tampered({ statement: raise, staged: required, performed: signing })
        assert.deepStrictEqual({ done, letters }, { done: [], letters: ["Intent SignatureRefused"] })
      }))
  }

  it.effect("is missed by nobody where nothing was changed", () =>
    Effect.gen(function*() {
      const { done, letters, states } = yield* tampered({ statement: nothing, staged: required, performed: required })
      assert.deepStrictEqual({ done, letters, states }, { done: ["charged 100"], letters: [], states: ["Performed"] })
    }))

  it.effect("is of the decision: an approval that was written into the row is refused", () =>
    Effect.gen(function*() {
      const forged = "UPDATE ei_intents SET record = json_set(record, '$.decision.by', 'somebody else')"
      const approved = { what: "gated", staged: required, performed: required } as const
      assert.deepStrictEqual((yield* tampered({ ...approved, statement: nothing })).done, ["charged 100"])
      const { done, letters } = yield* tampered({ ...approved, statement: forged })
      assert.deepStrictEqual({ done, letters }, { done: [], letters: ["Intent SignatureRefused"] })
    }))

  it.effect("is of the arguments that were put in place of the others", () =>
    Effect.gen(function*() {
      const edited = `UPDATE ei_intents SET record = json_set(record, '$.decision.edited', `
        + `json('{"arguments":"{\\"amountCents\\":999}","argumentsDigest":"x"}'))`
      const { done, letters } = yield* tampered({
        what: "gated",
        statement: edited,
        staged: required,
        performed: required
      })
      assert.deepStrictEqual({ done, letters }, { done: [], letters: ["Intent SignatureRefused"] })
    }))
})

describe("rotation", () => {
  const rotated = Signing.layer({ ...keys("b", "a"), mode: "require" })
  const forgotten = Signing.layer({ ...keys("b"), mode: "require" })

  it.effect("takes what an older key of the ring has signed", () =>
    Effect.gen(function*() {
      const { done } = yield* tampered({ statement: nothing, staged: required, performed: rotated })
      assert.deepStrictEqual(done, ["charged 100"])
    }))

  it.effect("refuses what a key has signed that is in the ring no more", () =>
    Effect.gen(function*() {
      const { done, letters } = yield* tampered({ statement: nothing, staged: required, performed: forgotten })
      assert.deepStrictEqual({ done, letters }, { done: [], letters: ["Intent SignatureRefused"] })
    }))
})

describe("secret arguments", () => {
  it.effect("are in no byte of the file, and reach the handler (K81)", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      const done: Array<string> = []
      const program = Effect.gen(function*() {
        yield* sendTo("card")
        const { intents } = yield* AgentEngine.client
        const [entry] = yield* intents()
        assert.strictEqual(entry!.state, "Performed")
        assert.notInclude(JSON.stringify(entry), "4111")
        assert.match(entry!.intent.argumentsDigest, /^a:[0-9a-f]{64}$/)
        const sql = yield* SqlClient.SqlClient
        yield* sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)")
      })
      const live = AgentEngine.layer(desk).pipe(
        Layer.provide(effector(done)),
        Layer.provideMerge(store(filename)),
        Layer.provideMerge(required)
      )
      yield* Effect.provide(program, live)
      assert.deepStrictEqual(done, [card])
      assert.notInclude(readFileSync(filename, "latin1"), "4111")
    }))

  it.effect("are found again by an activation that goes on under another key", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      const done: Array<string> = []
      const first = agents.pipe(Layer.provideMerge(store(filename)), Layer.provideMerge(required))
      yield* Effect.provide(sendTo("card"), first)
      const rotated = Signing.layer({ ...keys("b", "a"), mode: "require" })
      const second = AgentEngine.layer(desk).pipe(
        Layer.provide(effector(done)),
        Layer.provideMerge(store(filename)),
        Layer.provideMerge(rotated)
      )
      const output = Effect.gen(function*() {
        yield* TestClock.adjust("1 minute")
        const { outputs } = yield* AgentStore.AgentStore
        return yield* outputs({ agent: "desk", after: 0, limit: 10 })
      })
      assert.deepStrictEqual((yield* Effect.provide(output, second)).map(({ output }) => output), ["1"])
      assert.deepStrictEqual(done, [card])
    }))

  it.effect("are refused by engine and effector over a durable store without keys, when these are built", () =>
    Effect.gen(function*() {
      const filename = `${yield* folder}/agents.db`
      const built = (layer: Layer.Layer<any, unknown, AgentStore.AgentStore>) =>
        Effect.map(
          Effect.exit(Effect.scoped(Layer.build(Layer.provide(layer, store(filename))))),
          (exit) => Exit.isFailure(exit) ? Cause.pretty(exit.cause) : ""
        )
      assert.include(yield* built(agents), "'pay_card' has redacted parameters")
      assert.include(yield* built(effector([])), "'pay_card' has redacted parameters")
    }))
})
