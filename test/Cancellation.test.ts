/**
 * Deadlines, decisions and cancellation: what ends a wait from outside.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Tool } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { charge, chargeWith, desk } from "./fixtures/desk.ts"

const engine = AgentEngine.AgentEngine

const entries = Effect.flatMap(AgentStore.AgentStore, (store) => store.entries({}))

const theEntry = Effect.map(entries, ([entry]) => entry!)

const settle = TestClock.adjust("1 millis")

describe("K44 cancelling two intents in different places", () => {
  const slow: Desk.Script = () => Effect.delay(Effect.succeed("receipt"), "1 minute")

  it.effect("the unclaimed one is Cancelled, the started one runs to its own record, and no agent code runs", () => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      const { call, cancel, cancelIntent, send, status } = yield* engine
      const orders = [{ do: "act", cents: 5 }, { do: "act", mail: "paid" }, { do: "request", cents: 6 }] as const
      const calling = yield* Effect.forkChild(Effect.flip(call(desk, { key: "c1", event: orders })), {
        startImmediately: true
      })
      yield* settle
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed", "sendEmail Staged", "charge Staged"])
      const started = yield* theEntry
      const refused = yield* Effect.flip(cancelIntent(started.intent.id, "maria"))
      assert.deepInclude(refused, { _tag: "LedgerRefusal", id: started.intent.id, reason: "already started" })

      const cancelled = yield* cancel(desk, { key: "c1", by: "maria" })
      assert.isTrue(cancelled._tag === "Some")
      yield* settle
      const failed = calling.pollUnsafe()
      assert.isDefined(failed, "the caller is told at once")
      assert.deepInclude(yield* Fiber.join(calling), { _tag: "EventFailed", state: "Cancelled" })
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed", "sendEmail Cancelled", "charge Cancelled"])
      yield* send(desk, { key: "c1", event: [{ do: "act", mail: "next" }] })
      yield* TestClock.adjust("2 minutes")
      assert.deepStrictEqual(yield* Desk.states, [
        "charge Performed",
        "sendEmail Cancelled",
        "charge Cancelled",
        "sendEmail Performed"
      ])
      assert.deepStrictEqual(happened.map(({ tool }) => tool), ["charge", "sendEmail"])
      const store = yield* AgentStore.AgentStore
      assert.deepStrictEqual((yield* store.outputs({ agent: "desk", after: 0, limit: 9 })).map(({ seq }) => seq), [1])
      assert.deepInclude(yield* status(desk, "c1"), { seq: 2, current: undefined, inbox: 0, waiting: [] })
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: slow }))))
  })

  it.effect("an intent cancelled by its id is told to the agent that waits for it", () => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      const { call, cancelIntent } = yield* engine
      const orders = [{ do: "act", cents: 5 }, { do: "request", mail: "paid" }] as const
      const calling = yield* Effect.forkChild(call(desk, { key: "c1", event: orders }), { startImmediately: true })
      yield* settle
      const [, waiting] = yield* entries
      assert.deepInclude(yield* cancelIntent(waiting!.intent.id, "maria"), { state: "Cancelled" })
      yield* settle
      assert.deepStrictEqual(yield* Fiber.join(calling), ["acted", "not performed: Cancelled"])
      const again = yield* Effect.flip(cancelIntent(waiting!.intent.id, "tom"))
      assert.deepInclude(again, { _tag: "LedgerRefusal", state: "Cancelled" })
      const nobody = Intent.makeId("desk", "c1", 7, 7)
      assert.deepInclude(yield* Effect.flip(cancelIntent(nobody, "tom")), { _tag: "IntentNotFound", id: nobody })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(happened.map(({ tool }) => tool), ["charge"])
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: slow }))))
  })

  it.effect("an activation that runs meanwhile commits nothing, and its caller is told", () => {
    const lookup = Tool.readOnly("lookup", { description: "Look up.", success: Schema.String })
    const reader = Agent.make(
      "reader",
      { event: Schema.Int, output: Schema.String },
      Effect.fnUntraced(function*(ctx, cents) {
        yield* ctx.act(charge({ customerId: ctx.key, amountCents: cents }))
        return Agent.complete(yield* ctx.runTool(lookup()))
      })
    )
    const happened: Array<Desk.Happened> = []
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const gate = yield* Latch.make()
      const live = AgentEngine.layer(reader).pipe(
        Layer.provide(Effector.layer(charge)),
        Layer.provide(Layer.merge(Desk.outside(happened), lookup.toLayer(() => Effect.as(gate.await, "found"))))
      )
      yield* Effect.gen(function*() {
        const { call, cancel, deadLetters, drain, send, status } = yield* engine
        const calling = yield* Effect.forkChild(Effect.flip(call(reader, { key: "c1", event: 1 })), {
          startImmediately: true
        })
        yield* settle
        yield* cancel(reader, { key: "c1", by: "maria" })
        yield* send(reader, { key: "c1", event: 2 })
        yield* settle
        assert.deepInclude(yield* Fiber.join(calling), { _tag: "EventFailed", state: "Cancelled", key: "c1" })
        yield* gate.open
        yield* drain
        assert.deepStrictEqual(happened.map(({ input }) => input), [{ customerId: "c1", amountCents: 2 }])
        assert.deepInclude(yield* status(reader, "c1"), { seq: 1, inbox: 0 })
        assert.deepStrictEqual(yield* deadLetters, [])
      }).pipe(Effect.provide(Layer.provideMerge(live, Desk.logged(lines))))
      assert.deepStrictEqual(lines, [], "nothing to warn of")
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("of a key without an event there is nothing to cancel, and no row is made", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      assert.isTrue((yield* client.cancel(desk, { key: "nobody", by: "maria" }))._tag === "None")
      assert.deepInclude(yield* client.status(desk, "nobody"), { seq: 0, revision: 0 })
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("K45 an old event, a fresh deadline", () => {
  it.effect("what is staged now has its whole time, however old the event is", () => {
    const happened: Array<Desk.Happened> = []
    const brief = chargeWith({ ttl: "1 minute" })
    return Effect.gen(function*() {
      const client = yield* AgentEngine.client
      yield* client.send(desk, { key: "c1", event: [{ do: "request", cents: 5 }] })
      yield* TestClock.adjust("2 hours")
      yield* Layer.build(AgentEngine.layer(Desk.deskWith(brief)).pipe(Layer.provide(Desk.elsewhere)))
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* theEntry).intent.expiresAt, 2 * 3_600_000 + 60_000)
      yield* Layer.build(Effector.layer(brief).pipe(Layer.provide(Desk.outside(happened, {}, brief))))
      yield* settle
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed"])
      assert.lengthOf(happened, 1)
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("and a minute later it is expired, with or without an effector, and the agent is told", () => {
    const happened: Array<Desk.Happened> = []
    const brief = chargeWith({ ttl: "1 minute" })
    return Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(desk, { key: "c1", event: [{ do: "request", cents: 5 }] })
      yield* Layer.build(AgentEngine.layer(Desk.deskWith(brief)).pipe(Layer.provide(Desk.elsewhere)))
      yield* TestClock.adjust("1 minute")
      yield* Layer.build(Effector.layer(brief).pipe(Layer.provide(Desk.outside(happened, {}, brief))))
      yield* settle
      assert.deepStrictEqual(yield* Desk.states, ["charge Expired"])
      const store = yield* AgentStore.AgentStore
      assert.deepStrictEqual((yield* store.event(offset))?.output, ["not performed: Expired"])
      assert.lengthOf(happened, 0)
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

describe("decisions", () => {
  const gated = chargeWith({ approval: "required", approvalTimeout: "12 hours", ttl: "1 hour" })
  const asking = <E>(
    happened: Array<Desk.Happened>,
    body: (id: Intent.Id) => Effect.Effect<void, E, AgentEngine.AgentEngine | AgentStore.AgentStore>,
    lines: Array<string> = []
  ) =>
    Effect.gen(function*() {
      const { send } = yield* engine
      yield* send(desk, { key: "c1", event: [{ do: "request", cents: 5 }] })
      yield* settle
      const { intent } = yield* theEntry
      yield* body(intent.id)
    }).pipe(
      Effect.provide(
        Layer.provideMerge(Desk.shop(Desk.outside(happened, {}, gated), { charge: gated }), Desk.logged(lines))
      )
    )

  const told = Effect.map(
    Effect.flatMap(AgentStore.AgentStore, (store) => store.outputs({ agent: "desk", after: 0, limit: 9 })),
    (outputs) => outputs.flatMap(({ output }) => output)
  )

  it.effect("K46 cannot choose their time: one that arrives at 12:10 is too late, whatever it claims", () => {
    const happened: Array<Desk.Happened> = []
    return asking(happened, (id) =>
      Effect.gen(function*() {
        const { decide } = yield* engine
        yield* TestClock.adjust("12 hours")
        yield* TestClock.adjust("10 minutes")
        assert.deepInclude(yield* Effect.flip(decide({ id, approved: true, by: "maria" })), {
          _tag: "LedgerRefusal",
          reason: "too late"
        })
        for (const claimed of [{ at: 0 }, { at: 11 * 3_600_000 }, { decidedAt: "11:00" }]) {
          const refused = yield* Effect.flip(decide({ id, approved: true, by: "maria", ...claimed }))
          assert.strictEqual(refused._tag, "InvalidDecision")
        }
        assert.deepInclude((yield* theEntry).decision, { approved: false, by: "policy:timeout" })
        assert.deepStrictEqual(yield* told, ["not performed: Denied"])
        assert.lengthOf(happened, 0)
      }))
  })

  it.effect("K46 an event that is handled meanwhile brings no deadline of its key forward", () =>
    asking([], (id) =>
      Effect.gen(function*() {
        const { intent, send } = yield* engine
        const before = yield* intent(id)
        yield* send(desk, { key: "c1", event: [] })
        yield* send(desk, { key: "c2", event: [{ do: "act", mail: "01:00" }] })
        yield* TestClock.adjust("11 hours")
        assert.deepStrictEqual(yield* intent(id), before)
      })))

  it.effect("K54 are strict values: whatever is no boolean is refused, and the intent stays pending", () => {
    const happened: Array<Desk.Happened> = []
    return asking(happened, (id) =>
      Effect.gen(function*() {
        const { decide } = yield* engine
        const wrong = ["false", "true", 1, 0, "yes", null, undefined].map((approved) => ({ id, approved, by: "maria" }))
        const others = [{ id, by: "maria" }, { id, approved: true }, { id, approved: true, by: "" }, "yes", null]
        for (const decision of [...wrong, ...others]) {
          assert.strictEqual((yield* Effect.flip(decide(decision)))._tag, "InvalidDecision", JSON.stringify(decision))
        }
        yield* settle
        assert.deepInclude(yield* theEntry, { state: "Staged", decision: undefined })
        assert.lengthOf(happened, 0)
      }))
  })

  it.effect("K56 about nothing, or about something else than what was staged, are refused and logged with who sent them", () => {
    const happened: Array<Desk.Happened> = []
    const lines: Array<string> = []
    return asking(happened, (id) =>
      Effect.gen(function*() {
        const { decide, send } = yield* engine
        const nobody = Intent.makeId("desk", "c1", 7, 7)
        const forged = yield* Effect.flip(decide({ id: nobody, approved: true, by: "mallory" }))
        assert.deepInclude(forged, { _tag: "IntentNotFound", id: nobody })
        const other = yield* Effect.flip(decide({ id, approved: true, by: "mallory", argumentsDigest: "0".repeat(64) }))
        assert.deepInclude(other, {
          _tag: "LedgerRefusal",
          id,
          key: "c1",
          reason: "the decision is about other arguments"
        })
        assert.lengthOf(lines.filter((line) => line.includes("'mallory'")), 2)
        yield* settle
        assert.lengthOf(happened, 0)

        const { argumentsDigest } = (yield* theEntry).intent
        yield* decide({ id, approved: true, by: "maria", argumentsDigest })
        yield* send(desk, { key: "c2", event: [{ do: "act", mail: "hello" }] })
        yield* settle
        assert.deepStrictEqual(happened.map(({ tool }) => tool).sort(), ["charge", "sendEmail"])
        const [, mail] = yield* entries
        // K28 what needs no approval is not approved: the answer must fit the question.
        const misfit = yield* Effect.flip(decide({ id: mail!.intent.id, approved: true, by: "maria" }))
        assert.deepInclude(misfit, { _tag: "LedgerRefusal", id: mail!.intent.id, key: "c2" })
        assert.include(misfit.message, mail!.intent.id)
      }), lines)
  })

  it.effect("count once: the first one does, later ones are told by whom it was decided", () => {
    const happened: Array<Desk.Happened> = []
    return asking(happened, (id) =>
      Effect.gen(function*() {
        const { decide } = yield* engine
        yield* decide({ id, approved: false, by: "maria" })
        yield* settle
        assert.deepStrictEqual(yield* told, ["not performed: Denied"])
        for (const approved of [true, false]) {
          const again = yield* Effect.flip(decide({ id, approved, by: "tom" }))
          assert.deepInclude(again, { _tag: "LedgerRefusal", reason: "already decided by maria" })
        }
        yield* TestClock.adjust("25 hours")
        assert.lengthOf(happened, 0)
      }))
  })

  it.effect("start the time in which what was approved has to be started", () => {
    const happened: Array<Desk.Happened> = []
    return asking(happened, (id) =>
      Effect.gen(function*() {
        const { decide } = yield* engine
        yield* TestClock.adjust("11 hours")
        const { intent } = yield* decide({ id, approved: true, by: "maria" })
        assert.strictEqual(intent.expiresAt, 11 * 3_600_000 + 1 + 3_600_000)
        yield* settle
        assert.deepStrictEqual(yield* told, ["receipt"])
        assert.lengthOf(happened, 1)
      }))
  })
})

describe("K28 the answer must fit the question", () => {
  it.effect("a decision, a message or another key's result moves no key that waits for its own", () => {
    const happened: Array<Desk.Happened> = []
    const slow: Desk.Script = ({ key }) =>
      Effect.delay(Effect.succeed(`of ${key}`), key === "a" ? "1 minute" : "1 second")
    return Effect.gen(function*() {
      const { decide, message, send, status } = yield* engine
      for (const key of ["a", "b"]) yield* send(desk, { key, event: [{ do: "request", cents: 5 }] })
      yield* settle
      const [ofA] = yield* entries
      const refused = yield* Effect.flip(decide({ id: ofA!.intent.id, approved: true, by: "maria" }))
      assert.deepInclude(refused, { _tag: "LedgerRefusal", id: ofA!.intent.id, key: "a" })
      yield* message(desk, { key: "a", message: { id: ofA!.intent.id, approved: true } })
      yield* TestClock.adjust("2 seconds")
      assert.lengthOf((yield* status(desk, "a")).waiting, 1, "a keeps waiting")
      assert.lengthOf((yield* status(desk, "b")).waiting, 0)
      yield* TestClock.adjust("1 minute")
      const store = yield* AgentStore.AgentStore
      const outputs = yield* store.outputs({ agent: "desk", after: 0, limit: 9 })
      assert.deepStrictEqual(outputs.map(({ key, output }) => [key, output]), [["b", ["of b"]], ["a", ["of a"]]])
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: slow }))))
  })
})
