import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Tool } from "../src/index.ts"
import { Process } from "../src/testing/index.ts"
import { charge, desk, type Happened, logged, outside, shop, storeWith } from "./fixtures/desk.ts"
import vectors from "./fixtures/intent-vectors.json" with { type: "json" }

describe("the id of an intent", () => {
  for (const { intent_id, key_hex, name, seq, step } of vectors) {
    it(`is ${intent_id} for ${name}`, () => {
      assert.strictEqual(Intent.idFromBytes(Buffer.from(key_hex, "hex"), BigInt(seq), step), intent_id)
    })
  }

  it("is the same for a number and a bigint", () => {
    assert.strictEqual(Intent.makeId("desk", "c1", 7, 3), Intent.makeId("desk", "c1", 7n, 3))
  })

  it("is accepted by its schema, and in upper case refused", () => {
    const isId = Schema.is(Intent.Id)
    const id = Intent.makeId("desk", "c1", 0, 0)
    assert.isTrue(isId(id))
    assert.isFalse(isId(id.toUpperCase()))
  })

  it("K68 separators in names: no two different places share an id", () => {
    const names = ["a", "1", "2", "a|1", "1|2", "a|1|2", "a\n1", "a\u00001".replace("\0", "\u0001"), "ą", "a\u0328"]
    const ids = names.flatMap((agent) =>
      names.flatMap((key) => [0, 1, 12].flatMap((seq) => [0, 2, 1].map((step) => Intent.makeId(agent, key, seq, step))))
    )
    assert.strictEqual(new Set(ids).size, ids.length)
    assert.notStrictEqual(Intent.makeId("a|1", "2", 0, 0), Intent.makeId("a", "1|2", 0, 0))
    assert.notStrictEqual(Intent.makeId("a", "b", 1, 12), Intent.makeId("a", "b", 11, 2))
  })

  it("names the trace of an event, and no two events share one", () => {
    const traces = [0, 1, 2].flatMap((seq) => ["c1", "c2"].map((key) => Intent.traceId("desk", key, seq)))
    assert.strictEqual(new Set(traces).size, traces.length)
    for (const trace of traces) assert.match(trace, /^[0-9a-f]{32}$/)
  })
})

