/**
 * The engine: delivers events to agents, in one process, over a store. Per key activations never overlap; across keys they
 * run concurrently.
 *
 * Guarantees: an event ends exactly once, as completed, cancelled or a dead letter, and waiting always ends. An agent whose
 * intents nobody performs does not type-check where its engine is made, and is refused again when it stages one.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import * as ActivationRun from "./ActivationRun.ts"
import type * as Agent from "./Agent.ts"
import { type Client, client, type SendError } from "./AgentClient.ts"
import * as AgentStore from "./AgentStore.ts"
import * as Effector from "./Effector.ts"
import { awaitChange, forkWorker, retryDelay, storeRetries } from "./internal/background.ts"
import type * as Ledger from "./Ledger.ts"
import type * as Tool from "./Tool.ts"

export {
  type Client,
  client,
  Decision,
  type DecisionError,
  EventMisfit,
  InvalidDecision,
  MessageMisfit,
  NotRecorded,
  type OutputOf,
  type SendError
} from "./AgentClient.ts"

/**
 * The engine of one process.
 *
 * @since 0.1.0
 * @category services
 */
export class AgentEngine extends Context.Service<
  AgentEngine,
  Client & {
    /** Sends an event and waits for its output. Fails with `EventFailed` where it ends otherwise. */
    call<Name extends string, Event, Output, R>(
      agent: Agent.Agent<Name, Event, Output, R>,
      event: { readonly key: string; readonly event: NoInfer<Event>; readonly id?: string }
    ): Effect.Effect<Output, SendError | EventFailed>
    /** Waits until there is nothing to do now: no key to run, no intent to perform here. What waits for time or people may be left. */
    readonly drain: Effect.Effect<void, AgentStore.StoreError>
    /** Intents that are free to start and that no effector of this process serves, or only under another contract. */
    readonly unserved: Effect.Effect<ReadonlyArray<Unserved>, AgentStore.StoreError>
  }
>()("effect-intents/AgentEngine") {}

/**
 * @since 0.1.0
 * @category models
 */
export interface Unserved {
  readonly entry: Ledger.Entry
  /** The contract it was staged for, and the one that is served where there is one. */
  readonly contracts: { readonly staged: string; readonly served: string | undefined }
}

/**
 * How an engine works.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** How many activations run at a time. Default 256. */
  readonly concurrency?: number
  /** How long running activations may go on when the scope closes. Default 10 seconds. */
  readonly grace?: Duration.Input
  /** Replays every activation from its journal before it is committed, and fails it where that takes another way. For tests. */
  readonly alwaysReplay?: boolean
}

/**
 * The engine for these agents, running as long as the layer. It requires what its agents require: the handlers of their
 * reads, and somebody who performs each of their intents.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <Agents extends ReadonlyArray<Agent.Any>>(
  ...agents: Agents
): Layer.Layer<AgentEngine, never, AgentStore.AgentStore | Agent.Services<Agents[number]>> => layerWith({})(...agents)

/**
 * `layer` with options.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerWith = (options: Options) =>
<Agents extends ReadonlyArray<Agent.Any>>(
  ...agents: Agents
): Layer.Layer<AgentEngine, never, AgentStore.AgentStore | Agent.Services<Agents[number]>> =>
  Layer.effect(
    AgentEngine,
    Effect.gen(function*() {
      const engine = yield* makeEngine(agents, options)
      yield* forkWorker("engine", deliverLoop(engine))
      return {
        ...engine.client,
        call: (agent: any, event: any) => call(engine, agent, event),
        drain: drain(engine),
        unserved: unserved(engine)
      } as AgentEngine["Service"]
    })
  ) as any

/**
 * An event ended without an output, or is blocked: `state` says which.
 *
 * @since 0.1.0
 * @category errors
 */
export class EventFailed extends Schema.TaggedError<EventFailed>()("EventFailed", {
  agent: Schema.String,
  key: Schema.String,
  offset: Schema.Number,
  state: Schema.Literals(["DeadLetter", "Blocked", "Cancelled"]),
  reason: Activation.Reason
}) {
  override get message() {
    return `event ${this.offset} of key '${this.key}' of '${this.agent}' ended as ${this.state} (${this.reason.tag}): ${this.reason.message}`
  }
}

/**
 * An agent stages an intent that nobody performs: its engine was made without the effector the types ask for.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoEffector extends Schema.TaggedError<NoEffector>()("NoEffector", { tool: Schema.String }) {
  override get message() {
    return `no effector for '${this.tool}'; provide Effector.layer or Effector.elsewhere`
  }
}

// internal

interface Engine {
  readonly store: AgentStore.AgentStore["Service"]
  readonly client: Client
  readonly agents: ReadonlyMap<string, Agent.Any>
  readonly context: Context.Context<any>
  readonly concurrency: number
  readonly running: Set<string>
  /** Waiting callers by event offset. */
  readonly callers: Map<number, Set<Deferred.Deferred<void>>>
  readonly changes: Queue.Queue<void>
  /** Queues of `drain` that are told when an activation has ended. */
  readonly drains: Set<Queue.Queue<void>>
  readonly alwaysReplay: boolean
  stopping: boolean
}

