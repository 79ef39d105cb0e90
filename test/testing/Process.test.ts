import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, type Effector } from "../../src/index.ts"
import { Crash, Effects, Process, TestEngine } from "../../src/testing/index.ts"
import { charge, untilEnded } from "./support.ts"

const buy = Agent.make(
  "buy",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, customerId) {
    return Agent.complete(yield* ctx.request(charge({ customerId, amountCents: 5 })))
  })
)

const processWith = (effect: Effects.Scripted<"charge">, effector: Effector.Options = {}) =>
  TestEngine.layerProcess({ agents: [buy], effects: [effect], effector })

const receipt = Effects.on(charge, () => Effect.succeed("receipt"))

const send = Effect.flatMap(AgentEngine.client, (client) => client.send(buy, { key: "c1", event: "c1" }))

const states = Effect.gen(function*() {
  const store = yield* AgentStore.AgentStore
  return (yield* store.entries({})).map(({ state }) => state)
})

/** A store that counts the operations that reach it. */
const counting = Effect.map(AgentStore.AgentStore, (store) => {
  const reached = { count: 0 }
  const counted = new Proxy(store, {
    get: (target, name) => {
      const member: any = Reflect.get(target, name)
      const once = (effect: Effect.Effect<any, any, any>) =>
        Effect.suspend(() => {
          reached.count++
          return effect
        })
      return Effect.isEffect(member) ? once(member as any) : (...args: Array<any>) => once(member(...args))
    }
  })
  return { store: counted, reached }
})

describe("A killed process", () => {
  for (const step of Crash.steps) {
    it.effect(`dies at '${step}', and another one ends the event`, () =>
      Effect.gen(function*() {
        const { offset } = yield* send
        const process = yield* Process.start(processWith(receipt), { crash: Crash.at(step) })
        assert.strictEqual((yield* process.crashed).step, step)
        assert.isFalse(yield* process.isAlive)
        const { event } = yield* untilEnded(process, offset)
        assert.include(["Completed", "DeadLetter", "Blocked"], event.state)
      }).pipe(Effect.provide(TestEngine.outside)))
  }

  it.effect("dies at the same place each time the same program runs", () =>
    Effect.gen(function*() {
      for (let nth = 1; nth < 12; nth++) {
        const die = Effect.gen(function*() {
          yield* send
          const process = yield* Process.start(processWith(receipt), { crash: Crash.after(nth) })
          return yield* process.crashed
        }).pipe(Effect.provide(TestEngine.outside), Effect.scoped)
        assert.deepStrictEqual(yield* die, yield* die)
      }
    }))

  it.effect("sends nothing to the store any more", () =>
    Effect.gen(function*() {
      const { reached, store } = yield* counting
      yield* send
      const hanging = Effects.on(charge, () => Effect.never)
      const process = yield* Effect.provideService(Process.start(processWith(hanging)), AgentStore.AgentStore, store)
      yield* TestClock.adjust("15 seconds")
      const living = reached.count
      yield* TestClock.adjust("15 seconds")
      assert.isAbove(reached.count, living, "a lease is renewed while the process lives")
      yield* process.kill
      const dead = reached.count
      yield* send
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(reached.count, dead)
      assert.deepStrictEqual(yield* states, ["Claimed"], "nobody swept what it had claimed")
    }).pipe(Effect.provide(TestEngine.outside)))

  it.effect("loses its claims by the clock alone", () =>
    Effect.gen(function*() {
      yield* send
      const process = yield* Process.start(processWith(receipt, { lease: "10 seconds" }), {
        crash: Crash.at("effector:complete")
      })
      yield* process.crashed
      yield* process.restart()
      yield* TestClock.adjust("9 seconds")
      assert.deepStrictEqual(yield* states, ["Claimed"])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* states, ["Unknown"])
    }).pipe(Effect.provide(TestEngine.outside)))

  it.effect("runs no finalizer, neither at its death nor when its scope ends", () =>
    Effect.gen(function*() {
      let finalized = 0
      const slow = Effects.on(charge, () => Effect.ensuring(Effect.never, Effect.sync(() => finalized++)))
      yield* Effect.scoped(Effect.gen(function*() {
        const process = yield* Process.start(processWith(slow))
        yield* send
        yield* TestClock.adjust("1 second")
        yield* process.kill
        yield* TestClock.adjust("1 hour")
      }))
      assert.strictEqual(finalized, 0)
      assert.deepStrictEqual(yield* states, ["Claimed"])
    }).pipe(Effect.provide(TestEngine.outside)))

  for (const begun of ["sleeps", "waits at a gate"]) {
    it.effect(`performs nothing when its handler ${begun} before the effect`, () =>
      Effect.gen(function*() {
        const gate = yield* Deferred.make<void>()
        const before = begun === "sleeps" ? Effect.sleep("10 seconds") : Deferred.await(gate)
        const late = Effects.on(charge, () => Effect.succeed("receipt"), { before: () => before })
        const process = yield* Process.start(processWith(late))
        yield* send
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* states, ["Claimed"])
        yield* process.kill
        yield* Deferred.succeed(gate, undefined)
        yield* TestClock.adjust("1 minute")
        assert.lengthOf(yield* Effects.of(charge), 0)
      }).pipe(Effect.provide(TestEngine.outside)))
  }

  it.effect("fails what was run in it", () =>
    Effect.gen(function*() {
      yield* send
      const process = yield* Process.start(processWith(receipt), { crash: Crash.at("effector:execute") })
      const drain = process.run(AgentEngine.AgentEngine.use((engine) => engine.drain))
      const killed = yield* Effect.flip(drain)
      assert.instanceOf(killed, Process.Killed)
      assert.strictEqual(killed.step, "effector:execute")
    }).pipe(Effect.provide(TestEngine.outside)))

  it.effect("may die while it is being built", () =>
    Effect.gen(function*() {
      yield* send
      const process = yield* Process.start(processWith(receipt), { crash: Crash.at("activation:load") })
      assert.isFalse(yield* process.isAlive)
    }).pipe(Effect.provide(TestEngine.outside)))
})

describe("A process that is stopped", () => {
  it.effect("lets its running handlers end", () =>
    Effect.gen(function*() {
      const slow = Effects.on(charge, () => Effect.delay(Effect.succeed("receipt"), "5 seconds"))
      const process = yield* Process.start(processWith(slow))
      yield* send
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(process.stop)
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.join(stopping)
      assert.deepStrictEqual(yield* states, ["Performed"])
      assert.isFalse(yield* process.isAlive)
    }).pipe(Effect.provide(TestEngine.outside)))
})
