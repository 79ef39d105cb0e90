import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Result, Schema } from "effect"
import * as ActivationRun from "../src/ActivationRun.ts"
import { Activation, Agent, type Intent, type Journal, Memory, Tool } from "../src/index.ts"
import {
  aCharge,
  agent,
  anEmail,
  charge,
  type Ctx,
  reasonOf,
  resume,
  rowsOf,
  run,
  runToEnd,
  sendEmail,
  success,
  world
} from "./fixtures/activations.ts"

const outputOf = (activated: Activation.Activated | undefined) =>
  activated?.outcome._tag === "Complete" ? activated.outcome.output : activated?.outcome._tag

const waitingOf = ({ outcome }: Activation.Activated) =>
  outcome._tag === "Suspended" ? outcome.continuation.waiting : []

describe("a call on the wrong side of the line", () => {
  const { asked, lookup } = world()
  const untyped = (body: (ctx: any) => Effect.Effect<unknown, any>) =>
    agent((ctx) => Effect.map(Effect.flip(body(ctx)), (error) => Agent.complete(error._tag)))

  it.effect.each(
    [
      [
        "runTool of a SideEffect call, before its arguments are looked at",
        (ctx: any) => ctx.runTool(aCharge(1.5)),
        "SideEffectToolError"
      ],
      ["act of a ReadOnly call", (ctx: any) => ctx.act(lookup({ id: "1" })), "ReadOnlyToolError"],
      ["request of a ReadOnly call", (ctx: any) => ctx.request(lookup({ id: "1" })), "ReadOnlyToolError"],
      ["act of a name", (ctx: any) => ctx.act("no_such_tool", "not json"), "ToolNotFoundError"],
      ["arguments that do not fit", (ctx: any) => ctx.act(aCharge(1.5)), "ToolArgumentError"]
    ] as const
  )("%s is refused, and is no step and no call", ([_, body, tag]) =>
    Effect.gen(function*() {
      const activated = yield* run(untyped(body))
      assert.strictEqual(outputOf(activated), tag)
      assert.deepStrictEqual(activated.intents, [])
      assert.deepStrictEqual(activated.trace.map(({ type }) => type), ["Completed"])
      assert.deepStrictEqual(rowsOf(activated), ["0 time"])
      assert.deepStrictEqual(asked, [])
    }))
})

describe("the step cursor", () => {
  it.effect("moves for act, request, approval, sleep, receive and model calls, and for nothing else", () =>
    Effect.gen(function*() {
      const { lookup } = world()
      const subject = Agent.make(
        "agent",
        { event: Schema.String, output: Schema.String, memory: { count: Memory.entry(Schema.Int, () => 0) } },
        Effect.fnUntraced(function*(ctx) {
          yield* ctx.act(anEmail())
          yield* ctx.runTool(lookup({ id: "1" }))
          yield* ctx.memory.update("count", (count) => count + 1)
          yield* ctx.emit("between")
          yield* ctx.request(aCharge())
          yield* ctx.requestApproval({ title: "?" })
          yield* ctx.sleep("1 day")
          yield* ctx.receive(Schema.String)
          yield* ctx.callModel({ model: "m", request: "?", reply: Schema.String, call: Effect.succeed("r") })
          yield* ctx.requestAll({ a: aCharge(1), b: aCharge(2) })
          return Agent.complete("done")
        })
      )
      const last = (yield* runToEnd(subject)).at(-1)!
      const steps = last.journal.rows.flatMap(({ row }) => row.type === "step" ? [`${row.step} ${row.kind}`] : [])
      assert.deepStrictEqual(steps, [
        "0 act",
        "1 request",
        "2 approval",
        "3 sleep",
        "4 receive",
        "5 model",
        "6 request",
        "7 request"
      ])
      assert.strictEqual(outputOf(last), "done")
    }))
})

