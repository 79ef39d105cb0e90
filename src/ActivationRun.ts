/**
 * Runs an activation: the pure step around an agent's function. It replays what is committed, runs what is new, and hands
 * back everything that is to be committed as data.
 *
 * Guarantees: on failure, defect, timeout or interruption nothing is handed back. A suspension is no error and no value: the
 * fiber is interrupted from outside, after the commit's content is fixed.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import * as Journal from "./Journal.ts"
import * as Memory from "./Memory.ts"
import * as StepOrder from "./StepOrder.ts"
import * as Tool from "./Tool.ts"
import * as ToolSchema from "./ToolSchema.ts"

/**
 * What an activation may be failed with.
 *
 * @since 0.1.0
 * @category errors
 */
export type RunError = Activation.ActivationFailed | Activation.MessageRefused

/**
 * How an activation reaches the world around it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /**
   * Appends rows of the uncommitted segment, before the activation goes on. Where the store already holds rows from there
   * on, it answers those and keeps them.
   */
  readonly append?: (
    from: number,
    rows: ReadonlyArray<Journal.Stored>
  ) => Effect.Effect<ReadonlyArray<Journal.Stored>, Activation.ActivationFailed>
  /** The refusal of an intent nobody here performs, if it is one. */
  readonly refuse?: (tool: Tool.Any) => unknown
}

/**
 * Runs one activation. Requires what the agent's reads require.
 *
 * @since 0.1.0
 * @category destructors
 */
export const run = (
  definition: Activation.Definition,
  input: Activation.Input,
  options: Options = {}
): Effect.Effect<Activation.Activated, RunError, any> =>
  Effect.withFiber((parent) => {
    const base = input.continuation?.base
    const opened = Journal.open({
      agent: definition.name,
      key: input.key,
      rows: input.rows,
      committed: input.continuation?.rows ?? 0,
      since: base?.rows ?? 0,
      segment: input.continuation?.segment ?? 0
    })
    if (Result.isFailure(opened)) return Effect.fail(failed(definition, input, reasonOf(opened.failure), true))
    const event = definition.event.decode(input.event)
    if (Result.isFailure(event)) return Effect.fail(misfit(definition, input, "the event", event.failure))
    return drive(definition, (end) => makeRun(definition, input, options, opened.success, parent, end), event.success)
  })

/**
 * Runs an activation again from the journal it left, where everything is law: no handler is called and nothing is asked.
 * Fails with `NonDeterminism` as the reason where the agent takes another way.
 *
 * @since 0.1.0
 * @category destructors
 */
export const replay = (
  definition: Activation.Definition,
  input: Activation.Input,
  recorded: Activation.Replay
): Effect.Effect<Activation.Activated, RunError> =>
  // A replay calls no handler, so it requires none.
  run(definition, {
    ...input,
    answers: [],
    continuation: {
      version: definition.version,
      segment: recorded.segments,
      rows: input.rows.length,
      waiting: [],
      base: recorded.base
    }
  }) as Effect.Effect<Activation.Activated, RunError>

/**
 * The reason of a failure, as data.
 *
 * @since 0.1.0
 * @category destructors
 */
export const reasonOf = (error: unknown, kind: Activation.Reason["kind"] = "Failure"): Activation.Reason => {
  const tag = typeof error === "object" && error !== null && "_tag" in error ?
    String(error._tag)
    : error instanceof Error ?
    error.name
    : typeof error
  const text = error instanceof Error ? error.message : typeof error === "string" ? error : ""
  return { kind, tag, message: text === "" ? `${tag} without a message` : text.slice(0, 2000) }
}

// internal

/** One running activation. */
interface Run {
  readonly ctx: Activation.Context<any, any, any>
  readonly context: Context.Context<never>
  readonly seed: string
  readonly started: (main: Fiber.Fiber<any, any>) => void
  readonly close: () => void
  /** What a fiber that ended by itself comes to. */
  readonly conclude: (
    exit: Exit.Exit<Activation.Outcome<any, any>, unknown>
  ) => Effect.Effect<Activation.Activated, RunError>
}

