/**
 * Runs an activation: the pure step around an agent's function. It replays what is committed, runs what is new, and hands
 * back everything that is to be committed as data.
 *
 * Guarantees: on failure, defect, timeout or interruption nothing is handed back. A suspension is no error and no value: the
 * fiber is interrupted from outside, after the commit's content is fixed.
 *
 * @since 0.1.0
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Scheduler from "effect/Scheduler"
import * as Activation from "./Activation.ts"
import * as ActivationContext from "./ActivationContext.ts"
import { firstReason, runTool } from "./ActivationReads.ts"
import * as Segment from "./ActivationSegment.ts"
import * as State from "./ActivationState.ts"
import * as Journal from "./Journal.ts"
import * as Tool from "./Tool.ts"

/**
 * How an activation reaches the world around it.
 *
 * @since 0.1.0
 * @category models
 */
export type Options = State.Options

/**
 * What an activation may be failed with.
 *
 * @since 0.1.0
 * @category errors
 */
export type RunError = Activation.ActivationFailed | Activation.MessageRefused

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
  Effect.withFiber((parent): Effect.Effect<Activation.Activated, RunError> => {
    const { continuation } = input
    const checked = Result.gen(function*() {
      const journal = yield* Journal.open({
        agent: definition.name,
        key: input.key,
        rows: input.rows,
        committed: continuation?.rows ?? 0,
        since: continuation?.base.rows ?? 0,
        segment: continuation?.segment ?? 0
      })
      const left = continuation?.base.state
      if (left !== undefined) yield* misfit(input, "the state", definition.state.decode(left))
      return { journal, event: yield* misfit(input, "the event", definition.event.decode(input.event)) }
    })
    if (Result.isFailure(checked)) return Effect.fail(failed(definition, input, reasonOf(checked.failure), true))
    const { event, journal } = checked.success
    const again = (rows: ReadonlyArray<Journal.Stored>): State.Ended =>
      // It requires what this run was given already.
      run(definition, { ...input, rows: [...input.rows.slice(0, continuation?.rows ?? 0), ...rows] }, options) as any
    const make = (end: State.State["end"]) => State.make({ definition, input, options, journal, end, again }, parent)
    const open = continuation?.waiting.filter(({ step }) => isOpen(input, journal, step)) ?? []
    return continuation !== undefined && open.length > 0
      ? Effect.sync(() => waitOn(make(() => {}), continuation, open))
      : drive(make, parent, event)
  }).pipe(
    // The agent's own defects are its outcome; these are those of schemas and hooks.
    Effect.catchDefect((defect) => Effect.fail(failed(definition, input, reasonOf(defect, "Defect"), false)))
  )

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
  recorded: Activation.Replay,
  options: Pick<Options, "signing"> = {}
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
  }, options) as Effect.Effect<Activation.Activated, RunError>

/**
 * The reason of a failure, as data.
 *
 * @since 0.1.0
 * @category destructors
 */
export const reasonOf = (error: unknown, kind: Activation.Reason["kind"] = "Failure"): Activation.Reason => {
  const { _tag, message, name }: { readonly [name: string]: unknown } = Object(error)
  const tag = typeof _tag === "string" ? _tag : error instanceof Error ? String(name) : typeof error
  const text = typeof message === "string" ? message : typeof error === "string" ? error : ""
  return { kind, tag, message: text === "" ? `${tag} without a message` : text.slice(0, 2000).toWellFormed() }
}

// internal

const misfit = <A>(
  { key }: Activation.Input,
  what: string,
  decoded: Result.Result<A, string>
): Result.Result<A, Activation.Misfit> =>
  Result.mapError(decoded, (detail) => new Activation.Misfit({ what, key, detail }))

const isOpen = ({ answers }: Activation.Input, journal: Journal.Journal, step: number): boolean =>
  answers.every((answer) => answer.step !== step) && journal.answerAt(step) === undefined