describe("durable waits", () => {
  it.effect("a sleep waits for its duration, and no fiber waits for it", () =>
    Effect.gen(function*() {
      const first = yield* run(agent((ctx) => Effect.as(ctx.sleep("30 days"), Agent.complete("slept"))))
      assert.deepStrictEqual(waitingOf(first), [{ type: "timer", step: 0, millis: 30 * 24 * 3_600_000 }])
      assert.deepStrictEqual(first.intents, [])
    }))

  it.effect.each(
    [
      ["a sleep", (ctx: Ctx) => ctx.sleep("Infinity")],
      ["a timeout of receive", (ctx: Ctx) => ctx.receive(Schema.String, { timeout: "Infinity" })],
      ["a ttl", (ctx: Ctx) => ctx.act(aCharge(), { ttl: "Infinity" })],
      ["a ttl of nothing", (ctx: Ctx) => ctx.request(aCharge(), { ttl: 0 })],
      ["an approval", (ctx: Ctx) => ctx.requestApproval({ title: "?", timeout: -1 })]
    ] as const
  )(
    "waiting always ends: %s that does not is a defect before anything is staged",
    ([_, wait]) =>
      Effect.gen(function*() {
        const subject = agent((ctx) =>
          Effect.catchDefect(
            Effect.asVoid(wait(ctx) as Effect.Effect<unknown, unknown>),
            (error) => Effect.fail((error as Error).message)
          ).pipe(
            Effect.as("no"),
            Effect.catch((error) => Effect.succeed(String(error))),
            Effect.map(Agent.complete)
          )
        )
        const activated = yield* run(subject)
        assert.match(String(outputOf(activated)), /is not (finite|positive)/)
        assert.deepStrictEqual(rowsOf(activated), ["0 time"])
      })
  )

  it.effect("K24 a message arrives typed, and the sender's side is told its schema", () =>
    Effect.gen(function*() {
      const Reply = Schema.Struct({ satisfied: Schema.Boolean, at: Schema.Date })
      const subject = agent((ctx) =>
        Effect.map(
          ctx.receive(Reply, { timeout: "3 days" }),
          ({ at, satisfied }) => Agent.complete(`${satisfied} ${at.getTime()}`)
        )
      )
      const first = yield* run(subject)
      const [waiting] = waitingOf(first)
      assert.deepInclude(waiting, { type: "message", millis: 3 * 24 * 3_600_000 })
      const shown = waiting?.type === "message" ? waiting.schema : undefined
      assert.deepStrictEqual(Object.keys(Object(shown?.["properties"])), ["satisfied", "at"])
      const message = { satisfied: true, at: "1970-01-01T00:00:00.007Z" }
      const second = yield* resume(subject, first, { 0: { type: "message", message, offset: 3 } })
      assert.strictEqual(outputOf(second), "true 7")
    }))

  it.effect("K24 a message that does not fit is refused, caught or not, and nothing is left behind", () =>
    Effect.gen(function*() {
      const Even = Schema.Int.pipe(Schema.check(Schema.makeFilter((n) => n % 2 === 0)))
      const subject = agent((ctx) =>
        Effect.catchCause(Effect.asVoid(ctx.receive(Even)), () => Effect.void).pipe(Effect.as(Agent.complete("no")))
      )
      const first = yield* run(subject)
      const refused = yield* Effect.flip(resume(subject, first, { 0: { type: "message", message: 3, offset: 9 } }))
      assert.deepInclude(refused, { _tag: "MessageRefused", offset: 9 })
      assert.strictEqual(
        outputOf(yield* resume(subject, first, { 0: { type: "message", message: 4, offset: 9 } })),
        "no"
      )
    }))

  it.effect("a message that does not come is MessageTimeout", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        ctx.receive(Schema.String, { timeout: "1 day" }).pipe(
          Effect.catchTag("MessageTimeout", () => Effect.succeed("silence")),
          Effect.map(Agent.complete)
        )
      )
      assert.strictEqual(outputOf(yield* resume(subject, yield* run(subject), { 0: { type: "timeout" } })), "silence")
    }))

  const decisions = [
    ["yes", { type: "decision", approved: true, by: "maria" }, "true by maria"],
    ["no", { type: "decision", approved: false, by: "maria" }, "false by maria"],
    ["nobody in time", { type: "decision", approved: false, by: "policy:timeout" }, "false by policy:timeout"],
    ["cancelled", { _tag: "NotPerformed", reason: "Cancelled", message: "" }, "false by policy:cancelled"],
    ["a success that is no decision", success("yes"), "false by policy:success"]
  ] as const
  it.effect.each(decisions)("an approval is a strict yes or a no: %s", ([_, answer, said]) =>
    Effect.gen(function*() {
      const subject = agent((ctx) =>
        Effect.map(
          ctx.requestApproval({ title: "refund?", details: { cents: 5 } }),
          ({ approved, by }) => Agent.complete(`${approved} by ${by}`)
        )
      )
      const first = yield* run(subject)
      assert.deepInclude(first.intents[0], {
        kind: "approval",
        approval: "required",
        approvalTimeout: 24 * 3_600_000,
        arguments: `{"details":{"cents":5},"title":"refund?"}`
      })
      assert.strictEqual(outputOf(yield* resume(subject, first, { 0: answer })), said)
    }))
})

