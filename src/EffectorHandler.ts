/**
 * A handler under its claim: run in a fiber of its own, timed, its lease renewed as long as it takes, and its end recorded.
 *
 * Guarantees: the end of a handler is recorded, if need be without its result; a claim is kept until it is. Refuses nothing: what
 * the ledger refuses is somebody else's record, and is logged.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as AgentStore from "./AgentStore.ts"
import * as EffectorResult from "./EffectorResult.ts"
import * as Intent from "./Intent.ts"
import { storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import type * as Signing from "./Signing.ts"
import type * as Tool from "./Tool.ts"

/**
 * A tool an effector serves, with its handler.
 *
 * @since 0.1.0
 * @category models
 */
export interface Served {
  readonly tool: Tool.Any
  readonly handler: Tool.Unwrapped<any, any, any>
}

/**
 * What the deliveries of one effector share. Durations are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Worker {
  readonly store: AgentStore.AgentStore["Service"]
  readonly owner: string
  readonly lease: number
  readonly grace: number
  readonly maxBytes: number
  readonly signing: Signing.Signing | undefined
  /** The fibers that run handlers and verifies. */
  readonly handlers: Set<Fiber.Fiber<any, any>>
  /** Intents that cannot be performed here: left alone as long as this effector lives. */
  readonly skipped: Set<string>
  /** The effector is closing: nothing is started any more. */
  stopping: boolean
}

/**
 * An intent that an effector has claimed, or whose unknown end it has claimed to verify.
 *
 * @since 0.1.0
 * @category models
 */
export interface Claimed extends Served {
  readonly entry: Ledger.Entry
  readonly token: string
  readonly bounds: EffectorResult.Bounds
}

/**
 * Starts a handler, or a `verify`, in a fiber of its own, which a closing effector interrupts when its grace time is over.
 *
 * @since 0.1.0
 * @category running
 */
export const begin = (
  worker: Worker,
  { entry }: Claimed,
  handler: Effect.Effect<unknown, unknown>
): Effect.Effect<Fiber.Fiber<unknown, unknown>> =>
  Effect.gen(function*() {
    const { agent, id, key, seq, step } = entry.intent
    const current = { id, agent, key, seq, step, attempt: entry.attempt }
    const fiber = yield* Effect.forkDetach(Effect.provideService(handler, Intent.Current, current), {
      startImmediately: true
    })
    if (fiber.pollUnsafe() === undefined) {
      worker.handlers.add(fiber)
      fiber.addObserver(() => worker.handlers.delete(fiber))
    }
    return fiber
  })

/**
 * Waits for a handler until its tool's timeout, then interrupts it.
 *
 * @since 0.1.0
 * @category running
 */
export const within = (
  fiber: Fiber.Fiber<unknown, unknown>,
  tool: Tool.Any,
  grace: number
): Effect.Effect<EffectorResult.Ending> =>
  Effect.gen(function*() {
    const timeout = timeoutOf(tool)
    const inTime = yield* Effect.timeoutOption(Fiber.await(fiber), timeout)
    if (Option.isSome(inTime)) return { exit: inTime.value, timedOut: undefined, running: undefined }
    // In an uninterruptible region there is nobody to wait for, and an interruption would lose what the handler comes to.
    const heeds = (fiber as Fiber.Fiber<unknown, unknown> & { readonly interruptible: boolean }).interruptible
    if (!heeds) return { exit: undefined, timedOut: timeout, running: fiber }
    fiber.interruptUnsafe()
    const stopped = Option.getOrUndefined(yield* Effect.timeoutOption(Fiber.await(fiber), grace))
    return { exit: stopped, timedOut: timeout, running: stopped === undefined ? fiber : undefined }
  })

/**
 * Runs a handler, or a `verify`, to its end or its timeout, and keeps the claim meanwhile.
 *
 * @since 0.1.0
 * @category running
 */
export const supervise = (
  worker: Worker,
  claimed: Claimed,
  handler: Effect.Effect<unknown, unknown>
): Effect.Effect<EffectorResult.Ending> =>
  Effect.gen(function*() {
    const fiber = yield* begin(worker, claimed, handler)
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return { exit, timedOut: undefined, running: undefined }
    return yield* Effect.raceFirst(within(fiber, claimed.tool, worker.grace), renewing(worker, claimed))
  })

/**
 * How long a handler of a tool may run.
 *
 * @since 0.1.0
 * @category accessors
 */
export const timeoutOf = ({ options }: Tool.Any): Duration.Duration =>
  Duration.fromInputUnsafe(options.timeout ?? "5 minutes")

/**
 * Records how a claimed intent ended. A store that does not take the result is told at least that there was one; the claim is
 * kept until it has taken either.
 *
 * @since 0.1.0
 * @category recording
 */
export const recordEnd = (
  worker: Worker,
  claimed: Claimed,
  result: Intent.Result,
  stillRunning: boolean
): Effect.Effect<void> => {
  const { bounds, entry, token } = claimed
  const write = (result: Intent.Result) =>
    worker.store.move(entry.intent.id, Ledger.complete(token, result, stillRunning))
  const isResult = result._tag === "Success" || result._tag === "Failure"
  const atLeast = (error: AgentStore.StoreError) =>
    isResult ? write(EffectorResult.unrecorded(error.detail, bounds)) : Effect.fail(error)
  // Before the retries are over the store may have been away, and will take the result after all.
  const either = Effect.catchTag(write(result), "StoreError", atLeast)
  const insisting = Effect.retry(write(result), insist).pipe(
    Effect.catchTag("StoreError", () => Effect.retry(either, insist))
  )
  return Effect.catchTag(write(result), "StoreError", () => Effect.raceFirst(insisting, renewing(worker, claimed)))
    .pipe(
      logged(entry)
    )
}

/**
 * Makes a move, through a store that may be away for a while.
 *
 * @since 0.1.0
 * @category recording
 */
export const record = <E extends { readonly message: string }>(
  worker: Worker,
  entry: Ledger.Entry,
  move: Ledger.Move<E>
): Effect.Effect<void> => worker.store.move(entry.intent.id, move).pipe(Effect.retry(insist), logged(entry))

// internal

/** Keeps a claim. One that was lost is not renewed; the handler goes on, and what it comes to is reported late. */
const renewing = (worker: Worker, { entry, token }: Claimed): Effect.Effect<never> =>
  worker.store.move(entry.intent.id, Ledger.renew(token, worker.lease)).pipe(
    Effect.catchTag("StoreError", (error) => Effect.logWarning(`lease of ${EffectorResult.describe(entry)}`, error)),
    Effect.delay(Math.ceil(worker.lease / 3)),
    Effect.forever({ disableYield: true }),
    Effect.catch(() => Effect.never)
  )

const insist = { schedule: storeRetries, while: (error: unknown) => error instanceof AgentStore.StoreError }

/** A refusal is logged and no more: the record is somebody else's. */
const logged =
  (entry: Ledger.Entry) =>
  <E extends { readonly message: string }>(write: Effect.Effect<unknown, E | AgentStore.StoreError>) =>
    write.pipe(
      Effect.catch((error) =>
        error instanceof AgentStore.StoreError
          ? Effect.logError(`the end of ${EffectorResult.describe(entry)} could not be recorded`, error)
          : Effect.logWarning(error.message)
      ),
      Effect.asVoid
    )