const makeEngine = (agents: ReadonlyArray<Agent.Any>, options: Options) =>
  Effect.gen(function*() {
    const store = yield* AgentStore.AgentStore
    const engine: Engine = {
      store,
      client: yield* client,
      agents: new Map(agents.map((agent) => [agent.name, agent])),
      context: yield* Effect.context<any>(),
      concurrency: options.concurrency ?? 256,
      running: new Set(),
      callers: new Map(),
      changes: yield* store.changes,
      drains: new Set(),
      alwaysReplay: options.alwaysReplay === true,
      stopping: false
    }
    // Nothing of an activation lands before its commit, so those still running after the grace time are simply dropped.
    yield* Effect.addFinalizer(() => {
      engine.stopping = true
      const idle = Effect.repeat(Queue.take(engine.changes), { until: () => engine.running.size === 0 })
      return engine.running.size === 0 ? Effect.void : Effect.timeoutOption(idle, options.grace ?? "10 seconds")
    })
    return engine
  })

const deliverLoop = (engine: Engine): Effect.Effect<never, AgentStore.StoreError> =>
  Effect.gen(function*() {
    const names = [...engine.agents.keys()]
    const busy = (agent: string, key: string) => engine.running.has(runningName(agent, key))
    const round = Effect.gen(function*() {
      const swept = yield* engine.store.sweep
      const limit = engine.stopping ? 0 : engine.concurrency - engine.running.size
      const snapshots = limit > 0 ? yield* engine.store.ready({ agents: names, limit, busy }) : []
      for (const snapshot of snapshots) yield* start(engine, snapshot)
      return snapshots.length > 0 ? undefined : swept
    })
    while (true) {
      const swept = yield* Effect.retry(round, storeRetries)
      if (swept !== undefined) yield* awaitChange(engine.changes, swept)
    }
  }) as Effect.Effect<never, AgentStore.StoreError>

const runningName = (agent: string, key: string) => `${agent}\0${key}`

const start = (engine: Engine, snapshot: AgentStore.Snapshot): Effect.Effect<void> => {
  const name = runningName(snapshot.agent, snapshot.key)
  engine.running.add(name)
  return Effect.asVoid(Effect.forkDetach(
    deliver(engine, snapshot).pipe(
      Effect.catchCause((cause) =>
        Effect.andThen(
          Effect.logError(`key '${snapshot.key}' of '${snapshot.agent}' was left for a while`, cause),
          Effect.sleep("1 second")
        )
      ),
      Effect.ensuring(Effect.sync(() => {
        engine.running.delete(name)
        for (const caller of engine.callers.get(snapshot.offset) ?? []) Deferred.doneUnsafe(caller, Effect.void)
        // The key is free again, which no change of the store tells.
        for (const queue of [engine.changes, ...engine.drains]) Queue.offerUnsafe(queue, undefined)
      })),
      Effect.provideContext(engine.context)
    ),
    { startImmediately: true }
  ))
}

/** One activation: runs it, and commits it or records its failure. */
const deliver = (engine: Engine, snapshot: AgentStore.Snapshot) =>
  Effect.gen(function*() {
    const agent = engine.agents.get(snapshot.agent)!
    const { definition } = agent
    const claimed = { agent: agent.name, key: snapshot.key, offset: snapshot.offset, revision: snapshot.revision }
    yield* Activation.checkpoint("activation:load", snapshot.key)
    const result = yield* Effect.result(activate(engine, definition, snapshot, {
      refuse: (tool) => refusal(engine, tool),
      append: (from, rows) =>
        Effect.mapError(
          engine.store.append({ ...claimed, from, rows }),
          (error) =>
            new Activation.ActivationFailed({
              agent: agent.name,
              key: snapshot.key,
              reason: ActivationRun.reasonOf(error),
              final: false
            })
        )
    }))
    yield* Activation.checkpoint("activation:commit", snapshot.key)
    if (Result.isSuccess(result)) {
      yield* engine.store.commit({ ...claimed, version: definition.version, activated: result.success }).pipe(
        Effect.retry({ schedule: storeRetries, while: (error) => error._tag === "StoreError" }),
        Effect.catchTag("CommitConflict", (error) => Effect.logDebug(error.message)),
        Effect.catchTag("IntentConflict", (error) =>
          Effect.andThen(
            Effect.logError(error.message),
            failWith(engine, agent, claimed, snapshot, ActivationRun.reasonOf(error), true)
          ))
      )
      yield* Activation.checkpoint("activation:committed", snapshot.key)
    } else if (result.failure._tag === "MessageRefused") {
      const { detail, offset } = result.failure
      yield* engine.store.refuseMessage({ agent: agent.name, key: snapshot.key, offset, detail })
    } else {
      yield* failWith(engine, agent, claimed, snapshot, result.failure.reason, result.failure.final)
    }
  })

