/**
 * The state of one running activation, and the moves every part of its context is made of: taking a step, ending a segment,
 * suspending, failing for good.
 *
 * Guarantees: a step is numbered before it does anything; after the end no move is made.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Activation from "./Activation.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Memory from "./Memory.ts"
import type * as StepOrder from "./StepOrder.ts"
import * as Tool from "./Tool.ts"

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
  /** Why an intent of this tool cannot be staged here, nobody performing it for instance. */
  readonly refuse?: (tool: Tool.Any) => unknown
}

/**
 * What ends an activation from outside its fiber.
 *
 * @since 0.1.0
 * @category models
 */
export type Ended = Effect.Effect<Activation.Activated, Activation.ActivationFailed | Activation.MessageRefused>

/**
 * One running activation.
 *
 * @since 0.1.0
 * @category models
 */
export interface State {
  readonly definition: Activation.Definition
  readonly input: Activation.Input
  readonly options: Options
  readonly journal: Journal.Journal
  readonly memory: Memory.Working
  /** Where a replay starts. */
  readonly base: Activation.Continuation["base"]
  /** The segment that is new; those before it are committed. */
  readonly live: number
  /** Clock and randomness of the world, for what runs outside the frozen time: reads and model calls. */
  readonly ambient: Context.Context<never>
  readonly end: (ended: Ended) => void
  readonly intents: Array<Intent.Draft>
  readonly emitted: Array<CanonicalJson.Json>
  readonly trace: Array<Activation.Trace>
  /** Intents staged with `act`. */
  readonly open: Array<Activation.Awaited>
  /** Reads under way: a suspension records them as such. */
  readonly inFlight: Set<Extract<Journal.Row, { readonly type: "read" }>>
  /** Called when the replay reaches the segment that is new. */
  readonly whenLive: Array<() => void>
  order: StepOrder.StepOrder | undefined
  segment: number
  step: number
  emissions: number
  /** The time the agent reads, frozen per segment. */
  now: number
  /** The memory the new segment leaves, once it has ended. */
  changed: Memory.Stored | undefined
  closed: boolean
  /** The failure no `catch` of the agent can undo. */
  fatal: unknown
}

/**
 * The state at the start of a run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Pick<State, "definition" | "input" | "options" | "journal" | "end">,
  parent: Fiber.Fiber<any, any>
): State => {
  const { definition, input, journal } = options
  const base = input.continuation?.base ?? startOf(input)
  const live = input.continuation?.segment ?? 0
  const state: State = {
    ...options,
    memory: Memory.working({
      key: input.key,
      entries: definition.entries,
      stored: base.memory,
      maxBytes: definition.memoryBytes,
      compact: definition.compact
    }),
    base,
    live,
    ambient: Context.make(Clock.Clock, parent.getRef(Clock.Clock)).pipe(
      Context.add(Random.Random, parent.getRef(Random.Random)),
      Context.add(Tool.Reader, undefined)
    ),
    intents: [],
    emitted: [],
    trace: [],
    open: [],
    inFlight: new Set(),
    whenLive: [],
    order: undefined,
    segment: base.segment,
    step: base.step,
    emissions: 0,
    now: journal.time(base.segment, input.now),
    changed: undefined,
    closed: false,
    fatal: undefined
  }
  if (state.segment < live) journal.time(live, input.now)
  for (const { answer, step } of input.answers) {
    if (journal.answer(step) === undefined) journal.write({ type: "answer", segment: live, step, answer })
  }
  return state
}

/**
 * Fails with an error that fails the whole activation, even where the agent catches it.
 *
 * @since 0.1.0
 * @category moves
 */
export const abort = <E>(state: State, error: E): Effect.Effect<never, E> => {
  state.fatal ??= error
  return Effect.fail(error)
}

/**
 * Runs the body of a context method unless the activation has ended.
 *
 * @since 0.1.0
 * @category moves
 */
export const whenOpen = <A, E, R>(
  state: State,
  what: string,
  body: () => Effect.Effect<A, E, R>
): Effect.Effect<A, E | Activation.ActivationClosed, R> =>
  Effect.suspend((): Effect.Effect<A, E | Activation.ActivationClosed, R> =>
    state.closed ? Effect.fail(closedError(state, what)) : body()
  )

/**
 * Takes the next step, and gives its number.
 *
 * @since 0.1.0
 * @category moves
 */
export const takeStep = (
  state: State,
  kind: Journal.StepKind,
  name: string,
  digest: string
): Effect.Effect<number, Activation.StepError> =>
  Effect.flatMap(state.order!.enter, (alone): Effect.Effect<number, Activation.StepError> => {
    if (state.closed) return Effect.fail(closedError(state, `${kind} '${name}'`))
    if (!alone) return abort(state, concurrentStep(state, `${kind} '${name}'`))
    const number = state.step++
    const matched = state.journal.step({ segment: state.segment, step: number, kind, name, digest })
    return Result.isFailure(matched)
      ? abort(state, matched.failure)
      : Effect.as(Activation.checkpoint("activation:run", state.input.key), number)
  })

