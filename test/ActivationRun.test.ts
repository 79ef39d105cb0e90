import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Option, Result, Schedule, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as ActivationRun from "../src/ActivationRun.ts"
import { Activation, Agent, type Journal, Memory, Tool } from "../src/index.ts"
import {
  aCharge,
  agent,
  anEmail,
  type Ctx,
  inTime,
  LookupFailed,
  reasonOf,
  resume,
  rowsOf,
  run,
  runToEnd,
  success,
  world
} from "./fixtures/activations.ts"

const outputOf = (activated: Activation.Activated | undefined) =>
  activated?.outcome._tag === "Complete" ? activated.outcome.output : activated?.outcome._tag

const staged = (ctx: Ctx) => Effect.orDie(Effect.andThen(ctx.act(aCharge()), ctx.act(anEmail())))

describe("K17 all or nothing: two intents are staged, then comes", () => {
  const ends = [
    ["a failure", () => Effect.fail(new LookupFailed({ id: "1" })), { kind: "Failure", tag: "LookupFailed" }],
    ["a failure that is no error", () => Effect.fail("no"), { kind: "Failure", tag: "string", message: "no" }],
    ["a tagged failure that is no class", () => Effect.fail({ _tag: "Odd", message: "odd" }), {
      kind: "Failure",
      tag: "Odd",
      message: "odd"
    }],
    ["a defect", () => Effect.die(new TypeError("no")), { kind: "Defect", tag: "TypeError", message: "no" }],
    ["a thrown error", () =>
      Effect.sync(() => {
        throw new RangeError("no")
      }), { kind: "Defect", tag: "RangeError", message: "no" }],
    ["a timeout", () => Effect.never, { kind: "TimedOut", tag: "TimeoutError", message: "no end after 5m" }],
    ["an interruption by itself", () => Effect.interrupt, { kind: "Interrupted", tag: "Interrupted" }]
  ] as const
  it.effect.each(ends)("%s: the typed reason is all there is", ([_, end, reason]) =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.as(Effect.andThen(staged(ctx), end() as Effect.Effect<never, unknown>), Agent.complete("no"))
      )
      assert.deepInclude(yield* reasonOf(run(subject)), reason)
    }))

  it.effect("an interruption from outside, which waits for the finalizers", () =>
    Effect.gen(function*() {
      let finalized = false
      const subject = agent((ctx) =>
        Effect.andThen(staged(ctx), Effect.never).pipe(Effect.ensuring(Effect.sync(() => {
          finalized = true
        })))
      )
      const fiber = yield* Effect.forkChild(Agent.activate(subject, { key: "k", event: "e" }), {
        startImmediately: true
      })
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(fiber.pollUnsafe()?._tag, "Failure")
      assert.isTrue(finalized)
    }))

  it.effect("an interruption from outside, by somebody who does not wait for ever", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 second")
      const subject = agent((ctx) => Effect.ensuring(Effect.andThen(staged(ctx), Effect.never), Effect.never))
      const fiber = yield* Effect.forkChild(Agent.activate(subject, { key: "k", event: "e" }), {
        startImmediately: true
      })
      const interrupted = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
      yield* TestClock.adjust("9 seconds")
      assert.isUndefined(interrupted.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.isDefined(interrupted.pollUnsafe())
    }))
})

describe("K18 no side effect before every check has passed", () => {
  it.effect.each(
    [
      ["beside the agent", Effect.all],
      [
        "against it",
        ([guard, body]: readonly [Effect.Effect<never, string>, Effect.Effect<any>]) => Effect.raceFirst(guard, body)
      ]
    ] as const
  )("a guard %s fails after 50 ms: no intent is left", ([_, combine]) =>
    Effect.gen(function*() {
      const guard = Effect.delay(Effect.fail("guarded"), "50 millis")
      const subject = agent((ctx) =>
        Effect.as(
          combine([guard, Effect.andThen(staged(ctx), Effect.never)] as any, {
            concurrency: "unbounded"
          }) as Effect.Effect<unknown, string>,
          Agent.complete("no")
        )
      )
      assert.deepInclude(yield* reasonOf(run(subject)), { kind: "Failure", message: "guarded" })
    }))
})

