import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Activation, Agent, AgentEngine, type AgentStore, Memory } from "../../src/index.ts"
import { Crash, Effects, Process, TestEngine } from "../../src/testing/index.ts"
import { charge, gatedCharge, outputsOf, pendingApproval, until, untilEnded } from "./support.ts"

const receipts = [Effects.on(charge, () => Effect.succeed("receipt-7"))] as const
const gatedReceipts = [Effects.on(gatedCharge, () => Effect.succeed("receipt-7"))] as const

const approve = Effect.gen(function*() {
  const client = yield* AgentEngine.client
  const { intent } = yield* until(pendingApproval)
  yield* client.decide({ id: intent.id, approved: true, by: "maria" })
})

const buyWith = (tool: typeof charge, onResume: Effect.Effect<void> = Effect.void) =>
  Agent.make(
    "buy",
    { event: Schema.String, output: Schema.String },
    Effect.fnUntraced(function*(ctx, customerId) {
      const receipt = yield* ctx.request(tool({ customerId, amountCents: 500 })).pipe(
        Effect.catchTag("IntentOutcomeUnknown", ({ reason }) => Effect.succeed(`unknown: ${reason}`))
      )
      yield* onResume
      return Agent.complete(receipt)
    })
  )

describe("K26 a result outlives its activation:", () => {
  it.effect("killed three times between the resume and the end", () =>
    Effect.gen(function*() {
      const buy = buyWith(gatedCharge)
      const layer = TestEngine.layerProcess({ agents: [buy], effects: gatedReceipts })
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(buy, { key: "c1", event: "c1" })
      const first = yield* Process.start(layer, { crash: Crash.at("activation:load", { nth: 2 }) })
      yield* approve
      yield* first.crashed
      const second = yield* first.restart({ crash: Crash.at("activation:run") })
      yield* second.crashed
      const third = yield* second.restart({ crash: Crash.at("activation:commit") })
      yield* third.crashed
      const { event } = yield* untilEnded(third, offset)
      assert.strictEqual(event.output, "receipt-7")
      assert.lengthOf(yield* Effects.of(gatedCharge), 1)
      assert.lengthOf(yield* client.intents(), 1)
      assert.isUndefined(yield* pendingApproval)
    }).pipe(Effect.provide(TestEngine.outside)))

  it.effect("thrown away by code that fails before its next step, and driven again", () =>
    Effect.gen(function*() {
      let broken = true
      const buy = buyWith(gatedCharge, Effect.suspend(() => broken ? Effect.die(new Error("broken")) : Effect.void))
      const layer = TestEngine.layerProcess({ agents: [buy], effects: gatedReceipts })
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(buy, { key: "c1", event: "c1" })
      const process = yield* Process.start(layer)
      yield* approve
      const { event } = yield* untilEnded(process, offset)
      assert.strictEqual(event.state, "Blocked")
      broken = false
      const [letter] = yield* client.deadLetters
      assert.strictEqual(letter!.kind, "Resume")
      yield* client.redrive(letter!.id, { by: "maria" })
      assert.strictEqual((yield* untilEnded(process, offset)).event.output, "receipt-7")
      assert.lengthOf(yield* Effects.of(gatedCharge), 1)
      assert.isUndefined(yield* pendingApproval)
    }).pipe(Effect.provide(TestEngine.outside)))
})

