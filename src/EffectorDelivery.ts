/**
 * One delivery of an intent to its handler, in phases: verify, already done?, expired?, approved?, claim, execute, complete,
 * answer. Each phase needs the result of the one before, so none can be skipped or reordered.
 *
 * Guarantees: the handler is called only under a claim, and its end is recorded with the token of that claim. Refuses to
 * start again what may have happened, unless the tool is declared idempotent.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import { checkpoint } from "./Activation.ts"
import * as AgentStore from "./AgentStore.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import { retryDelay, storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import type * as Tool from "./Tool.ts"
import type * as ToolSchema from "./ToolSchema.ts"

/**
 * A tool an effector serves, with its handler.
 *
 * @since 0.1.0
 * @category models
 */
export interface Served {
  readonly tool: Tool.Any
  readonly handler: Tool.Unwrapped<any, any, any>
  running: number
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
  /** The fibers of running handlers. */
  readonly handlers: Set<Fiber.Fiber<any, any>>
  /** Intents left alone: for ever where the arguments cannot be read, for a while where the store failed. */
  readonly skipped: Set<string>
  /** Answers in the place of the handlers. */
  readonly answer: ((intent: Intent.Intent, input: unknown) => Intent.Result | undefined) | undefined
  stopping: boolean
}

/**
 * Takes one intent through the phases.
 *
 * @since 0.1.0
 * @category running
 */
export const deliver = (worker: Worker, served: Served, entry: Ledger.Entry) =>
  Effect.gen(function*() {
    const readable = yield* verify(worker, served, entry)
    const open = readable && (yield* done(readable))
    const timely = open && (yield* expired(open))
    const approved = timely && (yield* isApproved(timely))
    if (approved !== undefined && worker.answer !== undefined) {
      const result = worker.answer(entry.intent, approved.input)
      if (result === undefined) return worker.skipped.add(entry.intent.id)
      const held = yield* claim(worker, approved)
      return held && (yield* record(worker, entry.intent.id, Ledger.complete(held.token, result)))
    }
    const held = approved && (yield* claim(worker, approved))
    if (held === undefined) return
    if (held.entry.state === "Unknown") return yield* settle(worker, served, held)
    const ended = yield* execute(worker, served, held)
    if (ended === undefined) return
    yield* complete(worker, served, ended)
    yield* checkpoint("effector:answer", entry.intent.id)
  })

// internal

interface Readable {
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
  /** Set where the handler did not heed its interruption: what it comes to in the end is reported late. */
  readonly late: Fiber.Fiber<unknown, unknown> | undefined
}

/** Reads the arguments by the tool's own schema. */
const verify = (worker: Worker, { tool }: Served, entry: Ledger.Entry) =>
  Effect.gen(function*() {
    const { intent } = entry
    yield* checkpoint("effector:verify", intent.id)
    const text = intent.sealed === undefined ? intent.arguments : Intent.Sealed.reveal(intent.sealed)
    const input = Result.flatMap(CanonicalJson.parse(text), (json): Result.Result<any, unknown> =>
      tool.parameters.decode(json))
    if (Result.isSuccess(input)) {
      return { entry, input: input.success }
    }
    if (intent.contract === tool.contract) {
      yield* worker.store.move(intent.id, Ledger.reject(`its arguments do not fit '${tool.name}'`))
    } else {
      worker.skipped.add(intent.id)
      yield* worker.store.move(intent.id, Ledger.mismatched(worker.owner, tool.contract))
      yield* Effect.logWarning(
        `intent ${intent.id} of key '${intent.key}' was staged for contract ${intent.contract} of '${tool.name}', `
          + `this effector serves ${tool.contract}`
      )
    }
    return undefined
  })

const done = (readable: Readable) =>
  Effect.as(
    checkpoint("effector:done", readable.entry.intent.id),
    readable.entry.state === "Staged" || readable.entry.state === "Unknown"
      ? { ...readable, open: true as const }
      : undefined
  )

const expired = (open: Open) =>
  Effect.gen(function*() {
    const { attempt, intent, state } = open.entry
    yield* checkpoint("effector:expired", intent.id)
    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    const late = state === "Staged" && attempt === 0 && intent.expiresAt <= now
    return late ? undefined : { ...open, timely: true as const }
  })