type Ended = Effect.Effect<Activation.Activated, RunError>

/** Runs the agent's function in a fiber of its own and resumes when that has ended or was ended. */
const drive = (
  definition: Activation.Definition,
  make: (end: (ended: Ended) => void) => Run,
  event: unknown
): Effect.Effect<Activation.Activated, RunError> =>
  Effect.withFiber((parent) =>
    Effect.callback<Activation.Activated, RunError>((resume) => {
      let ended: Ended | undefined
      let fiber: Fiber.Fiber<Activation.Outcome<any, any>, unknown> | undefined
      let timer: Fiber.Fiber<void> | undefined
      const end = (result: Ended) => {
        ended ??= result
        fiber?.interruptUnsafe()
      }
      const run = make(end)
      fiber = Effect.runForkWith(run.context)(
        Random.withSeed(
          Effect.withFiber((main) => {
            run.started(main)
            // What the agent requires is in the fiber's context: the engine's layer asked for it.
            return definition.activate(run.ctx, event) as Effect.Effect<Activation.Outcome<any, any>, unknown>
          }),
          run.seed
        )
      )
      if (ended !== undefined) fiber.interruptUnsafe()
      fiber.addObserver((exit) => {
        timer?.interruptUnsafe()
        const result = ended ?? run.conclude(exit)
        run.close()
        resume(result)
      })
      if (fiber.pollUnsafe() === undefined) {
        timer = Effect.runForkWith(parent.context as Context.Context<never>)(
          Effect.andThen(
            Effect.sleep(definition.timeout),
            Effect.sync(() => {
              const reason = {
                kind: "TimedOut" as const,
                tag: "TimeoutError",
                message: `no end after ${Duration.format(definition.timeout)}`
              }
              run.close()
              end(Effect.fail(
                new Activation.ActivationFailed({
                  agent: definition.name,
                  key: run.ctx.key,
                  reason,
                  final: false
                })
              ))
            })
          )
        )
      }
      return Effect.suspend(() => {
        run.close()
        timer?.interruptUnsafe()
        return fiber === undefined ? Effect.void : interruptAndAwait(fiber)
      })
    })
  )

const interruptAndAwait = (fiber: Fiber.Fiber<any, any>): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    fiber.interruptUnsafe()
    fiber.addObserver(() => resume(Effect.void))
  })