describe("K32 four places to be killed:", () => {
  const places = [
    { step: "effector:claim", at: "before the claim", state: "Performed", effects: 1, output: "receipt-7" },
    { step: "effector:execute", at: "after the claim", state: "Unknown", effects: 0, output: "unknown: Crashed" },
    { step: "effector:complete", at: "after the effect", state: "Unknown", effects: 1, output: "unknown: Crashed" },
    { step: "effector:answer", at: "after the record", state: "Performed", effects: 1, output: "receipt-7" }
  ] as const
  for (const { at, effects, output, state, step } of places) {
    it.effect(`${at}, ${state} after ${effects} effects`, () =>
      Effect.gen(function*() {
        const buy = buyWith(charge)
        const layer = TestEngine.layerProcess({ agents: [buy], effects: receipts })
        const client = yield* AgentEngine.client
        const { offset } = yield* client.send(buy, { key: "c1", event: "c1" })
        const process = yield* Process.start(layer, { crash: Crash.at(step) })
        assert.strictEqual((yield* process.crashed).step, step)
        const { event } = yield* untilEnded(process, offset)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(event.output, output)
        assert.deepStrictEqual((yield* client.intents()).map((entry) => entry.state), [state])
        assert.lengthOf(yield* Effects.of(charge), effects)
      }).pipe(Effect.provide(TestEngine.outside)))

    it.effect(`${at}, the same when it was gated and approved, and nobody is asked again`, () =>
      Effect.gen(function*() {
        const buy = buyWith(gatedCharge)
        const layer = TestEngine.layerProcess({ agents: [buy], effects: gatedReceipts })
        const client = yield* AgentEngine.client
        const { offset } = yield* client.send(buy, { key: "c1", event: "c1" })
        const process = yield* Process.start(layer, { crash: Crash.at(step) })
        yield* approve
        assert.strictEqual((yield* process.crashed).step, step)
        const { event } = yield* untilEnded(process, offset)
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(event.output, output)
        const entries = yield* client.intents()
        assert.deepStrictEqual(entries.map((entry) => entry.state), [state])
        assert.deepStrictEqual(entries.map((entry) => entry.decision?.by), ["maria"])
        assert.lengthOf(yield* Effects.of(gatedCharge), effects)
      }).pipe(Effect.provide(TestEngine.outside)))
  }
})

describe("K63 the intent id is the key:", () => {
  it.effect("an activation killed before its commit asks for the same intent when it runs again", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const act = Agent.make(
        "act",
        { event: Schema.String, output: Schema.String },
        Effect.fnUntraced(function*(ctx, customerId) {
          const id = yield* ctx.act(charge({ customerId, amountCents: 500 }))
          asked.push(id)
          return Agent.complete(id)
        })
      )
      const layer = TestEngine.layerProcess({ agents: [act], effects: receipts })
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(act, { key: "c1", event: "c1" })
      const process = yield* Process.start(layer, { crash: Crash.at("activation:commit") })
      yield* process.crashed
      assert.lengthOf(yield* client.intents(), 0)
      yield* untilEnded(process, offset)
      yield* TestClock.adjust("1 second")
      const performed = yield* Effects.of(charge)
      assert.lengthOf(asked, 2)
      assert.deepStrictEqual(performed.map(({ id }) => id as string), [asked[0]!])
      assert.strictEqual(asked[0], asked[1])
      assert.lengthOf(yield* client.intents(), 1)
    }).pipe(Effect.provide(TestEngine.outside)))
})

describe("K67 equal calls are different intents:", () => {
  const act3 = Agent.make(
    "act3",
    { event: Schema.String, output: Schema.Void },
    Effect.fnUntraced(function*(ctx, customerId) {
      for (let i = 1; i <= 3; i++) yield* ctx.act(charge({ customerId, amountCents: 5 }))
      return Agent.complete(undefined)
    })
  )
  for (const crash of [undefined, Crash.at("activation:run", { nth: 2 })]) {
    it.effect(
      crash === undefined ? "three of them" : "three of them with a kill at i = 2",
      () =>
        Effect.gen(function*() {
          const layer = TestEngine.layerProcess({ agents: [act3], effects: receipts })
          const client = yield* AgentEngine.client
          const { offset } = yield* client.send(act3, { key: "c1", event: "c1" })
          const process = yield* Process.start(layer, { crash })
          const ended = yield* untilEnded(process, offset)
          assert.strictEqual(ended.process === process, crash === undefined)
          yield* TestClock.adjust("1 second")
          const performed = yield* Effects.of(charge)
          assert.lengthOf(performed, 3)
          assert.strictEqual(new Set(performed.map(({ id }) => id)).size, 3)
        }).pipe(Effect.provide(TestEngine.outside))
    )
  }
})

