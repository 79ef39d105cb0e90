import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Option, Random, Result, Schema } from "effect"
import { TestClock } from "effect/testing"
import { type Activation, Agent, Memory } from "../src/index.ts"
import {
  aCharge,
  agent,
  anEmail,
  CardDeclined,
  type Ctx,
  reasonOf,
  resume,
  run,
  runToEnd,
  success,
  world
} from "./fixtures/activations.ts"

const outputOf = (activated: Activation.Activated | undefined) =>
  activated?.outcome._tag === "Complete" ? activated.outcome.output : activated?.outcome._tag

const waitingOf = ({ outcome }: Activation.Activated) =>
  outcome._tag === "Suspended" ? outcome.continuation.waiting.map(({ step }) => step) : []

describe("K86 suspension is not an error:", () => {
  const { answers, later, lookup } = world()
  answers.set("never", Effect.never)
  later("slow", 5000)
  const never = (ctx: Ctx) => Effect.orDie(ctx.runTool(lookup({ id: "never" })))

  // What wraps the request writes down what it sees of it, and gives what it makes of the result.
  const wrappers: ReadonlyArray<
    readonly [
      name: string,
      wrap: (
        request: Effect.Effect<string, unknown, any>,
        seen: Array<string>,
        ctx: Ctx
      ) => Effect.Effect<unknown, unknown, any>,
      result: unknown,
      seenBefore?: ReadonlyArray<string>,
      seenAfter?: ReadonlyArray<string>
    ]
  > = [
    ["catchCause", (request, seen) => Effect.catchCause(request, () => Effect.sync(() => seen.push("cause"))), "done"],
    [
      "exit",
      (request, seen) =>
        Effect.map(Effect.exit(request), (exit) => {
          seen.push(exit._tag)
          return exit._tag
        }),
      "Success",
      [],
      ["Success"]
    ],
    ["ensuring", (request, seen) => Effect.ensuring(request, Effect.sync(() => seen.push("finalizer"))), "done", [
      "finalizer"
    ], ["finalizer"]],
    ["onExit", (request, seen) => Effect.onExit(request, (exit) => Effect.sync(() => seen.push(exit._tag))), "done", [
      "Failure"
    ], ["Success"]],
    ["race", (request, _, ctx) => Effect.race(request, never(ctx)), "done"],
    ["race, the other way round", (request, _, ctx) => Effect.race(never(ctx), request), "done"],
    ["raceFirst", (request, _, ctx) => Effect.raceFirst(request, never(ctx)), "done"],
    [
      "retry",
      (request, seen) =>
        Effect.retry(Effect.tapError(request, () => Effect.sync(() => seen.push("error"))), { times: 3 }),
      "done"
    ],
    ["timeout", (request) => Effect.timeout(request, "1 second"), "done"],
    ["timeoutOption", (request) => Effect.map(Effect.timeoutOption(request, "1 second"), Option.getOrNull), "done"],
    [
      "all of them, nested",
      (request, seen, ctx) =>
        request.pipe(
          Effect.timeout("1 second"),
          Effect.race(never(ctx)),
          Effect.timeoutOption("1 minute"),
          Effect.map(Option.getOrNull),
          Effect.raceFirst(never(ctx)),
          Effect.retry({ times: 2 }),
          Effect.catchCause(() => Effect.sync(() => seen.push("cause")))
        ),
      "done"
    ],
    [
      "uninterruptible",
      (request, seen) => Effect.uninterruptible(Effect.tap(request, () => Effect.sync(() => seen.push("value")))),
      "done",
      [],
      ["value"]
    ],
    [
      "acquireUseRelease",
      (request, seen) =>
        Effect.acquireUseRelease(
          request,
          (value) => Effect.succeed(value),
          () => Effect.sync(() => seen.push("released"))
        ),
      "done",
      [],
      ["released"]
    ]
  ]
  it.effect.each(wrappers)("%s", ([_, wrap, result, seenBefore = [], seenAfter = []]) =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const subject = agent((ctx) => {
        const wrapped = wrap(ctx.request(aCharge()), seen, ctx) as Effect.Effect<unknown>
        return Effect.map(wrapped, (value) => Agent.complete(String(value)))
      })
      const first = yield* run(subject)
      assert.strictEqual(first.outcome._tag, "Suspended")
      assert.deepStrictEqual(first.intents.map(({ tool }) => tool), ["charge"])
      assert.deepStrictEqual(seen, [...seenBefore])
      seen.length = 0
      const second = yield* resume(subject, first)
      assert.strictEqual(outputOf(second), result)
      assert.deepStrictEqual(second.intents, [])
      assert.deepStrictEqual(seen, [...seenAfter])
    }))

  it.effect("a retry after the tool's failure is another request", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) => Effect.map(Effect.retry(ctx.request(aCharge()), { times: 2 }), Agent.complete))
      const first = yield* run(subject)
      const second = yield* resume(subject, first, { 0: { _tag: "Failure", error: { _tag: "CardDeclined", code: 1 } } })
      assert.deepStrictEqual(second.intents.map(({ step }) => step), [1])
      assert.strictEqual(outputOf(yield* resume(subject, second)), "done")
    }))

  it.effect("in an uninterruptible region it is seen as an interruption, and what follows changes nothing", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const subject = agent((ctx) =>
        Effect.uninterruptible(Effect.gen(function*() {
          const exit = yield* Effect.exit(ctx.request(aCharge()))
          seen.push(exit._tag)
          const next = yield* Effect.result(ctx.act(anEmail()))
          seen.push(Result.isFailure(next) ? next.failure._tag : next.success)
          return Agent.complete("no")
        }))
      )
      const first = yield* run(subject)
      assert.deepStrictEqual(waitingOf(first), [0])
      assert.deepStrictEqual(first.intents.map(({ tool }) => tool), ["charge"])
      assert.deepStrictEqual(seen, ["Failure", "ActivationClosed"])
    }))

  it.effect("a finalizer that uses the context finds it closed, and runs for good with the end", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) => {
        const request = Effect.ensuring(ctx.request(aCharge()), Effect.ignore(ctx.act(anEmail())))
        return Effect.map(request, Agent.complete)
      })
      const first = yield* run(subject)
      assert.deepStrictEqual(first.intents.map(({ tool }) => tool), ["charge"])
      const second = yield* resume(subject, first)
      assert.deepStrictEqual(second.intents.map(({ step, tool }) => [step, tool]), [[1, "sendEmail"]])
    }))

  it.effect("a finalizer that takes its time is waited for", () =>
    Effect.gen(function*() {
      // The first sleep under a clock that nobody has moved can be interrupted, whatever the region.
      yield* TestClock.adjust("1 second")
      let ended = false
      const finalizer = Effect.delay(
        Effect.sync(() => {
          ended = true
        }),
        "3 seconds"
      )
      yield* run(agent((ctx) => Effect.map(Effect.ensuring(ctx.request(aCharge()), finalizer), Agent.complete)))
      assert.isTrue(ended)
    }))
})

