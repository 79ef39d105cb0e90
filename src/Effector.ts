/**
 * The effector: the only code that runs a SideEffect handler. It takes staged intents from the store and performs each once,
 * in the order of its key.
 *
 * Guarantees: at most one start per claim, one record per id, nothing lost. Refuses to run again by itself what may have
 * happened, unless the tool is declared idempotent; such an end is recorded as Unknown.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as AgentStore from "./AgentStore.ts"
import * as EffectorDryRun from "./EffectorDryRun.ts"
import type { Served } from "./EffectorHandler.ts"
import * as EffectorWorker from "./EffectorWorker.ts"
import type * as Intent from "./Intent.ts"
import { forkWorker, positive, storeRetries } from "./internal/background.ts"
import * as Tool from "./Tool.ts"

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
 * How an effector works. The numbers are positive: a layer dies of others.
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
  /** What the effector of this process does; `undefined` where another process performs the intents. */
  readonly activity: EffectorWorker.Activity | undefined
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
 * Everybody in a context who performs intents.
 *
 * @since 0.1.0
 * @category accessors
 */
export const performersIn = (context: Context.Context<any>): ReadonlyArray<Performer> =>
  Array.from(context.mapUnsafe).flatMap(([key, service]) => key.startsWith(performer("").key) ? [service] : [])

/**
 * Keeps the contracts of tools in the store, so that who has only the store can check arguments. Asked again where the store
 * fails; where it stays away nobody can change arguments, and all else goes on.
 *
 * @since 0.1.0
 * @category running
 */
export const declare = (
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<void, never, AgentStore.AgentStore | Scope.Scope> =>
  AgentStore.AgentStore.use((store) => {
    const contracts = tools.map((tool) => ({
      digest: tool.contract,
      tool: tool.name,
      parameters: tool.parameters.jsonSchema("draft-2020-12")
    }))
    const declared = store.declare(contracts).pipe(
      Effect.retry(storeRetries),
      Effect.catch((error) => Effect.logWarning("the contracts of the tools are not declared", error))
    )
    return Effect.asVoid(Effect.forkScoped(declared, { startImmediately: true }))
  })

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
    const effector = yield* make(options, tools)
    yield* forkWorker("effector", effector.run)
    return performers(tools, effector.activity)
  })) as any

/**
 * The contract of tools that an effector in another process performs: no handler, no credentials.
 *
 * @since 0.1.0
 * @category layers
 */
export const elsewhere = <Tools extends ReadonlyArray<AnyTool>>(
  ...tools: Tools
): Layer.Layer<IntentsOf<Tools[number]>> => Layer.effectContext(Effect.sync(() => performers(tools, undefined)))

/**
 * Performs nothing: each intent is answered by `answer`, or stays staged where that gives `undefined`, and the agent that
 * waits for it stays suspended. What would have been performed is in the ledger.
 *
 * @since 0.1.0
 * @category layers
 */
export const dryRun =
  (answer: (request: EffectorDryRun.Request) => Intent.Result | undefined = () => undefined) =>
  <Tools extends ReadonlyArray<AnyTool>>(
    ...tools: Tools
  ): Layer.Layer<IntentsOf<Tools[number]>, never, AgentStore.AgentStore> =>
    Layer.effectContext(Effect.gen(function*() {
      yield* serve(tools)
      const effector = yield* EffectorDryRun.make(tools, answer)
      yield* forkWorker("dry run", effector.run)
      return performers(tools, effector.activity)
    })) as any

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
  Effect.scoped(Effect.flatMap(make(options, tools), (effector) => effector.run)) as any

/**
 * Two contracts of one tool name meet in one process, where one would be performed by the handler of the other. A layer that
 * meets them dies of it; an agent that stages an intent of the other contract is told so.
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

/**
 * A transactional tool over a store that has no database to run its handler in. The effector's layer dies of it.
 *
 * @since 0.1.0
 * @category errors
 */
export class TransactionalUnsupported
  extends Schema.TaggedError<TransactionalUnsupported>()("TransactionalUnsupported", { tool: Schema.String })
{
  override get message() {
    return `'${this.tool}' is transactional, and this store has no database whose transactions it could take part in`
  }
}

/**
 * Dies where a tool has redacted parameters and the store could keep them only in the clear.
 *
 * @since 0.1.0
 * @category guards
 */
export const checkSealing = (tools: ReadonlyArray<Tool.Any>): Effect.Effect<void, never, AgentStore.AgentStore> =>
  Effect.flatMap(AgentStore.AgentStore, ({ seals }) => {
    const bare = seals ? undefined : tools.find(({ parameters }) => parameters.redacted.length > 0)
    return bare === undefined ? Effect.void : Effect.die(new SealingUnsupported({ tool: bare.name }))
  })

/**
 * A tool with redacted parameters over a durable store that was given no keys to seal them with. The layer dies of it.
 *
 * @since 0.1.0
 * @category errors
 */
export class SealingUnsupported extends Schema.TaggedError<SealingUnsupported>()("SealingUnsupported", {
  tool: Schema.String
}) {
  override get message() {
    return `'${this.tool}' has redacted parameters, and this store has no keys to seal them with; provide Signing.layer to the store`
  }
}

// internal

const make = (options: Options, tools: ReadonlyArray<AnyTool>) =>
  Effect.gen(function*() {
    const { transact } = yield* AgentStore.AgentStore
    const stranded = transact === undefined ? tools.find(({ options }) => options.transactional === true) : undefined
    if (stranded !== undefined) return yield* Effect.die(new TransactionalUnsupported({ tool: stranded.name }))
    yield* checkSealing(tools)
    yield* serve(tools)
    yield* declare(tools)
    const served: Array<Served> = []
    for (const tool of tools) served.push({ tool, handler: yield* Tool.unwrap(tool) })
    return yield* EffectorWorker.make({
      served,
      owner: options.owner ?? `effector-${crypto.randomUUID()}`,
      lease: positive("lease", millis(options.lease ?? "30 seconds")),
      grace: millis(options.grace ?? "10 seconds"),
      concurrency: positive("concurrency", options.concurrency ?? 64),
      maxBytes: positive("maxBytes", options.maxBytes ?? 1024 * 1024)
    })
  })

/** The tools that effectors of this process serve, by store. */
const serving = new WeakMap<object, Array<AnyTool>>()

/** Enters tools among those served, as long as the scope. Dies where two of them have one name and two contracts. */
const serve = (tools: ReadonlyArray<AnyTool>): Effect.Effect<void, never, AgentStore.AgentStore | Scope.Scope> =>
  Effect.flatMap(AgentStore.AgentStore, (store) => {
    const served = serving.get(store) ?? []
    serving.set(store, served)
    const enter = Effect.sync(() => {
      checkContracts([...served, ...tools])
      served.push(...tools)
    })
    const leave = Effect.sync(() => tools.forEach((tool) => served.splice(served.indexOf(tool), 1)))
    return Effect.acquireRelease(enter, () => leave)
  })

const checkContracts = (tools: ReadonlyArray<AnyTool>): void => {
  const contracts = new Map<string, string>()
  for (const { contract, name } of tools) {
    const other = contracts.get(name) ?? contract
    if (other !== contract) throw new ContractMismatch({ tool: name, contracts: [other, contract] })
    contracts.set(name, contract)
  }
}

const performers = (tools: ReadonlyArray<AnyTool>, activity: Performer["activity"]): Context.Context<any> => {
  checkContracts(tools)
  return tools.reduce(
    (context, tool) => Context.add(context, performer(tool.name), { tool, activity }),
    Context.empty() as Context.Context<any>
  )
}

const millis = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))