describe("the timeout of an activation", () => {
  const short = { timeout: "1 second" } as const

  it.effect("ends one that does not heed its interruption ten seconds later; it can do nothing any more", () =>
    Effect.gen(function*() {
      const after: Array<string> = []
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          yield* Effect.uninterruptible(Effect.sleep("1 minute"))
          return Agent.complete("no")
        }).pipe(Effect.ensuring(Effect.gen(function*() {
          const late = yield* Effect.result(ctx.act(aCharge()))
          after.push(Result.isFailure(late) ? late.failure._tag : "staged")
        }))), short)
      yield* TestClock.adjust("1 second")
      const fiber = yield* Effect.forkChild(reasonOf(Agent.activate(subject, { key: "k", event: "e" })), {
        startImmediately: true
      })
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Fiber.join(fiber), { kind: "TimedOut", message: "no end after 1s" })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(after, ["ActivationClosed"])
    }))

  it.effect("leaves a suspension that a stubborn fiber holds up as it was", () =>
    Effect.gen(function*() {
      const subject = agent(
        (ctx) => Effect.map(Effect.ensuring(ctx.request(aCharge()), Effect.never), Agent.complete),
        short
      )
      const activated = yield* run(subject)
      assert.strictEqual(activated.outcome._tag, "Suspended")
    }))

  it.effect("does not count a durable wait", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) => Effect.as(ctx.sleep("30 days"), Agent.complete("slept")), short)
      assert.strictEqual(outputOf((yield* runToEnd(subject))[1]), "slept")
    }))
})

describe("reads and time", () => {
  it.effect("a timeout around a read waits in real time, and a retry schedule too", () =>
    Effect.gen(function*() {
      const { answers, asked, later, lookup } = world()
      later("slow", 10_000)
      answers.set("down", Effect.fail(new LookupFailed({ id: "down" })))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const slow = yield* Effect.timeoutOption(ctx.runTool(lookup({ id: "slow" })), "2 seconds")
          const down = ctx.runTool(lookup({ id: "down" }))
          yield* Effect.ignore(Effect.retry(down, { schedule: Schedule.spaced("1 second"), times: 2 }))
          return Agent.complete(`${Option.isNone(slow)} ${yield* Clock.currentTimeMillis}`)
        })
      )
      const before = yield* Clock.currentTimeMillis
      assert.strictEqual(outputOf(yield* run(subject, { now: 7 })), "true 7")
      assert.isAtLeast((yield* Clock.currentTimeMillis) - before, 4000)
      assert.deepStrictEqual(asked, ["slow", "down", "down", "down"])
    }))

  it.effect("a read's handler lives in real time", () =>
    Effect.gen(function*() {
      const clock = Tool.readOnly("clock", {
        description: "The time.",
        success: Schema.Number,
        handler: () => Clock.currentTimeMillis
      })
      yield* TestClock.adjust("5 seconds")
      const subject = agent((ctx) => Effect.map(ctx.runTool(clock()), (time) => Agent.complete(String(time))))
      assert.strictEqual(outputOf(yield* run(subject, { now: 1 })), "5000")
    }))
})

