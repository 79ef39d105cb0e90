/**
 * The effector: the only code that runs a SideEffect handler. It takes staged intents from the store and performs each once,
 * in the order of its key.
 *
 * Guarantees: at most one start per claim, one record per id, nothing lost. Refuses to run again by itself what may have
 * happened, unless the tool is declared idempotent; such an end is recorded as Unknown.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { checkpoint } from "./Activation.ts"
import * as AgentStore from "./AgentStore.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import { awaitChange, forkWorker, retryDelay, storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import * as Tool from "./Tool.ts"
import type * as ToolSchema from "./ToolSchema.ts"

/**
 * Any SideEffect tool.
 *
 * @since 0.1.0
 * @category models
 */
export type AnyTool = Tool.SideEffect<any, any, any, any>

/**
 * The rows of intents that a union of tools performs.
 *
 * @since 0.1.0
 * @category models
 */
export type IntentsOf<T> = T extends { readonly kind: "SideEffect"; readonly name: infer Name extends string }
  ? Tool.Intents<Name>
  : never

/**
 * The handlers that a union of tools needs.
 *
 * @since 0.1.0
 * @category models
 */
export type HandlersOf<T> = T extends { readonly kind: "SideEffect"; readonly name: infer Name extends string }
  ? Tool.Handler<Name>
  : never

/**
 * How an effector works. Durations are positive.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Names this effector in claims. Default: a random name. */
  readonly owner?: string
  /** How long a claim holds without being renewed; it is renewed every third of it. Default 30 seconds. */
  readonly lease?: Duration.Input
  /** How many handlers run at a time. Default 64. */
  readonly concurrency?: number
  /** How long running handlers may go on when the scope closes, and how long finalizers may take. Default 10 seconds. */
  readonly grace?: Duration.Input
  /** The limit of a result as JSON, in bytes. A larger one is performed and not handed over. Default 1 MiB. */
  readonly maxBytes?: number
}

/**
 * The phases of one delivery, in order: the named steps at which a crash injector may stop an effector.
 *
 * @since 0.1.0
 * @category constants
 */
export const steps = [
  "effector:verify",
  "effector:done",
  "effector:expired",
  "effector:approved",
  "effector:claim",
  "effector:execute",
  "effector:complete",
  "effector:answer"
] as const

/**
 * Who performs the intents of a tool, as the engine sees it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Performer {
  readonly tool: Tool.Any
  readonly where: "here" | "elsewhere"
  /** The intents this effector has left alone. */
  readonly skipped: ReadonlySet<string>
}

/**
 * The service behind the row `Intents<Name>`.
 *
 * @since 0.1.0
 * @category services
 */
export const performer = <Name extends string>(name: Name): Context.Service<Tool.Intents<Name>, Performer> =>
  Context.Service(`effect-intents/Intents/${name}`)

/**
 * An effector for these tools over the store, running as long as the layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <Tools extends ReadonlyArray<AnyTool>>(
  ...tools: Tools
): Layer.Layer<IntentsOf<Tools[number]>, never, HandlersOf<Tools[number]> | AgentStore.AgentStore> =>
  layerWith({})(...tools)

/**
 * `layer` with options.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWith = (options: Options) =>
<Tools extends ReadonlyArray<AnyTool>>(
  ...tools: Tools
): Layer.Layer<IntentsOf<Tools[number]>, never, HandlersOf<Tools[number]> | AgentStore.AgentStore> =>
  Layer.effectContext(Effect.gen(function*() {
    const worker = yield* makeWorker(tools, options, (tool) => Tool.unwrap(tool))
    yield* forkWorker("effector", loop(worker))
    return performers(tools, "here", worker.skipped)
  })) as any

/**
 * The contract of tools that an effector in another process performs: no handler, no credentials.
 *
 * @since 0.1.0
 * @category layers
 */
export const elsewhere = <Tools extends ReadonlyArray<AnyTool>>(
  ...tools: Tools
): Layer.Layer<IntentsOf<Tools[number]>> => Layer.succeedContext(performers(tools, "elsewhere", new Set()))

