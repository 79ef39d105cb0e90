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
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import { AgentDefinitionError } from "./Agent.ts"
import type * as Agent from "./Agent.ts"
import { type Client, client, type SendError } from "./AgentClient.ts"
import { deliver, type Engine as Delivering } from "./AgentEngineDelivery.ts"
import * as AgentStore from "./AgentStore.ts"
import * as Effector from "./Effector.ts"
import { forkWorker, loop, positive, Work } from "./internal/background.ts"
import type * as Ledger from "./Ledger.ts"
import * as Signing from "./Signing.ts"

export {
  type Client,
  client,
  Decision,
  type DecisionError,
  EditRefused,
  EventMisfit,
  InvalidDecision,
  MessageMisfit,
  NotRecorded,
  type OutputOf,
  type SendError
} from "./AgentClient.ts"
export { NoEffector } from "./AgentEngineDelivery.ts"

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
    /**
     * Waits until there is nothing to do now: no key to run, no intent to perform by an effector of this process. What waits
     * for time, for people or for another process may be left.
     */
    readonly drain: Effect.Effect<void, AgentStore.StoreError>
    /** Staged intents that no effector of this process serves, or only under another contract. */
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
      const names = Array.from(engine.agents.keys())
      const take = () =>
        Effect.gen(function*() {
          const limit = engine.stopping ? 0 : engine.concurrency - engine.work.size
          const busy = (agent: string, key: string) => engine.work.isBusy(nameOf(agent, key))
          const snapshots = limit > 0 ? yield* engine.store.ready({ agents: names, limit, busy }) : []
          for (const snapshot of snapshots) yield* start(engine, snapshot)
          return snapshots.length
        })
      const { changes, client, store, work } = engine
      yield* forkWorker("engine", loop({ work, changes, sweep: store.sweep, take }))
      return {
        ...client,
        cancel: (agent, target) =>
          Effect.tap(client.cancel(agent, target), (cancelled) =>
            Effect.sync(() => Option.isSome(cancelled) && wake(engine, cancelled.value.offset))),
        call: (agent: any, event: any) =>
          call(engine, agent, event),
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

// internal

interface Engine extends Delivering {
  readonly client: Client
  readonly agents: ReadonlyMap<string, Agent.Any>
  readonly concurrency: number
  /** The activations under way, by agent and key. */
  readonly work: Work
  readonly changes: Queue.Queue<void>
  /** Waiting callers by event offset. */
  readonly callers: Map<number, Set<Deferred.Deferred<void>>>
  stopping: boolean
}

const makeEngine = (agents: ReadonlyArray<Agent.Any>, options: Options) =>
  Effect.gen(function*() {
    const store = yield* AgentStore.AgentStore
    const work = new Work()
    const engine: Engine = {
      store,
      client: yield* client,
      agents: yield* byName(agents),
      context: yield* Effect.context<any>(),
      concurrency: positive("concurrency", options.concurrency ?? 256),
      work,
      changes: yield* store.changes,
      callers: new Map(),
      alwaysReplay: options.alwaysReplay === true,
      signing: yield* Signing.Signing,
      stopping: false
    }
    work.watchers.add(engine.changes)
    yield* Effector.checkSealing(Effector.performersIn(engine.context).map(({ tool }) => tool))
    yield* Effector.declare(Effector.performersIn(engine.context).map(({ tool }) => tool))
    const grace = options.grace ?? "10 seconds"
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        engine.stopping = true
        const inTime = yield* Effect.timeoutOption(work.ends, grace)
        if (Option.isSome(inTime)) return
        // Nothing of an activation lands before its commit: it runs again in the next process.
        work.interrupt()
        yield* Effect.timeoutOption(work.ends, grace)
      })
    )
    return engine
  })

const byName = (agents: ReadonlyArray<Agent.Any>): Effect.Effect<ReadonlyMap<string, Agent.Any>> => {
  const named = new Map<string, Agent.Any>()
  for (const agent of agents) {
    if ((named.get(agent.name) ?? agent) !== agent) {
      return Effect.die(new AgentDefinitionError({ agent: agent.name, reason: "two agents of one name in one engine" }))
    }
    named.set(agent.name, agent)
  }
  return Effect.succeed(named)
}