describe("what does not fit ends in a typed reason and is final:", () => {
  const fails = <R>(subject: Agent.Agent<string, any, any, R>, options: Partial<Agent.ActivateOptions<any>> = {}) =>
    Effect.map(
      Effect.flip(
        inTime(
          Agent.activate(subject, { key: "k", event: "e", ...options }) as Effect.Effect<
            never,
            Activation.ActivationFailed
          >
        )
      ),
      ({ final, message, reason }) => ({ final, tag: reason.tag, message })
    )
  const schemas = { event: Schema.String, output: Schema.String, maxBytes: 200 }
  const long = "x".repeat(300)
  const complete = () => Effect.succeed(Agent.complete("done"))

  it.effect.each(
    [
      ["arguments", (ctx: Ctx) => ctx.act(anEmail(long)), "the arguments of 'sendEmail'"],
      ["an emission", (ctx: Ctx) => ctx.emit(long), "an output"],
      [
        "a question to a person",
        (ctx: Ctx) => ctx.requestApproval({ title: "?", details: long }),
        "a question to approve"
      ],
      [
        "a question to a model",
        (ctx: Ctx) => ctx.callModel({ model: "m", request: long, reply: Schema.String, call: Effect.succeed("") }),
        "the request to 'm'"
      ],
      [
        "a model's reply",
        (ctx: Ctx) => ctx.callModel({ model: "m", request: "?", reply: Schema.String, call: Effect.succeed(long) }),
        "the result of 'm'"
      ]
    ] as const
  )("%s larger than the limit, whatever is caught", ([_, step, what]) =>
    Effect.gen(function*() {
      const subject = Agent.make("agent", schemas, (ctx) =>
        Effect.catchCause(Effect.asVoid(step(ctx) as Effect.Effect<unknown, unknown>), () =>
          Effect.void).pipe(Effect.andThen(complete)))
      const failed = yield* fails(subject)
      assert.deepInclude(failed, { tag: "TooLarge", final: true })
      assert.include(failed.message, `${what} of key 'k' has 3`)
      assert.notInclude(failed.message, "xxx")
    }))

  it.effect("an output or a state larger than the limit", () =>
    Effect.gen(function*() {
      const output = Agent.make("agent", schemas, () => Effect.succeed(Agent.complete(long)))
      assert.include((yield* fails(output)).message, "the output of key 'k' has 302 bytes, the limit is 200")
      const state = Agent.make("agent", { ...schemas, state: Schema.String }, (ctx) =>
        Effect.as(Effect.orDie(ctx.act(aCharge())), Agent.suspend(long)))
      assert.include((yield* fails(state)).message, "the state of key 'k' has 302 bytes, the limit is 200")
    }))

  it.effect("an output, an emission or a state that is not what its schema says", () =>
    Effect.gen(function*() {
      const output = Agent.make("agent", schemas, () => Effect.succeed(Agent.complete(1 as any as string)))
      assert.deepInclude(yield* fails(output), { tag: "Misfit", final: true })
      const surrogate = Agent.make("agent", schemas, () => Effect.succeed(Agent.complete("\ud800")))
      assert.include((yield* fails(surrogate)).message, "ill-formed Unicode")
      const emission = Agent.make("agent", schemas, (ctx) => Effect.andThen(ctx.emit("\ud800"), complete))
      assert.deepInclude(yield* fails(emission), { tag: "Misfit", final: true })
      const none = Agent.make("agent", schemas, (ctx) =>
        Effect.as(Effect.orDie(ctx.act(aCharge())), Agent.suspend("state" as never)))
      assert.include((yield* fails(none)).message, "the state of key 'k' does not fit its schema")
    }))

  it.effect("an outcome that is none", () =>
    Effect.gen(function*() {
      const subject = Agent.make("agent", schemas, () => Effect.succeed(undefined as any))
      assert.deepInclude(yield* fails(subject), { tag: "Misfit", final: true })
    }))

  it.effect("an event, or a state, that was stored under another schema", () =>
    Effect.gen(function*() {
      const failed = yield* Effect.flip(ActivationRun.run(agent(complete).definition, input({ event: 1 })))
      assert.include(failed.message, "the event of key 'k' does not fit its schema")
      const state = (schema: Schema.Codec<any, any>) =>
        Agent.make("agent", { ...schemas, state: schema }, (ctx) =>
          ctx.resume === undefined ? Effect.as(Effect.orDie(ctx.act(aCharge())), Agent.suspend("left")) : complete())
      const left = yield* Agent.activate(state(Schema.String), { key: "k", event: "e" })
      const resumed = yield* fails(state(Schema.Number), { resume: { from: left, answers: { 0: success("ok") } } })
      assert.deepInclude(resumed, { tag: "Misfit", final: true })
      assert.include(resumed.message, "the state of key 'k' does not fit its schema")
    }))

  it.effect.each(
    [
      ["at once", Effect.void],
      ["later", Effect.sleep("1 second")]
    ] as const
  )(
    "a schema that throws, %s, is a defect of the activation, not of the process",
    ([_, before]) =>
      Effect.gen(function*() {
        const throws = Schema.String.pipe(Schema.check(Schema.makeFilter(() => {
          throw new Error("schema bug")
        })))
        const output = Agent.make(
          "agent",
          { event: Schema.String, output: throws },
          () => Effect.andThen(before, complete)
        )
        assert.deepInclude(yield* reasonOf(run(output)), { kind: "Defect", tag: "Error" })
      })
  )

  it.effect("a memory over its cap, with a value that does not fit, or with a compaction that fails", () =>
    Effect.gen(function*() {
      const remember = (options: Partial<Agent.Schemas>, value: unknown) =>
        Agent.make(
          "agent",
          { ...schemas, memoryBytes: 20, ...options, memory: { note: Memory.entry(Schema.String, () => "") } },
          (ctx) =>
            Effect.andThen(
              ctx.memory.set("note", value as string),
              Effect.andThen(Effect.orDie(Effect.ignore(ctx.request(aCharge()))), complete)
            )
        )
      assert.include((yield* fails(remember({}, long))).message, "the memory of key 'k' has 311 bytes, the limit is 20")
      assert.deepInclude(yield* fails(remember({}, 1)), { tag: "MemoryMisfit", final: true })
      const thrown = yield* fails(remember({
        compact: () => {
          throw new Error("compact bug")
        }
      }, long))
      assert.deepInclude(thrown, { tag: "MemoryMisfit", final: true })
      assert.include(thrown.message, "compact bug")
    }))
})