/** Keeps waiting: what was answered is written down, and no code of the agent runs. */
const waitOn = (
  state: State.State,
  continuation: Activation.Continuation,
  waiting: ReadonlyArray<Activation.Waiting>
): Activation.Activated => {
  const { from, rows } = state.journal.pending()
  return {
    ...Segment.activated(state, {
      _tag: "Suspended",
      continuation: { ...continuation, rows: from + rows.length, waiting }
    }),
    replay: { base: state.base, segments: continuation.segment }
  }
}

/** Runs the agent's function in a fiber of its own, and resumes when that has ended or was ended. */
const drive = (
  make: (end: (ended: State.Ended) => void) => State.State,
  parent: Fiber.Fiber<any, any>,
  event: unknown
): Effect.Effect<Activation.Activated, RunError> =>
  Effect.callback<Activation.Activated, RunError>((resume) => {
    let ended: State.Ended | undefined
    let fiber: Fiber.Fiber<Activation.Outcome<any, any>, unknown> | undefined
    let timer: Fiber.Fiber<void> | undefined
    const state = make((result) => {
      ended ??= result
      fiber?.interruptUnsafe()
    })
    const finish = (result: State.Ended): void => {
      timer?.interruptUnsafe()
      state.closed = true
      resume(Effect.andThen(logDropped(state), result))
    }
    Segment.begin(state)
    fiber = Effect.runForkWith(contextOf(state, parent))(programOf(state, event))
    // It may have suspended before there was a fiber to interrupt.
    if (ended !== undefined) fiber.interruptUnsafe()
    fiber.addObserver((exit) => finish(ended ?? Effect.suspend(() => conclude(state, exit))))
    if (fiber.pollUnsafe() === undefined) {
      const { definition, input } = state
      const expire = Effect.suspend(() => {
        const message = `no end after ${Duration.format(definition.timeout)}`
        const reason = { kind: "TimedOut" as const, tag: "TimeoutError", message }
        const timedOut = Effect.fail(failed(definition, input, reason, false))
        state.closed = true
        state.end(timedOut)
        return Effect.delay(Effect.sync(() => finish(ended ?? timedOut)), stubborn)
      })
      timer = Effect.runForkWith(parent.context as Context.Context<never>)(Effect.delay(expire, definition.timeout))
    }
    return Effect.suspend(() => {
      state.closed = true
      timer?.interruptUnsafe()
      return fiber === undefined ? Effect.void : Effect.asVoid(interruptAndAwait(fiber))
    })
  })

/** How long a fiber that does not heed its interruption is waited for. It can do nothing any more. */
const stubborn = "10 seconds"

const logDropped = ({ definition, input, journal }: State.State): Effect.Effect<void> => {
  const dropped = journal.dropped()
  return dropped.length === 0 ? Effect.void : Effect.logWarning(
    `'${definition.name}' for key '${input.key}' took another way than its uncommitted journal, dropped: ${
      dropped.join("; ")
    }`
  )
}

const interruptAndAwait = (fiber: Fiber.Fiber<any, any>): Effect.Effect<unknown> =>
  Effect.timeoutOption(
    Effect.callback<void>((resume) => {
      fiber.interruptUnsafe()
      fiber.addObserver(() => resume(Effect.void))
    }),
    stubborn
  )

const programOf = (state: State.State, event: unknown): Effect.Effect<Activation.Outcome<any, any>, unknown> =>
  // What the agent requires is in the fiber's context: whoever runs an activation was asked for it.
  Effect.withFiber((main) => {
    state.order.begin(main)
    return Effect.tap(state.definition.activate(ActivationContext.make(state), event), state.order.settle)
  }) as any