const activate = (
  engine: Engine,
  definition: Activation.Definition,
  snapshot: AgentStore.Snapshot,
  options: ActivationRun.Options
) =>
  Effect.tap(ActivationRun.run(definition, snapshot, options), (activated) => {
    if (!engine.alwaysReplay) return Effect.void
    const { from, rows } = activated.journal
    const again = ActivationRun.replay(
      definition,
      { ...snapshot, rows: [...snapshot.rows.slice(0, from), ...rows] },
      activated.replay
    )
    return Effect.flatMap(again, ({ outcome }) => {
      const differs = outcome._tag !== activated.outcome._tag
        || (outcome._tag === "Complete" && JSON.stringify(outcome) !== JSON.stringify(activated.outcome))
      return differs ? Effect.die(new Error("a replay came to another outcome")) : Effect.void
    })
  })

const failWith = (
  engine: Engine,
  agent: Agent.Any,
  claimed: AgentStore.Claimed,
  snapshot: AgentStore.Snapshot,
  reason: Activation.Reason,
  final: boolean
) =>
  Effect.gen(function*() {
    const retryIn = final || agent.retry === undefined
      ? undefined
      : yield* retryDelay(agent.retry, snapshot.failures + 1, snapshot.now)
    if (retryIn === undefined) {
      yield* Effect.logWarning(`event ${claimed.offset} of key '${claimed.key}' of '${agent.name}': ${reason.message}`)
    }
    yield* Effect.ignore(engine.store.fail({ ...claimed, reason, retryIn }))
  })

const refusal = (engine: Engine, tool: Tool.Any): NoEffector | Effector.ContractMismatch | undefined => {
  const performer = Context.getOption(engine.context, Effector.performer(tool.name))
  if (Option.isNone(performer)) return new NoEffector({ tool: tool.name })
  const { contract } = performer.value.tool
  return contract === tool.contract
    ? undefined
    : new Effector.ContractMismatch({ tool: tool.name, contracts: [tool.contract, contract] })
}

const call = (
  engine: Engine,
  agent: Agent.Any,
  event: { readonly key: string; readonly event: any; readonly id?: string }
) =>
  Effect.gen(function*() {
    const { offset } = yield* engine.client.send(agent, event)
    while (true) {
      const ended = yield* Deferred.make<void>()
      const callers = engine.callers.get(offset) ?? new Set()
      engine.callers.set(offset, callers.add(ended))
      const status = yield* engine.store.event(offset)
      if (status?.state === "Completed") {
        return yield* Effect.orDie(Effect.fromResult(agent.definition.output.decode(status.output)))
      }
      if (status?.state === "DeadLetter" || status?.state === "Blocked" || status?.state === "Cancelled") {
        return yield* new EventFailed({
          agent: agent.name,
          key: event.key,
          offset,
          state: status.state,
          reason: status.reason ?? { kind: "Interrupted", tag: status.state, message: "ended by an operator" }
        })
      }
      // Another process may end the event, and no activation here would tell.
      yield* Effect.timeoutOption(Deferred.await(ended), "1 second").pipe(
        Effect.ensuring(Effect.sync(() => {
          callers.delete(ended)
          if (callers.size === 0) engine.callers.delete(offset)
        }))
      )
    }
  })

const performersHere = (engine: Engine): ReadonlyMap<string, Effector.Performer> => {
  const performers = new Map<string, Effector.Performer>()
  for (const [name, service] of engine.context.mapUnsafe) {
    if (name.startsWith(Effector.performer("").key) && service.where === "here") {
      performers.set(service.tool.name, service)
    }
  }
  return performers
}

const drain = (engine: Engine): Effect.Effect<void, AgentStore.StoreError> =>
  Effect.scoped(Effect.gen(function*() {
    const changes = yield* engine.store.changes
    engine.drains.add(changes)
    yield* Effect.addFinalizer(() => Effect.sync(() => engine.drains.delete(changes)))
    const performers = [...performersHere(engine).values()]
    const tools = performers.map(({ tool }) => tool.name)
    const agents = [...engine.agents.keys()]
    while (true) {
      const except = new Set(performers.flatMap(({ skipped }) => [...skipped]))
      const ready = yield* engine.store.ready({ agents, limit: 1, busy: () => false })
      const startable = yield* engine.store.startable({ tools, limit: 1, except })
      const claimed = yield* engine.store.entries({ states: ["Claimed"] })
      if (engine.running.size === 0 && ready.length + startable.length + claimed.length === 0) return
      yield* Queue.take(changes)
    }
  }))

const unserved = (engine: Engine): Effect.Effect<ReadonlyArray<Unserved>, AgentStore.StoreError> =>
  Effect.map(engine.store.entries({ states: ["Staged"] }), (entries) => {
    const served = performersHere(engine)
    return entries.flatMap((entry): ReadonlyArray<Unserved> => {
      const here = served.get(entry.intent.tool)?.tool
      const staged = entry.intent.contract
      if (entry.intent.kind === "approval" || (here !== undefined && entry.mismatch === undefined)) return []
      return [{ entry, contracts: { staged, served: entry.mismatch?.contract ?? here?.contract } }]
    })
  })
