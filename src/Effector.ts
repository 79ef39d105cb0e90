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
import type * as AgentStore from "./AgentStore.ts"
import type { Served } from "./EffectorDelivery.ts"
import * as EffectorWorker from "./EffectorWorker.ts"
import type * as Intent from "./Intent.ts"
import { forkWorker } from "./internal/background.ts"
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
    const worker = yield* makeWorker(tools, options)
    yield* forkWorker("effector", EffectorWorker.loop(worker))
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
      const served = new Map(tools.map((tool) => [tool.name, { tool, handler: nothing, running: 0 }]))
      const worker = yield* EffectorWorker.make({
        ...settings({}),
        served,
        answer: (intent, input) => answer({ intent, arguments: input })
      })
      yield* forkWorker("dry run", EffectorWorker.loop(worker))
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
  Effect.scoped(Effect.flatMap(makeWorker(tools, options), EffectorWorker.loop)) as any

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

const makeWorker = (tools: ReadonlyArray<AnyTool>, options: Options) =>
  Effect.gen(function*() {
    const served = new Map<string, Served>()
    for (const tool of tools) served.set(tool.name, { tool, handler: yield* Tool.unwrap(tool), running: 0 })
    return yield* EffectorWorker.make({ ...settings(options), served, answer: undefined })
  })

const settings = (options: Options) => ({
  owner: options.owner ?? `effector-${crypto.randomUUID()}`,
  lease: millis(options.lease ?? "30 seconds"),
  grace: millis(options.grace ?? "10 seconds"),
  concurrency: options.concurrency ?? 64,
  maxBytes: options.maxBytes ?? 1024 * 1024
})

/** The handler of a dry run, which is never started. */
const nothing = { start: () => Effect.never, verify: undefined }

const millis = (duration: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(duration))