/** The context of the agent's fiber: time and randomness of its own, fibers that are watched, reads that go by the journal. */
const contextOf = (state: State.State, parent: Fiber.Fiber<any, any>): Context.Context<never> =>
  Context.merge(
    parent.context as Context.Context<never>,
    Context.make(Clock.Clock, frozenClock(() => state.now, parent.getRef(Clock.Clock))).pipe(
      Context.add(Random.Random, seededRandom(state)),
      Context.add(Scheduler.Scheduler, state.order.scheduler),
      Context.add(Tool.Reader, (call) => runTool(state, call))
    )
  )

/** The same for every run of this event from this base. Most agents draw nothing, and seeding is dear. */
const seededRandom = ({ base, definition, input }: State.State): Random.Random => {
  let random: Random.Random | undefined
  const seeded = (): Random.Random =>
    random ??= Effect.runSync(
      Random.withSeed(
        Effect.service(Random.Random),
        [definition.name, input.key, input.offset, base.segment].join("\0")
      )
    )
  return {
    nextIntUnsafe: () => seeded().nextIntUnsafe(),
    nextDoubleUnsafe: () => seeded().nextDoubleUnsafe()
  }
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

/** What a fiber that ended by itself comes to. */
const conclude = (
  state: State.State,
  exit: Exit.Exit<Activation.Outcome<any, any>, unknown>
): Effect.Effect<Activation.Activated, RunError> => {
  const { definition, input } = state
  // A step of a fiber nobody waited for would be lost without a word.
  if (state.order.contested()) state.fatal ??= State.concurrentStep(state, "of a forked fiber")
  if (state.fatal !== undefined) return Effect.fail(failed(definition, input, reasonOf(state.fatal), true))
  if (Exit.isFailure(exit)) return Effect.fail(failed(definition, input, reasonOfCause(exit.cause), false))
  const result = Result.gen(function*() {
    yield* Segment.end(state)
    return Segment.activated(state, yield* leave(state, exit.value))
  })
  return Result.isFailure(result)
    ? Effect.fail(failed(definition, input, reasonOf(result.failure), true))
    : Effect.succeed(result.success)
}

const leave = (
  state: State.State,
  outcome: Activation.Outcome<unknown, unknown>
): Result.Result<Activation.Activated["outcome"], unknown> => {
  switch (outcome?._tag) {
    case "Complete":
      return complete(state, outcome)
    case "Suspend":
      return suspend(state, outcome)
    default: {
      const detail = "it is neither 'Agent.complete' nor 'Agent.suspend'"
      return Result.fail(new Activation.Misfit({ what: "the outcome", key: state.input.key, detail }))
    }
  }
}

const complete = (state: State.State, { output }: Activation.Complete<unknown>) =>
  Result.map(State.encode(state, state.definition.output, output, "the output"), ({ json }) => {
    state.trace.push({ type: "Completed" })
    return { _tag: "Complete" as const, output: json }
  })

/** Leaves a state to go on from: the segments so far are never replayed again. */
const suspend = (state: State.State, left: Activation.Suspend<unknown>) => {
  const { definition, input, open } = state
  if (open.length === 0) return Result.fail(new Activation.NothingPending({ agent: definition.name, key: input.key }))
  return Result.map(
    State.encode(state, definition.state, left.state, "the state"),
    ({ json }) =>
      Segment.suspended(state, open.map(({ id, step }) => ({ type: "intent", id, step })), (rows) => ({
        segment: state.segment + 1,
        step: state.step,
        rows,
        memory: state.memory.stored(),
        state: json,
        awaited: open
      }))
  )
}

const failed = (
  definition: Activation.Definition,
  input: Activation.Input,
  reason: Activation.Reason,
  final: boolean
) => new Activation.ActivationFailed({ agent: definition.name, key: input.key, reason, final })

const reasonOfCause = (cause: Cause.Cause<unknown>): Activation.Reason => {
  const reason = firstReason(cause)
  return reason === undefined
    ? { kind: "Interrupted", tag: "Interrupted", message: "the activation was interrupted" }
    : reasonOf(reason.error, reason.kind)
}