const makeRun = (
  definition: Activation.Definition,
  input: Activation.Input,
  options: Options,
  journal: Journal.Journal,
  parent: Fiber.Fiber<any, any>,
  end: (ended: Ended) => void
): Run => {
  const { name: agent, maxBytes } = definition
  const { key, seq } = input
  const base = input.continuation?.base ?? startOf(input)
  const live = input.continuation?.segment ?? 0
  const working = Memory.working({
    key,
    entries: definition.entries,
    stored: base.memory,
    maxBytes: definition.memoryBytes,
    compact: definition.compact
  })
  const intents: Array<Intent.Draft> = []
  const emitted: Array<CanonicalJson.Json> = []
  const trace: Array<Activation.Trace> = []
  const open: Array<Activation.Awaited> = []
  const inFlight = new Set<Extract<Journal.Row, { readonly type: "read" }>>()
  const whenLive: Array<() => void> = []
  const realClock = parent.getRef(Clock.Clock)
  const ambient = Context.make(Clock.Clock, realClock).pipe(
    Context.add(Random.Random, parent.getRef(Random.Random)),
    Context.add(Tool.Reader, undefined)
  )
  let segment = base.segment
  let step = base.step
  let emissions = 0
  let closed = false
  let fatal: unknown
  let order: StepOrder.StepOrder
  let changed: Memory.Stored | undefined
  let now = journal.time(segment, input.now)

  if (segment < live) journal.time(live, input.now)
  for (const { answer, step } of input.answers) {
    if (journal.answer(step) === undefined) journal.write({ type: "answer", segment: live, step, answer })
  }

  /** A failure no `catch` of the agent can undo. */
  const abort = <E>(error: E): Effect.Effect<never, E> => {
    fatal ??= error
    return Effect.fail(error)
  }

  const whenOpen = <A, E, R>(what: string, body: () => Effect.Effect<A, E, R>) =>
    Effect.suspend((): Effect.Effect<A, E | Activation.ActivationClosed, R> =>
      closed ? Effect.fail(new Activation.ActivationClosed({ agent, key, step: what })) : body()
    )

  /** Takes the next step, and gives its number. */
  const takeStep = (
    kind: Journal.StepKind,
    name: string,
    digest: string
  ): Effect.Effect<number, Activation.StepError> =>
    Effect.flatMap(order.enter, (alone): Effect.Effect<number, Activation.StepError> => {
      if (!alone) return abort(new Activation.ConcurrentStepError({ agent, key, step: `${kind} '${name}'` }))
      if (closed) return Effect.fail(new Activation.ActivationClosed({ agent, key, step: `${kind} '${name}'` }))
      const number = step++
      const matched = journal.step({ segment, step: number, kind, name, digest })
      return Result.isFailure(matched) ? abort(matched.failure) : Effect.succeed(number)
    })

  const endSegment = (): Result.Result<void, unknown> =>
    Result.flatMap(working.end(), (stored) => {
      if (segment === live) changed = stored
      return journal.memory(segment, stored === undefined ? "unchanged" : digestOf(stored))
    })

  /** Goes on from a suspension that is already committed. */
  const nextSegment = (): Effect.Effect<void, Journal.NonDeterminism> => {
    const ended = endSegment()
    if (Result.isFailure(ended)) return abort(ended.failure as Journal.NonDeterminism)
    segment++
    emissions = 0
    now = journal.time(segment, input.now)
    if (segment === live) { for (const wake of whenLive.splice(0)) wake() }
    return Effect.void
  }

  const activated = (outcome: Activation.Activated["outcome"]): Activation.Activated => ({
    outcome,
    intents,
    emitted,
    memory: changed,
    journal: journal.pending(),
    trace,
    replay: { base, segments: segment + 1 }
  })

  /** Ends the activation here; the fiber that asked is interrupted and never answered. */
  const suspend = (waiting: ReadonlyArray<Activation.Waiting>): Effect.Effect<never> => {
    const ended = endSegment()
    if (Result.isFailure(ended)) return abort(ended.failure) as Effect.Effect<never>
    for (const read of inFlight) journal.write({ ...read, outcome: { _tag: "Suspended" } })
    trace.push({ type: "Suspended", segment })
    const { from, rows } = journal.pending()
    closed = true
    end(Effect.succeed(activated({
      _tag: "Suspended",
      continuation: {
        version: definition.version,
        segment: segment + 1,
        rows: from + rows.length,
        waiting,
        base
      }
    })))
    return Effect.never
  }

  /** Waits at a step: for its answer if it has one, else by suspending. */
  const await_ = (waiting: Activation.Waiting): Effect.Effect<Journal.Answer, Journal.NonDeterminism> => {
    const answer = journal.answer(waiting.step)
    return answer === undefined ? suspend([waiting]) : Effect.as(nextSegment(), answer)
  }

  const readAt = (
    name: string,
    digest: string,
    body: () => Effect.Effect<any, any, any>,
    schemas: Pick<Tool.Any, "success" | "failure">
  ): Effect.Effect<any, any, any> => {
    const { occurrence, outcome } = journal.read(segment, name, digest)
    if (outcome !== undefined) {
      switch (outcome._tag) {
        case "Success":
          return fromJournal(schemas.success, outcome.value)
        case "Failure":
          return Effect.flip(fromJournal(schemas.failure, outcome.error))
        case "Defect":
          return Effect.die(new Error(outcome.message))
        case "Interrupted":
          return Effect.never
        case "Suspended":
          return Effect.andThen(
            Effect.callback<void>((resume) => {
              whenLive.push(() => resume(Effect.void))
            }),
            Effect.suspend(() => readAt(name, digest, body, schemas))
          )
      }
    }
    if (segment < live) {
      return abort(
        new Journal.NonDeterminism({
          agent,
          key,
          place: `a read of segment ${segment}`,
          recorded: "nothing",
          asked: `'${name}' (arguments ${digest})`
        })
      )
    }
    const row = {
      type: "read" as const,
      segment,
      tool: name,
      digest,
      occurrence,
      outcome: { _tag: "Suspended" as const }
    }
    inFlight.add(row)
    return Effect.onExit(
      Effect.provideContext(body(), ambient as Context.Context<any>),
      (exit) =>
        Effect.suspend(() => {
          inFlight.delete(row)
          if (closed) return Effect.void
          const recorded = readOutcome(exit, schemas)
          if (Result.isFailure(recorded)) return Effect.die(new Error(`the result of '${name}' ${recorded.failure}`))
          journal.write({ ...row, outcome: recorded.success })
          trace.push({ type: "ToolCall", tool: name, argumentsDigest: digest, outcome: recorded.success._tag })
          return Effect.void
        })
    )
  }

  const runTool = (call: Tool.ReadOnlyCall<string, any, any, any>): Effect.Effect<any, any, any> =>
    whenOpen("runTool", (): Effect.Effect<any, any, any> => {
      const refusal = Tool.refuse(call, "ReadOnly")
      if (refusal !== undefined) return Effect.fail(refusal)
      const args = Tool.encodeArguments(call)
      return Result.isFailure(args)
        ? Effect.fail(args.failure)
        : readAt(call.name, digestOf(args.success), () => Tool.read(call), call.tool)
    })

  const needsApproval = (tool: Tool.Any, args: unknown, digest: string): Effect.Effect<boolean> => {
    const rule = tool.options.approval
    if (typeof rule !== "function") return Effect.succeed(rule === "required")
    // Only a clear no means no: whatever else the rule answers, or fails to answer, somebody is asked.
    const asked = Effect.suspend(() => rule(args)).pipe(
      Effect.timeout("10 seconds"),
      Effect.map((needed) => needed !== false),
      Effect.catchCause(() => Effect.succeed(true))
    )
    return readAt(`${tool.name}#approval`, digest, () => asked, ruleSchemas) as Effect.Effect<boolean>
  }

  /** Stages a call and gives its place; in a committed segment only the place. */
  const stage = (
    kind: "act" | "request",
    call: Activation.AnySideEffectCall,
    given: Activation.ActOptions | undefined
  ) =>
    whenOpen(kind, () =>
      Effect.gen(function*() {
        const refusal = Tool.refuse(call, "SideEffect") ?? options.refuse?.(call.tool)
        if (refusal !== undefined) return yield* Effect.fail(refusal)
        const tool = call.tool
        const args = yield* Effect.fromResult(Tool.encodeArguments(call))
        const text = yield* Effect.fromResult(Tool.argumentsText(tool, args))
        const bytes = Buffer.byteLength(text)
        if (bytes > maxBytes) {
          return yield* abort(
            new Activation.TooLarge({ what: `the arguments of '${tool.name}'`, key, bytes, maxBytes })
          )
        }
        const digest = CanonicalJson.digest(text)
        const number = yield* takeStep(kind, tool.name, digest)
        const id = Intent.makeId(agent, key, seq, number)
        if (kind === "act") open.push({ id, step: number, tool: tool.name })
        if (segment < live) return { id, step: number, tool }
        const ttl = Duration.toMillis(Duration.fromInputUnsafe(given?.ttl ?? tool.options.ttl ?? "24 hours"))
        if (!(ttl > 0)) return yield* Effect.die(new RangeError(`the ttl of '${tool.name}' must be positive`))
        const gated = yield* needsApproval(tool, call.arguments, digest)
        stageIntent({
          id,
          agent,
          key,
          seq,
          step: number,
          kind: "tool",
          tool: tool.name,
          contract: tool.contract,
          arguments: Tool.publicArguments(tool, args, text),
          argumentsDigest: digest,
          sealed: tool.parameters.redacted.length === 0 ? undefined : new Intent.Sealed(text),
          ttl,
          approval: gated ? "required" : "none",
          approvalTimeout: gated ? millisOf(tool.options.approvalTimeout ?? "24 hours") : undefined,
          idempotent: tool.options.idempotent === true,
          verify: tool.options.verify === true,
          traceId: Intent.traceId(agent, key, seq)
        })
        return { id, step: number, tool }
      }))

  const stageIntent = (intent: Intent.Draft): void => {
    intents.push(intent)
    trace.push({ type: "IntentStaged", step: intent.step, tool: intent.tool, id: intent.id })
  }

  const requestAll = (calls: Readonly<Record<string, Activation.AnySideEffectCall>>, given?: Activation.ActOptions) =>
    Effect.gen(function*() {
      const names = Object.keys(calls)
      if (names.length === 0) return {}
      const places = []
      for (const name of names) places.push(yield* stage("request", calls[name]!, given))
      const waiting = places.filter(({ step }) => journal.answer(step) === undefined)
      if (waiting.length > 0) {
        return yield* suspend(waiting.map(({ id, step }) => ({ type: "intent", id, step })))
      }
      yield* nextSegment()
      const results: Record<string, unknown> = Object.create(null)
      for (const [index, name] of names.entries()) {
        const place = places[index]!
        results[name] = yield* handOver(place.tool, key, place.id, intentResult(journal.answer(place.step)))
      }
      return { ...results }
    })

  const requestApproval: Activation.Context<any, any, any>["requestApproval"] = (question) =>
    whenOpen("requestApproval", () =>
      Effect.gen(function*() {
        const text = textOf({ title: question.title, details: question.details ?? null })
        const digest = CanonicalJson.digest(text)
        const number = yield* takeStep("approval", question.title, digest)
        const id = Intent.makeId(agent, key, seq, number)
        if (segment >= live && journal.answer(number) === undefined) {
          stageIntent({
            id,
            agent,
            key,
            seq,
            step: number,
            kind: "approval",
            tool: "approval",
            contract: "approval",
            arguments: text,
            argumentsDigest: digest,
            sealed: undefined,
            ttl: millisOf(question.timeout ?? "24 hours"),
            approval: "required",
            approvalTimeout: millisOf(question.timeout ?? "24 hours"),
            idempotent: false,
            verify: false,
            traceId: Intent.traceId(agent, key, seq)
          })
        }
        const answer = yield* await_({ type: "intent", step: number, id })
        return answer.type === "decision"
          ? { approved: answer.approved, by: answer.by }
          : {
            approved: false,
            by: `policy:${answer.type === "intent" ? notPerformedReason(answer.result) : answer.type}`
          }
      }))

  const sleep = (duration: Duration.Input): Effect.Effect<void, Activation.StepError> =>
    whenOpen("sleep", () => {
      const millis = millisOf(duration)
      return Effect.flatMap(takeStep("sleep", "sleep", String(millis)), (number) =>
        Effect.asVoid(await_({ type: "timer", step: number, millis })))
    })

  const receive = (schema: Schema.Codec<any, any, never, never>, given?: { readonly timeout?: Duration.Input }) =>
    whenOpen("receive", () =>
      Effect.gen(function*() {
        const codec = Activation.codec(schema)
        const millis = given?.timeout === undefined ? undefined : millisOf(given.timeout)
        const number = yield* takeStep("receive", "message", String(millis))
        const answer = yield* await_({ type: "message", step: number, millis, schema: shownTo(schema) })
        if (answer.type !== "message") return yield* new Activation.MessageTimeout({ agent, key })
        const decoded = codec.decode(answer.message)
        if (Result.isSuccess(decoded)) return decoded.success
        closed = true
        end(Effect.fail(
          new Activation.MessageRefused({ agent, key, offset: answer.offset, detail: decoded.failure })
        ))
        return yield* Effect.never
      }))

  const emit = (output: unknown): Effect.Effect<void, Activation.StepError> =>
    whenOpen("emit", (): Effect.Effect<void, Activation.StepError> => {
      const encoded = encodeWithin(definition.output, output, "an output", key, maxBytes)
      if (Result.isFailure(encoded)) return abort(encoded.failure) as Effect.Effect<never, Activation.TooLarge>
      const matched = journal.emit(segment, emissions++, digestOf(encoded.success))
      if (Result.isFailure(matched)) return abort(matched.failure)
      if (segment >= live) emitted.push(encoded.success)
      return Effect.void
    })

  const callModel = (model: Activation.ModelCall<any, any>): Effect.Effect<any, any> =>
    whenOpen("callModel", () =>
      Effect.gen(function*() {
        const codec = Activation.codec(model.reply)
        const digest = digestOf({ model: model.model, request: model.request, offset: input.offset })
        const number = yield* takeStep("model", model.model, digest)
        if (journal.answer(number) === undefined) {
          const value = yield* Effect.provideContext(model.call, ambient as Context.Context<any>)
          const reply = codec.encode(value)
          if (Result.isFailure(reply)) {
            return yield* Effect.die(new Error(`the reply of model '${model.model}' ${reply.failure}`))
          }
          journal.write({ type: "answer", segment, step: number, answer: { type: "reply", reply: reply.success } })
          trace.push({ type: "ModelCall", step: number, model: model.model })
          if (options.append !== undefined) {
            const { from, rows } = journal.pending()
            const stored = yield* Effect.catch(options.append(from, rows), abort)
            if (stored !== rows) yield* Effect.catch(Effect.fromResult(journal.adopt(stored)), abort)
          }
        }
        const answer = journal.answer(number)
        return answer?.type === "reply" ? Result.getOrThrow(codec.decode(answer.reply)) : yield* Effect.die(answer)
      }))

  const resume = base.state === undefined ? undefined : resumeOf(definition, base, key, journal)

  const ctx: Activation.Context<any, any, any> = {
    agent,
    key,
    seq,
    memory: working.memory,
    resume,
    runTool: runTool as any,
    act: ((call: any, given: any) => Effect.map(stage("act", call, given), ({ id }) => id)) as any,
    request:
      ((call: any, given: any) =>
        Effect.flatMap(stage("request", call, given), ({ id, step, tool }) =>
          Effect.flatMap(
            await_({ type: "intent", id, step }),
            (answer) => handOver(tool, key, id, intentResult(answer))
          ))) as any,
    requestAll: requestAll as any,
    requestApproval,
    sleep,
    receive: receive as any,
    emit,
    callModel: callModel as any
  }

  const conclude: Run["conclude"] = (exit) => {
    // A step of a fiber nobody waited for would be lost without a word.
    if (order.contested()) fatal ??= new Activation.ConcurrentStepError({ agent, key, step: "of a forked fiber" })
    const done = (outcome: () => Result.Result<Activation.Activated["outcome"], unknown>): Ended => {
      const result = Result.flatMap(endSegment(), () => Result.flatMap(journal.finish(), outcome))
      return Result.isFailure(result)
        ? Effect.fail(failed(definition, input, reasonOf(result.failure), true))
        : Effect.succeed(activated(result.success))
    }
    if (fatal !== undefined) return Effect.fail(failed(definition, input, reasonOf(fatal), true))
    if (Exit.isFailure(exit)) return Effect.fail(failed(definition, input, reasonOfCause(exit.cause), false))
    const outcome = exit.value
    if (outcome._tag === "Suspend") {
      return done(() => {
        if (open.length === 0) return Result.fail(new Activation.NothingPending({ agent, key }))
        return Result.map(encodeWithin(definition.state, outcome.state, "the state", key, maxBytes), (state) => {
          trace.push({ type: "Suspended", segment })
          const { from, rows } = journal.pending()
          return {
            _tag: "Suspended",
            continuation: {
              version: definition.version,
              segment: segment + 1,
              rows: from + rows.length,
              waiting: open.map(({ id, step }) => ({ type: "intent", id, step })),
              base: {
                segment: segment + 1,
                step,
                rows: from + rows.length,
                memory: working.stored(),
                state,
                awaited: open
              }
            }
          }
        })
      })
    }
    return done(() =>
      Result.map(encodeWithin(definition.output, outcome.output, "the output", key, maxBytes), (output) => {
        trace.push({ type: "Completed" })
        return { _tag: "Complete", output }
      })
    )
  }

  return {
    ctx,
    context: Context.merge(
      parent.context,
      Context.make(Clock.Clock, frozenClock(() => now, realClock)).pipe(
        Context.add(Tool.Reader, runTool as any)
      )
    ) as Context.Context<never>,
    seed: `${agent}\0${key}\0${input.offset}\0${base.segment}`,
    started: (main) => {
      order = StepOrder.make(main)
    },
    close: () => {
      closed = true
    },
    conclude
  }
}

