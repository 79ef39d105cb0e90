/**
 * The state of one running activation, and the moves every part of its context is made of: taking a step, ending from outside,
 * failing for good. How a segment ends and the next begins is in `ActivationSegment.ts`.
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
import { Scheduler } from "effect/Scheduler"
import * as Activation from "./Activation.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Memory from "./Memory.ts"
import * as ReplayOrder from "./ReplayOrder.ts"
import type * as Signing from "./Signing.ts"
import * as StepOrder from "./StepOrder.ts"
import * as Tool from "./Tool.ts"

/**
 * How an activation reaches the world around it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /**
   * Makes the rows of the uncommitted segment durable before the activation goes on. They replace what the store holds from
   * `from` on, if the last row there still has the check `known`; else the store answers what it holds and keeps it.
   */
  readonly append?: (
    from: number,
    rows: ReadonlyArray<Journal.Stored>,
    known: string | undefined
  ) => Effect.Effect<ReadonlyArray<Journal.Stored>, Activation.ActivationFailed>
  /** The keys by which the arguments of tools with secrets are digested. */
  readonly signing?: Signing.Signing | undefined
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
  readonly order: StepOrder.StepOrder
  readonly replay: ReplayOrder.ReplayOrder
  /** Where a replay starts. */
  readonly base: Activation.Continuation["base"]
  /** The segment that is new; those before it are committed. */
  readonly live: number
  /** Clock and randomness of the world, for what runs outside the frozen time: reads and model calls. */
  readonly ambient: Context.Context<never>
  readonly end: (ended: Ended) => void
  /** This activation, run again with other rows of its uncommitted segment. */
  readonly again: (rows: ReadonlyArray<Journal.Stored>) => Ended
  readonly intents: Array<Intent.Draft>
  readonly emitted: Array<CanonicalJson.Json>
  readonly trace: Array<Activation.Trace>
  /** Intents staged with `act`. */
  readonly open: Array<Activation.Awaited>
  /** Reads under way: a suspension records them as such. */
  readonly inFlight: Set<Extract<Journal.Row, { readonly type: "read" }>>
  /** Called when the next segment begins. */
  readonly whenNext: Set<() => void>
  segment: number
  step: number
  emissions: number
  /** The time the agent reads, frozen per segment. */
  now: number
  /** The memory the new segment leaves, once it has ended. */
  changed: Memory.Stored | undefined
  /** The check of the last journal row the store is known to hold. */
  known: string | undefined
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
  options: Pick<State, "definition" | "input" | "options" | "journal" | "end" | "again">,
  parent: Fiber.Fiber<any, any>
): State => {
  const { definition, input, journal } = options
  const base = input.continuation?.base ?? startOf(input)
  const live = input.continuation?.segment ?? 0
  for (const { answer, step } of input.answers) {
    if (journal.answerAt(step) === undefined) journal.write({ type: "answer", segment: live, step, answer })
  }
  return {
    ...options,
    memory: Memory.working({
      key: input.key,
      entries: definition.entries,
      stored: base.memory,
      maxBytes: definition.memoryBytes,
      compact: definition.compact
    }),
    order: StepOrder.make(parent.getRef(Scheduler)),
    replay: ReplayOrder.make(journal, parent.context as Context.Context<never>),
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
    whenNext: new Set(),
    segment: base.segment,
    step: base.step,
    emissions: 0,
    now: input.now,
    changed: undefined,
    known: input.rows.at(-1)?.check,
    closed: false,
    fatal: undefined
  }
}

/**
 * Fails with an error that fails the whole activation, even where the agent catches it.
 *
 * @since 0.1.0
 * @category moves
 */
export const abort = <E>(state: State, error: E): Effect.Effect<never, E> =>
  Effect.suspend(() => {
    state.fatal ??= error
    state.closed = true
    return Effect.fail(error)
  })

/**
 * Ends the activation from outside its fiber: the one that asked is interrupted and never answered.
 *
 * @since 0.1.0
 * @category moves
 */
