/**
 * The engine and its client: events in, outputs out, waiting for quiet, closing down.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Schema, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Activation, Agent, AgentEngine, AgentStore, Effector, Tool } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { charge, chargeWith, desk, sendEmail } from "./fixtures/desk.ts"

const engine = AgentEngine.AgentEngine

const order = (cents: number) => ({ do: "request", cents }) as const

const settle = TestClock.adjust("1 millis")

const now = { startImmediately: true } as const

describe("K20 fire and forget", () => {
  const ends = [
    ["is performed", () => Effect.succeed("receipt"), { _tag: "Success", value: "receipt" }],
    ["fails with its typed failure", () => Effect.fail(new Desk.Declined({ reason: "funds" })), {
      _tag: "Failure",
      error: { _tag: "ToolArgumentError", reason: "funds" }
    }]
  ] as const
  it.effect.each(ends)("what %s is in ledger and trace; nobody is told, nothing runs again", ([_, script, result]) => {
    const happened: Array<Desk.Happened> = []
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const { call, deadLetters, drain, intents } = yield* engine
      assert.deepStrictEqual(yield* call(desk, { key: "c1", event: [{ do: "act", cents: 5 }] }), ["acted"])
      yield* drain
      const [entry, ...others] = yield* intents()
      assert.deepInclude(entry, { state: "Performed", attempt: 1 })
      assert.deepStrictEqual(entry?.result, result)
      assert.lengthOf(others, 0)
      const { trace } = yield* AgentStore.AgentStore
      assert.deepStrictEqual(yield* trace(1), [
        { type: "IntentStaged", step: 0, tool: "charge", id: entry!.intent.id },
        { type: "Completed" },
        { type: "IntentEnded", step: 0, tool: "charge", id: entry!.intent.id, result }
      ])
      assert.deepStrictEqual(yield* deadLetters, [])
      assert.deepStrictEqual(lines, [], "no warning")
      assert.lengthOf(happened, 1)
    }).pipe(
      Effect.provide(Layer.provideMerge(Desk.shop(Desk.outside(happened, { charge: script })), Desk.logged(lines)))
    )
  })
})

describe("engine.call", () => {
  const gate = (happened: Array<Desk.Happened>) => Desk.shop(Desk.outside(happened))

  it.effect("gives the output of its event, also where the event has finished before", () => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      const { call } = yield* engine
      const event = { key: "c1", event: [order(5)], id: "e1" }
      assert.deepStrictEqual(yield* call(desk, event), ["receipt"])
      assert.deepStrictEqual(yield* call(desk, event), ["receipt"])
      assert.lengthOf(happened, 1)
      const conflict = yield* Effect.flip(call(desk, { ...event, event: [order(6)] }))
      assert.deepInclude(conflict, { _tag: "EventConflict", agent: "desk", key: "c1", eventId: "e1" })
      assert.lengthOf(happened, 1)
    }).pipe(Effect.provide(gate(happened)))
  })

  it.effect("two callers of one event id wait for one run", () => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      const { call } = yield* engine
      const event = { key: "c1", event: [order(5)], id: "e1" }
      const answers = yield* Effect.all([call(desk, event), call(desk, event)], { concurrency: "unbounded" })
      assert.deepStrictEqual(answers, [["receipt"], ["receipt"]])
      assert.lengthOf(happened, 1)
    }).pipe(Effect.provide(gate(happened)))
  })

  it.effect("the same event with its fields in another order is the same event", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const records = Agent.make(
        "records",
        { event: Schema.Record(Schema.String, Schema.Int), output: Schema.Void },
        () => Effect.succeed(Agent.complete(undefined))
      )
      const first = yield* client.send(records, { key: "c1", id: "e1", event: { a: 1, b: 2 } })
      const again = yield* client.send(records, { key: "c1", id: "e1", event: { b: 2, a: 1 } })
      assert.deepStrictEqual(again, { offset: first.offset, duplicate: true })
      const other = yield* client.send(records, { key: "c2", id: "e1", event: { a: 1 } })
      assert.isFalse(other.duplicate, "ids are those of a key")
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("fails with what became of the event: a dead letter, a blocked key", () => {
    const failing = Agent.make(
      "failing",
      { event: Schema.Boolean, output: Schema.String },
      Effect.fnUntraced(function*(ctx, afterRequest) {
        if (afterRequest) yield* Effect.orDie(ctx.request(charge({ customerId: "c1", amountCents: 1 })))
        return yield* Effect.fail(new Desk.Declined({ reason: "no" }))
      })
    )
    const live = AgentEngine.layer(failing).pipe(
      Layer.provide(Effector.layer(charge)),
      Layer.provide(Desk.outside([])),
      Layer.provideMerge(AgentStore.layerMemory)
    )
    return Effect.gen(function*() {
      const { call } = yield* engine
      for (const [key, afterRequest, state] of [["a", false, "DeadLetter"], ["b", true, "Blocked"]] as const) {
        const failed = yield* Effect.flip(call(failing, { key, event: afterRequest }))
        assert.deepInclude(failed, { _tag: "EventFailed", agent: "failing", key, state })
        assert.strictEqual(failed._tag === "EventFailed" && failed.reason.tag, "ToolArgumentError")
      }
    }).pipe(Effect.provide(Layer.provideMerge(live, Desk.logged([]))))
  })

  it.effect("is answered where another process runs the agent", () =>
    Effect.gen(function*() {
      const idle = Agent.make(
        "idle",
        { event: Schema.Int, output: Schema.Int },
        (_, event) => Effect.succeed(Agent.complete(event + 1))
      )
      const here = Context.get(yield* Layer.build(AgentEngine.layer()), engine)
      const calling = yield* Effect.forkChild(here.call(idle, { key: "c1", event: 1 }), now)
      yield* TestClock.adjust("10 seconds")
      yield* Layer.build(AgentEngine.layer(idle))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* Fiber.join(calling), 2)
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("what does not fit", () => {
  const small = Agent.make(
    "small",
    { event: Schema.String.check(Schema.isMaxLength(500)), output: Schema.Void, maxBytes: 200 },
    () => Effect.succeed(Agent.complete(undefined))
  )

  it.effect("K80 one oversized event is refused with its size and the limit; others of its key go through", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const large = yield* Effect.flip(client.send(small, { key: "a", event: "x".repeat(300) }))
      assert.deepInclude(large, { _tag: "TooLarge", key: "a", bytes: 302, maxBytes: 200 })
      assert.notInclude(large.message, "xxx")
      const misfit = yield* Effect.flip(client.send(small, { key: "a", event: "x".repeat(501) }))
      assert.deepInclude(misfit, { _tag: "EventMisfit", agent: "small", key: "a" })
      const message = yield* Effect.flip(client.message(small, { key: "a", message: "x".repeat(300) }))
      assert.deepInclude(message, { _tag: "TooLarge", bytes: 302 })
      assert.strictEqual((yield* client.status(small, "a")).inbox, 0)
      for (const key of ["a", "b"]) assert.isFalse((yield* client.send(small, { key, event: "x" })).duplicate)
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("a full inbox, or a full mailbox, is told to the sender, who may send again later", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const send = (key: string) => client.send(small, { key, event: "x" })
      yield* send("a")
      yield* send("a")
      assert.deepInclude(yield* Effect.flip(send("a")), { _tag: "InboxFull", agent: "small", key: "a", limit: 2 })
      yield* send("b")
      const message = client.message(small, { key: "a", message: "x" })
      yield* message
      yield* message
      assert.deepInclude(yield* Effect.flip(message), { _tag: "InboxFull", key: "a" })
      const { close, open } = yield* Effect.map(Scope.make(), (scope) => ({
        open: Layer.buildWithScope(AgentEngine.layer(small), scope),
        close: Scope.close(scope, Exit.void)
      }))
      yield* open
      yield* settle
      yield* send("a")
      yield* close
    }).pipe(Effect.provide(AgentStore.layerMemoryWith({ inboxLimit: 2 }))))

  it.effect("two agents of one name in one engine are refused when it is built", () =>
    Effect.gen(function*() {
      const other = Agent.make("small", { event: Schema.Int, output: Schema.Void }, () =>
        Effect.succeed(Agent.complete(undefined)))
      const build = Layer.build(AgentEngine.layer(small, other))
      const defect = yield* Effect.flip(Effect.catchDefect(build, Effect.fail))
      assert.instanceOf(defect, Agent.AgentDefinitionError)
      assert.include(defect.message, "'small'")
      yield* Layer.build(AgentEngine.layer(small, small))
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  const options: ReadonlyArray<readonly [string, Layer.Layer<never, never, AgentStore.AgentStore>]> = [
    ["concurrency", Layer.effectDiscard(Layer.build(AgentEngine.layerWith({ concurrency: 0 })()))],
    ["concurrency", Effector.layerWith({ concurrency: -1 })()],
    ["lease", Effector.layerWith({ lease: 0 })()],
    ["maxBytes", Effector.layerWith({ maxBytes: Number.NaN })()]
  ]
  it.effect.each(options)(
    "an option nobody could work with (%s) is refused when the layer is built",
    ([name, layer]) =>
      Effect.gen(function*() {
        const defect = yield* Effect.flip(Effect.catchDefect(Layer.build(layer), Effect.fail))
        assert.instanceOf(defect, RangeError)
        assert.include(defect.message, `'${name}' must be positive`)
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )

  it.effect("an agent that stages what nobody performs is refused where it stages", () =>
    Effect.gen(function*() {
      // What does not compile, as a cast lets it through.
      const layer = AgentEngine.layer(desk) as Layer.Layer<AgentEngine.AgentEngine, never, AgentStore.AgentStore>
      const { call } = Context.get(yield* Layer.build(layer), engine)
      const failed = yield* Effect.flip(call(desk, { key: "c1", event: [order(5)] }))
      assert.strictEqual(failed._tag === "EventFailed" && failed.reason.tag, "NoEffector")
      assert.include(failed.message, "no effector for 'charge'; provide Effector.layer or Effector.elsewhere")
      assert.deepStrictEqual(yield* Desk.states, [])
    }).pipe(Effect.provide(Layer.provideMerge(AgentStore.layerMemory, Desk.logged([])))))
})

describe("engine.drain", () => {
  it.effect("waits for everything that can be done now, and for nothing else", () => {
    const happened: Array<Desk.Happened> = []
    const gated = chargeWith({ approval: "required" })
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      yield* drain
      for (let key = 0; key < 20; key++) {
        yield* send(desk, {
          key: `c${key}`,
          event: [{ do: "request", mail: "1" }, { do: "request", mail: "2" }, order(1)]
        })
      }
      yield* drain
      assert.lengthOf(happened, 40, "all mail is out, and every charge waits for a person")
      assert.deepStrictEqual(
        (yield* Desk.states).filter((state) => state === "charge Staged"),
        Array.from({ length: 20 }, () => "charge Staged")
      )
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, {}, gated), { charge: gated })))
  })

  it.effect("waits for handlers that run, however long, and for what comes of them", () => {
    const happened: Array<Desk.Happened> = []
    const slow: Desk.Script = () => Effect.delay(Effect.succeed("receipt"), "3 minutes")
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      yield* send(desk, { key: "c1", event: [order(1), { do: "request", mail: "paid" }] })
      const draining = yield* Effect.forkChild(drain, now)
      yield* TestClock.adjust("2 minutes")
      assert.isUndefined(draining.pollUnsafe())
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(draining)
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "sendEmail Performed"])
      assert.lengthOf(happened, 2)
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: slow }))))
  })

  it.effect("hears of a handler that outlived its timeout and came to nothing, which no change of the store tells", () => {
    const timed = chargeWith({ timeout: "50 millis" })
    const script: Desk.Script = () =>
      Effect.uninterruptible(Effect.andThen(Effect.sleep("200 millis"), Effect.die(new Error("too late"))))
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      yield* send(desk, { key: "c1", event: [order(1)] })
      const draining = yield* Effect.forkChild(drain, now)
      yield* TestClock.adjust("199 millis")
      assert.deepStrictEqual(yield* Desk.states, ["charge Unknown"])
      assert.isUndefined(draining.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.isDefined(draining.pollUnsafe())
    }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: script }, timed), { charge: timed })))
  })

  it.effect("does not wait for another process, nor for what only time brings on", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const layer = AgentEngine.layer(desk).pipe(Layer.provide(Effector.elsewhere(charge, sendEmail)))
      const { drain } = Context.get(yield* Layer.build(layer), engine)
      const slow: Desk.Script = () => Effect.delay(Effect.succeed("receipt"), "1 minute")
      const running = Effector.run({})(charge, sendEmail).pipe(Effect.provide(Desk.outside([], { charge: slow })))
      yield* Effect.forkChild(running, now)
      yield* client.send(desk, { key: "c1", event: [order(1)] })
      yield* settle
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed"])
      yield* drain
      yield* TestClock.adjust("1 minute")
      yield* drain
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("holds through a store that fails now and then", () => {
    const happened: Array<Desk.Happened> = []
    let calls = 0
    const flaky = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | AgentStore.StoreError, R> =>
      Effect.suspend((): Effect.Effect<A, E | AgentStore.StoreError, R> =>
        ++calls % 3 === 0
          ? Effect.fail(new AgentStore.StoreError({ operation: "any", detail: "now and then" }))
          : effect
      )
    const store = Desk.storeWith((store) => ({
      commit: (commit) => flaky(store.commit(commit)),
      claim: (options) => flaky(store.claim(options)),
      move: (id, move) => flaky(store.move(id, move))
    }))
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      for (let key = 0; key < 10; key++) yield* send(desk, { key: `c${key}`, event: [order(1), order(2)] })
      for (let second = 0; second < 60; second++) yield* TestClock.adjust("1 second")
      yield* drain
      assert.lengthOf(happened, 20)
      assert.isTrue((yield* Desk.states).every((state) => state === "charge Performed"))
    }).pipe(Effect.provide(Layer.provideMerge(Desk.shop(Desk.outside(happened), { store }), Desk.logged([]))))
  })
})

describe("engine.outputs", () => {
  const counter = Agent.make(
    "counter",
    { event: Schema.Int, output: Schema.Int },
    Effect.fnUntraced(function*(ctx, upTo) {
      for (let count = 0; count < upTo; count++) yield* ctx.emit(count)
      return Agent.complete(upTo)
    })
  )
  const live = Layer.provideMerge(
    AgentEngine.layer(
      counter,
      Agent.make(
        "other",
        { event: Schema.Int, output: Schema.Int },
        (_, event) => Effect.succeed(Agent.complete(-event))
      )
    ),
    AgentStore.layerMemory
  )

  it.effect("are a stream from a cursor, over as many pages as it takes, in order, without a gap or a repeat", () =>
    Effect.gen(function*() {
      const { drain, outputs, send } = yield* engine
      yield* send(counter, { key: "c1", event: 1000 })
      yield* drain
      const all = yield* outputs(counter).pipe(Stream.take(1001), Stream.runCollect)
      assert.deepStrictEqual(all.map(({ output }) => output), Array.from({ length: 1001 }, (_, count) => count))
      const cursor = all[699]!.offset
      const rest = yield* outputs(counter, { after: cursor }).pipe(Stream.take(301), Stream.runCollect)
      assert.deepStrictEqual(rest, all.slice(700))
    }).pipe(Effect.provide(live)))

  it.effect("go on with what comes, each once, whatever other agents do", () =>
    Effect.gen(function*() {
      const { drain, outputs, send } = yield* engine
      const seen: Array<number> = []
      const following = yield* Effect.forkChild(
        Stream.runForEach(outputs(counter), ({ output }) => Effect.sync(() => void seen.push(output))),
        now
      )
      for (let event = 0; event < 4; event++) {
        yield* send(counter, { key: "c1", event })
        yield* send({ ...counter, name: "other" } as never, { key: "c1", event } as never)
        yield* drain
        yield* settle
      }
      assert.deepStrictEqual(seen, [0, 0, 1, 0, 1, 2, 0, 1, 2, 3])
      yield* Fiber.interrupt(following)
    }).pipe(Effect.provide(live)))
})

describe("closing down", () => {
  const lookup = Tool.readOnly("lookup", { description: "Look up.", success: Schema.String })
  const reader = Agent.make(
    "reader",
    { event: Schema.Int, output: Schema.String },
    Effect.fnUntraced(function*(ctx) {
      yield* ctx.act(charge({ customerId: ctx.key, amountCents: 1 }))
      return Agent.complete(yield* ctx.runTool(lookup()))
    })
  )

  it.effect("an activation has its grace time; then it is interrupted, and runs again in the next process", () =>
    Effect.gen(function*() {
      const gate = yield* Latch.make()
      const seen: Array<string> = []
      const read = (name: string) =>
        lookup.toLayer(() =>
          Effect.as(gate.await, name).pipe(Effect.onInterrupt(() => Effect.sync(() => void seen.push("interrupted"))))
        )
      const layer = (name: string) =>
        AgentEngine.layerWith({ grace: "5 seconds" })(reader).pipe(
          Layer.provide(Effector.elsewhere(charge)),
          Layer.provide(read(name))
        )
      const client = yield* AgentEngine.client
      yield* client.send(reader, { key: "c1", event: 1 })
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(layer("first"), scope)
      yield* settle
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), now)
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(seen, [])
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
      assert.deepStrictEqual(seen, ["interrupted"])
      yield* gate.open
      assert.deepStrictEqual(yield* Desk.states, [])
      assert.deepInclude(yield* client.status(reader, "c1"), { seq: 0, inbox: 1 })
      yield* Layer.build(layer("second"))
      yield* settle
      const store = yield* AgentStore.AgentStore
      assert.deepStrictEqual(
        (yield* store.outputs({ agent: "reader", after: 0, limit: 9 })).map(({ output }) => output),
        [
          "second"
        ]
      )
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect.each(Effector.steps)("an effector that closes at '%s' loses nothing and does nothing twice", (step) => {
    const happened: Array<Desk.Happened> = []
    const begun = step === "effector:complete" || step === "effector:answer"
    return Effect.gen(function*() {
      const gate = yield* Latch.make()
      const scope = yield* Scope.make()
      const { call } = Context.get(
        yield* Layer.buildWithScope(Desk.process(Desk.outside(happened)), scope).pipe(
          Effect.provideService(Activation.Checkpoint, (at) => at === step ? gate.await : Effect.void)
        ),
        engine
      )
      yield* Effect.forkChild(Effect.ignore(call(desk, { key: "c1", event: [order(5)] })), now)
      yield* settle
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), now)
      yield* settle
      assert.isUndefined(closing.pollUnsafe(), "it waits for what is under way")
      yield* gate.open
      yield* settle
      yield* Fiber.join(closing)
      assert.lengthOf(happened, begun ? 1 : 0)
      assert.deepStrictEqual(yield* Desk.states, [begun ? "charge Performed" : "charge Staged"])

      yield* Layer.build(Layer.fresh(Desk.process(Desk.outside(happened))))
      yield* settle
      assert.lengthOf(happened, 1)
      const store = yield* AgentStore.AgentStore
      const outputs = yield* store.outputs({ agent: "desk", after: 0, limit: 9 })
      assert.deepStrictEqual(outputs.map(({ output }) => output), [["receipt"]])
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("an engine whose store stays away stops, and whoever built it is interrupted", () => {
    const lines: Array<string> = []
    const down = new AgentStore.StoreError({ operation: "sweep", detail: "the store is gone" })
    return Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(Layer.launch(AgentEngine.layer()), now)
      yield* TestClock.adjust("1 minute")
      const exit = fiber.pollUnsafe()
      assert.isTrue(exit !== undefined && Exit.hasInterrupts(exit))
      assert.match(lines.join("\n"), /Fatal engine stopped.*the store is gone/)
    }).pipe(
      Effect.provide(Layer.provideMerge(Desk.storeWith(() => ({ sweep: Effect.fail(down) })), Desk.logged(lines)))
    )
  })

  it.effect("or starts again where its builder has ended long ago, and says so each time", () => {
    const lines: Array<string> = []
    const down = new AgentStore.StoreError({ operation: "sweep", detail: "the store is gone" })
    let isDown = true
    const store = Desk.storeWith((store) => ({
      sweep: Effect.suspend(() => isDown ? Effect.fail(down) : store.sweep)
    }))
    return Effect.gen(function*() {
      const scope = yield* Effect.scope
      const built = yield* Effect.forkChild(
        Layer.buildWithScope(
          AgentEngine.layer(reader).pipe(
            Layer.provide([Effector.elsewhere(charge), lookup.toLayer(() => Effect.succeed("found"))])
          ),
          scope
        ),
        now
      )
      const { call } = Context.get(yield* Fiber.join(built), engine)
      yield* TestClock.adjust("2 minutes")
      assert.isAbove(lines.filter((line) => line.startsWith("Fatal")).length, 1)
      isDown = false
      const calling = yield* Effect.forkChild(call(reader, { key: "c1", event: 1 }), now)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(calling), "found")
    }).pipe(Effect.provide(Layer.provideMerge(store, Desk.logged(lines))))
  })
})