const startOf = (input: Activation.Input): Activation.Continuation["base"] => ({
  segment: 0,
  step: 0,
  rows: 0,
  memory: input.memory,
  state: undefined,
  awaited: []
})

const failed = (
  definition: Activation.Definition,
  input: Activation.Input,
  reason: Activation.Reason,
  final: boolean
) => new Activation.ActivationFailed({ agent: definition.name, key: input.key, reason, final })

const misfit = (definition: Activation.Definition, input: Activation.Input, what: string, issue: string) =>
  failed(definition, input, {
    kind: "Failure",
    tag: "SchemaError",
    message: `${what} does not fit its schema: ${issue}`
  }, true)

const reasonOfCause = (cause: Cause.Cause<unknown>): Activation.Reason => {
  const reason = cause.reasons.find(Cause.isFailReason) ?? cause.reasons.find(Cause.isDieReason)
  return reason === undefined
    ? { kind: "Interrupted", tag: "Interrupted", message: "the activation was interrupted" }
    : reason._tag === "Fail"
    ? reasonOf(reason.error)
    : reasonOf(reason.defect, "Defect")
}

const frozenClock = (now: () => number, real: Clock.Clock): Clock.Clock => {
  const nanos = () => BigInt(now()) * 1_000_000n
  return {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => real.sleep(duration)
  }
}