/**
 * Performs nothing: each intent is answered by `answer`, or stays staged where that gives `undefined`, and the agent that
 * waits for it stays suspended. What would have been performed is in the ledger.
 *
 * @since 0.1.0
 * @category layers
 */
export const dryRun =
  (answer: (request: DryRequest) => Intent.Result | undefined = () => undefined) =>
  <Tools extends ReadonlyArray<AnyTool>>(
    ...tools: Tools
  ): Layer.Layer<IntentsOf<Tools[number]>, never, AgentStore.AgentStore> =>
    Layer.effectContext(Effect.gen(function*() {
      const worker = yield* makeWorker(tools, {}, () => Effect.succeed({ start: () => Effect.void, verify: undefined }))
      yield* forkWorker("dry run", loop({ ...worker, answer }))
      return performers(tools, "here", worker.skipped)
    })) as any

/**
 * What a dry run is asked.
 *
 * @since 0.1.0
 * @category models
 */
export interface DryRequest {
  readonly intent: Intent.Intent
  /** The arguments as the handler would get them. */
  readonly arguments: unknown
}

/**
 * The loop of `layer`, for a process that is nothing but an effector. Fails when the store stays away.
 *
 * @since 0.1.0
 * @category running
 */
export const run = (options: Options) =>
<Tools extends ReadonlyArray<AnyTool>>(
  ...tools: Tools
): Effect.Effect<never, AgentStore.StoreError, HandlersOf<Tools[number]> | AgentStore.AgentStore> =>
  Effect.scoped(Effect.flatMap(makeWorker(tools, options, (tool) => Tool.unwrap(tool)), loop)) as any

// internal

const performers = (
  tools: ReadonlyArray<AnyTool>,
  where: Performer["where"],
  skipped: ReadonlySet<string>
): Context.Context<any> => {
  let context = Context.empty() as Context.Context<any>
  const seen = new Map<string, AnyTool>()
  for (const tool of tools) {
    const other = seen.get(tool.name)
    if (other !== undefined && other.contract !== tool.contract) {
      throw new ContractMismatch({ tool: tool.name, contracts: [other.contract, tool.contract] })
    }
    seen.set(tool.name, tool)
    context = Context.add(context, performer(tool.name), { tool, where, skipped })
  }
  return context
}

/**
 * Two contracts of one tool name meet in one process, where one would be performed by the handler of the other.
 *
 * @since 0.1.0
 * @category errors
 */
export class ContractMismatch extends Schema.TaggedError<ContractMismatch>()("ContractMismatch", {
  tool: Schema.String,
  contracts: Schema.Array(Schema.String)
}) {
  override get message() {
    return `two contracts of tool '${this.tool}' in one process: ${this.contracts.join(" and ")}`
  }
}

interface Served {
  readonly tool: AnyTool
  readonly handler: Tool.Unwrapped<any, any, any>
  running: number
}

interface Worker {
  readonly store: AgentStore.AgentStore["Service"]
  readonly served: ReadonlyMap<string, Served>
  readonly owner: string
  readonly lease: number
  readonly grace: number
  readonly concurrency: number
  readonly running: Map<string, Fiber.Fiber<unknown>>
  readonly handlers: Set<Fiber.Fiber<any, any>>
  /** Intents left alone: for ever where the arguments cannot be read, for a while where the store failed. */
  readonly skipped: Set<string>
  readonly changes: Queue.Queue<void>
  readonly maxBytes: number
  /** Answers in the place of the handlers. */
  readonly answer: ((request: DryRequest) => Intent.Result | undefined) | undefined
  stopping: boolean
}

const makeWorker = <R>(
  tools: ReadonlyArray<AnyTool>,
  options: Options,
  handlerOf: (tool: AnyTool) => Effect.Effect<Tool.Unwrapped<any, any, any>, never, R>
) =>
  Effect.gen(function*() {
    const store = yield* AgentStore.AgentStore
    const served = new Map<string, Served>()
    for (const tool of tools) served.set(tool.name, { tool, handler: yield* handlerOf(tool), running: 0 })
    const worker: Worker = {
      store,
      served,
      owner: options.owner ?? `effector-${crypto.randomUUID()}`,
      lease: millis(options.lease ?? "30 seconds"),
      grace: millis(options.grace ?? "10 seconds"),
      concurrency: options.concurrency ?? 64,
      running: new Map(),
      handlers: new Set(),
      skipped: new Set(),
      changes: yield* store.changes,
      maxBytes: options.maxBytes ?? 1024 * 1024,
      answer: undefined,
      stopping: false
    }
    yield* Effect.addFinalizer(() => shutdown(worker))
    return worker
  })