/**
 * The refusal of a step beside another one.
 *
 * @since 0.1.0
 * @category moves
 */
export const concurrentStep = ({ definition, input }: State, step: string): Activation.ConcurrentStepError =>
  new Activation.ConcurrentStepError({ agent: definition.name, key: input.key, step })

/**
 * Ends the segment: its memory is fixed, and checked against the journal where the segment is committed.
 *
 * @since 0.1.0
 * @category moves
 */
export const endSegment = (state: State): Result.Result<void, Memory.MemoryLimitExceeded | Journal.NonDeterminism> =>
  Result.flatMap(
    state.memory.end(),
    (stored): Result.Result<void, Memory.MemoryLimitExceeded | Journal.NonDeterminism> => {
      if (state.segment === state.live) state.changed = stored
      return state.journal.memory(state.segment, stored === undefined ? "unchanged" : digestOf(stored))
    }
  )

/**
 * What is to be committed.
 *
 * @since 0.1.0
 * @category moves
 */
export const activated = (state: State, outcome: Activation.Activated["outcome"]): Activation.Activated => ({
  outcome,
  intents: state.intents,
  emitted: state.emitted,
  memory: state.changed,
  journal: state.journal.pending(),
  trace: state.trace,
  replay: { base: state.base, segments: state.segment + 1 }
})

/**
 * How the run goes on from the end of this segment. Reads that are under way are recorded as such.
 *
 * @since 0.1.0
 * @category moves
 */
export const suspended = (
  state: State,
  waiting: ReadonlyArray<Activation.Waiting>,
  base: (rows: number) => Activation.Continuation["base"] = () => state.base
): Activation.Activated["outcome"] => {
  for (const read of state.inFlight) state.journal.write({ ...read, outcome: { _tag: "Suspended" } })
  state.trace.push({ type: "Suspended", segment: state.segment })
  const { from, rows } = state.journal.pending()
  return {
    _tag: "Suspended",
    continuation: {
      version: state.definition.version,
      segment: state.segment + 1,
      rows: from + rows.length,
      waiting,
      base: base(from + rows.length)
    }
  }
}

/**
 * Suspends: the content of the commit is fixed, the fiber that asked is interrupted from outside and never answered.
 *
 * @since 0.1.0
 * @category moves
 */
export const suspend = (state: State, waiting: ReadonlyArray<Activation.Waiting>): Effect.Effect<never> => {
  const ended = endSegment(state)
  if (Result.isFailure(ended)) return Effect.orDie(abort(state, ended.failure))
  const outcome = suspended(state, waiting)
  state.closed = true
  state.end(Effect.succeed(activated(state, outcome)))
  return Effect.never
}

/**
 * Waits at a step: for its answer if it has one, else by suspending.
 *
 * @since 0.1.0
 * @category moves
 */
export const awaitAnswer = (
  state: State,
  waiting: Activation.Waiting
): Effect.Effect<Journal.Answer, Activation.StepError> => {
  const answer = state.journal.answer(waiting.step)
  return answer === undefined ? suspend(state, [waiting]) : Effect.as(nextSegment(state), answer)
}

/**
 * Goes on from a suspension that is already committed.
 *
 * @since 0.1.0
 * @category moves
 */
export const nextSegment = (state: State): Effect.Effect<void, Activation.StepError> => {
  const ended = endSegment(state)
  if (Result.isFailure(ended)) return Effect.orDie(abort(state, ended.failure))
  state.segment++
  state.emissions = 0
  state.now = state.journal.time(state.segment, state.input.now)
  if (state.segment === state.live) { for (const wake of state.whenLive.splice(0)) wake() }
  return Effect.void
}

/**
 * A value as JSON through its codec, within the agent's limit.
 *
 * @since 0.1.0
 * @category codecs
 */
export const encode = (
  { definition, input }: State,
  codec: Activation.Codec,
  value: unknown,
  what: string
): Result.Result<CanonicalJson.Json, Activation.TooLarge | Activation.Misfit> =>
  Result.flatMap(
    Result.mapError(codec.encode(value), (detail): Activation.TooLarge | Activation.Misfit =>
      new Activation.Misfit({ what, key: input.key, detail })),
    (json) => {
      const bytes = Buffer.byteLength(JSON.stringify(json))
      const { maxBytes } = definition
      return bytes > maxBytes
        ? Result.fail(new Activation.TooLarge({ what, key: input.key, bytes, maxBytes }))
        : Result.succeed(json)
    }
  )

/**
 * The digest of JSON.
 *
 * @since 0.1.0
 * @category codecs
 */
export const digestOf = (value: unknown): string => Result.getOrThrow(CanonicalJson.digestOf(value))

/**
 * A duration in milliseconds.
 *
 * @since 0.1.0
 * @category codecs
 */
export const millisOf = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))

// internal

const startOf = (input: Activation.Input): Activation.Continuation["base"] => ({
  segment: 0,
  step: 0,
  rows: 0,
  memory: input.memory,
  state: undefined,
  awaited: []
})

const closedError = ({ definition, input }: State, step: string) =>
  new Activation.ActivationClosed({ agent: definition.name, key: input.key, step })