const input = (given: Partial<Activation.Input>): Activation.Input => ({
  key: "k",
  seq: 0,
  offset: 0,
  event: "e",
  now: 0,
  memory: {},
  continuation: undefined,
  rows: [],
  answers: [],
  ...given
})

describe("the journal is law in committed segments:", () => {
  const two = (first: Effect.Effect<unknown, any, any>) => first

  it.effect.each(
    [
      ["Math.random", () => aCharge(Math.ceil(Math.random() * 1e9)), "charge"],
      ["error.stack", () => anEmail(`${new Error(String(performance.now())).stack}`), "sendEmail"]
    ] as const
  )(
    "K75 arguments from %s: NonDeterminism names the step and shows both digests",
    ([_, call, tool]) =>
      Effect.gen(function*() {
        const subject = agent((ctx) =>
          Effect.as(two(ctx.request(call() as ReturnType<typeof aCharge>)), Agent.complete("no"))
        )
        const first = yield* run(subject)
        const failed = yield* Effect.flip(resume(subject, first)) as Effect.Effect<Activation.ActivationFailed>
        assert.strictEqual(failed.reason.tag, "NonDeterminism")
        assert.isTrue(failed.final)
        const digests = [...failed.message.matchAll(/[0-9a-f]{64}/g)].map(([digest]) => digest)
        assert.strictEqual(digests[0], first.intents[0]!.argumentsDigest)
        assert.lengthOf(new Set(digests), 2)
        assert.match(failed.message, new RegExp(`at step 0: recorded request '${tool}' .*, now request '${tool}' `))
      })
  )

  const changes: ReadonlyArray<
    readonly [
      name: string,
      before: (ctx: Ctx) => Effect.Effect<unknown, any, any>,
      after: (ctx: Ctx) => Effect.Effect<unknown, any, any>,
      place: string
    ]
  > = [
    ["another tool", (ctx) => ctx.act(aCharge()), (ctx) => ctx.act(anEmail()), "step 0"],
    ["another kind of step", (ctx) => ctx.act(aCharge()), (ctx) => ctx.sleep("1 day"), "step 0"],
    ["another duration", (ctx) => ctx.sleep("1 day"), (ctx) => ctx.sleep("2 days"), "step 0"],
    ["a step more", () => Effect.void, (ctx) => ctx.act(aCharge()), "step 0"],
    ["a step less", (ctx) => ctx.act(aCharge()), () => Effect.void, "step 0"],
    ["an emission more", () => Effect.void, (ctx) => ctx.emit("a"), "emission 0 of segment 0"],
    [
      "an emission less",
      (ctx) => Effect.andThen(ctx.emit("a"), ctx.emit("b")),
      (ctx) => ctx.emit("a"),
      "emission 1 of segment 0"
    ],
    ["another emission", (ctx) => ctx.emit("a"), (ctx) => ctx.emit("b"), "emission 0 of segment 0"],
    [
      "another question",
      (ctx) => ctx.requestApproval({ title: "a?" }),
      (ctx) => ctx.requestApproval({ title: "b?" }),
      "step 0"
    ]
  ]
  it.effect.each(changes)(
    "%s is NonDeterminism, at once, before anything new is committed",
    ([_, before, after, place]) =>
      Effect.gen(function*() {
        const subject = (change: (ctx: Ctx) => Effect.Effect<unknown, any, any>) =>
          agent((ctx) =>
            Effect.gen(function*() {
              yield* change(ctx) as Effect.Effect<unknown>
              yield* ctx.request(aCharge(1))
              yield* ctx.request(aCharge(2))
              return Agent.complete("done")
            })
          )
        const first = yield* run(subject(before))
        const reason = yield* reasonOf(resume(subject(after), first))
        assert.strictEqual(reason.tag, "NonDeterminism")
        assert.include(reason.message, `at ${place}: recorded `)
      })
  )

  it.effect("another memory is NonDeterminism", () =>
    Effect.gen(function*() {
      const subject = (value: number) =>
        Agent.make(
          "agent",
          { event: Schema.String, output: Schema.String, memory: { count: Memory.entry(Schema.Int, () => 0) } },
          (ctx) =>
            Effect.as(Effect.andThen(ctx.memory.set("count", value), ctx.request(aCharge())), Agent.complete("done"))
        )
      const first = yield* Agent.activate(subject(1), { key: "k", event: "e" })
      const again = { key: "k", event: "e", resume: { from: first, answers: { 0: success("ok") } } }
      assert.strictEqual(outputOf(yield* Agent.activate(subject(1), again)), "done")
      const reason = yield* reasonOf(Agent.activate(subject(2), again))
      assert.include(reason.message, "the memory of segment 0")
    }))

  it.effect("a read that was not made is NonDeterminism, naming the read", () =>
    Effect.gen(function*() {
      const { asked, lookup } = world()
      const subject = (id: string) =>
        agent((ctx) =>
          Effect.as(Effect.andThen(ctx.runTool(lookup({ id })), ctx.request(aCharge())), Agent.complete("done"))
        )
      const first = yield* run(subject("a"))
      const reason = yield* reasonOf(resume(subject("b"), first))
      assert.include(reason.message, "read 0 of 'lookup' in segment 0: recorded nothing, now 'lookup' (arguments ")
      assert.deepStrictEqual(asked, ["a"])
    }))
})

