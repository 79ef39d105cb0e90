/**
 * Secrets of an intent: only its handler gets them, and what it answers is recorded without them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { mask, maskText, secretsOf } from "../src/EffectorSecrets.ts"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"

class Refused extends Schema.TaggedError<Refused>()("Refused", { reason: Schema.String }) {}

const pay = Tool.sideEffect("pay", {
  description: "Pay with a card.",
  parameters: { card: Schema.Redacted(Schema.String), pin: Schema.Redacted(Schema.Int), shop: Schema.String },
  success: Schema.Record(Schema.String, Schema.Array(Schema.String)),
  failure: Refused
})

const card = `4111 "1111"`
const pin = 98765
const input = { card: Redacted.make(card), pin: Redacted.make(pin), shop: "bakery" }

/** Pays and says what came back. */
const payer = Agent.make(
  "payer",
  { event: Schema.Null, output: Schema.Json },
  Effect.fnUntraced(function*(ctx) {
    const answer = ctx.request(pay(input)).pipe(
      Effect.map((value): Schema.Json => value),
      Effect.catchTags({
        Refused: ({ reason }) => Effect.succeed<Schema.Json>(reason),
        IntentOutcomeUnknown: ({ detail }) => Effect.succeed<Schema.Json>(detail),
        ResultUnavailable: ({ detail }) => Effect.succeed<Schema.Json>(detail)
      })
    )
    return Agent.complete(yield* answer)
  })
)

type Pay = (typeof pay)["Types"]

/** Has a handler perform it, and gives what the agent was told. */
const told = (handler: (input: Pay["Input"]) => Effect.Effect<Pay["A"], Refused>) =>
  Effect.gen(function*() {
    yield* Layer.build(
      AgentEngine.layer(payer).pipe(
        Layer.provide(Effector.layer(pay)),
        Layer.provide(pay.toLayer(handler))
      )
    )
    const { send } = yield* AgentEngine.client
    yield* send(payer, { key: "c1", event: null })
    yield* TestClock.adjust("1 minute")
    const store = yield* AgentStore.AgentStore
    const [output] = yield* store.outputs({ agent: "payer", after: 0, limit: 1 })
    return output?.output
  })

describe("K81 a secret the handler answers with", () => {
  it.effect("in its own failure is masked in the ledger, and so for the agent; the handler got it", () => {
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const answer = yield* Effect.provide(
        told(({ card, pin }) =>
          Effect.fail(new Refused({ reason: `card ${Redacted.value(card)}, pin ${Redacted.value(pin)}: declined` }))
        ),
        Desk.logged(lines)
      )
      assert.strictEqual(answer, "card <redacted>, pin <redacted>: declined")
      const [entry] = yield* AgentStore.AgentStore.use((store) => store.entries({}))
      assert.strictEqual(entry?.state, "Performed")
      for (const text of [JSON.stringify(entry), ...lines]) {
        for (const secret of [card, String(pin)]) {
          assert.notInclude(text, secret)
          assert.notInclude(text, JSON.stringify(secret).slice(1, -1))
        }
      }
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("in its success is masked wherever it stands, in a key too", () =>
    Effect.gen(function*() {
      const answer = yield* told(({ card, pin }) =>
        Effect.succeed({ [`of ${Redacted.value(card)}`]: ["paid", `${Redacted.value(pin)}${Redacted.value(pin)}`] })
      )
      assert.deepStrictEqual(answer, { "of <redacted>": ["paid", "<redacted><redacted>"] })
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("in a defect is not repeated", () =>
    Effect.gen(function*() {
      const answer = yield* told(({ card }) => Effect.die(new Error(`cannot read ${Redacted.value(card)}`)))
      assert.match(String(answer), /^'pay' for key 'c1' \(intent .*\) died$/)
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("and that the store quotes when it does not take the record is masked there too", () =>
    Effect.gen(function*() {
      const answer = yield* told(({ card }) => Effect.succeed({ card: [Redacted.value(card)] }))
      assert.strictEqual(answer, "the store did not take it: value <redacted> too long")
    }).pipe(
      Effect.provide(Desk.storeWith((store) => {
        const refusal = new AgentStore.StoreError({ operation: "move", detail: `value ${card} too long` })
        return {
          move: (id, move) =>
            Effect.flatMap(
              store.entry(id),
              (entry) => move(entry, 0).next?.result?._tag === "Success" ? Effect.fail(refusal) : store.move(id, move)
            )
        }
      }))
    ))
})

describe("the secrets of an input", () => {
  const Deep = Tool.sideEffect("deep", {
    description: "Takes secrets at several places.",
    parameters: {
      tokens: Schema.Array(Schema.Redacted(Schema.String)),
      byName: Schema.Record(Schema.String, Schema.Struct({ key: Schema.Redacted(Schema.String), open: Schema.String })),
      login: Schema.Redacted(Schema.Struct({ user: Schema.String, codes: Schema.Array(Schema.Int) })),
      flag: Schema.Redacted(Schema.Boolean),
      none: Schema.optionalKey(Schema.Redacted(Schema.String))
    }
  })

  it("are the texts at its redacted places, and numbers of four digits and more; the longest first", () => {
    const found = secretsOf(Deep, {
      tokens: [Redacted.make("a"), Redacted.make(""), Redacted.make("abc")],
      byName: { x: { key: Redacted.make("k1"), open: "seen" } },
      login: Redacted.make({ user: "maria", codes: [12, 1234] }),
      flag: Redacted.make(true)
    })
    assert.deepStrictEqual(found, ["maria", "1234", "abc", "k1", "a"])
    assert.deepStrictEqual(secretsOf(Desk.charge, { customerId: "c1", amountCents: 12345 }), [])
  })

  it("leave no part behind, and do not mask what was put in their place", () => {
    assert.strictEqual(maskText("abcabX", ["abc", "ab"]), "<redacted><redacted>X")
    assert.strictEqual(maskText("a secret", ["secret", "e"]), "a <redacted>")
    assert.strictEqual(maskText("a.c abc", ["a.c"]), "<redacted> abc")
    assert.deepStrictEqual(mask({ n: 1234, s: ["x1234", null] }, ["1234"]), { n: 1234, s: ["x<redacted>", null] })
  })
})