const isApproved = (timely: Timely) =>
  Effect.as(
    checkpoint("effector:approved", timely.entry.intent.id),
    Ledger.waitsForApproval(timely.entry) ? undefined : { ...timely, approved: true as const }
  )

/** The claim asks all of it again, in the one write that counts. */
const claim = (worker: Worker, approved: Approved) =>
  Effect.gen(function*() {
    const { id } = approved.entry.intent
    yield* checkpoint("effector:claim", id)
    if (worker.stopping) return undefined
    const token = crypto.randomUUID()
    const entry = yield* worker.store.claim({ id, owner: worker.owner, token, lease: worker.lease })
    return entry && { ...approved, entry, token }
  })

const execute = (worker: Worker, served: Served, held: Held) =>
  Effect.gen(function*() {
    const { entry, input, token } = held
    const { agent, id, key, seq, step } = entry.intent
    yield* checkpoint("effector:execute", id)
    if (worker.stopping) {
      yield* Effect.ignore(worker.store.move(id, Ledger.release(token)))
      return undefined
    }
    const handler = Effect.interruptible(Effect.provideService(served.handler.start(input), Intent.Current, {
      id,
      agent,
      key,
      seq,
      step,
      attempt: entry.attempt
    }))
    const fiber = yield* Effect.forkDetach(handler, { startImmediately: true })
    const { exit, timedOut } = fiber.pollUnsafe() === undefined
      ? yield* supervise(worker, served, held, fiber)
      : { exit: Option.some(yield* Fiber.await(fiber)), timedOut: false }
    const result = timedOut
      ? Ledger.unknown("TimedOut", `${describe(entry)} did not end within ${Duration.format(timeoutOf(served))}`)
      : resultOf(worker, served.tool, entry, Option.getOrThrow(exit))
    return { held, result, late: Option.isNone(exit) ? fiber : undefined }
  })

/** Renews the lease while a handler runs, and interrupts it at its timeout. */
const supervise = (worker: Worker, served: Served, { entry, token }: Held, fiber: Fiber.Fiber<any, any>) =>
  Effect.gen(function*() {
    worker.handlers.add(fiber)
    const renew = Effect.sleep(worker.lease / 3).pipe(
      Effect.andThen(worker.store.move(entry.intent.id, Ledger.renew(token, worker.lease))),
      Effect.forever,
      // A lease that cannot be renewed lapses; the handler goes on and is told when it reports.
      Effect.ignore
    )
    const renewing = yield* Effect.forkDetach(renew)
    const inTime = yield* Effect.timeoutOption(Fiber.await(fiber), timeoutOf(served))
    if (Option.isNone(inTime)) {
      // A handler in an uninterruptible region is not waited for: nobody knows how long that takes.
      const heeds = (fiber as Fiber.Fiber<any, any> & { readonly interruptible: boolean }).interruptible
      fiber.interruptUnsafe()
      const exit = heeds ? yield* Effect.timeoutOption(Fiber.await(fiber), worker.grace) : Option.none()
      renewing.interruptUnsafe()
      worker.handlers.delete(fiber)
      return { exit, timedOut: true }
    }
    renewing.interruptUnsafe()
    worker.handlers.delete(fiber)
    return { exit: inTime, timedOut: false }
  })

const complete = (worker: Worker, served: Served, { held, late, result }: Ended) =>
  Effect.gen(function*() {
    const { entry, token } = held
    const { id } = entry.intent
    yield* checkpoint("effector:complete", id)
    const again = result._tag === "OutcomeUnknown" && entry.intent.idempotent
      ? yield* nextAttempt(served.tool, entry.attempt)
      : undefined
    if (result._tag === "OutcomeUnknown" && again !== undefined) {
      yield* record(worker, id, Ledger.again(token, again, result.reason))
    } else {
      const known = result._tag === "OutcomeUnknown" ? yield* asked(worker, served, held, result) : result
      yield* record(worker, id, Ledger.complete(token, known))
    }
    if (late !== undefined) {
      yield* Effect.forkDetach(
        Effect.flatMap(Fiber.await(late), (exit) =>
          record(worker, id, Ledger.complete(token, resultOf(worker, served.tool, entry, exit))))
      )
    }
  })

