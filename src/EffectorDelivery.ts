/**
 * One delivery of an intent to its handler, in phases: verify, already done?, expired?, approved?, claim, execute, complete,
 * answer. Each phase needs the result of the one before, so none can be skipped or reordered.
 *
 * Guarantees: a handler is called only under a claim, and its end is recorded with the token of that claim. Refuses arguments
 * that do not fit, before the claim; leaves alone what was staged for another contract and cannot be read.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { checkpoint } from "./Activation.ts"
import * as AgentStore from "./AgentStore.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as EffectorResult from "./EffectorResult.ts"
import * as Intent from "./Intent.ts"
import { retryDelay, storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
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
  /** The fibers that run handlers and verifies. */
  readonly handlers: Set<Fiber.Fiber<any, any>>
  /** Intents whose arguments cannot be read here: left alone for good. */
  readonly skipped: Set<string>
  /** The effector is closing: nothing is started any more. */
  stopping: boolean
}

/**
 * Takes one intent through the phases. `now` is the time of the store.
 *
 * @since 0.1.0
 * @category running
 */
export const deliver = (
  worker: Worker,
  served: Served,
  entry: Ledger.Entry,
  now: number
): Effect.Effect<void, AgentStore.StoreError> =>
  Effect.gen(function*() {
    const readable = yield* verify(worker, served, entry)
    const open = readable && (yield* done(readable))
    const timely = open && (yield* expired(open, now))
    const approved = timely && (yield* isApproved(timely))
    const held = approved && (yield* claim(worker, approved))
    const ended = held && (yield* execute(worker, held))
    const completed = ended && (yield* complete(worker, ended))
    if (completed !== undefined) yield* answer(worker, completed)
  })

/**
 * The arguments of an intent as the handler of a tool would get them.
 *
 * @since 0.1.0
 * @category destructors
 */
export const readArguments = (tool: Tool.Any, intent: Intent.Intent): Result.Result<unknown, unknown> =>
  Result.flatMap(
    CanonicalJson.parse(intent.sealed === undefined ? intent.arguments : Intent.Sealed.reveal(intent.sealed)),
    (json): Result.Result<unknown, unknown> => tool.parameters.decode(json)
  )

// internal

interface Readable extends Served {
  readonly entry: Ledger.Entry
  readonly input: unknown
}

interface Open extends Readable {
  readonly open: true
}

interface Timely extends Open {
  readonly timely: true
}

interface Approved extends Timely {
  readonly approved: true
}

interface Held extends Approved {
  readonly token: string
}

interface Ended {
  readonly held: Held
  readonly result: Intent.Result
  /** The fiber of a handler that did not heed its interruption. */
  readonly running: Fiber.Fiber<unknown, unknown> | undefined
}

interface Completed extends Ended {
  readonly completed: true
}

const verify = (worker: Worker, served: Served, entry: Ledger.Entry) =>
  Effect.gen(function*() {
    const { tool } = served
    const { contract, id, key } = entry.intent
    yield* checkpoint("effector:verify", id)
    const input = readArguments(tool, entry.intent)
    if (Result.isSuccess(input)) return { ...served, entry, input: input.success }
    if (contract === tool.contract && entry.attempt === 0) {
      yield* record(worker, entry, Ledger.reject(`its arguments do not fit '${tool.name}'`))
      return undefined
    }
    worker.skipped.add(id)
    yield* record(worker, entry, Ledger.mismatched(worker.owner, tool.contract))
    yield* Effect.logWarning(
      `intent ${id} of key '${key}' was staged for contract ${contract} of '${tool.name}' and cannot be read by `
        + `contract ${tool.contract}, which this effector serves`
    )
    return undefined
  })

const done = (readable: Readable) =>
  Effect.as(
    checkpoint("effector:done", readable.entry.intent.id),
    readable.entry.state === "Staged" || readable.entry.state === "Unknown"
      ? { ...readable, open: true as const }
      : undefined
  )

const expired = (open: Open, now: number) =>
  Effect.as(
    checkpoint("effector:expired", open.entry.intent.id),
    (Ledger.dueAt(open.entry, now) ?? Infinity) <= now ? undefined : { ...open, timely: true as const }
  )

const isApproved = (timely: Timely) =>
  Effect.as(
    checkpoint("effector:approved", timely.entry.intent.id),
    Ledger.waitsForApproval(timely.entry) ? undefined : { ...timely, approved: true as const }
  )

/** The claim asks all of it again, in the one write that counts. */
const claim = (worker: Worker, approved: Approved) =>
  Effect.gen(function*() {
    const { attempt, intent } = approved.entry
    yield* checkpoint("effector:claim", intent.id)
    if (worker.stopping) return undefined
    const { lease, owner } = worker
    const token = crypto.randomUUID()
    const retryIn = intent.idempotent ? yield* nextAttempt(approved.tool, attempt + 1) : undefined
    const entry = yield* worker.store.claim({ id: intent.id, owner, token, lease, retryIn }).pipe(
      Effect.tapError((error) => Effect.logWarning(`${EffectorResult.describe(approved.entry)} not claimed`, error)),
      // The same token: where the claim was made and only its answer was lost, it is given again.
      Effect.retry(storeRetries)
    )
    return entry && { ...approved, entry, token }
  })

const nextAttempt = (tool: Tool.Any, attempt: number) =>
  Effect.clockWith((clock) =>
    Effect.flatMap(
      clock.currentTimeMillis,
      (now) => retryDelay(tool.options.retry ?? Schedule.recurs(3), attempt, now)
    )
  )