describe("what a segment is", () => {
  const Counter = Agent.make(
    "agent",
    {
      event: Schema.String,
      output: Schema.String,
      memory: { count: Memory.entry(Schema.Int, () => 0), log: Memory.list(Schema.String, { maxItems: 2 }) }
    },
    Effect.fnUntraced(function*(ctx, event) {
      const times: Array<number> = []
      for (const index of [1, 2, 3]) {
        yield* ctx.memory.update("count", (count) => count + 1)
        yield* ctx.memory.append("log", `${event} ${index}`)
        yield* ctx.emit(`${index}`)
        times.push(yield* Clock.currentTimeMillis)
        yield* ctx.request(aCharge(index))
      }
      return Agent.complete(`${yield* ctx.memory.get("count")} at ${times}`)
    })
  )

  it.effect("K90 memory, outputs and time are each its own, once, through every replay", () =>
    Effect.gen(function*() {
      const options = { key: "k", event: "e", memory: { count: 7 } }
      let last = yield* Agent.activate(Counter, { ...options, now: 1 })
      const seen = [last]
      while (last.outcome._tag === "Suspended") {
        const [waiting] = last.outcome.continuation.waiting
        last = yield* Agent.activate(Counter, {
          ...options,
          now: seen.length * 1000,
          // A kill: the same resume, run and thrown away.
          resume: { from: last, answers: { [waiting!.step]: success("done") } }
        }).pipe(Effect.andThen(Agent.activate(Counter, {
          ...options,
          now: seen.length * 1000 + 1,
          resume: { from: last, answers: { [waiting!.step]: success("done") } }
        })))
        seen.push(last)
      }
      assert.deepStrictEqual(seen.map(({ memory }) => memory), [
        { count: 8, log: ["e 1"] },
        { count: 9, log: ["e 1", "e 2"] },
        { count: 10, log: ["e 2", "e 3"] },
        undefined
      ])
      assert.deepStrictEqual(seen.map(({ emitted }) => emitted), [["1"], ["2"], ["3"], []])
      assert.deepStrictEqual(seen.map(({ intents }) => intents.map(({ step }) => step)), [[0], [1], [2], []])
      assert.strictEqual(outputOf(last), "10 at 1,1001,2001")
    }))

  it.effect("time stands still within it, whatever is slept; Effect.sleep takes its time", () =>
    Effect.gen(function*() {
      let realTime = 0
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const before = yield* Clock.currentTimeMillis
          yield* Effect.sleep("3 seconds")
          const after = yield* Clock.currentTimeMillis
          yield* ctx.sleep("1 day")
          return Agent.complete(`${before} ${after} ${yield* Clock.currentTimeMillis}`)
        })
      )
      const started = yield* Clock.currentTimeMillis
      const first = yield* run(subject, { now: 5 })
      realTime = (yield* Clock.currentTimeMillis) - started
      assert.isAtLeast(realTime, 3000)
      assert.strictEqual(outputOf(yield* resume(subject, first, {}, { now: 9 })), "5 5 9")
    }))

  it.effect("randomness is the event's own: the same on replay, another for another event, key and agent", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const before = yield* Random.nextInt
          yield* ctx.request(anEmail(String(before)))
          return Agent.complete(`${before} ${yield* Random.next}`)
        })
      )
      const [_, second] = yield* runToEnd(subject)
      const [__, again] = yield* runToEnd(subject)
      assert.strictEqual(outputOf(again), outputOf(second))
      const [___, otherEvent] = yield* runToEnd(subject, { seq: 1 })
      const [____, otherKey] = yield* runToEnd(subject, { key: "l" })
      assert.lengthOf(new Set([second, otherEvent, otherKey].map(outputOf)), 3)
    }))

  it.effect("memory that was only read, or written in a failed run, is not committed", () =>
    Effect.gen(function*() {
      const subject = Agent.make(
        "agent",
        { event: Schema.String, output: Schema.String, memory: { count: Memory.entry(Schema.Int, () => 0) } },
        (ctx) => Effect.map(ctx.memory.get("count"), (count) => Agent.complete(String(count)))
      )
      const activated = yield* Agent.activate(subject, { key: "k", event: "e", memory: { count: 3 } })
      assert.deepStrictEqual([outputOf(activated), activated.memory], ["3", undefined])
    }))
})

