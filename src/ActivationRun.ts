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
import * as Activation from "./Activation.ts"
import * as ActivationContext from "./ActivationContext.ts"
import { firstReason, runTool } from "./ActivationReads.ts"
import * as State from "./ActivationState.ts"
import * as Journal from "./Journal.ts"
import * as StepOrder from "./StepOrder.ts"
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
  Effect.withFiber((parent) => {
    const { continuation } = input
    const opened = Journal.open({
      agent: definition.name,
      key: input.key,
      rows: input.rows,
      committed: continuation?.rows ?? 0,
      since: continuation?.base.rows ?? 0,
      segment: continuation?.segment ?? 0
    })
    if (Result.isFailure(opened)) return Effect.fail(failed(definition, input, reasonOf(opened.failure), true))
    const event = definition.event.decode(input.event)
    if (Result.isFailure(event)) {
      const misfit = new Activation.Misfit({ what: "the event", key: input.key, detail: event.failure })
      return Effect.fail(failed(definition, input, reasonOf(misfit), true))
    }
    const journal = opened.success
    return drive((end) => State.make({ definition, input, options, journal, end }, parent), parent, event.success)
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
    const end = (result: State.Ended): void => {
      ended ??= result
      fiber?.interruptUnsafe()
    }
    const state = make(end)
    fiber = Effect.runForkWith(contextOf(state, parent))(programOf(state, event))
    // It may have suspended before there was a fiber to interrupt.
    if (ended !== undefined) fiber.interruptUnsafe()
    fiber.addObserver((exit) => {
      timer?.interruptUnsafe()
      const result = ended ?? conclude(state, exit)
      state.closed = true
      resume(result)
    })
    if (fiber.pollUnsafe() === undefined) {
      const { definition, input } = state
      const expire = Effect.sync(() => {
        const message = `no end after ${Duration.format(definition.timeout)}`
        state.closed = true
        end(Effect.fail(failed(definition, input, { kind: "TimedOut", tag: "TimeoutError", message }, false)))
      })
      timer = Effect.runForkWith(parent.context as Context.Context<never>)(Effect.delay(expire, definition.timeout))
    }
    return Effect.suspend(() => {
      state.closed = true
      timer?.interruptUnsafe()
      return fiber === undefined ? Effect.void : interruptAndAwait(fiber)
    })
  })

const interruptAndAwait = (fiber: Fiber.Fiber<any, any>): Effect.Effect<void> =>
  Effect.callback<void>((resume) => {
    fiber.interruptUnsafe()
    fiber.addObserver(() => resume(Effect.void))
  })

/** The agent's function, with randomness of its own: the same for every run of this event from this base. */
const programOf = (state: State.State, event: unknown): Effect.Effect<Activation.Outcome<any, any>, unknown> => {
  const { base, definition, input } = state
  const program = Effect.withFiber((main) => {
    state.order = StepOrder.make(main)
    return definition.activate(ActivationContext.make(state), event)
  })
  // What the agent requires is in the fiber's context: whoever runs an activation was asked for it.
  return Random.withSeed(program, [definition.name, input.key, input.offset, base.segment].join("\0")) as any
}

/** The context of the agent's fiber: frozen time, and reads that go through the journal. */
const contextOf = (state: State.State, parent: Fiber.Fiber<any, any>): Context.Context<never> =>
  Context.merge(
    parent.context as Context.Context<never>,
    Context.make(Clock.Clock, frozenClock(() => state.now, parent.getRef(Clock.Clock))).pipe(
      Context.add(Tool.Reader, (call) => runTool(state, call))
    )
  )

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
  if (state.order?.contested() === true) state.fatal ??= State.concurrentStep(state, "of a forked fiber")
  if (state.fatal !== undefined) return Effect.fail(failed(definition, input, reasonOf(state.fatal), true))
  if (Exit.isFailure(exit)) return Effect.fail(failed(definition, input, reasonOfCause(exit.cause), false))
  const result = Result.gen(function*() {
    yield* State.endSegment(state)
    yield* state.journal.finish()
    return State.activated(
      state,
      yield* exit.value._tag === "Suspend" ? leave(state, exit.value) : finish(state, exit.value)
    )
  })
  return Result.isFailure(result)
    ? Effect.fail(failed(definition, input, reasonOf(result.failure), true))
    : Effect.succeed(result.success)
}

const finish = (state: State.State, { output }: Activation.Complete<unknown>) =>
  Result.map(State.encode(state, state.definition.output, output, "the output"), (json) => {
    state.trace.push({ type: "Completed" })
    return { _tag: "Complete" as const, output: json }
  })

/** Leaves a state to go on from: the segments so far are never replayed again. */
const leave = (
  state: State.State,
  left: Activation.Suspend<unknown>
): Result.Result<Activation.Activated["outcome"], unknown> => {
  const { definition, input, open } = state
  if (open.length === 0) return Result.fail(new Activation.NothingPending({ agent: definition.name, key: input.key }))
  return Result.map(
    State.encode(state, definition.state, left.state, "the state"),
    (json) =>
      State.suspended(state, open.map(({ id, step }) => ({ type: "intent", id, step })), (rows) => ({
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