const nameOf = (agent: string, key: string) => `${agent}\0${key}`

const start = (engine: Engine, snapshot: AgentStore.Snapshot): Effect.Effect<void> => {
  const { agent, key, offset } = snapshot
  const delivery = deliver(engine, engine.agents.get(agent)!, snapshot).pipe(
    Effect.ensuring(Effect.sync(() => wake(engine, offset))),
    Effect.provideContext(engine.context)
  )
  return engine.work.start(
    nameOf(agent, key),
    delivery,
    (cause) => Effect.logError(`key '${key}' of '${agent}' was left for a while`, cause)
  )
}

/** Lets the callers of an event look where it is. */
const wake = (engine: Engine, offset: number): void => {
  // A copy: a caller that looks and has to wait on is entered again at once.
  for (const caller of Array.from(engine.callers.get(offset) ?? [])) Deferred.doneUnsafe(caller, Effect.void)
}

const call = (
  engine: Engine,
  agent: Agent.Any,
  event: { readonly key: string; readonly event: any; readonly id?: string }
) =>
  Effect.gen(function*() {
    const { offset } = yield* engine.client.send(agent, event)
    while (true) {
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
      yield* changed(engine, offset)
    }
  })

/** Waits until an activation of an event has ended here, and not too long: another process may end it. */
const changed = (engine: Engine, offset: number): Effect.Effect<void> =>
  Effect.acquireUseRelease(
    Effect.sync(() => {
      const caller = Deferred.makeUnsafe<void>()
      engine.callers.set(offset, (engine.callers.get(offset) ?? new Set()).add(caller))
      return caller
    }),
    (caller) => Effect.asVoid(Effect.timeoutOption(Deferred.await(caller), "1 second")),
    (caller) =>
      Effect.sync(() => {
        const callers = engine.callers.get(offset)
        callers?.delete(caller)
        if (callers?.size === 0) engine.callers.delete(offset)
      })
  )

const drain = (engine: Engine): Effect.Effect<void, AgentStore.StoreError> =>
  Effect.scoped(Effect.gen(function*() {
    const changes = yield* engine.store.changes
    const activities = new Set(Effector.performersIn(engine.context).flatMap(({ activity }) => activity ?? []))
    const watchers = [engine.work.watchers, ...Array.from(activities, (activity) => activity.watchers)]
    yield* Effect.acquireRelease(
      Effect.sync(() => watchers.forEach((watched) => watched.add(changes))),
      () => Effect.sync(() => watchers.forEach((watched) => watched.delete(changes)))
    )
    const busy = (agent: string, key: string) => engine.work.isBusy(nameOf(agent, key))
    while (true) {
      yield* Queue.clear(changes)
      yield* engine.store.sweep
      const ready = yield* engine.store.ready({ agents: Array.from(engine.agents.keys()), limit: 1, busy })
      const idle = yield* Effect.forEach(activities, (activity) => activity.isIdle)
      // What changed while this was asked may have given work to one who said there was none.
      const isQuiet = (yield* Queue.size(changes)) === 0
      if (isQuiet && engine.work.size === 0 && ready.length === 0 && !idle.includes(false)) return
      yield* Queue.take(changes)
    }
  }))

const unserved = (engine: Engine): Effect.Effect<ReadonlyArray<Unserved>, AgentStore.StoreError> =>
  Effect.map(engine.store.entries({ states: ["Staged"] }), (entries) => {
    const performers = Effector.performersIn(engine.context)
    return entries.flatMap((entry): ReadonlyArray<Unserved> => {
      const { contract: staged, kind, tool: name } = entry.intent
      const here = performers.find(({ activity, tool }) => activity !== undefined && tool.name === name)?.tool
      if (kind === "approval" || (here !== undefined && entry.mismatch === undefined)) return []
      return [{ entry, contracts: { staged, served: entry.mismatch?.contract ?? here?.contract } }]
    })
  })