describe("K76 replay reaches no handler", () => {
  const subject = (lookup: ReturnType<typeof world>["lookup"]) =>
    agent((ctx) =>
      Effect.gen(function*() {
        const [a, b] = yield* Effect.all([ctx.runTool(lookup({ id: "a" })), ctx.runTool(lookup({ id: "b" }))], {
          concurrency: 2
        })
        const paid = yield* ctx.request(aCharge())
        yield* ctx.emit(paid)
        const reply = yield* ctx.callModel({
          model: "m",
          request: a,
          reply: Schema.String,
          call: Effect.sync(() => lookupModel())
        })
        const late = yield* ctx.runTool(lookup({ id: "late" }))
        return Agent.complete(`${a} ${b} ${paid} ${reply} ${late}`)
      })
    )
  let lookupModel = () => "reply"

  it.effect("the same outcome and the same steps, in this process and with fresh values", () =>
    Effect.gen(function*() {
      lookupModel = () => "reply"
      const { answers, asked, lookup } = world()
      const segments = yield* runToEnd(subject(lookup))
      const last = segments.at(-1)!
      assert.strictEqual(outputOf(last), "a! b! done reply late!")
      for (const id of ["a", "b", "late"]) answers.set(id, Effect.die("must not run"))
      lookupModel = () => {
        throw new Error("must not run")
      }
      const fresh = world()
      for (const id of ["a", "b", "late"]) fresh.answers.set(id, Effect.die("must not run"))
      for (const again of [subject(lookup), subject(fresh.lookup)]) {
        const replayed = yield* ActivationRun.replay(again.definition, input({ rows: last.journal.rows }), last.replay)
        assert.deepStrictEqual(replayed.outcome, last.outcome)
        assert.deepStrictEqual([replayed.intents, replayed.emitted, replayed.trace.map(({ type }) => type)], [[], [], [
          "Completed"
        ]])
        assert.deepStrictEqual(replayed.journal.rows, [])
      }
      assert.deepStrictEqual([asked, fresh.asked], [["a", "b", "late"], []])
    }))

  it.effect("another way through the last segment is NonDeterminism too", () =>
    Effect.gen(function*() {
      lookupModel = () => "reply"
      const { lookup } = world()
      const last = (yield* runToEnd(subject(lookup))).at(-1)!
      const other = agent((ctx) =>
        Effect.as(Effect.andThen(subject(lookup).definition.activate(ctx, "e"), ctx.emit("more")), Agent.complete("no"))
      )
      const failed = yield* Effect.flip(
        ActivationRun.replay(other.definition, input({ rows: last.journal.rows }), last.replay)
      )
      assert.include(failed.message, "emission 1 of segment 1: recorded nothing")
    }))
})