/** Stops taking, lets running handlers end within the grace time, interrupts the rest and waits for their records. */
const shutdown = (worker: Worker): Effect.Effect<void> =>
  Effect.gen(function*() {
    worker.stopping = true
    const ended = Effect.suspend(() => Fiber.awaitAll([...worker.running.values()]))
    const inTime = yield* Effect.timeoutOption(ended, worker.grace)
    if (Option.isSome(inTime)) return
    for (const handler of worker.handlers) handler.interruptUnsafe()
    yield* Effect.timeoutOption(ended, worker.grace)
  })

const loop = (worker: Worker): Effect.Effect<never, AgentStore.StoreError> =>
  Effect.gen(function*() {
    const round = Effect.gen(function*() {
      const swept = yield* worker.store.sweep
      const tools = [...worker.served.values()].filter(hasRoom).map(({ tool }) => tool.name)
      const limit = worker.concurrency - worker.running.size
      const entries = limit > 0 && tools.length > 0
        ? yield* worker.store.startable({ tools, limit, except: worker.skipped })
        : []
      let started = 0
      for (const entry of entries) {
        const served = worker.served.get(entry.intent.tool)!
        if (worker.running.has(entry.intent.id) || !hasRoom(served)) continue
        started++
        yield* start(worker, served, entry)
      }
      return started > 0 ? undefined : swept
    })
    while (true) {
      const swept = yield* Effect.retry(round, storeRetries)
      if (swept !== undefined) yield* awaitChange(worker.changes, swept)
    }
  }) as Effect.Effect<never, AgentStore.StoreError>

const hasRoom = ({ running, tool }: Served): boolean => running < (tool.options.concurrency ?? Infinity)

/** Delivers one intent in a fiber of its own: not even a closing scope may cut it off between effect and record. */
const start = (worker: Worker, served: Served, entry: Ledger.Entry): Effect.Effect<void> => {
  const { id, key } = entry.intent
  served.running++
  const delivery = deliver(worker, served, entry).pipe(
    Effect.catchCause((cause) =>
      Effect.gen(function*() {
        worker.skipped.add(id)
        yield* Effect.logError(`intent ${id} of key '${key}' ('${served.tool.name}') was left for a while`, cause)
        yield* Effect.forkDetach(Effect.andThen(
          Effect.sleep("1 second"),
          Effect.sync(() => {
            worker.skipped.delete(id)
            Queue.offerUnsafe(worker.changes, undefined)
          })
        ))
      })
    ),
    Effect.ensuring(Effect.sync(() => {
      served.running--
      worker.running.delete(id)
      // There is room again, which no change of the store tells.
      Queue.offerUnsafe(worker.changes, undefined)
    })),
    Effect.uninterruptible
  )
  return Effect.map(Effect.forkDetach(delivery, { startImmediately: true }), (fiber) => {
    if (fiber.pollUnsafe() === undefined) worker.running.set(id, fiber)
  })
}

// The phases. Each needs the result of the one before, so none can be skipped or reordered.

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

const deliver = (worker: Worker, served: Served, entry: Ledger.Entry) =>
  Effect.gen(function*() {
    const readable = yield* verify(worker, served, entry)
    const open = readable && (yield* done(readable))
    const timely = open && (yield* expired(open))
    const approved = timely && (yield* isApproved(timely))
    if (approved !== undefined && worker.answer !== undefined) {
      const result = worker.answer({ intent: entry.intent, arguments: approved.input })
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

const nextAttempt = (tool: AnyTool, attempt: number) =>
  Effect.gen(function*() {
    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    const delay = yield* retryDelay(tool.options.retry ?? Schedule.recurs(3), attempt, now)
    return delay === undefined ? undefined : now + delay
  })

const resultOf = (
  worker: Worker,
  tool: AnyTool,
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

const millis = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))
