/**
 * One delivery of an intent to its handler, in phases: verify, already done?, expired?, approved?, claim, execute, complete,
 * answer. Each phase needs the result of the one before, so none can be skipped or reordered.
 *
 * Guarantees: a handler is called only under a claim, and its end is recorded with the token of that claim; that of a
 * transactional tool in one transaction with its effect. Refuses arguments that do not fit, or are not those that were staged,
 * before the claim; leaves alone what was staged for another contract and cannot be read.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { checkpoint } from "./Activation.ts"
import * as AgentStore from "./AgentStore.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import { begin, record, recordEnd, type Served, supervise, timeoutOf, within, type Worker } from "./EffectorHandler.ts"
import * as EffectorResult from "./EffectorResult.ts"
import { secretsOf } from "./EffectorSecrets.ts"
import * as EffectorTrust from "./EffectorTrust.ts"
import type * as Intent from "./Intent.ts"
import { retryDelay, storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import type * as Signing from "./Signing.ts"
import type * as Tool from "./Tool.ts"

/**
 * Takes one intent through the phases, and says whether it was claimed. `now` is the time of the store.
 *
 * @since 0.1.0
 * @category running
 */
export const deliver = (
  worker: Worker,
  served: Served,
  entry: Ledger.Entry,
  now: number
): Effect.Effect<boolean, AgentStore.StoreError> =>
  Effect.gen(function*() {
    const readable = yield* verify(worker, served, entry)
    const open = readable && (yield* done(readable))
    const timely = open && (yield* expired(open, now))
    const approved = timely && (yield* isApproved(timely))
    const held = approved && (yield* claim(worker, approved))
    if (held === undefined) return false
    if (isTransacted(held)) {
      yield* transact(worker, held)
      return true
    }
    const ended = yield* execute(worker, held)
    const completed = ended && (yield* complete(worker, ended))
    if (completed !== undefined) yield* answer(worker, completed)
    return true
  })

/**
 * The arguments of an intent as the handler of a tool would get them: those it was approved with, where a person changed them.
 *
 * @since 0.1.0
 * @category destructors
 */
export const readArguments = (
  tool: Tool.Any,
  entry: Pick<Ledger.Entry, "intent" | "decision">
): Result.Result<unknown, unknown> =>
  Result.flatMap(
    CanonicalJson.parse(Ledger.effectiveArguments(entry) ?? ""),
    (json): Result.Result<unknown, unknown> => tool.parameters.decode(json)
  )

// internal

interface Readable extends Served {
  readonly entry: Ledger.Entry
  readonly input: unknown
  readonly bounds: EffectorResult.Bounds
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
    const refused = EffectorTrust.refusal(worker.signing, entry)
    if (refused !== undefined) {
      yield* putAside(worker, entry, refused)
      return undefined
    }
    if (EffectorTrust.isUnsigned(worker.signing, entry)) yield* Metric.update(EffectorTrust.unsigned, 1)
    const intact = EffectorTrust.isIntact(worker.signing, entry)
    const input = readArguments(tool, entry)
    // Run outside a transaction, what is taken to be rolled back might have happened.
    const performable = !entry.intent.transactional || tool.options.transactional === true
    if (intact && performable && Result.isSuccess(input)) {
      const bounds = { maxBytes: worker.maxBytes, secrets: secretsOf(tool, input.success) }
      return { ...served, entry, input: input.success, bounds }
    }
    if (entry.attempt === 0 && (!intact || (performable && contract === tool.contract))) {
      const issue = intact
        ? `its ${entry.decision?.edited === undefined ? "" : "edited "}arguments do not fit '${tool.name}'`
        : "its arguments are not those that were staged"
      yield* record(worker, entry, Ledger.reject(issue))
      return undefined
    }
    worker.skipped.add(id)
    yield* record(worker, entry, Ledger.mismatched(worker.owner, tool.contract))
    const why = !intact
      ? "has other arguments than those that were staged"
      : performable
      ? "cannot be read"
      : "was staged to be performed in a transaction, as it is not"
    yield* Effect.logWarning(
      `intent ${id} of key '${key}' was staged for contract ${contract} of '${tool.name}' and ${why} by `
        + `contract ${tool.contract}, which this effector serves`
    )
    return undefined
  })