describe("Suspend", () => {
  // A state machine: stages what its state says, and reports what it was resumed with.
  const machine = (
    step: (ctx: Activation.Context<string, {}, string>) => Effect.Effect<Activation.Outcome<string, string>, any, any>
  ) =>
    Agent.make(
      "agent",
      { event: Schema.String, output: Schema.String, state: Schema.String },
      step as (ctx: Activation.Context<string, {}, string>) => Effect.Effect<Activation.Outcome<string, string>>
    )
  const activate = (subject: ReturnType<typeof machine>, options: Partial<Agent.ActivateOptions<string>> = {}) =>
    Agent.activate(subject, { key: "k", event: "e", ...options })
  const answered = (from: Activation.Activated, value = "done") => ({
    resume: { from, answers: Object.fromEntries(waitingOf(from).map(({ step }) => [step, success(value)])) }
  })

  it.effect("typed state in, state and results out, and nothing before it is run again", () =>
    Effect.gen(function*() {
      const { asked, lookup } = world()
      const subject = machine(Effect.fnUntraced(function*(ctx) {
        if (ctx.resume === undefined) {
          yield* ctx.runTool(lookup({ id: "once" }))
          const id = yield* ctx.act(aCharge(5))
          yield* ctx.act(anEmail())
          return Agent.suspend(id)
        }
        const { results, state } = ctx.resume
        const receipt = yield* ctx.resume.result(charge, results[0]!.id)
        return Agent.complete(`${state === results[0]!.id} ${results.map(({ tool }) => tool)} ${receipt}`)
      }))
      const first = yield* activate(subject)
      assert.deepStrictEqual(waitingOf(first).map(({ step }) => step), [0, 1])
      const second = yield* activate(subject, answered(first, "receipt"))
      assert.strictEqual(outputOf(second), "true charge,sendEmail receipt")
      assert.deepStrictEqual(asked, ["once"])
    }))

  it.effect.each(
    [
      ["at all", (_: any): Effect.Effect<void> => Effect.void],
      ["but a request that was answered", (ctx: any) => ctx.request(aCharge())]
    ] as const
  )("with nothing pending %s is a typed error", ([_, before]) =>
    Effect.gen(function*() {
      const subject = machine((ctx) => Effect.as(before(ctx), Agent.suspend("waiting")))
      const first = yield* Effect.result(activate(subject))
      const last = Result.isSuccess(first) ? yield* Effect.result(activate(subject, answered(first.success))) : first
      const error = Result.isFailure(last) ? last.failure : undefined
      assert.include(error?.message, "(NothingPending)")
      assert.include(error?.message, "stage an intent with ctx.act first")
    }))

  it.effect("a request before it in the same run is replayed for its answer, and not after it", () =>
    Effect.gen(function*() {
      let runs = 0
      const subject = machine(Effect.fnUntraced(function*(ctx) {
        runs++
        if (ctx.resume !== undefined) return Agent.complete(ctx.resume.state)
        yield* ctx.act(anEmail())
        const paid = yield* ctx.request(aCharge())
        return Agent.suspend(paid)
      }))
      const requested = yield* activate(subject)
      const suspended = yield* activate(subject, answered(requested, "paid"))
      assert.deepStrictEqual(waitingOf(suspended).map(({ step }) => step), [0])
      assert.deepStrictEqual(suspended.intents, [])
      assert.strictEqual(outputOf(yield* activate(subject, answered(suspended))), "paid")
      assert.strictEqual(runs, 3)
    }))

  it.effect("a request after it is replayed from it, with ctx.resume as it was", () =>
    Effect.gen(function*() {
      const subject = machine(Effect.fnUntraced(function*(ctx) {
        if (ctx.resume === undefined) return Agent.suspend(yield* ctx.act(anEmail("first")))
        const before = yield* ctx.resume.result(sendEmail, ctx.resume.results[0]!.id)
        const paid = yield* ctx.request(aCharge())
        return Agent.complete(`${before} ${paid} ${ctx.resume.results.length}`)
      }))
      const left = yield* activate(subject)
      const requested = yield* activate(subject, answered(left, "sent"))
      assert.deepStrictEqual(requested.intents.map(({ step }) => step), [1])
      assert.strictEqual(outputOf(yield* activate(subject, answered(requested, "paid"))), "sent paid 1")
    }))

  it.effect("several in a row: steps go on counting, each waits for its own intents, memory is kept", () =>
    Effect.gen(function*() {
      const subject = Agent.make(
        "agent",
        {
          event: Schema.String,
          output: Schema.String,
          state: Schema.Int,
          memory: { seen: Memory.list(Schema.String, { maxItems: 10 }) }
        },
        Effect.fnUntraced(function*(ctx) {
          const round = ctx.resume?.state ?? 0
          for (const { tool } of ctx.resume?.results ?? []) yield* ctx.memory.append("seen", `${round} ${tool}`)
          if (round === 3) return Agent.complete((yield* ctx.memory.get("seen")).join())
          yield* Effect.orDie(ctx.act(round === 1 ? anEmail() : aCharge(round)))
          return Agent.suspend(round + 1)
        })
      )
      let last = yield* Agent.activate(subject, { key: "k", event: "e" })
      const steps: Array<ReadonlyArray<number>> = []
      while (last.outcome._tag === "Suspended") {
        steps.push(waitingOf(last).map(({ step }) => step))
        last = yield* Agent.activate(subject, { key: "k", event: "e", ...answered(last) })
      }
      assert.deepStrictEqual(steps, [[0], [1], [2]])
      assert.strictEqual(outputOf(last), "1 charge,2 sendEmail,3 charge")
    }))

  it.effect("a result asked for under another tool, or another id, is IntentConflict", () =>
    Effect.gen(function*() {
      const subject = machine(Effect.fnUntraced(function*(ctx) {
        if (ctx.resume === undefined) return Agent.suspend(yield* ctx.act(aCharge()))
        const wrongTool = yield* Effect.flip(ctx.resume.result(sendEmail, ctx.resume.results[0]!.id))
        const wrongId = yield* Effect.flip(ctx.resume.result(charge, "no such id" as Intent.Id))
        return Agent.complete(`${(wrongTool as Error).message}\n${(wrongId as Error).message}`)
      }))
      const text = String(outputOf(yield* activate(subject, answered(yield* activate(subject)))))
      assert.match(text, /was staged as 'charge' .* asked for as 'sendEmail'/)
      assert.match(text, /no such id .* was staged as 'nothing' .* asked for as 'charge'/)
    }))

  it.effect("of an agent without a state does not fit", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) => Effect.as(Effect.orDie(ctx.act(aCharge())), Agent.suspend("x" as never)))
      assert.strictEqual((yield* reasonOf(run(subject))).tag, "Misfit")
    }))
})

