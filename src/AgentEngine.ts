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
import * as JsonSchema from "effect/JsonSchema"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import * as Stream from "effect/Stream"
import * as Activation from "./Activation.ts"
import * as ActivationRun from "./ActivationRun.ts"
import type * as Agent from "./Agent.ts"
import * as AgentStore from "./AgentStore.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import * as Effector from "./Effector.ts"
import * as Intent from "./Intent.ts"
import { awaitChange, forkWorker, retryDelay, storeRetries } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import type * as Tool from "./Tool.ts"

/**
 * What can be done with agents through their store alone: no agent runs here, no lock is taken.
 *
 * @since 0.1.0
 * @category models
 */
export interface Client {
  /** Adds an event to the inbox of a key. An `id` deduplicates. */
  send<Name extends string, Event, Output, R>(
    agent: Agent.Agent<Name, Event, Output, R>,
    event: { readonly key: string; readonly event: NoInfer<Event>; readonly id?: string }
  ): Effect.Effect<AgentStore.Receipt, SendError>
  /** Sends a message to a key that waits in `ctx.receive`, or will. */
  message<Name extends string, Event, Output, R>(
    agent: Agent.Agent<Name, Event, Output, R>,
    message: { readonly key: string; readonly message: CanonicalJson.Json }
  ): Effect.Effect<void, Intent.InvalidKeyError | Activation.TooLarge | MessageMisfit | AgentStore.StoreError>
  /** Decides on an intent that waits for approval. `argumentsDigest` binds the decision to what was shown. */
  decide(decision: unknown): Effect.Effect<Ledger.Entry, DecisionError>
  /** Ends the current event of a key as Cancelled, with the intents nobody has started. */
  cancel(
    agent: Agent.Any,
    target: { readonly key: string; readonly by: string }
  ): Effect.Effect<Option.Option<{ readonly offset: number }>, AgentStore.StoreError>
  /** Cancels an intent nobody has started; the waiting agent is told. */
  cancelIntent(
    id: string,
    by: string
  ): Effect.Effect<Ledger.Entry, Ledger.LedgerRefusal | AgentStore.IntentNotFound | AgentStore.StoreError>
  /** Settles an intent whose outcome is unknown, once. */
  resolve(
    id: string,
    by: string,
    settlement: Ledger.Settlement
  ): Effect.Effect<Ledger.Entry, Ledger.LedgerRefusal | AgentStore.IntentNotFound | AgentStore.StoreError>
  /** Drives a dead letter again. `fresh` drops what an uncommitted run of it had journaled. */
  redrive(
    letter: number,
    options: { readonly by: string; readonly fresh?: boolean }
  ): Effect.Effect<{ readonly offset: number }, AgentStore.DeadLetterNotFound | AgentStore.StoreError>
  /** The outputs of an agent behind a cursor, as they come. Store `offset` with your own effect to miss and repeat none. */
  outputs<Name extends string, Event, Output, R>(
    agent: Agent.Agent<Name, Event, Output, R>,
    options?: { readonly after?: number }
  ): Stream.Stream<OutputOf<Output>, AgentStore.StoreError>
  /** Unknown outcomes that were settled, as they come. */
  resolutions(options?: { readonly after?: number }): Stream.Stream<AgentStore.Resolution, AgentStore.StoreError>
  /** Where a key is and what it waits for. */
  status(
    agent: Agent.Any,
    key: string
  ): Effect.Effect<AgentStore.KeyStatus, AgentStore.StoreError>
  intent(id: string): Effect.Effect<Ledger.Entry, AgentStore.IntentNotFound | AgentStore.StoreError>
  intents(query?: AgentStore.EntryQuery): Effect.Effect<ReadonlyArray<Ledger.Entry>, AgentStore.StoreError>
  readonly deadLetters: Effect.Effect<ReadonlyArray<AgentStore.DeadLetter>, AgentStore.StoreError>
  /**
   * Runs a recorded event again from its journal. No handler is called. Fails with `ActivationFailed` (`NonDeterminism`)
   * where the agent takes another way by now.
   */
  replay(
    agent: Agent.Any,
    offset: number
  ): Effect.Effect<Activation.Activated, ActivationRun.RunError | NotRecorded | AgentStore.StoreError>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface OutputOf<Output> {
  readonly offset: number
  readonly key: string
  readonly seq: number
  readonly output: Output
}

/**
 * @since 0.1.0
 * @category errors
 */
export type SendError =
  | Intent.InvalidKeyError
  | Activation.TooLarge
  | EventMisfit
  | AgentStore.EventConflict
  | AgentStore.InboxFull
  | AgentStore.StoreError

/**
 * @since 0.1.0
 * @category errors
 */
export type DecisionError =
  | InvalidDecision
  | Ledger.LedgerRefusal
  | AgentStore.IntentNotFound
  | AgentStore.StoreError

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
        ...makeClient(engine.store),
        call: (agent: any, event: any) => call(engine, agent, event),
        drain: drain(engine),
        unserved: unserved(engine)
      } as AgentEngine["Service"]
    })
  ) as any

