/**
 * What an engine does again and in which order: attempts that outlive a process, keys beside each other, letters that are
 * driven, and the stream of what was settled.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Exit, Fiber, Layer, Schedule, Schema, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { charge, desk } from "./fixtures/desk.ts"

const engine = AgentEngine.AgentEngine

const now = { startImmediately: true } as const

/** Lets everything happen that needs no time. */
const settle = TestClock.adjust("1 millis")

/** Lets time pass, second by second, so that everything due in between happens when it is due. */
const pass = (seconds: number) => Effect.repeat(TestClock.adjust("1 second"), { times: seconds - 1 })

class Broken extends Schema.TaggedError<Broken>()("Broken", {}) {}

const strings = { event: Schema.String, output: Schema.String }

/** Twice more, ten seconds apart. */
const twice = Schedule.max([Schedule.spaced("10 seconds"), Schedule.recurs(2)])

const outputsOf = (agent: Agent.Any) =>
  Effect.map(
    AgentStore.AgentStore.use((store) => store.outputs({ agent: agent.name, after: 0, limit: 100 })),
    (outputs) => outputs.map(({ key, output }) => `${key} ${output}`)
  )

describe("an agent with a retry schedule", () => {
  /** Events that begin with "bad" fail as long as the world is broken. */
  const flaky = (world: { broken: boolean; readonly runs: Array<string> }) =>
    Agent.make(
      "flaky",
      { ...strings, retry: twice },
      Effect.fnUntraced(function*(ctx, event) {
        world.runs.push(`${ctx.key} ${event}`)
        if (world.broken && event.startsWith("bad")) return yield* new Broken()
        return Agent.complete(event)
      })
    )

  it.effect("runs an event again when the schedule says so, in whatever process; its key waits, other keys do not", () => {
    const world = { broken: true, runs: [] as Array<string> }
    const lines: Array<string> = []
    const agent = flaky(world)
    const open = Effect.map(Scope.make(), (scope) => ({
      build: Layer.buildWithScope(Layer.fresh(AgentEngine.layer(agent)), scope),
      close: Scope.close(scope, Exit.void)
    }))
    return Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const store = yield* AgentStore.AgentStore
      const { offset } = yield* client.send(agent, { key: "a", event: "bad" })
      yield* client.send(agent, { key: "a", event: "later" })
      yield* client.send(agent, { key: "b", event: "other" })
      const first = yield* open
      yield* first.build
      yield* pass(9)
      assert.deepStrictEqual(world.runs, ["a bad", "b other"])
      assert.deepInclude(yield* store.event(offset), { state: "Waiting", failures: 1 })
      yield* first.close
      const second = yield* open
      yield* second.build
      yield* pass(1)
      assert.deepStrictEqual(world.runs.slice(2), ["a bad"])
      yield* second.close
      const third = yield* open
      yield* third.build
      assert.deepStrictEqual([yield* client.deadLetters, lines], [[], []], "nobody is told before the schedule is over")
      yield* pass(10)
      assert.deepStrictEqual(world.runs.slice(3), ["a bad", "a later"])
      assert.deepInclude(yield* store.event(offset), { state: "DeadLetter", failures: 3 })
      const letters = yield* client.deadLetters
      assert.deepStrictEqual(letters.map(({ content, kind, reason }) => [kind, content, reason.tag]), [
        ["Event", "bad", "Broken"]
      ])
      assert.lengthOf(lines, 1)
      yield* pass(60)
      assert.lengthOf(world.runs, 5)
      yield* third.close
    }).pipe(Effect.provide(Layer.provideMerge(AgentStore.layerMemory, Desk.logged(lines))))
  })

  it.effect("its caller waits through the attempts, and is given the output of the one that succeeds", () => {
    const world = { broken: true, runs: [] as Array<string> }
    const agent = flaky(world)
    return Effect.gen(function*() {
      const { call, deadLetters, drain } = yield* engine
      const calling = yield* Effect.forkChild(call(agent, { key: "a", event: "bad" }), now)
      yield* pass(15)
      yield* drain
      assert.isUndefined(calling.pollUnsafe())
      world.broken = false
      yield* pass(5)
      assert.strictEqual(yield* Fiber.join(calling), "bad")
      assert.lengthOf(world.runs, 3)
      assert.deepStrictEqual(yield* deadLetters, [])
    }).pipe(Effect.provide(Layer.provideMerge(AgentEngine.layer(agent), AgentStore.layerMemory)))
  })

  it.effect("a resume has as many attempts, then blocks its key; driven again it has all of them anew", () => {
    const happened: Array<Desk.Happened> = []
    let resumed = 0
    const agent = Agent.make(
      "resuming",
      { ...strings, retry: twice },
      Effect.fnUntraced(function*(ctx, event) {
        const receipt = yield* Effect.orDie(ctx.request(charge({ customerId: ctx.key, amountCents: 5 })))
        if (event === "bad" && ++resumed < 6) return yield* new Broken()
        return Agent.complete(`${event} ${receipt}`)
      })
    )
    const live = AgentEngine.layer(agent).pipe(
      Layer.provide(Effector.layer(charge)),
      Layer.provide(Desk.outside(happened)),
      Layer.provideMerge(AgentStore.layerMemory)
    )
    return Effect.gen(function*() {
      const { deadLetters, redrive, send, status } = yield* engine
      const store = yield* AgentStore.AgentStore
      const { offset } = yield* send(agent, { key: "a", event: "bad" })
      yield* send(agent, { key: "a", event: "later" })
      yield* send(agent, { key: "b", event: "other" })
      yield* pass(19)
      assert.deepInclude(yield* store.event(offset), { state: "Suspended", failures: 2 })
      yield* pass(2)
      assert.strictEqual(resumed, 3)
      assert.deepInclude(yield* store.event(offset), { state: "Blocked", failures: 3 })
      assert.deepInclude(yield* status(agent, "a"), { current: offset, inbox: 1 })
      assert.strictEqual((yield* status(agent, "a")).blocked?.tag, "Broken")
      yield* pass(60)
      assert.strictEqual(resumed, 3)
      assert.deepStrictEqual(yield* outputsOf(agent), ["b other receipt"])

      const [letter] = yield* deadLetters
      yield* redrive(letter!.id, { by: "maria" })
      yield* pass(21)
      assert.strictEqual(resumed, 6)
      assert.deepStrictEqual(yield* outputsOf(agent), ["b other receipt", "a bad receipt", "a later receipt"])
      assert.deepStrictEqual(happened.map(({ key }) => key).sort(), ["a", "a", "b"], "once for each event")
      assert.isUndefined((yield* status(agent, "a")).blocked)
    }).pipe(Effect.provide(Layer.provideMerge(live, Desk.logged([]))))
  })

  it.effect("what would be the same every time is not tried again", () => {
    let runs = 0
    const agent = Agent.make(
      "large",
      { ...strings, retry: twice, maxBytes: 100 },
      Effect.fnUntraced(function*(ctx) {
        runs++
        yield* ctx.emit("x".repeat(200))
        return Agent.complete("no")
      })
    )
    return Effect.gen(function*() {
      const { deadLetters, send } = yield* engine
      yield* send(agent, { key: "a", event: "e" })
      yield* pass(60)
      assert.strictEqual(runs, 1)
      assert.deepStrictEqual((yield* deadLetters).map(({ reason }) => reason.tag), ["TooLarge"])
    }).pipe(
      Effect.provide(Layer.provideMerge(AgentEngine.layer(agent), Layer.merge(AgentStore.layerMemory, Desk.logged([]))))
    )
  })
})

