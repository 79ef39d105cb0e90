/**
 * How an effector delivers: leases, order, limits, failures of the store, closing down, and whom it serves.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Deferred, Effect, Exit, Fiber, Layer, Schedule, Schema, Scope } from "effect"
import { TestClock } from "effect/testing"
import { Activation, Agent, AgentEngine, AgentStore, CanonicalJson, Effector, Ledger, Tool } from "../src/index.ts"
import { stage } from "../src/testing/contract/Fixture.ts"
import { Process } from "../src/testing/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { charge, desk, sendEmail } from "./fixtures/desk.ts"

const Engine = AgentEngine.AgentEngine

/** Lets time pass, second by second. */
const pass = <E = never, R = never>(seconds: number, each: Effect.Effect<unknown, E, R> = Effect.void) =>
  Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), each), { times: seconds - 1 })

/** Lets everything happen that needs no time. */
const settle = TestClock.adjust("1 millis")

/** A process over the store of the test, in a scope of its own. */
const open = Effect.fnUntraced(function*(
  handlers: ReturnType<typeof Desk.outside>,
  options: Parameters<typeof Desk.process>[1] = {}
) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const context = yield* Layer.buildWithScope(Desk.process(handlers, options), scope)
  return { engine: Context.get(context, Engine), close: Scope.close(scope, Exit.void) }
})

const entries = AgentStore.AgentStore.use((store) => store.entries({}))

const theEntry = Effect.map(entries, ([entry]) => entry!)

const order = (cents: number) => ({ do: "request", cents }) as const

const argumentsOf = (text: string) => ({ arguments: text, argumentsDigest: CanonicalJson.digest(text) })

const answerAfter = (seconds: number, answer = "receipt"): Desk.Script => () =>
  Effect.delay(Effect.succeed(answer), `${seconds} seconds`)

const idempotentCharge = Desk.chargeWith({ idempotent: true, retry: Schedule.recurs(3) })

describe("K30 a handler slower than its lease", () => {
  const charges = [["a charge", charge], ["a charge that might be run again", idempotentCharge]] as const
  it.effect.each(charges)(
    "%s is performed once: the lease is renewed, and a second effector claims nothing",
    ([_, charge]) =>
      Effect.gen(function*() {
        const happened: Array<Desk.Happened> = []
        const handlers = Desk.outside(happened, { charge: answerAfter(25) }, charge)
        const first = yield* open(handlers, { charge, effector: { owner: "first", lease: "10 seconds" } })
        yield* open(handlers, { charge, effector: { owner: "second", lease: "10 seconds" } })
        const { offset } = yield* first.engine.send(desk, { key: "c1", event: [order(500)] })
        yield* settle
        const claims: Array<Ledger.Claim> = []
        yield* pass(24, Effect.map(theEntry, ({ claim }) => claims.push(claim!)))
        assert.lengthOf(claims, 24)
        assert.strictEqual(new Set(claims.map(({ token }) => token)).size, 1)
        assert.isAtLeast(new Set(claims.map(({ until }) => until)).size, 3, "renewed, and not claimed for longer")
        yield* pass(40)
        assert.lengthOf(happened, 1)
        assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1, late: undefined })
        assert.deepStrictEqual((yield* AgentStore.AgentStore.use((store) => store.event(offset)))?.output, ["receipt"])
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )
})