describe("answers", () => {
  const all = agent((ctx) =>
    Effect.map(
      ctx.requestAll({ a: aCharge(1), b: anEmail() }),
      ({ a, b }) => Agent.complete(`${a} ${b}`)
    )
  )

  it.effect.each([[0, 1], [1, 0]])(
    "K22 one at a time, step %s first: the key keeps waiting for the other, and goes on once",
    ([first, second]) =>
      Effect.gen(function*() {
        let runs = 0
        const counted = agent((ctx) =>
          Effect.suspend(() => {
            runs++
            return all.definition.activate(ctx, "e") as Effect.Effect<Activation.Complete<string>>
          })
        )
        const suspended = yield* run(counted)
        assert.deepStrictEqual(waitingOf(suspended), [0, 1])
        const half = yield* Agent.activate(counted, {
          key: "k",
          event: "e",
          resume: { from: suspended, answers: { [first!]: success(`answer ${first}`) } }
        })
        assert.deepStrictEqual(waitingOf(half), [second])
        assert.deepStrictEqual([half.intents, half.emitted, half.memory], [[], [], undefined])
        const whole = yield* Agent.activate(counted, {
          key: "k",
          event: "e",
          now: 9,
          resume: { from: half, answers: { [second!]: success(`answer ${second}`) } }
        })
        assert.strictEqual(outputOf(whole), "answer 0 answer 1")
        assert.strictEqual(runs, 2)
      })
  )

  it.effect("of a requestAll: the first failure in the order of the record wins, all are recorded", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        ctx.requestAll({ a: aCharge(1), b: aCharge(2), c: aCharge(3) }).pipe(
          Effect.as(Agent.complete("no")),
          Effect.catchTag("CardDeclined", ({ code }) => Effect.succeed(Agent.complete(`declined ${code}`)))
        )
      )
      const declined = (code: number) => ({ _tag: "Failure" as const, error: { _tag: "CardDeclined", code } })
      const activated = yield* resume(subject, yield* run(subject), {
        0: success("ok"),
        1: declined(2),
        2: declined(3)
      })
      assert.strictEqual(outputOf(activated), "declined 2")
      const answers = activated.journal.rows.flatMap(({ row }) => row.type === "answer" ? [row.step] : [])
      assert.deepStrictEqual(answers, [0, 1, 2])
    }))

  it.effect("of an empty requestAll: none, and nothing waits", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.map(ctx.requestAll({}), (results) => Agent.complete(JSON.stringify(results)))
      )
      assert.strictEqual(outputOf(yield* run(subject)), "{}")
    }))

  it.effect("of a requestAll inside a retry: a failed round is asked again as a whole", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.map(Effect.retry(ctx.requestAll({ a: aCharge(1), b: aCharge(2) }), { times: 1 }), ({ b }) =>
          Agent.complete(b))
      )
      const first = yield* run(subject)
      const second = yield* resume(subject, first, { 1: { _tag: "Failure", error: { _tag: "CardDeclined", code: 2 } } })
      assert.deepStrictEqual(waitingOf(second), [2, 3])
      assert.strictEqual(outputOf(yield* resume(subject, second, { 3: success("paid") })), "paid")
    }))

  it.effect("a requestAll with one call that does not fit stages none", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.catchTag(ctx.requestAll({ a: aCharge(1), b: aCharge(1.5) }), "ToolArgumentError", (error) =>
          Effect.succeed({ a: error.tool, b: "" })).pipe(Effect.map(({ a }) =>
            Agent.complete(a)
          ))
      )
      const activated = yield* run(subject)
      assert.strictEqual(outputOf(activated), "charge")
      assert.deepStrictEqual([activated.intents, activated.trace.length], [[], 1])
    }))

  const ends = [
    ["a success", success("paid"), "paid"],
    ["the tool's failure", { _tag: "Failure", error: { _tag: "CardDeclined", code: 4 } }, "CardDeclined"],
    ["nobody started it", { _tag: "NotPerformed", reason: "Expired", message: "late" }, "IntentNotPerformed"],
    ["nobody knows", { _tag: "OutcomeUnknown", reason: "TimedOut", message: "?" }, "IntentOutcomeUnknown"],
    ["its result cannot be handed over", { _tag: "Unavailable", message: "too large" }, "ResultUnavailable"],
    ["its result does not fit", success(1 as any), "ResultUnavailable"],
    ["its failure does not fit", { _tag: "Failure", error: 1 }, "ResultUnavailable"],
    ["an answer to another question", { type: "decision", approved: true, by: "x" }, "ResultUnavailable"]
  ] as const
  it.effect.each(ends)("K92 %s: each end under its own tag", ([_, answer, tag]) =>
    Effect.gen(function*() {
      const request = agent((ctx) =>
        ctx.request(aCharge()).pipe(Effect.catch((error) => Effect.succeed(error._tag)), Effect.map(Agent.complete))
      )
      assert.strictEqual(outputOf(yield* resume(request, yield* run(request), { 0: answer })), tag)
      const state = Agent.make(
        "agent",
        { event: Schema.String, output: Schema.String, state: Schema.String },
        (ctx) =>
          ctx.resume === undefined
            ? Effect.map(Effect.orDie(ctx.act(aCharge())), Agent.suspend)
            : ctx.resume.result(aCharge().tool as any, ctx.resume.results[0]!.id).pipe(
              Effect.catch((error: any) => Effect.succeed(error._tag)),
              Effect.map((value) => Agent.complete(String(value)))
            )
      )
      const left = yield* Agent.activate(state, { key: "k", event: "e" })
      const activated = yield* Agent.activate(state, {
        key: "k",
        event: "e",
        resume: { from: left, answers: { 0: answer } }
      })
      assert.strictEqual(outputOf(activated), tag)
    }))

  it.effect("K92 the tool's own failure keeps its type and fields", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.match(ctx.request(aCharge()), {
          onSuccess: Agent.complete,
          onFailure: (error) => Agent.complete(error instanceof CardDeclined ? `code ${error.code}` : error._tag)
        })
      )
      const answer = { _tag: "Failure" as const, error: { _tag: "CardDeclined", code: 4 } }
      assert.strictEqual(outputOf(yield* resume(subject, yield* run(subject), { 0: answer })), "code 4")
    }))
})

describe("a failure that no catch undoes", () => {
  it.effect("keeps a later request from committing anything", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          yield* Effect.ignore(Effect.all([ctx.act(aCharge()), ctx.act(anEmail())], { concurrency: "unbounded" }))
          const next = yield* Effect.result(ctx.request(aCharge()))
          if (Result.isFailure(next)) seen.push(next.failure._tag)
          return Agent.complete("no")
        })
      )
      assert.strictEqual((yield* reasonOf(run(subject))).tag, "ConcurrentStepError")
      assert.deepStrictEqual(seen, ["ActivationClosed"])
    }))
})