describe("the version of an agent", () => {
  it.effect("is kept with what it suspended", () =>
    Effect.gen(function*() {
      const subject = Agent.make(
        "agent",
        { event: Schema.String, output: Schema.String, version: "7" },
        (ctx) => Effect.as(ctx.sleep("1 day"), Agent.complete("done"))
      )
      const { outcome } = yield* Agent.activate(subject, { key: "k", event: "e" })
      assert.strictEqual(outcome._tag === "Suspended" && outcome.continuation.version, "7")
    }))
})

describe("ctx.callModel", () => {
  class Busy extends Schema.TaggedError<Busy>()("Busy", { status: Schema.Int }) {}

  /** A model that answers what it is told to, and counts. */
  const model = (...replies: ReadonlyArray<Effect.Effect<string, Busy>>) => {
    const calls: Array<string> = []
    const ask = (ctx: Ctx, request: string, name = "m") =>
      ctx.callModel({
        model: name,
        request,
        reply: Schema.String,
        failure: Busy,
        call: Effect.suspend(() => {
          calls.push(`${name}: ${request}`)
          return replies[calls.length - 1] ?? Effect.die(new Error("unscripted"))
        })
      })
    return { ask, calls }
  }
  const reply = (text: string) => Effect.succeed(text)
  const storeDown = new Activation.ActivationFailed({
    agent: "agent",
    key: "k",
    reason: { kind: "Failure", tag: "StoreError", message: "down" },
    final: false
  })

  /** The uncommitted rows of a key, as a store keeps them. */
  const store = () => {
    let rows: ReadonlyArray<Journal.Stored> = []
    const append: NonNullable<ActivationRun.Options["append"]> = (from, appended, known) =>
      Effect.sync(() => {
        if (rows.at(-1)?.check !== known) return rows.slice(from)
        rows = [...rows.slice(0, from), ...appended]
        return appended
      })
    return { append, rows: () => rows }
  }

  const activate = (
    subject: Agent.Agent<string, string, string, any>,
    rows: ReadonlyArray<Journal.Stored>,
    options: ActivationRun.Options = {},
    now = 0
  ) =>
    ActivationRun.run(subject.definition, {
      key: "k",
      seq: 0,
      offset: 0,
      event: "e",
      now,
      memory: {},
      continuation: undefined,
      rows,
      answers: []
    }, options) as Effect.Effect<Activation.Activated, ActivationRun.RunError>

  it.effect("K77 a reply that was appended is not paid for again: same ids and arguments after a kill before the commit", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("500"))
      const { append, rows } = store()
      const { asked, lookup } = world()
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const found = yield* ctx.runTool(lookup({ id: "1" }))
          const cents = Number(yield* ask(ctx, found))
          return Agent.complete(yield* ctx.request(aCharge(cents)))
        })
      )
      // The commit of the first run is lost.
      const first = yield* activate(subject, [], { append }, 1)
      assert.deepStrictEqual(rows().map(({ row }) => row.type), ["time", "read", "step", "answer"])
      const second = yield* activate(subject, rows(), { append }, 2)
      assert.deepStrictEqual([calls, asked], [["m: 1!"], ["1"]])
      assert.deepStrictEqual(second.intents, first.intents)
      assert.deepStrictEqual(second.journal, first.journal)
    }))

  it.effect("K77 a crash between the reply and its row pays once more, and never forks", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("a"), reply("b"))
      const { append, rows } = store()
      const subject = agent((ctx) => Effect.map(ask(ctx, "?"), Agent.complete))
      const lost = yield* Effect.flip(activate(subject, [], { append: () => Effect.fail(storeDown) }))
      assert.deepInclude(lost, { _tag: "ActivationFailed", final: false })
      assert.strictEqual(outputOf(yield* activate(subject, rows(), { append })), "b")
      assert.lengthOf(calls, 2)
    }))

  it.effect("K77 a resume does not ask again, in three segments and through an approval", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("500"), reply("thanks"))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const cents = Number(yield* ask(ctx, "how much?"))
          yield* ctx.requestApproval({ title: `${cents}?` })
          const paid = yield* ctx.request(aCharge(cents))
          return Agent.complete(`${paid} ${yield* ask(ctx, "and now?")}`)
        })
      )
      const last = (yield* runToEnd(subject)).at(-1)
      assert.strictEqual(outputOf(last), "done thanks")
      assert.deepStrictEqual(calls, ["m: how much?", "m: and now?"])
    }))

  it.effect("where another owner was faster, its reply and its reads win, and this run starts anew from them", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("theirs"), reply("ours"))
      const { append, rows } = store()
      const { answers, asked, lookup } = world()
      const seen: Array<string> = []
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const found = yield* ctx.runTool(lookup({ id: "1" }))
          seen.push(found)
          return Agent.complete(`${found} ${yield* ask(ctx, "?")}`)
        })
      )
      assert.strictEqual(outputOf(yield* activate(subject, [], { append }, 1)), "1! theirs")
      answers.set("1", Effect.succeed("changed"))
      const second = yield* activate(subject, [], { append }, 2)
      assert.strictEqual(outputOf(second), "1! theirs")
      assert.deepStrictEqual(seen, ["1!", "changed", "1!"])
      assert.deepStrictEqual([calls.length, asked.length], [2, 2])
      assert.deepStrictEqual(second.journal.rows.slice(0, 4), rows())
    }))

  it.effect("an answer of the store that is this run's own is no other owner", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("a"))
      const { append } = store()
      // As after a lost connection: the rows are there, and the store answers them.
      const twice: typeof append = (...rows) => Effect.andThen(append(...rows), append(...rows))
      const subject = agent((ctx) => Effect.map(ask(ctx, "?"), Agent.complete))
      assert.strictEqual(outputOf(yield* activate(subject, [], { append: twice })), "a")
      assert.lengthOf(calls, 1)
    }))

  it.effect("an uncommitted journal that fits no more is dropped from the first mismatch on, logged, and asked anew", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(reply("1"), reply("2"), reply("3"))
      const { append, rows } = store()
      const { asked, lookup } = world()
      let question = "old?"
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          yield* ctx.runTool(lookup({ id: "kept" }))
          const first = yield* ask(ctx, "first?")
          yield* ctx.emit(first)
          const second = yield* ask(ctx, question)
          return Agent.complete(`${first} ${second}`)
        })
      )
      yield* activate(subject, [], { append })
      question = "new?"
      const logged: Array<string> = []
      const logger = Logger.make(({ message }) => logged.push(String(message)))
      const second = yield* Effect.provide(activate(subject, rows(), { append }), Logger.layer([logger]))
      assert.strictEqual(outputOf(second), "1 3")
      assert.deepStrictEqual([calls, asked], [["m: first?", "m: old?", "m: new?"], ["kept"]])
      assert.match(logged.join(), /dropped: 2 rows from step 1: recorded model 'm' \(arguments \w+, .*, now model 'm'/)
      assert.deepStrictEqual(rowsOf({ ...second, journal: { from: 0, rows: rows() } }), rowsOf(second))
      // What replaced it is what the next run finds.
      const third = yield* activate(subject, rows(), { append })
      assert.deepStrictEqual([outputOf(third), calls.length], ["1 3", 3])
    }))

  it.effect("a cache that nobody asks for any more is not committed", () =>
    Effect.gen(function*() {
      const { ask } = model(reply("1"), reply("2"))
      const { append, rows } = store()
      let more = true
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          yield* ctx.emit("a")
          yield* ask(ctx, "first?")
          if (more) {
            yield* ctx.emit("b")
            yield* ask(ctx, "second?")
          }
          return Agent.complete("done")
        })
      )
      yield* activate(subject, [], { append })
      more = false
      const second = yield* activate(subject, rows(), { append })
      assert.deepStrictEqual(rowsOf(second), ["0 time", "0 emit 0", "0 model 0", "0 answer 0 Success"])
      assert.deepStrictEqual(second.emitted, ["a"])
      const replayed = yield* ActivationRun.replay(subject.definition, {
        key: "k",
        seq: 0,
        offset: 0,
        event: "e",
        now: 0,
        memory: {},
        continuation: undefined,
        answers: [],
        rows: second.journal.rows
      }, second.replay)
      assert.strictEqual(outputOf(replayed), "done")
    }))

  it.effect("K73 a failure is journaled: the model that was asked instead is the same one on replay", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(Effect.fail(new Busy({ status: 429 })), reply("from the second"))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const answer = yield* Effect.catchTag(ask(ctx, "?", "first"), "Busy", () => ask(ctx, "?", "second"))
          yield* ctx.request(anEmail(answer))
          return Agent.complete(answer)
        })
      )
      assert.strictEqual(outputOf((yield* runToEnd(subject))[1]), "from the second")
      assert.deepStrictEqual(calls, ["first: ?", "second: ?"])
    }))

  it.effect("a call that was too slow was too slow for ever", () =>
    Effect.gen(function*() {
      const { ask, calls } = model(Effect.delay(reply("late"), "10 seconds"))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const answer = yield* Effect.timeoutOption(ask(ctx, "?"), "1 second")
          yield* ctx.request(aCharge())
          return Agent.complete(answer._tag)
        })
      )
      assert.strictEqual(outputOf((yield* runToEnd(subject))[1]), "None")
      assert.lengthOf(calls, 1)
    }))

  it.effect("a question of a committed segment that has no answer is not asked again: a step inside of it, for instance", () =>
    Effect.gen(function*() {
      let calls = 0
      const subject = agent((ctx) => {
        const call = Effect.suspend(() => {
          calls++
          return Effect.orDie(ctx.request(aCharge())) as Effect.Effect<string>
        })
        return Effect.map(ctx.callModel({ model: "m", request: "?", reply: Schema.String, call }), Agent.complete)
      })
      const reason = yield* reasonOf(resume(subject, yield* run(subject)))
      assert.strictEqual(reason.tag, "NonDeterminism")
      assert.include(reason.message, "at step 0: recorded no answer, now a question to model 'm'")
      assert.strictEqual(calls, 1)
    }))

  it.effect("the same words to another model, or another event, are another question", () =>
    Effect.gen(function*() {
      const digests = yield* Effect.forEach([["m", 0], ["n", 0], ["m", 1]] as const, ([name, seq]) =>
        Effect.gen(function*() {
          const { ask } = model(reply("a"))
          const { journal } = yield* run(
            agent((ctx) =>
              Effect.map(ask(ctx, "?", name), Agent.complete)
            ),
            { seq }
          )
          return journal.rows.flatMap(({ row }) => row.type === "step" ? [`${row.name} ${row.digest}`] : [])[0]
        }))
      assert.lengthOf(new Set(digests), 3)
    }))
})

describe("K63 intents", () => {
  it.effect("carry the contract, the deadline and the place they were staged at", () =>
    Effect.gen(function*() {
      const tool = Tool.sideEffect("late", { description: "Late.", ttl: "2 hours", idempotent: true })
      const { intents } = yield* run(
        agent((ctx) =>
          Effect.as(Effect.andThen(ctx.act(tool()), ctx.act(tool(), { ttl: "1 hour" })), Agent.complete("done"))
        ),
        { seq: 3 }
      )
      assert.deepStrictEqual(
        intents.map((
          { agent, contract, idempotent, key, seq, step, ttl }
        ) => [agent, key, seq, step, ttl, idempotent, contract]),
        [
          ["agent", "k", 3, 0, 7_200_000, true, tool.contract],
          ["agent", "k", 3, 1, 3_600_000, true, tool.contract]
        ]
      )
    }))
})