/**
 * A client of a store.
 *
 * @since 0.1.0
 * @category constructors
 */
export const client: Effect.Effect<Client, never, AgentStore.AgentStore> = Effect.map(
  AgentStore.AgentStore,
  (store) => makeClient(store)
)

/**
 * A decision, as it arrives from outside.
 *
 * @since 0.1.0
 * @category models
 */
export const Decision = Schema.Struct({
  id: Intent.Id,
  approved: Schema.Boolean,
  by: Schema.NonEmptyString,
  argumentsDigest: Schema.optionalKey(Schema.String)
})

/**
 * A decision is not one: `approved` is a boolean, `by` names who decided.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidDecision
  extends Schema.TaggedError<InvalidDecision>()("InvalidDecision", { detail: Schema.String })
{
  override get message() {
    return `not a decision: ${this.detail}`
  }
}

/**
 * An event that does not fit the agent's schema. It was not stored.
 *
 * @since 0.1.0
 * @category errors
 */
export class EventMisfit extends Schema.TaggedError<EventMisfit>()("EventMisfit", {
  agent: Schema.String,
  key: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `an event for key '${this.key}' does not fit '${this.agent}': ${this.detail}`
  }
}

/**
 * A message that does not fit what the key waits for. It was not stored, and the key keeps waiting.
 *
 * @since 0.1.0
 * @category errors
 */