export const stop = (state: State, ended: Ended): Effect.Effect<never> =>
  Effect.withFiber((asking) => {
    state.closed = true
    state.end(ended)
    // It may stand in an uninterruptible region, or in a branch of a fiber that does.
    asking.interruptUnsafe()
    return Effect.interruptible(Effect.never)
  })

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
 * Takes the next step. `done` is what is done there, in one piece with taking it.
 *
 * @since 0.1.0
 * @category moves
 */
export const takeStep = <A>(
  state: State,
  { digest, kind, name }: Pick<Journal.StepPlace, "kind" | "name" | "digest">,
  done: (step: number) => A
): Effect.Effect<A, Activation.StepError> => {
  const what = `${kind} '${name}'`
  const take = (alone: boolean): Effect.Effect<A, Activation.StepError> => {
    if (state.closed) return Effect.fail(closedError(state, what))
    if (!alone) return abort(state, concurrentStep(state, what))
    const step = state.step++
    const matched = state.journal.step({ segment: state.segment, step, kind, name, digest })
    return Result.isFailure(matched) ? abort(state, matched.failure) : Effect.succeed(done(step))
  }
  const entered = Effect.andThen(Activation.checkpoint("activation:run", state.input.key), state.order.enter)
  const recorded = state.journal.stepAt(state.step)
  return Effect.flatMap(recorded === undefined ? entered : Effect.andThen(state.replay.turn(recorded), entered), take)
}

/**
 * The refusal of a step beside another one.
 *
 * @since 0.1.0
 * @category moves
 */
export const concurrentStep = ({ definition, input }: State, step: string): Activation.ConcurrentStepError =>
  new Activation.ConcurrentStepError({ agent: definition.name, key: input.key, step })

/**
 * A value as JSON through its codec, with its canonical text, within the agent's limit.
 *
 * @since 0.1.0
 * @category codecs
 */
export const encode = (
  state: State,
  codec: Activation.Codec,
  value: unknown,
  what: string
): Result.Result<
  { readonly json: CanonicalJson.Json; readonly text: string },
  Activation.TooLarge | Activation.Misfit
> =>
  Result.gen(function*() {
    const written = yield* Result.mapError(
      codec.write(value),
      (detail) => new Activation.Misfit({ what, key: state.input.key, detail })
    )
    const tooLarge = sizeIssue(state, written.text, what)
    return tooLarge === undefined ? written : yield* Result.fail(tooLarge)
  })

/**
 * The canonical text of JSON, within the agent's limit.
 *
 * @since 0.1.0
 * @category codecs
 */
export const canonical = (
  state: State,
  json: unknown,
  what: string
): Effect.Effect<string, Activation.Misfit | Activation.TooLarge> => {
  const encoded = CanonicalJson.encode(json)
  if (Result.isFailure(encoded)) {
    return Effect.fail(new Activation.Misfit({ what, key: state.input.key, detail: encoded.failure.message }))
  }
  const tooLarge = sizeIssue(state, encoded.success, what)
  return tooLarge === undefined ? Effect.succeed(encoded.success) : abort(state, tooLarge)
}

/**
 * What is wrong with the size of a JSON text, if anything.
 *
 * @since 0.1.0
 * @category codecs
 */
export const sizeIssue = (
  { definition: { maxBytes }, input: { key } }: State,
  text: string,
  what: string
): Activation.TooLarge | undefined => {
  const bytes = Buffer.byteLength(text)
  return bytes > maxBytes ? new Activation.TooLarge({ what, key, bytes, maxBytes }) : undefined
}

/**
 * A duration in milliseconds, 0 for a negative one. Dies where it is endless: waiting always ends.
 *
 * @since 0.1.0
 * @category codecs
 */
export const millisOf = (duration: Duration.Input, what: string): Effect.Effect<number> =>
  Effect.suspend(() => {
    const millis = Duration.toMillis(Duration.fromInputUnsafe(duration))
    return Number.isFinite(millis) ? Effect.succeed(millis) : Effect.die(new RangeError(`${what} is not finite`))
  })

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