describe("the keys of an engine", () => {
  const limits = [
    ["as many as there are", {}, { most: 3, endedAt: 4000 }],
    ["two at a time", { concurrency: 2 }, { most: 2 }],
    ["one at a time", { concurrency: 1 }, { most: 1, endedAt: 12_000 }]
  ] as const
  it.effect.each(limits)("run beside each other, %s, and each takes its events in order", ([_, options, expected]) => {
    const running: Array<string> = []
    const ended: Array<readonly [key: string, event: string, at: number]> = []
    let most = 0
    const lookup = Tool.readOnly("lookup", {
      description: "Look something up.",
      parameters: { key: Schema.String, event: Schema.String },
      success: Schema.String,
      handler: ({ event, key }) =>
        Effect.gen(function*() {
          assert.notInclude(running, key, "an activation of the key was still running")
          running.push(key)
          most = Math.max(most, running.length)
          yield* Effect.sleep("1 second")
          running.splice(running.indexOf(key), 1)
          ended.push([key, event, yield* Clock.currentTimeMillis])
          return event
        })
    })
    const agent = Agent.make(
      "reader",
      strings,
      (ctx, event) => Effect.map(ctx.runTool(lookup({ key: ctx.key, event })), Agent.complete)
    )
    return Effect.gen(function*() {
      const { deadLetters, drain, send } = yield* engine
      const events = ["1", "2", "3", "4"]
      for (const event of events) for (const key of ["a", "b", "c"]) yield* send(agent, { key, event })
      yield* pass(12)
      yield* drain
      assert.deepStrictEqual(yield* deadLetters, [])
      for (const key of ["a", "b", "c"]) {
        assert.deepStrictEqual(ended.filter(([of]) => of === key).map(([, event]) => event), events)
      }
      assert.lengthOf(ended, 12)
      assert.deepInclude({ most, endedAt: ended.at(-1)![2] }, expected)
    }).pipe(Effect.provide(Layer.provideMerge(AgentEngine.layerWith(options)(agent), AgentStore.layerMemory)))
  })
})