export class MessageMisfit extends Schema.TaggedError<MessageMisfit>()("MessageMisfit", {
  agent: Schema.String,
  key: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `a message for key '${this.key}' of '${this.agent}' does not fit what it waits for: ${this.detail}`
  }
}

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
 * No run of that event is recorded: it has not committed, or belongs to another agent.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotRecorded extends Schema.TaggedError<NotRecorded>()("NotRecorded", {
  agent: Schema.String,
  offset: Schema.Number
}) {
  override get message() {
    return `no run of event ${this.offset} of '${this.agent}' is recorded`
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
    const { offset } = yield* makeClient(engine.store).send(agent, event)
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

const makeClient = (store: AgentStore.AgentStore["Service"]): Client => ({
  send: (agent, { event, id, key }) =>
    Effect.gen(function*() {
      yield* checkKey(key)
      const json = yield* Effect.mapError(
        Effect.fromResult(agent.definition.event.encode(event)),
        (detail) => new EventMisfit({ agent: agent.name, key, detail })
      )
      yield* checkSize("an event", key, json, agent.definition.maxBytes)
      return yield* store.send({
        agent: agent.name,
        key,
        version: agent.definition.version,
        eventId: id,
        event: json
      })
    }),

  message: (agent, { key, message }) =>
    Effect.gen(function*() {
      yield* checkKey(key)
      yield* checkSize("a message", key, message, agent.definition.maxBytes)
      const { waiting } = yield* store.key({ agent: agent.name, key })
      const expected = waiting.find((wait) => wait.type === "message")
      const issue = expected?.schema && messageIssue(expected.schema, message)
      if (issue !== undefined) return yield* new MessageMisfit({ agent: agent.name, key, detail: issue })
      yield* store.message({ agent: agent.name, key, message })
    }),

  decide: (unknown) =>
    Effect.gen(function*() {
      const { approved, argumentsDigest, by, id } = yield* Effect.mapError(
        Schema.decodeUnknownEffect(Decision)(unknown, { errors: "all", onExcessProperty: "error" }),
        (error) => new InvalidDecision({ detail: error.message })
      )
      return yield* Effect.tapError(
        store.move(id, Ledger.decide({ approved, by, argumentsDigest })),
        (error) => Effect.logWarning(`a decision by '${by}' was refused: ${error.message}`)
      )
    }),

  cancel: (agent, { by, key }) => Effect.map(store.cancel({ agent: agent.name, key, by }), Option.fromNullishOr),
  cancelIntent: (id, by) => store.move(id, Ledger.cancel(by)),
  resolve: (id, by, settlement) => store.move(id, Ledger.resolve(by, settlement)),
  redrive: (id, { by, fresh }) => store.redrive({ id, by, fresh: fresh === true }),

  outputs: (agent, options) =>
    Stream.map(
      tail(store, options?.after ?? 0, (after) => store.outputs({ agent: agent.name, after, limit: 256 })),
      ({ key, offset, output, seq }) => ({
        offset,
        key,
        seq,
        output: Result.getOrThrow(agent.definition.output.decode(output))
      })
    ),

  resolutions: (options) => tail(store, options?.after ?? 0, (after) => store.resolutions({ after, limit: 256 })),
  status: (agent, key) => store.key({ agent: agent.name, key }),
  intent: store.entry,
  intents: (query) => store.entries(query ?? {}),
  deadLetters: store.deadLetters,
  replay: (agent, offset) =>
    Effect.gen(function*() {
      const recorded = yield* store.recorded(offset)
      if (recorded === undefined || recorded.agent !== agent.name) {
        return yield* new NotRecorded({ agent: agent.name, offset })
      }
      return yield* ActivationRun.replay(
        agent.definition,
        { ...recorded, now: 0, memory: recorded.replay.base.memory, continuation: undefined, answers: [] },
        recorded.replay
      )
    })
})

const checkKey = (key: string): Effect.Effect<void, Intent.InvalidKeyError> => {
  const issue = Intent.keyIssue(key)
  return issue === undefined ? Effect.void : Effect.fail(issue)
}

const checkSize = (
  what: string,
  key: string,
  json: CanonicalJson.Json,
  maxBytes: number
): Effect.Effect<void, Activation.TooLarge> => {
  const bytes = Buffer.byteLength(JSON.stringify(json) ?? "")
  return bytes > maxBytes ? Effect.fail(new Activation.TooLarge({ what, key, bytes, maxBytes })) : Effect.void
}

/**
 * What is wrong with a message by the JSON Schema that was stored with the suspension: the sender's process need not know the
 * agent. Checks JSON Schema cannot say are made when the agent goes on.
 */
const messageIssue = (
  shown: { readonly [keyword: string]: unknown },
  message: CanonicalJson.Json
): string | undefined => {
  const document = JsonSchema.fromSchemaDraft2020_12(shown)
  // The schema is our own: its patterns were written by the agent's author.
  const schema = SchemaRepresentation.fromJsonSchemaDocument(document, { patterns: "apply" })
  const decoded = Schema.decodeUnknownResult(schema as Schema.Codec<unknown>)(message, { onExcessProperty: "error" })
  return Result.isFailure(decoded) ? String(decoded.failure) : undefined
}

/** Rows behind a cursor, and those that come. */
const tail = <Row extends { readonly offset: number }>(
  store: AgentStore.AgentStore["Service"],
  after: number,
  page: (after: number) => Effect.Effect<ReadonlyArray<Row>, AgentStore.StoreError>
): Stream.Stream<Row, AgentStore.StoreError> =>
  Stream.unwrap(Effect.map(store.changes, (changes) =>
    Stream.paginate(after, (cursor) =>
      Effect.map(
        Effect.repeat(Effect.tap(page(cursor), (rows) => rows.length === 0 ? Queue.take(changes) : Effect.void), {
          until: (rows) => rows.length > 0
        }),
        (rows) => [rows, Option.some(rows[rows.length - 1]!.offset)] as const
      ))))