const textOf = (value: unknown): string => Result.getOrThrow(CanonicalJson.encode(value))

const digestOf = (value: unknown): string => CanonicalJson.digest(textOf(value))

const millisOf = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))

const encodeWithin = (
  codec: Activation.Codec,
  value: unknown,
  what: string,
  key: string,
  maxBytes: number
): Result.Result<CanonicalJson.Json, unknown> =>
  Result.flatMap(codec.encode(value), (json) => {
    const bytes = Buffer.byteLength(JSON.stringify(json))
    return bytes > maxBytes
      ? Result.fail(new Activation.TooLarge({ what, key, bytes, maxBytes }))
      : Result.succeed(json)
  })

const fromJournal = (schema: Tool.Any["success"], json: CanonicalJson.Json): Effect.Effect<any> => {
  const decoded = schema.decode(json)
  return Result.isFailure(decoded)
    ? Effect.die(new Error("a journaled result no longer fits its schema"))
    : Effect.succeed(decoded.success)
}

const readOutcome = (
  exit: Exit.Exit<any, any>,
  schemas: Pick<Tool.Any, "success" | "failure">
): Result.Result<Journal.ReadOutcome, string> => {
  const misfit = () => "does not fit its schema"
  if (Exit.isSuccess(exit)) {
    return Result.mapBoth(schemas.success.encode(exit.value), {
      onSuccess: (value) => ({ _tag: "Success", value }),
      onFailure: misfit
    })
  }
  const reason = reasonOfCause(exit.cause)
  if (reason.kind === "Interrupted") return Result.succeed({ _tag: "Interrupted" })
  const error = exit.cause.reasons.find(Cause.isFailReason)
  return error === undefined
    ? Result.succeed({ _tag: "Defect", message: reason.message })
    : Result.mapBoth(schemas.failure.encode(error.error), {
      onSuccess: (error) => ({ _tag: "Failure", error }),
      onFailure: misfit
    })
}