describe("a dead letter", () => {
  const failing = (world: { broken: boolean }) =>
    Agent.make(
      "failing",
      strings,
      Effect.fnUntraced(function*(ctx, event) {
        if (event === "resume") yield* Effect.orDie(ctx.request(charge({ customerId: ctx.key, amountCents: 5 })))
        if (world.broken && event !== "later") return yield* new Broken()
        return Agent.complete(event)
      })
    )
  const live = (agent: ReturnType<typeof failing>) =>
    AgentEngine.layer(agent).pipe(
      Layer.provide(Effector.layer(charge)),
      Layer.provide(Desk.outside([])),
      Layer.provideMerge(Layer.merge(AgentStore.layerMemory, Desk.logged([])))
    )

  for (const event of ["event", "resume"]) {
    it.effect(`K21 of an ${event === "event" ? "event" : "event that resumes"} is driven once, and says by whom and when`, () => {
      const world = { broken: true }
      const agent = failing(world)
      return Effect.gen(function*() {
        const { deadLetters, drain, redrive, send } = yield* engine
        yield* send(agent, { key: "a", event })
        yield* drain
        yield* TestClock.adjust("1 hour")
        world.broken = false
        const [letter] = yield* deadLetters
        yield* redrive(letter!.id, { by: "maria" })
        for (const id of [letter!.id, letter!.id + 1]) {
          assert.deepInclude(yield* Effect.flip(redrive(id, { by: "tom" })), { _tag: "DeadLetterNotFound", id })
        }
        yield* drain
        assert.deepInclude(yield* Effect.flip(redrive(letter!.id, { by: "tom" })), { _tag: "DeadLetterNotFound" })
        yield* drain
        assert.deepStrictEqual(yield* outputsOf(agent), [`a ${event}`])
        assert.deepStrictEqual((yield* deadLetters).map(({ driven }) => driven), [
          { by: "maria", at: 3_600_000, offset: letter!.offset }
        ])
      }).pipe(Effect.provide(live(agent)))
    })
  }

  it.effect("is what a caller is told who comes later with the same event id, and the output once it was driven", () => {
    const world = { broken: true }
    const agent = failing(world)
    return Effect.gen(function*() {
      const { call, deadLetters, redrive } = yield* engine
      const calling = call(agent, { key: "a", event: "event", id: "e1" })
      for (let times = 0; times < 2; times++) {
        assert.deepInclude(yield* Effect.flip(calling), { _tag: "EventFailed", key: "a", state: "DeadLetter" })
      }
      const letters = yield* deadLetters
      assert.lengthOf(letters, 1, "the second caller ran nothing")
      world.broken = false
      yield* redrive(letters[0]!.id, { by: "maria" })
      assert.strictEqual(yield* calling, "event")
    }).pipe(Effect.provide(live(agent)))
  })

  it.effect("of a blocked key that was cancelled is not driven any more: the key has gone on", () => {
    const agent = failing({ broken: true })
    return Effect.gen(function*() {
      const { call, cancel, deadLetters, drain, redrive, send, status } = yield* engine
      yield* send(agent, { key: "a", event: "resume", id: "e1" })
      yield* send(agent, { key: "a", event: "later" })
      yield* drain
      assert.deepStrictEqual(yield* outputsOf(agent), [])
      yield* cancel(agent, { key: "a", by: "maria" })
      yield* drain
      assert.deepStrictEqual(yield* outputsOf(agent), ["a later"])
      assert.deepInclude(yield* status(agent, "a"), { blocked: undefined, current: undefined, inbox: 0 })
      const [letter] = yield* deadLetters
      assert.deepInclude(yield* Effect.flip(redrive(letter!.id, { by: "tom" })), { _tag: "DeadLetterNotFound" })
      const failed = yield* Effect.flip(call(agent, { key: "a", event: "resume", id: "e1" }))
      assert.deepInclude(failed, { _tag: "EventFailed", state: "Cancelled" })
    }).pipe(Effect.provide(live(agent)))
  })
})

