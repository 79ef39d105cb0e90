/**
 * Ends that nobody knows: timeouts, defects, crashes; what is performed again, what `verify` says, and what is settled later.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Schedule, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { AgentEngine, AgentStore, type Intent, type Ledger, type Tool } from "../src/index.ts"
import { Crash, Process } from "../src/testing/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { chargeWith, desk } from "./fixtures/desk.ts"

const engine = AgentEngine.AgentEngine

const order = (cents: number) => ({ do: "request", cents }) as const

const send = (...orders: ReadonlyArray<typeof Desk.Order.Type>) =>
  Effect.flatMap(AgentEngine.client, (client) => client.send(desk, { key: "c1", event: orders }))

/** Lets time pass, second by second, so that everything due in between happens when it is due. */
const pass = (seconds: number) => Effect.repeat(TestClock.adjust("1 second"), { times: seconds - 1 })

const entryOf = (tool: string) =>
  Effect.map(
    Effect.flatMap(AgentStore.AgentStore, (store) => store.entries({})),
    (entries) => entries.find(({ intent }) => intent.tool === tool)!
  )

const outputs = Effect.map(
  Effect.flatMap(AgentStore.AgentStore, (store) => store.outputs({ agent: "desk", after: 0, limit: 10 })),
  (outputs) => outputs.flatMap(({ output }) => output)
)

const success = (value: string): Intent.Result => ({ _tag: "Success", value })

describe("K38 a timeout with a stubborn handler", () => {
  const stubborn = (took: Array<number>): Desk.Script => ({ attempt }) =>
    Effect.uninterruptible(Effect.delay(Effect.sync(() => `receipt ${took.push(attempt)}`), "200 millis"))

  it.effect("is unknown when the time is over, is not run again, and its late end is kept beside the record", () => {
    const took: Array<number> = []
    const timed = chargeWith({ timeout: "50 millis" })
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* TestClock.adjust("50 millis")
      const unknown = yield* entryOf("charge")
      assert.deepInclude(unknown, { state: "Unknown", attempt: 1, late: undefined })
      assert.deepInclude(unknown.result, { _tag: "OutcomeUnknown", reason: "TimedOut" })
      assert.deepStrictEqual(yield* outputs, ["unknown: TimedOut"])
      assert.deepStrictEqual(took, [])

      yield* TestClock.adjust("150 millis")
      assert.deepStrictEqual(took, [1])
      const settled = yield* entryOf("charge")
      assert.deepInclude(settled, { state: "Performed", attempt: 1, late: success("receipt 1") })
      assert.strictEqual(settled.resolution?.by, "late evidence")
      assert.deepStrictEqual(settled.answer, unknown.answer, "what the agent was told stays")
      const { resolutions } = yield* engine
      const told = yield* resolutions().pipe(Stream.take(1), Stream.runCollect)
      assert.deepInclude(told[0], { id: settled.intent.id, at: 200, result: success("receipt 1") })

      yield* TestClock.adjust("25 hours")
      assert.deepStrictEqual(took, [1])
      assert.deepStrictEqual(yield* outputs, ["unknown: TimedOut"])
    }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: stubborn(took) }, timed), { charge: timed })))
  })

  it.effect("is told at once: nobody asks a verify while the handler may still take effect", () => {
    const took: Array<number> = []
    let asked = 0
    const timed = chargeWith({ timeout: "50 millis", verify: true })
    const verify = () =>
      Effect.sync(() => {
        asked++
        return { _tag: "NotPerformed" } as const
      })
    const handlers = Desk.outside([], { charge: stubborn(took) }, timed, verify)
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* outputs, ["unknown: TimedOut"])
      assert.deepStrictEqual(took, [1])
      assert.strictEqual(asked, 0)
      assert.deepInclude(yield* entryOf("charge"), { state: "Performed", result: success("receipt 1") })
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: timed })))
  })

  it.effect("keeps its place until it has ended: the limit of its tool is kept, other tools go on", () => {
    const running: Array<string> = []
    let most = 0
    const timed = chargeWith({ timeout: "50 millis", concurrency: 1 })
    const script: Desk.Script = ({ key }) =>
      Effect.uninterruptible(Effect.acquireUseRelease(
        Effect.sync(() => {
          running.push(key)
          most = Math.max(most, running.length)
        }),
        () => Effect.as(Effect.sleep("10 seconds"), "receipt"),
        () => Effect.sync(() => running.pop())
      ))
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      for (const key of ["a", "b"]) yield* send(desk, { key, event: [{ do: "act", cents: 1 }] })
      yield* send(desk, { key: "c", event: [{ do: "act", mail: "hello" }] })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* Desk.states, ["charge Unknown", "charge Staged", "sendEmail Performed"])
      yield* pass(30)
      yield* drain
      assert.strictEqual(most, 1)
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "charge Performed", "sendEmail Performed"])
    }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: script }, timed), { charge: timed })))
  })
})