/** Asks the tool's `verify` about an end that a crashed process left unknown. */
const settle = (worker: Worker, served: Served, held: Held) =>
  Effect.flatMap(
    asked(worker, served, held, held.entry.result ?? Ledger.unknown("Crashed", describe(held.entry))),
    (result) => record(worker, held.entry.intent.id, Ledger.complete(held.token, result))
  )

/** An unknown end, or what `verify` says of it. */
const asked = (worker: Worker, served: Served, held: Held, unknown: Intent.Result): Effect.Effect<Intent.Result> => {
  if (served.handler.verify === undefined) return Effect.succeed(unknown)
  return served.handler.verify(held.input).pipe(
    Effect.timeout(timeoutOf(served)),
    Effect.map((verdict): Intent.Result => {
      switch (verdict._tag) {
        case "Performed":
          return resultOf(worker, served.tool, held.entry, Exit.succeed(verdict.value))
        case "Failed":
          return resultOf(worker, served.tool, held.entry, Exit.fail(verdict.error))
        case "NotPerformed":
          return Ledger.notPerformed("Rejected", "verified: it did not happen")
        case "Unknown":
          return unknown
      }
    }),
    Effect.catchCause((cause) =>
      Effect.as(Effect.logWarning(`verify of ${describe(held.entry)} failed`, cause), unknown)
    ),
    Effect.provideService(Intent.Current, { ...held.entry.intent, attempt: held.entry.attempt })
  )
}

/** Writes a record, through a store that may be away for a while. A stale claim is logged: its record is somebody else's. */
const record = <E>(worker: Worker, id: string, move: Ledger.Move<E>) =>
  worker.store.move(id, move).pipe(
    Effect.retry({ schedule: storeRetries, while: (error) => error instanceof AgentStore.StoreError }),
    Effect.catch((error) => Effect.logWarning(`intent ${id}: ${String((error as Error).message)}`))
  )

const nextAttempt = (tool: Tool.Any, attempt: number) =>
  Effect.gen(function*() {
    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    const delay = yield* retryDelay(tool.options.retry ?? Schedule.recurs(3), attempt, now)
    return delay === undefined ? undefined : now + delay
  })

const resultOf = (
  worker: Worker,
  tool: Tool.Any,
  entry: Ledger.Entry,
  exit: Exit.Exit<unknown, unknown>
): Intent.Result => {
  const handed = (
    schema: ToolSchema.ToolSchema<any>,
    value: unknown,
    make: (json: CanonicalJson.Json) => Intent.Result,
    misfit: string
  ): Intent.Result => {
    const json = schema.encode(value)
    if (Result.isFailure(json)) return { _tag: "Unavailable", message: misfit }
    const bytes = Buffer.byteLength(JSON.stringify(json.success))
    return bytes <= worker.maxBytes
      ? make(json.success)
      : { _tag: "Unavailable", message: `it has ${bytes} bytes, the limit is ${worker.maxBytes}` }
  }
  if (Exit.isSuccess(exit)) {
    const success = (value: CanonicalJson.Json): Intent.Result => ({ _tag: "Success", value })
    return handed(tool.success, exit.value, success, "it does not fit the tool's success schema")
  }
  const failure = exit.cause.reasons.find(Cause.isFailReason)
  if (failure !== undefined) {
    const failed = (error: CanonicalJson.Json): Intent.Result => ({ _tag: "Failure", error })
    return handed(tool.failure, failure.error, failed, "it failed with what its failure schema does not know")
  }
  const defect = exit.cause.reasons.find(Cause.isDieReason)
  return defect === undefined
    ? Ledger.unknown("Crashed", `${describe(entry)} was interrupted while it ran`)
    // What a handler with secrets dies of may hold them.
    : Ledger.unknown(
      "Defect",
      `${describe(entry)} died${tool.parameters.redacted.length > 0 ? "" : `: ${textOf(defect.defect)}`}`
    )
}

const describe = ({ intent }: Ledger.Entry): string => `'${intent.tool}' for key '${intent.key}' (intent ${intent.id})`

const textOf = (defect: unknown): string =>
  defect instanceof Error ? (defect.message === "" ? defect.name : defect.message) : typeof defect

const timeoutOf = ({ tool }: Served): Duration.Duration => Duration.fromInputUnsafe(tool.options.timeout ?? "5 minutes")