describe("a key", () => {
  const issue = (key: unknown) => Intent.keyIssue(key as string)?.reason

  it("is well-formed Unicode of 1 to 1,024 bytes without NUL", () => {
    for (const key of ["c1", "a\nb", "é", "😀".repeat(256), "a".repeat(1024)]) assert.isUndefined(issue(key))
    assert.strictEqual(issue(""), "a key is not empty")
    assert.strictEqual(issue("a\0b"), "a key holds no NUL")
    assert.strictEqual(issue("a\ud800"), "a key is well-formed Unicode")
    assert.strictEqual(issue("a".repeat(1025)), "a key has at most 1,024 bytes, this one 1025")
    assert.strictEqual(issue("é".repeat(513)), "a key has at most 1,024 bytes, this one 1026")
    assert.strictEqual(issue(7), "a key is a string")
  })

  it.effect("is checked where an event, a message or a status comes in", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      for (const key of ["", "a\0b", "a\ud800"]) {
        assert.strictEqual((yield* Effect.flip(client.send(desk, { key, event: [] })))._tag, "InvalidKeyError")
        assert.strictEqual((yield* Effect.flip(client.message(desk, { key, message: 1 })))._tag, "InvalidKeyError")
      }
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("arguments", () => {
  const staged = (input: { readonly customerId: string; readonly amountCents: number }) =>
    Effect.map(
      Agent.activate(
        Agent.make(
          "once",
          { event: Schema.Void, output: Schema.Void },
          (ctx) => Effect.as(ctx.act(charge(input)), Agent.complete(undefined))
        ),
        { key: "c1", event: undefined }
      ),
      ({ intents }) => intents[0]!
    )

  it.effect("K65 the same arguments in other clothes have one digest and no conflict", () =>
    Effect.gen(function*() {
      const first = yield* staged({ customerId: "c1", amountCents: 1 })
      for (const input of [{ amountCents: 1, customerId: "c1" }, { customerId: "c1", amountCents: 1.0 }]) {
        const again = yield* staged(input)
        assert.strictEqual(again.argumentsDigest, first.argumentsDigest)
        assert.isUndefined(Intent.conflict(first, again))
      }
      const zero = yield* staged({ customerId: "c1", amountCents: 0 })
      const minusZero = yield* staged({ customerId: "c1", amountCents: -0 })
      assert.strictEqual(minusZero.arguments, "{\"amountCents\":0,\"customerId\":\"c1\"}")
      assert.isUndefined(Intent.conflict(zero, minusZero))
      assert.notStrictEqual(zero.argumentsDigest, first.argumentsDigest)
    }))

  it.effect("K66 other arguments, or another tool, under one id are a conflict that shows both", () =>
    Effect.gen(function*() {
      const first = yield* staged({ customerId: "c1", amountCents: 100 })
      const other = yield* staged({ customerId: "c1", amountCents: 999 })
      assert.strictEqual(other.id, first.id)
      const conflict = Intent.conflict(first, other)
      assert.instanceOf(conflict, Intent.IntentConflict)
      for (const part of [first.id, "charge", "'c1'", first.argumentsDigest, other.argumentsDigest]) {
        assert.include(conflict?.message, part)
      }
      assert.instanceOf(Intent.conflict(first, { ...first, tool: "sendEmail" }), Intent.IntentConflict)
    }))

  // A store whose events lost their numbers is the one way to ask twice under one id.
  const forgetful = storeWith((store) => ({
    ready: (query) =>
      Effect.map(store.ready(query), (snapshots) => snapshots.map((snapshot) => ({ ...snapshot, seq: 0 })))
  }))

  for (const first of ["before", "after"] as const) {
    it.effect(`K66 a conflict ${first} the first was performed is loud, and the first record stands`, () => {
      const happened: Array<Happened> = []
      const lines: Array<string> = []
      const slow = () => Effect.delay(Effect.succeed("receipt"), first === "before" ? "1 minute" : 0)
      const live = shop(outside(happened, { charge: slow }), { store: forgetful })
      return Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        yield* engine.send(desk, { key: "c1", event: [{ do: "act", cents: 100 }] })
        yield* TestClock.adjust("1 second")
        const calling = yield* Effect.forkChild(
          Effect.flip(engine.call(desk, { key: "c1", event: [{ do: "request", cents: 999 }] }))
        )
        yield* TestClock.adjust("2 hours")
        const failed = yield* Fiber.join(calling)
        assert.strictEqual(failed._tag === "EventFailed" && failed.reason.tag, "IntentConflict")
        const [entry, ...others] = yield* engine.intents()
        assert.lengthOf(others, 0)
        assert.strictEqual(entry?.intent.arguments, "{\"amountCents\":100,\"customerId\":\"c1\"}")
        assert.strictEqual(entry?.state, "Performed")
        assert.deepStrictEqual(happened.map(({ input }) => input), [{ customerId: "c1", amountCents: 100 }])
        const loud = lines.filter((line) => line.startsWith("Error"))
        assert.lengthOf(loud, 1)
        for (const part of [String(entry?.intent.id), "charge", "c1"]) assert.include(loud[0], part)
        const [letter] = yield* engine.deadLetters
        assert.strictEqual(letter?.reason.tag, "IntentConflict")
      }).pipe(Effect.provide(Layer.provide(live, logged(lines))))
    })
  }

  it.effect("K64 the schema a model is shown has no id and no key, and decoding refuses them", () =>
    Effect.sync(() => {
      const shown = charge.parameters.jsonSchema("draft-2020-12")
      assert.deepStrictEqual(Object.keys(shown["properties"] as object).sort(), ["amountCents", "customerId"])
      assert.isTrue(charge.parameters.decode({ customerId: "c1", amountCents: 1 })._tag === "Success")
      for (const name of ["idempotencyKey", "intent", "id"]) {
        const decoded = charge.parameters.decode({ customerId: "c1", amountCents: 1, [name]: "x" })
        assert.strictEqual(decoded._tag, "Failure", name)
      }
    }))
})

describe("one place, one intent", () => {
  it.effect("K63 the intent id is the handler's idempotency key, the same after a kill before the commit", () => {
    const happened: Array<Happened> = []
    const lookup = Tool.readOnly("lookup", { description: "Look up.", success: Schema.String })
    const agent = Agent.make(
      "twice",
      { event: Schema.Void, output: Schema.Void },
      Effect.fnUntraced(function*(ctx) {
        yield* ctx.act(charge({ customerId: "c1", amountCents: 1 }))
        yield* ctx.act(charge({ customerId: "c1", amountCents: 1 }))
        yield* ctx.runTool(lookup())
        yield* ctx.act(charge({ customerId: "c1", amountCents: 1 }))
        return Agent.complete(undefined)
      })
    )
    return Effect.gen(function*() {
      const gate = yield* Latch.make()
      let reads = 0
      const slowRead = lookup.toLayer(() =>
        Effect.suspend(() => ++reads === 1 ? gate.await : Effect.void).pipe(Effect.as("x"))
      )
      const live = AgentEngine.layer(agent).pipe(
        Layer.provide(Effector.layer(charge)),
        Layer.provide(Layer.merge(outside(happened), slowRead))
      )
      const client = yield* AgentEngine.client
      yield* client.send(agent, { key: "c1", event: undefined })
      const first = yield* Process.start(live)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(reads, 1, "the first run has staged two and waits")
      yield* first.kill
      yield* first.restart()
      yield* TestClock.adjust("1 minute")

      const ids = [0, 1, 2].map((step) => Intent.makeId("twice", "c1", 0, step))
      assert.deepStrictEqual(happened.map(({ id }) => id), ids, "K67 equal calls never merge: three ids, n(charge) = 3")
      const entries = yield* client.intents()
      assert.deepStrictEqual(entries.map(({ intent }) => intent.id), ids)
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("K67 equal calls are different intents", () => {
    const happened: Array<Happened> = []
    return Effect.gen(function*() {
      const engine = yield* AgentEngine.AgentEngine
      const five = { do: "act", cents: 5 } as const
      yield* engine.send(desk, { key: "c1", event: [five, five, five] })
      yield* engine.drain
      assert.strictEqual(new Set(happened.map(({ id }) => id)).size, 3)
      assert.lengthOf(happened, 3)
    }).pipe(Effect.provide(shop(outside(happened))))
  })
})

describe("sealed arguments", () => {
  it("print as nothing but that they are sealed", () => {
    const sealed = new Intent.Sealed("{\"card\":\"4111\"}")
    assert.strictEqual(Intent.Sealed.reveal(sealed), "{\"card\":\"4111\"}")
    for (const text of [String(sealed), JSON.stringify({ sealed }), `${Object.values(sealed)}`]) {
      assert.notInclude(text, "4111")
    }
  })
})

describe("an outcome that is unknown", () => {
  it("K41 is said to be unknown and perhaps done, with the id, and never to have failed or to be tried again", () => {
    for (const reason of ["Crashed", "TimedOut", "LeaseLost", "Defect"] as const) {
      const { message } = new Intent.IntentOutcomeUnknown({
        id: "2e047468-1bb8-5717-8cb0-d8e98f15a767",
        tool: "charge",
        key: "c1",
        reason,
        detail: "'charge' did not end within 5m"
      })
      for (const part of ["outcome", "unknown", "may have happened", "2e047468-1bb8-5717-8cb0-d8e98f15a767", "'c1'"]) {
        assert.include(message, part)
      }
      assert.notMatch(message, /fail|try again|retry/i)
    }
  })
})