describe("K78 a damaged journal", () => {
  const subject = agent((ctx) =>
    Effect.gen(function*() {
      yield* ctx.act(anEmail())
      yield* ctx.request(aCharge(1))
      yield* ctx.request(aCharge(2))
      return Agent.complete("done")
    })
  )
  const damages: ReadonlyArray<
    readonly [name: string, damage: (rows: Array<Journal.Stored>) => Array<Journal.Stored>, position: number]
  > = [
    ["one row doubled", (rows) => [rows[0]!, rows[1]!, rows[1]!, ...rows.slice(2)], 2],
    ["one row missing", (rows) => rows.toSpliced(1, 1), 1],
    ["the last row missing", (rows) => rows.slice(0, -1), 2],
    ["two rows swapped", (rows) => [rows[0]!, rows[2]!, rows[1]!], 1],
    [
      "one row missing, the others moved up",
      (rows) => rows.toSpliced(1, 1).map((stored, position) => ({ ...stored, position })),
      1
    ],
    ["one row changed", (rows) => rows.with(1, { ...rows[1]!, row: { ...rows[1]!.row, segment: 7 } }), 1]
  ]
  it.effect.each(damages)(
    "%s stops the run, naming key and position; nothing is staged; repaired it goes on",
    ([_, damage, position]) =>
      Effect.gen(function*() {
        const first = yield* run(subject)
        assert.deepStrictEqual(rowsOf(first), ["0 time", "0 act 0", "0 request 1"])
        const damaged = { ...first, journal: { from: 0, rows: damage([...first.journal.rows]) } }
        const failed = yield* Effect.flip(resume(subject, damaged)) as Effect.Effect<Activation.ActivationFailed>
        assert.deepInclude(failed.reason, { kind: "Failure", tag: "JournalDamaged" })
        assert.isTrue(failed.final)
        assert.include(failed.message, `of 'agent' for key 'k' is damaged at position ${position}: `)
        assert.deepStrictEqual((yield* resume(subject, first)).intents.map(({ step }) => step), [2])
      })
  )
})

describe("a context that is used after the end", () => {
  it.effect("answers ActivationClosed to every call", () =>
    Effect.gen(function*() {
      let kept: Ctx | undefined
      const { asked, lookup } = world()
      yield* run(agent((ctx) =>
        Effect.sync(() => {
          kept = ctx
          return Agent.complete("done")
        })
      ))
      const ctx = kept!
      const calls: ReadonlyArray<Effect.Effect<unknown, unknown, any>> = [
        ctx.runTool(lookup({ id: "1" })),
        ctx.act(aCharge()),
        ctx.request(aCharge()),
        ctx.requestAll({ a: aCharge() }),
        ctx.requestApproval({ title: "?" }),
        ctx.sleep("1 day"),
        ctx.receive(Schema.String),
        ctx.emit("late"),
        ctx.callModel({ model: "m", request: "?", reply: Schema.String, call: Effect.succeed("") }),
        Effect.catchDefect(ctx.memory.get("count" as never), Effect.fail)
      ]
      for (const call of calls) {
        const error = yield* Effect.flip(call as Effect.Effect<unknown, Activation.ActivationClosed>)
        assert.instanceOf(error, Activation.ActivationClosed)
        assert.include(error.message, "after the activation of 'agent' for key 'k' had ended")
      }
      assert.deepStrictEqual(asked, [])
    }))
})