/** Calls the handler; or, where the end of an earlier call is unknown, the tool's `verify`. */
const execute = (worker: Worker, held: Held): Effect.Effect<Ended | undefined> =>
  Effect.gen(function*() {
    const { entry, handler, input, tool } = held
    const isStarting = entry.state === "Claimed"
    yield* checkpoint("effector:execute", entry.intent.id)
    if (worker.stopping) return yield* giveBack(worker, held)
    if (isStarting) {
      const ending = yield* supervise(worker, held, handler.start(input))
      const result = EffectorResult.ofHandler(tool, entry, ending, worker.maxBytes)
      return { held, result, running: ending.running }
    }
    const { verify = () => Effect.succeed({ _tag: "Unknown" }) } = handler
    const ending = yield* supervise(worker, held, Effect.suspend(() => verify(input)))
    // Nothing was learned because the effector is closing: another one asks again.
    if (worker.stopping && EffectorResult.isInterrupted(ending)) return yield* giveBack(worker, held)
    const result = yield* EffectorResult.ofVerify(tool, entry, ending, worker.maxBytes)
    return { held, result, running: undefined }
  })

const giveBack = (worker: Worker, { entry, token }: Held) =>
  Effect.as(record(worker, entry, Ledger.release(token)), undefined)

/** Runs a handler in a fiber of its own, renews the lease as long as it takes, and interrupts it at its timeout. */
const supervise = (
  worker: Worker,
  { entry, token, tool }: Held,
  handler: Effect.Effect<unknown, unknown>
): Effect.Effect<EffectorResult.Ending> =>
  Effect.gen(function*() {
    const { agent, id, key, seq, step } = entry.intent
    const current = { id, agent, key, seq, step, attempt: entry.attempt }
    const fiber = yield* Effect.forkDetach(Effect.provideService(handler, Intent.Current, current), {
      startImmediately: true
    })
    const exit = fiber.pollUnsafe()
    if (exit !== undefined) return { exit, timedOut: undefined, running: undefined }
    worker.handlers.add(fiber)
    fiber.addObserver(() => worker.handlers.delete(fiber))
    const renew = worker.store.move(id, Ledger.renew(token, worker.lease)).pipe(
      Effect.catchTag("StoreError", (error) => Effect.logWarning(`lease of ${EffectorResult.describe(entry)}`, error)),
      Effect.delay(Math.ceil(worker.lease / 3)),
      Effect.forever({ disableYield: true }),
      // A claim that was lost is not renewed; the handler goes on, and what it comes to is reported late.
      Effect.catch(() => Effect.never)
    )
    return yield* Effect.raceFirst(within(fiber, tool, worker.grace), renew)
  })

const within = (fiber: Fiber.Fiber<unknown, unknown>, tool: Tool.Any, grace: number) =>
  Effect.gen(function*() {
    const timeout = Duration.fromInputUnsafe(tool.options.timeout ?? "5 minutes")
    const inTime = yield* Effect.timeoutOption(Fiber.await(fiber), timeout)
    if (Option.isSome(inTime)) return { exit: inTime.value, timedOut: undefined, running: undefined }
    // In an uninterruptible region there is nobody to wait for, and an interruption would lose what the handler comes to.
    const heeds = (fiber as Fiber.Fiber<unknown, unknown> & { readonly interruptible: boolean }).interruptible
    if (!heeds) return { exit: undefined, timedOut: timeout, running: fiber }
    fiber.interruptUnsafe()
    const stopped = Option.getOrUndefined(yield* Effect.timeoutOption(Fiber.await(fiber), grace))
    return { exit: stopped, timedOut: timeout, running: stopped === undefined ? fiber : undefined }
  })

const complete = (worker: Worker, ended: Ended) =>
  Effect.gen(function*() {
    const { entry, token } = ended.held
    yield* checkpoint("effector:complete", entry.intent.id)
    yield* record(worker, entry, Ledger.complete(token, ended.result, ended.running !== undefined))
    return { ...ended, completed: true as const }
  })

/** The answer went out with the record, in one write. What is left is the end of a handler that takes longer than it may. */
const answer = (worker: Worker, { held, running }: Completed) =>
  Effect.gen(function*() {
    yield* checkpoint("effector:answer", held.entry.intent.id)
    if (running === undefined) return
    const inTime = yield* Effect.timeoutOption(Fiber.await(running), worker.grace)
    if (Option.isNone(inTime)) running.interruptUnsafe()
    const exit: Exit.Exit<unknown, unknown> = yield* Fiber.await(running)
    const ending = { exit, timedOut: undefined, running: undefined }
    const result = EffectorResult.ofHandler(held.tool, held.entry, ending, worker.maxBytes)
    if (result._tag !== "OutcomeUnknown") {
      yield* record(worker, held.entry, Ledger.complete(held.token, result))
    }
  })

/** Writes to the ledger, through a store that may be away for a while. A refusal is logged: the record is somebody else's. */
const record = <E extends { readonly message: string }>(worker: Worker, entry: Ledger.Entry, move: Ledger.Move<E>) =>
  worker.store.move(entry.intent.id, move).pipe(
    Effect.retry({ schedule: storeRetries, while: (error) => error instanceof AgentStore.StoreError }),
    Effect.catch((error) =>
      error instanceof AgentStore.StoreError
        ? Effect.logError(`the end of ${EffectorResult.describe(entry)} could not be recorded`, error)
        : Effect.logWarning(error.message)
    ),
    Effect.asVoid
  )