describe("K39 a handler that dies after the effect", () => {
  const deaths = [
    ["an error without a message", () => Effect.die(new Error("")), ""],
    ["an error", () => Effect.die(new TypeError("no such column")), "no such column"],
    ["an exception", () =>
      Effect.sync((): string => {
        throw new Error("thrown")
      }), "thrown"],
    ["a text", () => Effect.die("out of paper"), "out of paper"],
    ["nothing at all", () => Effect.die(undefined), ""]
  ] as const
  it.effect.each(deaths)("of %s is unknown, and what is recorded names tool, key and id", ([_, die, text]) => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* pass(3)
      const entry = yield* entryOf("charge")
      assert.strictEqual(entry.state, "Unknown")
      assert.deepStrictEqual(yield* outputs, ["unknown: Defect"])
      const { message } = entry.result as Extract<Intent.Result, { _tag: "OutcomeUnknown" }>
      for (const part of ["'charge'", "'c1'", entry.intent.id, text]) assert.include(message, part)
      yield* TestClock.adjust("25 hours")
      assert.lengthOf(happened, 1)
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: die }))))
  })
})

describe("K40 idempotent tools may go again", () => {
  const dies = (times: number): Desk.Script => ({ attempt }) =>
    attempt <= times ? Effect.die(new Error("the connection broke")) : Effect.succeed(`receipt ${attempt}`)
  const twice = Schedule.max([Schedule.spaced("10 seconds"), Schedule.recurs(2)])

  it.effect("unknown twice, it runs a third time with the same key; between two runs it holds the order of its key", () => {
    const happened: Array<Desk.Happened> = []
    const again = chargeWith({ idempotent: true, retry: twice })
    return Effect.gen(function*() {
      const { drain, send } = yield* engine
      yield* send(desk, { key: "c1", event: [{ do: "act", cents: 5 }, { do: "act", mail: "paid" }] })
      yield* drain
      assert.lengthOf(happened, 1)
      assert.deepInclude(yield* entryOf("charge"), { state: "Staged", attempt: 1 })
      yield* pass(9)
      assert.lengthOf(happened, 1, "the schedule says ten seconds")
      yield* pass(1)
      assert.lengthOf(happened, 2)
      yield* pass(10)
      const { id } = happened[0]!
      assert.deepStrictEqual(happened.map(({ attempt, id, tool }) => [tool, attempt, id]), [
        ["charge", 1, id],
        ["charge", 2, id],
        ["charge", 3, id],
        ["sendEmail", 1, happened[3]!.id]
      ])
      assert.deepInclude(yield* entryOf("charge"), { state: "Performed", attempt: 3, result: success("receipt 3") })
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: dies(2) }, again), { charge: again })))
  })

  it.effect("when its schedule is over the end is unknown, and the agent is told", () => {
    const happened: Array<Desk.Happened> = []
    const again = chargeWith({ idempotent: true, retry: twice })
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* pass(60)
      assert.lengthOf(happened, 3)
      assert.deepInclude(yield* entryOf("charge"), { state: "Unknown", attempt: 3 })
      assert.deepStrictEqual(yield* outputs, ["unknown: Defect"])
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: dies(9) }, again), { charge: again })))
  })

  it.effect("without the declaration the same script stays unknown after one run", () => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* pass(60)
      assert.lengthOf(happened, 1)
      assert.deepInclude(yield* entryOf("charge"), { state: "Unknown", attempt: 1 })
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: dies(2) }))))
  })

  it.effect("processes that die with it use the same schedule up: it does not kill one after the other for ever", () => {
    const happened: Array<Desk.Happened> = []
    const again = chargeWith({ idempotent: true, retry: Schedule.recurs(2) })
    const layer = Desk.process(Desk.outside(happened, {}, again), { charge: again })
    return Effect.gen(function*() {
      yield* send(order(5))
      const crash = Crash.at("effector:complete")
      let process = yield* Process.start(layer, { crash })
      for (let died = 0; died < 3; died++) {
        yield* process.crashed
        process = yield* process.restart({ crash })
        yield* pass(31)
      }
      assert.isTrue(yield* process.isAlive)
      assert.deepStrictEqual(happened.map(({ attempt }) => attempt), [1, 2, 3])
      assert.deepInclude(yield* entryOf("charge"), { state: "Unknown", attempt: 3 })
      assert.deepStrictEqual(yield* outputs, ["unknown: Crashed"])
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })

  it.effect("one that nobody performs again ends as unknown, not as expired: waiting always ends", () => {
    const again = chargeWith({ idempotent: true, retry: Schedule.recurs(9), ttl: "1 minute" })
    return Effect.gen(function*() {
      yield* send(order(5))
      const layer = Desk.process(Desk.outside([], { charge: dies(1) }, again), { charge: again })
      const first = yield* Process.start(layer, { crash: Crash.at("effector:complete") })
      yield* first.crashed
      yield* Layer.build(agentsAlone)
      yield* pass(29)
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed"])
      yield* pass(1)
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged"])
      yield* pass(60)
      assert.deepStrictEqual(yield* Desk.states, ["charge Unknown"])
      assert.deepStrictEqual(yield* outputs, ["unknown: Crashed"])
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

describe("K42 interruption reaches the handler", () => {
  const slowly = (seen: Array<string>): Desk.Script => () =>
    Effect.never.pipe(
      Effect.onInterrupt(() => Effect.delay(Effect.sync(() => void seen.push("finalized")), "2 seconds"))
    )

  it.effect("at its timeout: the finalizer runs, and the record is written only after it", () => {
    const seen: Array<string> = []
    const timed = chargeWith({ timeout: "40 seconds" })
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* pass(41)
      assert.deepStrictEqual(seen, [])
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed"], "its lease is renewed while it tidies up")
      yield* pass(1)
      assert.deepStrictEqual(seen, ["finalized"])
      assert.deepInclude((yield* entryOf("charge")).result, { _tag: "OutcomeUnknown", reason: "TimedOut" })
      assert.deepStrictEqual(yield* outputs, ["unknown: TimedOut"])
    }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: slowly(seen) }, timed), { charge: timed })))
  })

  it.effect("when the effector is shut down and its grace time is over", () => {
    const seen: Array<string> = []
    return Effect.gen(function*() {
      const scope = yield* Scope.make()
      const layer = Desk.process(Desk.outside([], { charge: slowly(seen) }), { effector: { grace: "10 seconds" } })
      yield* Layer.buildWithScope(layer, scope)
      yield* send(order(5))
      yield* TestClock.adjust("1 second")
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* pass(11)
      assert.deepStrictEqual(seen, [])
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed"])
      yield* pass(1)
      assert.deepStrictEqual(seen, ["finalized"])
      assert.deepInclude((yield* entryOf("charge")).result, { _tag: "OutcomeUnknown", reason: "Crashed" })
      assert.isDefined(closing.pollUnsafe())
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

const agentsAlone = AgentEngine.layer(desk).pipe(Layer.provide(Desk.elsewhere))

describe("verify", () => {
  const verifiable = chargeWith({ verify: true })
  type Verdict = Tool.Verdict<string, Desk.Declined>

  const verdicts: ReadonlyArray<readonly [string, () => Effect.Effect<Verdict>, string, Ledger.State]> = [
    ["it happened", () => Effect.succeed({ _tag: "Performed", value: "found" }), "found", "Performed"],
    [
      "it failed",
      () => Effect.succeed({ _tag: "Failed", error: new Desk.Declined({ reason: "funds" }) }),
      "declined: funds",
      "Performed"
    ],
    ["it did not happen", () => Effect.succeed({ _tag: "NotPerformed" }), "not performed: Rejected", "Rejected"],
    ["nothing", () => Effect.succeed({ _tag: "Unknown" }), "unknown: Crashed", "Unknown"],
    ["nothing, because it died", () => Effect.die(new Error("no connection")), "unknown: Crashed", "Unknown"],
    [
      "nothing, because it threw",
      () => {
        throw new Error("no connection")
      },
      "unknown: Crashed",
      "Unknown"
    ],
    ["nothing in time", () => Effect.never, "unknown: Crashed", "Unknown"]
  ]

  it.effect.each(verdicts)(
    "after a crash another effector asks it, once, and the agent is told what it says: %s",
    ([_, verdict, told, state]) => {
      const happened: Array<Desk.Happened> = []
      let asked = 0
      const verify = () => {
        asked++
        return verdict()
      }
      const layer = Desk.process(Desk.outside(happened, {}, verifiable, verify), { charge: verifiable })
      return Effect.gen(function*() {
        yield* send(order(5))
        const first = yield* Process.start(layer, { crash: Crash.at("effector:complete") })
        yield* first.crashed
        yield* first.restart()
        yield* pass(29)
        assert.deepStrictEqual(yield* Desk.states, ["charge Claimed"])
        assert.strictEqual(asked, 0)
        yield* pass(400)
        assert.deepStrictEqual(yield* Desk.states, [`charge ${state}`])
        assert.deepStrictEqual(yield* outputs, [told])
        assert.strictEqual(asked, 1)
        assert.lengthOf(happened, 1)
        const { resolutions } = yield* AgentStore.AgentStore
        assert.deepStrictEqual(yield* resolutions({ after: 0, limit: 10 }), [], "nobody was told anything else before")
      }).pipe(Effect.provide(AgentStore.layerMemory))
    }
  )

  it.effect.each(verdicts)(
    "after a timeout it is asked once the handler has stopped, and the agent is told what it says: %s",
    ([_, verdict, told, state]) => {
      const seen: Array<string> = []
      const timed = chargeWith({ timeout: "50 millis", verify: true })
      const script: Desk.Script = () =>
        Effect.onInterrupt(Effect.never, () => Effect.delay(Effect.sync(() => seen.push("stopped")), "2 seconds"))
      const verify = () => {
        seen.push("asked")
        return verdict()
      }
      return Effect.gen(function*() {
        yield* send(order(5))
        yield* pass(400)
        assert.deepStrictEqual(seen, ["stopped", "asked"])
        assert.deepStrictEqual(yield* Desk.states, [`charge ${state}`])
        assert.deepStrictEqual(yield* outputs, [told.replace("Crashed", "TimedOut")])
      }).pipe(Effect.provide(Desk.shop(Desk.outside([], { charge: script }, timed, verify), { charge: timed })))
    }
  )

  it.effect("that nobody serves any more is not waited for longer than a start would be", () =>
    Effect.gen(function*() {
      const timed = chargeWith({ verify: true, ttl: "1 minute" })
      const layer = Desk.process(Desk.outside([], {}, timed, () => Effect.never), { charge: timed })
      yield* send(order(5))
      const first = yield* Process.start(layer, { crash: Crash.at("effector:complete") })
      yield* first.crashed
      yield* Layer.build(agentsAlone)
      yield* pass(89)
      assert.deepStrictEqual(yield* outputs, [])
      yield* pass(1)
      assert.deepStrictEqual(yield* outputs, ["unknown: Crashed"])
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("that an effector was asking when it closed is asked again by the next one", () => {
    let asked = 0
    const verify = () =>
      Effect.suspend(() =>
        ++asked === 1 ? Effect.never : Effect.succeed({ _tag: "Performed", value: "found" } as const)
      )
    const script: Desk.Script = () => Effect.die(new Error("broke"))
    const layer = Desk.process(Desk.outside([], { charge: script }, verifiable, verify), { charge: verifiable })
    return Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(layer, scope)
      yield* send(order(5))
      yield* pass(60)
      assert.strictEqual(asked, 1, "its claim is renewed while it asks")
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* pass(11)
      yield* Fiber.join(closing)
      assert.deepInclude(yield* entryOf("charge"), { state: "Unknown", claim: undefined, answer: undefined })
      yield* Layer.build(Layer.fresh(layer))
      yield* pass(1)
      assert.deepStrictEqual(yield* outputs, ["found"])
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

describe("an unknown end that is settled", () => {
  const settlements: ReadonlyArray<readonly [Ledger.Settlement, Ledger.State, number]> = [
    [{ to: "Performed", result: { _tag: "Success", value: "seen" } }, "Performed", 1],
    [{ to: "NotPerformed", note: "not at the bank" }, "Rejected", 1],
    [{ to: "Again" }, "Performed", 2]
  ]
  it.effect.each(settlements)(
    "by an operator, to %o: the agent's answer stays, and whoever follows is told",
    ([to, state, n]) => {
      const happened: Array<Desk.Happened> = []
      const script: Desk.Script = ({ attempt }) =>
        attempt === 1 ? Effect.die(new Error("broke")) : Effect.succeed("again")
      return Effect.gen(function*() {
        const { drain, resolutions, resolve } = yield* engine
        yield* send(order(5))
        yield* drain
        const before = yield* entryOf("charge")
        const rows = n === 1 ? 1 : 2
        const following = yield* Effect.forkChild(resolutions().pipe(Stream.take(rows), Stream.runCollect), {
          startImmediately: true
        })
        yield* TestClock.adjust("1 hour")
        yield* resolve(before.intent.id, "dana", to)
        yield* drain
        const entry = yield* entryOf("charge")
        assert.deepInclude(entry, { state, answer: before.answer })
        assert.deepStrictEqual(entry.resolution, { by: "dana", at: 3_600_000 })
        assert.lengthOf(happened, n)
        assert.deepStrictEqual(yield* outputs, ["unknown: Defect"])
        const seen = yield* Fiber.join(following)
        for (const row of seen) assert.deepInclude(row, { by: "dana", id: before.intent.id })
        assert.deepStrictEqual(seen.at(-1)?.result, entry.result)
        const twice = yield* Effect.flip(resolve(before.intent.id, "tom", to))
        assert.deepInclude(twice, { _tag: "LedgerRefusal", state })
      }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: script }))))
    }
  )
})

describe("a result that cannot be handed over", () => {
  const results = [
    ["too large", () => Effect.succeed("x".repeat(2000)), /2002 bytes, the limit is 1000/],
    ["no text", () => Effect.succeed(7 as unknown as string), /success schema/],
    ["a failure of no known kind", () => Effect.fail(new Error("?") as unknown as Desk.Declined), /failure schema/]
  ] as const
  it.effect.each(results)("is performed and never run again: %s", ([_, script, message]) => {
    const happened: Array<Desk.Happened> = []
    return Effect.gen(function*() {
      yield* send(order(5))
      yield* TestClock.adjust("25 hours")
      const { result, state } = yield* entryOf("charge")
      assert.strictEqual(state, "Performed")
      assert.match(result?._tag === "Unavailable" ? result.message : "", message)
      assert.deepStrictEqual(yield* outputs, ["unavailable"])
      assert.lengthOf(happened, 1)
    }).pipe(Effect.provide(Desk.shop(Desk.outside(happened, { charge: script }), { effector: { maxBytes: 1000 } })))
  })
})