describe("K31 a stale owner", () => {
  it.effect("that was cut off while its handler ran reports late: the record stays that of the next owner", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const lines: Array<string> = []
      const handlers = (answer: string, seconds: number) =>
        Desk.outside(happened, { charge: answerAfter(seconds, answer) }, idempotentCharge)
      const store = yield* AgentStore.AgentStore
      let cutOff = true
      const away = new AgentStore.StoreError({ operation: "move", detail: "the network is away" })
      const cut = {
        ...store,
        move: <E>(id: string, move: Ledger.Move<E>) =>
          Effect.suspend(() => cutOff ? Effect.fail(away) : store.move(id, move))
      }
      const a = yield* open(handlers("of A", 60), {
        charge: idempotentCharge,
        effector: { owner: "A", lease: "10 seconds" }
      }).pipe(Effect.provideService(AgentStore.AgentStore, cut), Effect.provide(Desk.logged(lines)))
      const { offset } = yield* a.engine.send(desk, { key: "c1", event: [order(500)] })
      yield* settle
      assert.strictEqual((yield* theEntry).claim?.owner, "A")
      yield* open(handlers("of B", 1), { charge: idempotentCharge, effector: { owner: "B", lease: "10 seconds" } })
      yield* pass(20)
      const ofB = yield* theEntry
      assert.deepInclude(ofB, { state: "Performed", attempt: 2, late: undefined })
      assert.deepStrictEqual(ofB.result, { _tag: "Success", value: "of B" })
      assert.deepStrictEqual(yield* Effect.map(store.event(offset), (event) => event?.output), ["of B"])
      cutOff = false
      yield* pass(60)
      assert.deepStrictEqual(yield* theEntry, { ...ofB, late: { _tag: "Success", value: "of A" } })
      const stale = lines.filter((line) => line.includes("stale"))
      assert.deepStrictEqual(stale, [
        `Warn the claim on intent ${ofB.intent.id} ('charge' for key 'c1') is stale: it is Performed`
      ])
      assert.deepStrictEqual(happened.map(({ attempt }) => attempt), [1, 2])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("is told StaleClaim, which names the intent, with every move its token might make", () =>
    Effect.gen(function*() {
      const store = yield* AgentStore.AgentStore
      const [id] = yield* stage([{
        contract: charge.contract,
        ...argumentsOf(`{"amountCents":5,"customerId":"c1"}`),
        idempotent: true
      }])
      yield* store.claim({ id: id!, owner: "A", token: "of A", lease: 1000, retryIn: 0 })
      yield* open(Desk.outside([], {}, idempotentCharge), { charge: idempotentCharge })
      yield* pass(3)
      const before = yield* store.entry(id!)
      assert.deepInclude(before, { state: "Performed", attempt: 2 })
      const moves: ReadonlyArray<Ledger.Move<Ledger.StaleClaim>> = [
        Ledger.renew("of A", 60_000),
        Ledger.release("of A"),
        Ledger.complete("of A", Ledger.unknown("Crashed", "A does not know")),
        Ledger.complete("of A", { _tag: "Success", value: "of A" })
      ]
      for (const move of moves) {
        const refusal = yield* Effect.flip(store.move(id!, move))
        assert.instanceOf(refusal, Ledger.StaleClaim)
        assert.deepInclude(refusal, { id: id!, state: "Performed" })
      }
      assert.deepStrictEqual(yield* store.entry(id!), { ...before, late: { _tag: "Success", value: "of A" } })
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

const lookup = Tool.readOnly("lookup", {
  description: "Look something up.",
  parameters: { id: Schema.String },
  success: Schema.String,
  handler: ({ id }) => Effect.delay(Effect.succeed(id), "2 seconds")
})

/** Acts, reads, acts. */
const ordered = Agent.make(
  "ordered",
  { event: Schema.Int, output: Schema.String },
  Effect.fnUntraced(function*(ctx, amountCents) {
    yield* ctx.act(charge({ customerId: ctx.key, amountCents }))
    yield* ctx.runTool(lookup({ id: ctx.key }))
    yield* ctx.act(Desk.mail("paid"))
    return Agent.complete("asked")
  })
)

describe("K33 emitted order", () => {
  const seconds = [[0, 0], [30, 0], [0, 30], [30, 5]] as const
  it.effect.each(seconds)(
    "charge takes %i s and sendEmail %i: one has ended before the other starts, and another key does not wait",
    ([charging, mailing]) =>
      Effect.gen(function*() {
        const seen: Array<string> = []
        const timed = (name: string, seconds: (key: string) => number): Desk.Script => ({ key }) =>
          Effect.gen(function*() {
            seen.push(`${key} ${name} starts`)
            yield* Effect.sleep(`${seconds(key)} seconds`)
            seen.push(`${key} ${name} ends`)
            return "receipt"
          })
        const handlers = Desk.outside([], {
          charge: timed("charge", (key) => key === "slow" ? charging : 0),
          sendEmail: timed("sendEmail", (key) => key === "slow" ? mailing : 0)
        })
        const context = yield* Layer.build(
          AgentEngine.layer(ordered).pipe(
            Layer.provide(Effector.layer(charge, sendEmail)),
            Layer.provide(handlers)
          )
        )
        const engine = Context.get(context, Engine)
        yield* engine.send(ordered, { key: "slow", event: 500 })
        yield* engine.send(ordered, { key: "quick", event: 500 })
        yield* pass(70)
        const steps = ["charge starts", "charge ends", "sendEmail starts", "sendEmail ends"]
        for (const key of ["slow", "quick"]) {
          assert.deepStrictEqual(seen.filter((step) => step.startsWith(key)), steps.map((step) => `${key} ${step}`))
        }
        if (charging > 0) {
          assert.isBelow(seen.indexOf("quick sendEmail ends"), seen.indexOf("slow charge ends"), "another key waited")
        }
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )
})

describe("K34 concurrency is obeyed", () => {
  const limits = [
    ["an effector limited to 1", { effector: { concurrency: 1 } }, { both: 1 }],
    ["a tool limited to 1, beside another one", { charge: Desk.chargeWith({ concurrency: 1 }) }, {
      charge: 1,
      both: 6
    }],
    ["an effector limited to 3", { effector: { concurrency: 3 } }, { both: 3 }],
    ["no limit that counts", {}, { charge: 5, both: 10 }]
  ] as const
  it.effect.each(limits)(
    "%s: intents of five keys",
    ([_, options, expected]) =>
      Effect.gen(function*() {
        const happened: Array<Desk.Happened> = []
        const running = { charge: 0, sendEmail: 0 }
        const most = { charge: 0, both: 0 }
        const counted = (name: "charge" | "sendEmail"): Desk.Script => () =>
          Effect.acquireUseRelease(
            Effect.sync(() => {
              running[name]++
              most.charge = Math.max(most.charge, running.charge)
              most.both = Math.max(most.both, running.charge + running.sendEmail)
            }),
            () => Effect.as(Effect.sleep("1 second"), "receipt"),
            () => Effect.sync(() => running[name]--)
          )
        const handlers = Desk.outside(happened, { charge: counted("charge"), sendEmail: counted("sendEmail") })
        const { engine } = yield* open(handlers, options)
        yield* Effect.forEach(["1", "2", "3", "4", "5"], (key) =>
          Effect.andThen(
            engine.send(desk, { key: `pays ${key}`, event: [{ do: "act", cents: 500 }] }),
            engine.send(desk, { key: `writes ${key}`, event: [{ do: "act", mail: "hello" }] })
          ))
        yield* pass(12)
        assert.lengthOf(happened, 10)
        assert.isTrue((yield* entries).every(({ state }) => state === "Performed"))
        assert.deepInclude(most, expected)
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )
})

describe("K35 failures keep their origin", () => {
  it.effect("a handler's own ToolArgumentError that reads 'Connection timed out' is performed, and nothing runs again", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const declined: Desk.Script = () => Effect.fail(new Desk.Declined({ reason: "Connection timed out" }))
      const { engine } = yield* open(Desk.outside(happened, { charge: declined }, idempotentCharge), {
        charge: idempotentCharge
      })
      const { offset } = yield* engine.send(desk, { key: "c1", event: [order(500)] })
      yield* settle
      yield* TestClock.adjust("1 hour")
      const error = { _tag: "ToolArgumentError", reason: "Connection timed out" }
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
      assert.deepStrictEqual((yield* theEntry).result, { _tag: "Failure", error })
      assert.lengthOf(happened, 1)
      const event = yield* AgentStore.AgentStore.use((store) => store.event(offset))
      assert.deepInclude(event, { state: "Completed", failures: 0 })
      assert.deepStrictEqual(event?.output, ["declined: Connection timed out"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("only what is refused before its start is rejected", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const [id] = yield* stage([{ contract: charge.contract, ...argumentsOf(`{"amountCents":"5"}`) }])
      yield* open(Desk.outside(happened))
      yield* settle
      const entry = yield* AgentStore.AgentStore.use((store) => store.entry(id!))
      assert.deepInclude(entry, { state: "Rejected", attempt: 0, startedAt: undefined })
      assert.deepInclude(entry.result, { _tag: "NotPerformed", message: "its arguments do not fit 'charge'" })
      assert.lengthOf(happened, 0)
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("arguments that are not those that were staged", () => {
  const changed = {
    ...argumentsOf(`{"amountCents":5,"customerId":"c1"}`),
    arguments: `{"amountCents":50000,"customerId":"c1"}`
  }

  it.effect("are refused before the claim, and the handler never sees them", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const [id] = yield* stage([{ contract: charge.contract, ...changed }])
      yield* open(Desk.outside(happened))
      yield* settle
      const entry = yield* AgentStore.AgentStore.use((store) => store.entry(id!))
      assert.deepInclude(entry, { state: "Rejected", attempt: 0, startedAt: undefined })
      const message = "its arguments are not those that were staged"
      assert.deepStrictEqual(entry.result, { _tag: "NotPerformed", reason: "Rejected", message })
      assert.notInclude(entry.history.map(({ state }) => state), "Claimed")
      assert.lengthOf(happened, 0)
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("after a first start are not performed again: what that came to stays unknown", () => {
    const happened: Array<Desk.Happened> = []
    const lines: Array<string> = []
    const again = Desk.chargeWith({ idempotent: true, retry: Schedule.recurs(3), ttl: "1 minute" })
    const tampered = Desk.storeWith((store) => ({
      startable: (query) =>
        Effect.map(store.startable(query), (entries) =>
          entries.map((entry) =>
            entry.attempt === 0
              ? entry
              : { ...entry, intent: { ...entry.intent, arguments: changed.arguments } }
          ))
    }))
    return Effect.gen(function*() {
      const handlers = Desk.outside(happened, { charge: () => Effect.die(new Error("broke")) }, again)
      const { engine } = yield* Effect.provide(open(handlers, { charge: again }), Desk.logged(lines))
      yield* engine.send(desk, { key: "c1", event: [order(5)] })
      yield* pass(59)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 1, claim: undefined })
      yield* pass(2)
      assert.deepInclude(yield* theEntry, { state: "Unknown", attempt: 1 })
      assert.lengthOf(happened, 1)
      assert.lengthOf(lines, 1)
      assert.include(lines[0], "has other arguments than those that were staged")
    }).pipe(Effect.provide(tampered))
  })
})

/** A store whose moves to a result fail as long as `refuses` says so; leases are renewed, and time acts. */
const recordingFails = (refuses: (result: Ledger.Entry["result"], now: number) => boolean) =>
  Desk.storeWith((store) => ({
    move: (id, move) =>
      Effect.flatMap(
        Effect.zip(store.entry(id), Clock.currentTimeMillis),
        ([entry, now]) =>
          refuses(move(entry, now).next?.result, now)
            ? Effect.fail(new AgentStore.StoreError({ operation: "move", detail: "row too large" }))
            : store.move(id, move)
      )
  }))

describe("an end that the store does not record", () => {
  const performed = (happened: Array<Desk.Happened>) =>
    Effect.gen(function*() {
      const { engine } = yield* open(Desk.outside(happened), { effector: { lease: "10 seconds" } })
      const { offset } = yield* engine.send(desk, { key: "c1", event: [order(500)] })
      yield* pass(120)
      const { history, result, state } = yield* theEntry
      assert.deepStrictEqual([state, history.map(({ state }) => state)], ["Performed", [
        "Staged",
        "Claimed",
        "Performed"
      ]])
      assert.lengthOf(happened, 1)
      const event = yield* AgentStore.AgentStore.use((store) => store.event(offset))
      return { result, output: event?.output }
    })

  it.effect("because of its size is performed all the same, without its result, and is never told to be unknown", () =>
    Effect.gen(function*() {
      const { output, result } = yield* performed([])
      assert.deepStrictEqual(result, { _tag: "Unavailable", message: "the store did not take it: row too large" })
      assert.deepStrictEqual(output, ["unavailable"])
    }).pipe(Effect.provide(recordingFails((result) => result?._tag === "Success"))))

  it.effect("for longer than it is insisted on first has its result as soon as it does: the claim is kept meanwhile", () =>
    Effect.gen(function*() {
      const { output, result } = yield* performed([])
      assert.deepStrictEqual(result, { _tag: "Success", value: "receipt" })
      assert.deepStrictEqual(output, ["receipt"])
    }).pipe(Effect.provide(recordingFails((result, now) => result !== undefined && now < 40_000))))
})

/** The clock of the test, whose time of day can be set while sleeps go on as they were. */
const settable = Effect.map(Clock.Clock, (clock) => {
  let offset = 0
  const now = () => clock.currentTimeMillisUnsafe() + offset
  const skewed: Clock.Clock = Object.assign(Object.create(clock), {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now)
  })
  return { clock: skewed, jump: (millis: number) => Effect.sync(() => void (offset += millis)) }
})

describe("a time of day that is set while a handler runs", () => {
  const hour = 60 * 60 * 1000
  const jumps = [
    ["forth: its lease is renewed before anybody looks", hour, false, "receipt"],
    ["forth: its lease lapses, its end is unknown and then late evidence", hour, true, "unknown: Crashed"],
    ["back: its lease lasts until it ends", -hour, true, "receipt"]
  ] as const
  it.effect.each(jumps)("%s", ([_, jumped, looked, told]) =>
    Effect.gen(function*() {
      const time = yield* settable
      yield* time.jump(10 * hour)
      const happened: Array<Desk.Happened> = []
      const program = Effect.gen(function*() {
        const handlers = Desk.outside(happened, { charge: answerAfter(25) })
        const { engine } = yield* open(handlers, { effector: { lease: "10 seconds" } })
        yield* open(handlers, { effector: { lease: "10 seconds" } })
        const { offset } = yield* engine.send(desk, { key: "c1", event: [order(500)] })
        yield* pass(5)
        yield* time.jump(jumped)
        // Every change has an effector let time act.
        if (looked) yield* engine.send(desk, { key: "c2", event: [{ do: "act", mail: "hello" }] })
        yield* pass(60)
        assert.deepStrictEqual(happened.map(({ tool }) => tool), looked ? ["charge", "sendEmail"] : ["charge"])
        assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
        const event = yield* AgentStore.AgentStore.use((store) => store.event(offset))
        assert.deepStrictEqual(event?.output, [told])
      })
      yield* Effect.provideService(program, Clock.Clock, time.clock)
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("back has what was staged before wait until that time comes again, and loses nothing", () =>
    Effect.gen(function*() {
      const time = yield* settable
      yield* time.jump(10 * hour)
      const happened: Array<Desk.Happened> = []
      const program = Effect.gen(function*() {
        const { engine } = yield* open(Desk.outside(happened, { charge: answerAfter(5) }))
        yield* engine.send(desk, { key: "c1", event: [{ do: "act", cents: 1 }, { do: "act", cents: 2 }] })
        yield* pass(1)
        yield* time.jump(-hour)
        yield* pass(60)
        assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "charge Staged"])
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "charge Performed"])
        assert.lengthOf(happened, 2)
      })
      yield* Effect.provideService(program, Clock.Clock, time.clock)
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

/** Two keys, and how often claiming for one of them fails. */
const failingFor = (key: string, times: number) => {
  let left = times
  return Desk.storeWith((store) => ({
    claim: (options) =>
      Effect.flatMap(Effect.orDie(store.entry(options.id)), ({ intent }) =>
        intent.key === key && left-- > 0
          ? Effect.fail(new AgentStore.StoreError({ operation: "claim", detail: "the disk is full" }))
          : store.claim(options))
  }))
}

const down = new AgentStore.StoreError({ operation: "sweep", detail: "the store is gone" })

describe("K36 one failing worker", () => {
  const failures = [["once", 1], ["for longer than it is asked again", 25]] as const
  it.effect.each(failures)(
    "the claim for a fails %s: b is not held up, a is tried again after a delay, and performed once",
    ([_, times]) =>
      Effect.gen(function*() {
        const happened: Array<Desk.Happened> = []
        const lines: Array<string> = []
        const { engine } = yield* Effect.provide(open(Desk.outside(happened)), Desk.logged(lines))
        yield* engine.send(desk, { key: "a", event: [order(1)] })
        yield* engine.send(desk, { key: "b", event: [order(2)] })
        yield* settle
        assert.deepStrictEqual(happened.map(({ key }) => key), ["b"], "a is tried again after a delay")
        yield* pass(120)
        assert.deepStrictEqual(happened.map(({ key }) => key), ["b", "a"])
        assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "charge Performed"])
        assert.isAbove(lines.length, 0)
        for (const line of lines) assert.match(line, /key 'a'.*the disk is full/)
      }).pipe(Effect.provide(failingFor("a", times)))
  )

  it.effect("a store that stays down: Effector.run fails with what is wrong", () =>
    Effect.gen(function*() {
      const run = Effector.run({})(charge, sendEmail).pipe(Effect.provide(Desk.outside([])))
      const fiber = yield* Effect.forkChild(run, { startImmediately: true })
      yield* pass(20)
      assert.isUndefined(fiber.pollUnsafe(), "it is asked again for a while")
      yield* pass(20)
      assert.deepStrictEqual(fiber.pollUnsafe(), Exit.fail(down))
    }).pipe(Effect.provide(Desk.storeWith(() => ({ sweep: Effect.fail(down) })))))

  it.effect("a store that stays down: who built the layer is interrupted, and the log says why", () =>
    Effect.gen(function*() {
      const lines: Array<string> = []
      const layer = Effector.layer(charge, sendEmail).pipe(Layer.provide(Desk.outside([])))
      const fiber = yield* Effect.forkChild(Layer.launch(layer).pipe(Effect.provide(Desk.logged(lines))), {
        startImmediately: true
      })
      yield* pass(20)
      assert.isUndefined(fiber.pollUnsafe(), "it is asked again for a while")
      yield* pass(20)
      const exit = fiber.pollUnsafe()
      assert.isTrue(exit !== undefined && Exit.hasInterrupts(exit), "not alive and idle")
      assert.match(lines.join("\n"), /Fatal effector stopped.*the store is gone/)
    }).pipe(Effect.provide(Desk.storeWith(() => ({ sweep: Effect.fail(down) })))))
})

describe("K37 times that mean what they say", () => {
  it.effect("a charge of 3 s ended 3 s after it started, and started when it did", () =>
    Effect.gen(function*() {
      yield* pass(10)
      const { engine } = yield* open(Desk.outside([], { charge: answerAfter(3) }), { effector: { concurrency: 1 } })
      yield* engine.send(desk, { key: "c1", event: [order(1)] })
      yield* TestClock.adjust("0 millis")
      yield* engine.send(desk, { key: "c2", event: [order(2)] })
      yield* pass(10)
      const times = (yield* entries).map(({ endedAt, intent, startedAt }) => [intent.createdAt, startedAt, endedAt])
      assert.deepStrictEqual(times, [[10_000, 10_000, 13_000], [10_000, 13_000, 16_000]])
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

/** A process that waits at a step of its effector until it is let go on. */
const heldAt = Effect.fnUntraced(function*(step: string, handlers: ReturnType<typeof Desk.outside>) {
  const gate = yield* Deferred.make<void>()
  const process = yield* Effect.provideService(
    open(handlers),
    Activation.Checkpoint,
    (at: string) => at === step ? Deferred.await(gate) : Effect.void
  )
  return { ...process, goOn: Deferred.succeed(gate, undefined) }
})

describe("K43 interrupted before it started", () => {
  const places = [["effector:claim", "Staged"], ["effector:execute", "Claimed"]] as const
  it.effect.each(places)(
    "an effector that closes at %s (%s) gives the intent back unused, and the next one performs it",
    ([step, state]) =>
      Effect.gen(function*() {
        const happened: Array<Desk.Happened> = []
        const first = yield* heldAt(step, Desk.outside(happened))
        yield* first.engine.send(desk, { key: "c1", event: [order(500)] })
        yield* settle
        assert.strictEqual((yield* theEntry).state, state)
        const closing = yield* Effect.forkChild(first.close, { startImmediately: true })
        yield* first.goOn
        yield* pass(1)
        assert.isTrue(closing.pollUnsafe() !== undefined, "closed")
        const { history, ...entry } = yield* theEntry
        assert.deepInclude(entry, { state: "Staged", attempt: 0, claim: undefined, startedAt: undefined })
        assert.strictEqual(
          history.some(({ state }) => state === "Claimed"),
          state === "Claimed",
          "it claims nothing more"
        )
        assert.lengthOf(happened, 0)
        yield* open(Desk.outside(happened))
        yield* pass(1)
        assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
        assert.lengthOf(happened, 1)
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )
})

describe("K85 closing down in the middle of work", () => {
  it.effect("a handler has its grace time; what started ends performed or unknown, the rest stays staged", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const ends: Array<string> = []
      const script: Desk.Script = ({ key }) =>
        Effect.sleep(key === "short" ? "5 seconds" : "1 hour").pipe(
          Effect.as("receipt"),
          Effect.onExit((exit) => Effect.sync(() => ends.push(`${key} ${exit._tag}`)))
        )
      const resource = Layer.effectDiscard(
        Effect.acquireRelease(Effect.void, () => Effect.sync(() => ends.push("resource closed")))
      )
      const handlers = Layer.provideMerge(Desk.outside(happened, { charge: script }), resource)
      const { close, engine } = yield* open(handlers, { effector: { concurrency: 2, grace: "10 seconds" } })
      yield* engine.send(desk, { key: "short", event: [{ do: "act", cents: 1 }, { do: "act", mail: "paid" }] })
      yield* engine.send(desk, { key: "long", event: [{ do: "act", cents: 2 }] })
      yield* settle
      yield* engine.send(desk, { key: "waiting", event: [{ do: "act", cents: 3 }] })
      yield* settle
      const closing = yield* Effect.forkChild(close, { startImmediately: true })
      yield* pass(9)
      assert.deepStrictEqual(ends, ["short Success"])
      assert.isUndefined(closing.pollUnsafe())
      yield* pass(3)
      assert.isTrue(closing.pollUnsafe() !== undefined, "closed")
      assert.deepStrictEqual(ends, ["short Success", "long Failure", "resource closed"])
      yield* TestClock.adjust("10 minutes")
      const found = (yield* entries).map(({ attempt, intent, state }) =>
        `${intent.key} ${intent.tool} ${state} ${attempt}`
      )
      assert.deepStrictEqual(found, [
        "short charge Performed 1",
        "short sendEmail Staged 0",
        "long charge Unknown 1",
        "waiting charge Staged 0"
      ])
      assert.deepInclude((yield* entries)[2]!.result, { _tag: "OutcomeUnknown", reason: "Crashed" })
      assert.deepStrictEqual(happened.map(({ key }) => key), ["short", "long"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

/** The engine of a process that has no handler for `charge`. */
const agentsAlone = Effect.map(
  Layer.build(AgentEngine.layer(desk).pipe(Layer.provide(Effector.elsewhere(charge, sendEmail)))),
  Context.get(Engine)
)

describe("Effector.elsewhere", () => {
  it.effect("agents without handlers and an effector without agents work over one store", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const engine = yield* agentsAlone
      const call = yield* Effect.forkChild(
        engine.call(desk, { key: "c1", event: [order(500), { do: "request", mail: "paid" }] }),
        { startImmediately: true }
      )
      yield* pass(10)
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged"])
      const effector = Effector.run({})(charge, sendEmail).pipe(Effect.provide(Desk.outside(happened)))
      yield* Effect.forkChild(effector, { startImmediately: true })
      yield* pass(3)
      assert.deepStrictEqual(yield* Fiber.join(call), ["receipt", "receipt"])
      assert.deepStrictEqual(happened.map(({ tool }) => tool), ["charge", "sendEmail"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

const chargeHandler = (happened: Array<Desk.Happened>) =>
  Effector.layer(charge).pipe(Layer.provide(Desk.outside(happened)))

describe("K93 a tool nobody serves", () => {
  it.effect("is neither claimed nor rejected, is listed, and is performed by an effector that serves it", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const first = AgentEngine.layer(desk).pipe(
        Layer.provide([
          Effector.layer(sendEmail).pipe(Layer.provide(Desk.outside(happened))),
          Effector.elsewhere(charge)
        ])
      )
      const engine = Context.get(yield* Layer.build(first), Engine)
      yield* engine.send(desk, { key: "c1", event: [order(500)] })
      yield* engine.send(desk, { key: "c2", event: [{ do: "request", mail: "hello" }] })
      yield* settle
      yield* TestClock.adjust("10 hours")
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged", "sendEmail Performed"])
      const staged = yield* theEntry
      assert.deepInclude(staged, { attempt: 0, claim: undefined, mismatch: undefined })
      assert.lengthOf(staged.history, 1)
      assert.deepStrictEqual(yield* engine.unserved, [
        { entry: staged, contracts: { staged: charge.contract, served: undefined } }
      ])
      yield* Layer.build(chargeHandler(happened))
      yield* settle
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "sendEmail Performed"])
      assert.deepStrictEqual(happened.map(({ tool }) => tool), ["sendEmail", "charge"])
      assert.deepStrictEqual(yield* engine.unserved, [])
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

const otherCharge = Tool.sideEffect("charge", {
  description: "Charge an account.",
  parameters: { accountNo: Schema.String },
  success: Schema.String
})

const otherHandler = (happened: Array<unknown>) =>
  otherCharge.toLayer((input) => Effect.sync(() => `receipt ${happened.push(input)}`))

const bothContracts = [charge.contract, otherCharge.contract]

describe("K94 same name, other contract", () => {
  it.effect("stays staged and is listed with both contracts, until somebody serves the right one", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const others: Array<unknown> = []
      const lines: Array<string> = []
      const engine = yield* agentsAlone
      const other = yield* Scope.make()
      yield* Layer.buildWithScope(Effector.layer(otherCharge).pipe(Layer.provide(otherHandler(others))), other).pipe(
        Effect.provide(Desk.logged(lines))
      )
      const { offset } = yield* engine.send(desk, { key: "c1", event: [order(500)] })
      yield* settle
      yield* TestClock.adjust("10 hours")
      const staged = yield* theEntry
      assert.deepInclude(staged, { state: "Staged", attempt: 0, claim: undefined })
      assert.deepStrictEqual(yield* engine.unserved, [
        { entry: staged, contracts: { staged: charge.contract, served: otherCharge.contract } }
      ])
      assert.lengthOf(lines, 1, "told once, not at every poll")
      for (const part of [staged.intent.id, "'c1'", ...bothContracts]) assert.include(lines[0], part)
      assert.lengthOf(others, 0)
      yield* Scope.close(other, Exit.void)
      yield* Layer.build(chargeHandler(happened))
      yield* settle
      assert.lengthOf(happened, 1)
      assert.deepStrictEqual((yield* AgentStore.AgentStore.use((store) => store.event(offset)))?.output, ["receipt"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("is looked at again by every process that serves the name, and each of them says so once", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const lines: Array<string> = []
      const engine = yield* agentsAlone
      yield* engine.send(desk, { key: "c1", event: [order(500)] })
      const other = Effector.layer(otherCharge).pipe(Layer.provide(otherHandler([])))
      const process = yield* Effect.provide(Process.start(other), Desk.logged(lines))
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(lines, 1)
      const mismatched = yield* theEntry
      const next = yield* process.restart()
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(lines, 2)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 0, history: mismatched.history })
      yield* next.kill
      yield* Process.start(chargeHandler(happened))
      yield* settle
      assert.lengthOf(happened, 1)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  const layers = {
    "two contracts in one layer": Effector.layer(charge, otherCharge).pipe(
      Layer.provide(Layer.merge(otherHandler([]), Desk.outside([])))
    ),
    "two layers over one store": Layer.merge(
      Effector.layer(charge).pipe(Layer.provide(Desk.outside([]))),
      Effector.layer(otherCharge).pipe(Layer.provide(otherHandler([])))
    ),
    "two contracts elsewhere": Effector.elsewhere(charge, otherCharge)
  }
  it.effect.each(Object.entries<Layer.Layer<any, never, AgentStore.AgentStore>>(layers))(
    "%s: refused when it is built",
    ([_, layer]) =>
      Effect.gen(function*() {
        const defect = yield* Effect.flip(Effect.catchDefect(Layer.build(layer), Effect.fail))
        assert.instanceOf(defect, Effector.ContractMismatch)
        assert.strictEqual(defect.tool, "charge")
        assert.sameMembers([...defect.contracts], bothContracts)
      }).pipe(Effect.provide(AgentStore.layerMemory))
  )

  it.effect("an agent that stages another contract than the one served is refused where it stages", () =>
    Effect.gen(function*() {
      const others: Array<unknown> = []
      const layer = AgentEngine.layer(desk).pipe(
        Layer.provide(Effector.layer(otherCharge, sendEmail)),
        Layer.provide(Layer.merge(Desk.outside([]), otherHandler(others)))
      )
      const engine = Context.get(yield* Layer.build(layer), Engine)
      const failed = yield* Effect.flip(engine.call(desk, { key: "c1", event: [order(500)] }))
      assert.instanceOf(failed, AgentEngine.EventFailed)
      assert.strictEqual(failed.reason.tag, "ContractMismatch")
      for (const part of ["'charge'", ...bothContracts]) assert.include(failed.message, part)
      assert.deepStrictEqual(yield* entries, [])
      assert.lengthOf(others, 0)
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("K95 one scope, one start", () => {
  it.effect("each use beyond the one start fails with SideEffectToolError, and nothing more happens", () =>
    Effect.gen(function*() {
      const happened: Array<Desk.Happened> = []
      const refusals: Array<unknown> = []
      let kept = Context.empty()
      // What does not compile, as a cast lets it through.
      const again = charge({ customerId: "again", amountCents: 1 }) as unknown as Effect.Effect<unknown, unknown>
      const other = Desk.mail("inside") as unknown as Effect.Effect<unknown, unknown>
      const use = (call: Effect.Effect<unknown, unknown>) =>
        Effect.map(Effect.orDie(Effect.flip(call)), (error) => refusals.push(error))
      const script: Desk.Script = () =>
        Effect.gen(function*() {
          kept = yield* Effect.context<never>()
          yield* use(again)
          yield* use(other)
          yield* use(Effect.provideContext(again, kept))
          yield* Fiber.join(yield* Effect.forkChild(use(again)))
          return "receipt"
        })
      const { engine } = yield* open(Desk.outside(happened, { charge: script }))
      yield* engine.send(desk, { key: "c1", event: [order(500)] })
      yield* engine.drain
      yield* use(Effect.provideContext(again, kept))
      yield* use(again)
      assert.lengthOf(refusals, 6)
      for (const refusal of refusals) assert.instanceOf(refusal, Tool.SideEffectToolError)
      assert.deepStrictEqual(happened.map(({ key, tool }) => `${tool} ${key}`), ["charge c1"])
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("a start that is run twice starts once", () =>
    Effect.gen(function*() {
      const happened: Array<string> = []
      const handler = charge.toLayer(({ customerId }) => Effect.sync(() => `receipt ${happened.push(customerId)}`))
      const start = yield* Effect.provide(Tool.unwrap(charge), handler).pipe(
        Effect.map(({ start }) => start({ customerId: "c1", amountCents: 1 }))
      )
      assert.strictEqual(yield* start, "receipt 1")
      assert.instanceOf(yield* Effect.flip(start), Tool.SideEffectToolError)
      assert.deepStrictEqual(happened, ["c1"])
    }))
})