describe("K90 memory across replays:", () => {
  const count = Agent.make(
    "count",
    {
      event: Schema.String,
      output: Schema.Array(Schema.Number),
      memory: { requests: Memory.entry(Schema.Number, () => 0) }
    },
    Effect.fnUntraced(function*(ctx, customerId) {
      const times: Array<number> = []
      for (let i = 0; i < 3; i++) {
        yield* ctx.memory.update("requests", (n) => n + 1)
        times.push(yield* Clock.currentTimeMillis)
        yield* ctx.emit([...times])
        yield* Effect.ignore(ctx.request(charge({ customerId, amountCents: i })))
      }
      return Agent.complete([...times, yield* ctx.memory.get("requests")])
    })
  )

  const run = (crash: Crash.Crash | undefined) =>
    Effect.gen(function*() {
      const slow = Effects.on(charge, () => Effect.delay(Effect.succeed("receipt"), "10 seconds"))
      const layer = TestEngine.layerProcess({ agents: [count], effects: [slow] })
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(count, { key: "c1", event: "c1" })
      const first = yield* Process.start(layer, { crash })
      const { event, process } = yield* untilEnded(first, offset)
      const [a, b, c] = event.output as ReadonlyArray<number>
      assert.isTrue(a! < b! && b! < c!, `each segment read its own time: ${event.output}`)
      assert.deepStrictEqual(yield* outputsOf(count), [[a!], [a!, b!], [a!, b!, c!], [a!, b!, c!, 3]])
      assert.deepStrictEqual((yield* client.status(count, "c1")).memory, { requests: 3 })
      return process !== first
    }).pipe(Effect.provide(TestEngine.outside), Effect.scoped)

  it.effect("without kills", () => Effect.map(run(undefined), (crashed) => assert.isFalse(crashed)))

  it.effect("with a kill at every step it passes", () =>
    Effect.gen(function*() {
      let nth = 1
      while (yield* run(Crash.after(nth))) nth++
      // Four activations of four steps each, less what the replays take, and three deliveries of eight steps.
      assert.isAbove(nth, 36)
    }))
})

describe("K89 the answer comes while it suspends:", () => {
  // The second answer is a decision, because a performed one would have to wait for the first in the order of the key.
  const two = Agent.make(
    "two",
    { event: Schema.Void, output: Schema.String, state: Schema.String },
    Effect.fnUntraced(function*(ctx) {
      if (ctx.resume !== undefined) return Agent.complete(ctx.resume.state)
      yield* ctx.act(gatedCharge({ customerId: ctx.key, amountCents: 1 }))
      yield* ctx.sleep("1 second")
      return Agent.suspend("answered")
    })
  )

  for (const moment of ["before the commit", "beside the commit", "after the commit"]) {
    const passed = new Map<string, number>()

    /** At the second commit of each key, or right after it, the answer is recorded. */
    const hook = Effect.fnUntraced(function*(step: string, key: string) {
      if (!step.startsWith("activation:commit")) return
      const place = `${step} ${key}`
      passed.set(place, (passed.get(place) ?? 0) + 1)
      if (passed.get(place) !== 2) return
      const client = yield* AgentEngine.client
      const [entry] = yield* client.intents({ key })
      const decide = client.decide({ id: entry!.intent.id, approved: false, by: "maria" })
      if (step === "activation:commit" && moment === "before the commit") yield* decide
      if (step === "activation:commit" && moment === "beside the commit") yield* Effect.forkDetach(decide)
      if (step === "activation:committed" && moment === "after the commit") yield* decide
    })

    it.effect(`200 times, ${moment}`, () =>
      Effect.gen(function*() {
        const outside = yield* Effect.context<AgentStore.AgentStore>()
        const layer = TestEngine.layerProcess({ agents: [two], effects: gatedReceipts })
        const context = yield* Effect.provideService(
          Layer.build(layer),
          Activation.Checkpoint,
          (step, key) => Effect.orDie(Effect.provideContext(hook(step, key), outside))
        )
        const engine = Context.get(context, AgentEngine.AgentEngine)
        const keys = Array.from({ length: 200 }, (_, index) => `c${index}`)
        yield* Effect.forEach(keys, (key) => engine.send(two, { key, event: undefined }))
        yield* TestClock.adjust("1 second")
        yield* engine.drain
        assert.strictEqual(yield* Clock.currentTimeMillis, 1000)
        assert.deepStrictEqual(yield* outputsOf(two), keys.map(() => "answered"))
        assert.strictEqual([...passed.values()].filter((times) => times >= 2).length, 400)
      }).pipe(Effect.provide(TestEngine.outside)))
  }
})