const booleans = Result.getOrThrow(ToolSchema.make(Schema.Boolean))

/** How the answer of an approval rule is journaled. */
const ruleSchemas = { success: booleans, failure: booleans }

/** The JSON Schema a sender's message is held against, where the schema has one. */
const shownTo = (schema: Schema.Codec<any, any, never, never>): ToolSchema.Shown | undefined => {
  const made = ToolSchema.make(schema)
  return Result.isSuccess(made) ? made.success.jsonSchema("draft-2020-12") : undefined
}

const intentResult = (answer: Journal.Answer | undefined): Intent.Result =>
  answer?.type === "intent"
    ? answer.result
    : { _tag: "Unavailable", message: `the answer is a ${answer?.type ?? "missing"} one` }

const notPerformedReason = (result: Intent.Result): string =>
  result._tag === "NotPerformed" ? (result.reason === "Denied" ? "timeout" : result.reason.toLowerCase()) : result._tag

/** A result as the agent sees it. */
const handOver = (
  tool: Tool.Any,
  key: string,
  id: Intent.Id,
  result: Intent.Result
): Effect.Effect<any, any> => {
  const unavailable = (detail: string) => new Intent.ResultUnavailable({ id, tool: tool.name, key, detail })
  switch (result._tag) {
    case "Success":
      return Effect.mapError(
        Effect.fromResult(tool.success.decode(result.value)),
        () => unavailable("it does not fit the tool's success schema")
      )
    case "Failure": {
      const error = tool.failure.decode(result.error)
      return Effect.fail(
        Result.isSuccess(error) ? error.success : unavailable("it does not fit the tool's failure schema")
      )
    }
    case "Unavailable":
      return Effect.fail(unavailable(result.message))
    case "NotPerformed":
      return Effect.fail(
        new Intent.IntentNotPerformed({ id, tool: tool.name, key, reason: result.reason, detail: result.message })
      )
    case "OutcomeUnknown":
      return Effect.fail(
        new Intent.IntentOutcomeUnknown({ id, tool: tool.name, key, reason: result.reason, detail: result.message })
      )
  }
}

const resumeOf = (
  definition: Activation.Definition,
  base: Activation.Continuation["base"],
  key: string,
  journal: Journal.Journal
): Activation.Resume<any> => {
  const results = base.awaited.map(({ id, step, tool }) => ({ id, tool, result: intentResult(journal.answer(step)) }))
  return {
    state: Result.getOrThrow(definition.state.decode(base.state)),
    results,
    result: (tool, id) => {
      const found = results.find((result) => result.id === id && result.tool === tool.name)
      return found === undefined
        ? Effect.fail(
          new Intent.IntentConflict({
            id,
            agent: definition.name,
            key,
            stagedTool: results.find((result) => result.id === id)?.tool ?? "nothing",
            stagedDigest: "",
            askedTool: tool.name,
            askedDigest: ""
          })
        )
        : handOver(tool, key, id, found.result)
    }
  }
}