/** Nobody vouches for it: it is not performed, and somebody should look at it. */
const putAside = (worker: Worker, entry: Ledger.Entry, { message }: Signing.SignatureRefused) =>
  Effect.gen(function*() {
    const { id } = entry.intent
    yield* Effect.logError(`${EffectorResult.describe(entry)} was put aside: ${message}`)
    yield* worker.store.putAside({ id, tag: "SignatureRefused", detail: message }).pipe(Effect.retry(storeRetries))
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
    const { owner } = worker
    const lease = isTransactional(approved.tool) ? transactionLease(worker, approved.tool) : worker.lease
    const token = crypto.randomUUID()
    const goesAgain = intent.idempotent || intent.transactional
    const retryIn = goesAgain ? yield* nextAttempt(approved.tool, attempt + 1) : undefined
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
      const result = EffectorResult.ofHandler(tool, entry, ending, held.bounds)
      return { held, result, running: ending.running }
    }
    const { verify = () => Effect.succeed({ _tag: "Unknown" }) } = handler
    const ending = yield* supervise(worker, held, Effect.suspend(() => verify(input)))
    // Nothing was learned because the effector is closing: another one asks again.
    if (worker.stopping && EffectorResult.isInterrupted(ending)) return yield* giveBack(worker, held)
    const result = yield* EffectorResult.ofVerify(tool, entry, ending, held.bounds)
    return { held, result, running: undefined }
  })

const giveBack = (worker: Worker, { entry, token }: Held) =>
  Effect.as(record(worker, entry, Ledger.release(token)), undefined)

const complete = (worker: Worker, ended: Ended) =>
  Effect.gen(function*() {
    yield* checkpoint("effector:complete", ended.held.entry.intent.id)
    yield* recordEnd(worker, ended.held, ended.result, ended.running !== undefined)
    return { ...ended, completed: true as const }
  })

/** The answer went out with the record, in one write. What is left is the end of a handler that takes longer than it may. */
const answer = (worker: Worker, { held, running }: Completed) =>
  Effect.gen(function*() {
    yield* checkpoint("effector:answer", held.entry.intent.id)
    if (running === undefined) return
    const inTime = yield* Effect.timeoutOption(Fiber.await(running), worker.grace)
    if (Option.isNone(inTime)) running.interruptUnsafe()
    const ending = { exit: yield* Fiber.await(running), timedOut: undefined, running: undefined }
    const result = EffectorResult.ofHandler(held.tool, held.entry, ending, held.bounds)
    if (result._tag !== "OutcomeUnknown") yield* recordEnd(worker, held, result, false)
  })

/** Only what is to be started: there is nothing to ask about an end that is always known. */
const isTransacted = ({ entry, tool }: Held) => isTransactional(tool) && entry.state === "Claimed"

const isTransactional = ({ options }: Tool.Any) => options.transactional === true

/** What a transaction may take. It is not renewed: a claim that lapsed meanwhile is none, whatever the time says. */
const transactionLease = ({ grace, lease }: Worker, tool: Tool.Any): number =>
  Math.max(lease, Duration.toMillis(timeoutOf(tool)) + grace + 5000)

/** Execute and complete in one: the effect is there with its record, or there is neither. */
const transact = (worker: Worker, held: Held) =>
  Effect.gen(function*() {
    const { bounds, entry, handler, input, token, tool } = held
    const { id } = entry.intent
    yield* checkpoint("effector:execute", id)
    if (worker.stopping) return yield* giveBack(worker, held)
    const run = Effect.gen(function*() {
      const fiber = yield* begin(worker, held, handler.start(input))
      const ending = yield* within(fiber, tool, worker.grace)
      // The transaction cannot end before everything that writes in it.
      yield* Fiber.await(fiber)
      const result = EffectorResult.ofHandler(tool, entry, ending, bounds)
      yield* checkpoint("effector:complete", id)
      return result._tag === "OutcomeUnknown"
        ? yield* Effect.fail(new Lost(result))
        : { result, keep: ending.exit !== undefined && Exit.isSuccess(ending.exit) }
    })
    // The layer of the effector dies without it.
    yield* worker.store.transact!({ id, token }, run).pipe(
      Effect.catch((error) => {
        if (!(error instanceof Lost || error instanceof AgentStore.StoreError)) return Effect.logWarning(error.message)
        const result = error instanceof Lost
          ? error.result
          : Ledger.unknown("Crashed", `the transaction of ${EffectorResult.describe(entry)} failed`)
        return record(worker, entry, Ledger.complete(token, result))
      })
    )
    yield* checkpoint("effector:answer", id)
  })

/** Undoes a transaction: its handler came to no end of its own. */
class Lost {
  readonly result: Intent.Result
  constructor(result: Intent.Result) {
    this.result = result
  }
}