describe("K76 replay reaches no handler:", () => {
  it.effect("in a fresh process", () =>
    Effect.gen(function*() {
      let dead = false
      const buy = buyWith(charge, Effect.void)
      const answer = () => dead ? Effect.die(new Error("must not run")) : Effect.succeed("receipt-7")
      const layer = TestEngine.layerProcess({ agents: [buy], effects: [Effects.on(charge, answer)] })
      const client = yield* AgentEngine.client
      const { offset } = yield* client.send(buy, { key: "c1", event: "c1" })
      const first = yield* Process.start(layer)
      yield* untilEnded(first, offset)
      const before = yield* first.run(AgentEngine.AgentEngine.use((engine) => engine.replay(buy, offset)))
      dead = true
      const second = yield* first.restart()
      const after = yield* second.run(AgentEngine.AgentEngine.use((engine) => engine.replay(buy, offset)))
      assert.deepStrictEqual(after.outcome, { _tag: "Complete", output: "receipt-7" })
      assert.deepStrictEqual(after.outcome, before.outcome)
      assert.deepStrictEqual(after.trace, before.trace)
      assert.lengthOf(yield* Effects.of(charge), 1)
    }).pipe(Effect.provide(TestEngine.outside)))
})

describe("K77 a crash or a long wait never pays twice:", () => {
  const program = (paid: { calls: number }) =>
    Agent.make(
      "ask",
      { event: Schema.String, output: Schema.String },
      Effect.fnUntraced(function*(ctx, customerId) {
        const amountCents = yield* ctx.callModel({
          model: "M",
          request: { customerId },
          reply: Schema.Int,
          call: Effect.sync(() => ++paid.calls)
        })
        return Agent.complete(yield* ctx.request(gatedCharge({ customerId, amountCents })))
      })
    )

  for (const step of ["activation:run", "activation:commit"] as const) {
    it.effect(`killed at '${step}' after the reply, and approved after 30 hours in another process`, () =>
      Effect.gen(function*() {
        const paid = { calls: 0 }
        const ask = program(paid)
        const layer = TestEngine.layerProcess({ agents: [ask], effects: gatedReceipts })
        const client = yield* AgentEngine.client
        const { offset } = yield* client.send(ask, { key: "c1", event: "c1" })
        const nth = step === "activation:run" ? 2 : 1
        const first = yield* Process.start(layer, { crash: Crash.at(step, { nth }) })
        yield* first.crashed
        assert.strictEqual(paid.calls, 1)
        const second = yield* first.restart()
        const { intent } = yield* until(pendingApproval)
        yield* TestClock.adjust("30 hours")
        const third = yield* second.restart()
        yield* approve
        const { event } = yield* untilEnded(third, offset)
        assert.strictEqual(event.output, "receipt-7")
        assert.strictEqual(paid.calls, 1)
        assert.deepStrictEqual(
          (yield* Effects.of(gatedCharge)).map(({ arguments: { amountCents }, id }) => [id, amountCents]),
          [[intent.id, 1]]
        )
      }).pipe(Effect.provide(TestEngine.outside)))
  }
})