describe("engine.resolutions", () => {
  it.effect("are a stream from a cursor, over as many pages as it takes, that goes on with what comes", () =>
    Effect.gen(function*() {
      const { drain, intents, resolutions, resolve, send } = yield* engine
      for (let key = 0; key < 302; key++) yield* send(desk, { key: `c${key}`, event: [{ do: "act", cents: 5 }] })
      yield* drain
      const ids = (yield* intents({ states: ["Unknown"] })).map(({ intent }) => intent.id)
      assert.lengthOf(ids, 302)
      const settleOne = (id: string) => resolve(id, "dana", { to: "NotPerformed", note: "not at the bank" })
      yield* Effect.forEach(ids.slice(0, 300), settleOne)
      const all = yield* resolutions().pipe(Stream.take(300), Stream.runCollect)
      assert.deepStrictEqual(all.map(({ id }) => id), ids.slice(0, 300))

      const seen: Array<string> = []
      const cursor = all[279]!.offset
      const following = yield* Effect.forkChild(
        Stream.runForEach(resolutions({ after: cursor }), ({ id }) => Effect.sync(() => void seen.push(id))),
        now
      )
      yield* settle
      assert.deepStrictEqual(seen, ids.slice(280, 300))
      for (const id of ids.slice(300)) {
        yield* settleOne(id)
        yield* settle
      }
      assert.deepStrictEqual(seen, ids.slice(280))
      yield* Fiber.interrupt(following)
    }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: () => Effect.die(new Error("broke")) })))))
})

describe("engine.outputs", () => {
  it.effect("read in parts, each from the offset kept of the last one, are each seen once, in whatever process", () => {
    const agent = Agent.make("echo", strings, (_, event) => Effect.succeed(Agent.complete(event)))
    return Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const { drain } = Context.get(yield* Layer.build(AgentEngine.layer(agent)), engine)
      const seen: Array<string> = []
      let kept = 0
      // The reader stops after every third output, while more of them come.
      for (let round = 0; round < 5; round++) {
        for (let event = 0; event < 4; event++) {
          yield* client.send(agent, { key: `c${event}`, event: `${round} ${event}` })
        }
        yield* drain
        const reader = yield* AgentEngine.client
        const part = yield* reader.outputs(agent, { after: kept }).pipe(Stream.take(3), Stream.runCollect)
        for (const { offset, output } of part) {
          seen.push(output)
          kept = offset
        }
      }
      const rest = yield* client.outputs(agent, { after: kept }).pipe(Stream.take(5), Stream.runCollect)
      seen.push(...rest.map(({ output }) => output))
      assert.lengthOf(seen, 20)
      const events = Array.from({ length: 20 }, (_, index) => `${Math.floor(index / 4)} ${index % 4}`)
      assert.sameMembers(seen, events)
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

describe("a key with many events", () => {
  it.effect("takes turns with one that waits, also where one activation runs at a time", () => {
    const order: Array<string> = []
    const note = Tool.readOnly("note", {
      description: "Notes who had its turn.",
      parameters: { key: Schema.String },
      handler: ({ key }) => Effect.sync(() => void order.push(key))
    })
    const turns = Agent.make(
      "turns",
      { event: Schema.Int, output: Schema.Void },
      (ctx) => Effect.as(ctx.runTool(note({ key: ctx.key })), Agent.complete(undefined))
    )
    const Live = AgentEngine.layerWith({ concurrency: 1 })(turns).pipe(Layer.provideMerge(AgentStore.layerMemory))
    return Effect.gen(function*() {
      const client = yield* AgentEngine.client
      for (let event = 0; event < 5; event++) yield* client.send(turns, { key: "busy", event })
      yield* client.send(turns, { key: "waiting", event: 0 })
      yield* Effect.flatMap(AgentEngine.AgentEngine, ({ drain }) => drain)
      assert.lengthOf(order, 6)
      assert.isBelow(order.indexOf("waiting"), 3)
    }).pipe(Effect.provide(Live))
  })
})
