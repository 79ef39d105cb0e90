/**
 * The client: what can be done with agents through their store alone, from any process. No agent runs here and no lock is
 * taken.
 *
 * Guarantees: nothing is stored before it fits its schema and its limit. Refuses: events and messages that do not
 * (`EventMisfit`, `MessageMisfit`), decisions that are not strictly one (`InvalidDecision`), and arguments changed in one that
 * do not fit the tool (`EditRefused`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as JsonSchema from "effect/JsonSchema"
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
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import * as Ledger from "./Ledger.ts"
import * as Signing from "./Signing.ts"

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
  ): Effect.Effect<
    void,
    Intent.InvalidKeyError | Activation.TooLarge | MessageMisfit | AgentStore.InboxFull | AgentStore.StoreError
  >
  /**
   * Decides on an intent that waits for approval. `argumentsDigest` binds the decision to what was shown; `arguments` are what
   * the tool is performed with instead of what was asked for, at most 1 MiB of JSON.
   */
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
  /** Unknown outcomes that were settled after their agent had been told, as they come. */
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
  | EditRefused
  | Activation.TooLarge
  | Ledger.LedgerRefusal
  | AgentStore.IntentNotFound
  | AgentStore.StoreError

/**
 * A client of a store.
 *
 * @since 0.1.0
 * @category constructors
 */
export const client: Effect.Effect<Client, never, AgentStore.AgentStore> = Effect.gen(function*() {
  return makeClient(yield* AgentStore.AgentStore, yield* Signing.Signing)
})

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
  argumentsDigest: Schema.optionalKey(Schema.String),
  arguments: Schema.optionalKey(Schema.Json)
}).check(
  Schema.makeFilter(
    (decision) =>
      decision.approved || !("arguments" in decision) || "'arguments' of a no: nothing is performed with them"
  )
)

/**
 * A decision is not one: `approved` is a boolean, `by` names who decided, `arguments` come with a yes only.
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
 * Arguments that somebody put into a decision do not fit the tool, or nobody knows whether they do. The intent still waits.
 *
 * @since 0.1.0
 * @category errors
 */
export class EditRefused extends Schema.TaggedError<EditRefused>()("EditRefused", {
  id: Schema.String,
  tool: Schema.String,
  by: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `the arguments '${this.by}' gave for '${this.tool}' (intent ${this.id}) are refused: ${this.detail}`
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

// internal

const makeClient = (store: AgentStore.AgentStore["Service"], signing: Signing.Signing | undefined): Client => ({
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
      const issue = expected?.schema && shownIssue(expected.schema, message)
      if (issue !== undefined) return yield* new MessageMisfit({ agent: agent.name, key, detail: issue })
      yield* store.message({ agent: agent.name, key, message })
    }),

  decide: (unknown) =>
    Effect.gen(function*() {
      const decision = yield* Effect.mapError(
        Schema.decodeUnknownEffect(Decision)(unknown, { errors: "all", onExcessProperty: "error" }),
        (error) => new InvalidDecision({ detail: error.message })
      )
      const { approved, argumentsDigest, by, id } = decision
      return yield* Effect.tapError(
        Effect.flatMap(
          editOf(store, decision),
          (edited) =>
            store.move(id, (entry, now) => {
              const signature = signing === undefined || signing.mode === "off"
                ? undefined
                : Signing.sign(signing.ring, Signing.ofDecision(entry.intent, { approved, by, edited }))
              return Ledger.decide({ approved, by, argumentsDigest, edited, signature })(entry, now)
            })
        ),
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
        recorded.replay,
        { signing }
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

/** The arguments a decision puts in the place of those that were asked for, where they are others. */
const editOf = (store: AgentStore.AgentStore["Service"], { arguments: json, by, id }: typeof Decision.Type) =>
  Effect.gen(function*() {
    if (json === undefined) return undefined
    const entry = yield* store.entry(id)
    const { contract: digest, key, tool } = entry.intent
    const refuse = (detail: string) => new EditRefused({ id, tool, by, detail })
    const issue = Ledger.editIssue(entry)
    if (issue !== undefined) return yield* refuse(issue)
    const text = yield* Effect.mapError(Effect.fromResult(CanonicalJson.encode(json)), ({ message }) => refuse(message))
    yield* checkSize("what somebody put in the place of arguments", key, json, maxEditedBytes)
    const contract = yield* store.contract(digest)
    if (contract === undefined) return yield* refuse(`no engine or effector has declared the contract ${digest} here`)
    const misfit = shownIssue(contract.parameters, json)
    if (misfit !== undefined) return yield* refuse(misfit)
    const argumentsDigest = CanonicalJson.digest(text)
    return argumentsDigest === entry.intent.argumentsDigest ? undefined : { arguments: text, argumentsDigest }
  })

const maxEditedBytes = 1024 * 1024

/**
 * What is wrong with JSON by a JSON Schema that was stored with a suspension or a contract: the sender's process need not know
 * agent or tool. Checks JSON Schema cannot say are made where it is used.
 */
const shownIssue = (
  shown: { readonly [keyword: string]: unknown },
  json: CanonicalJson.Json
): string | undefined => {
  const document = JsonSchema.fromSchemaDraft2020_12(shown)
  // The schema is our own: its patterns were written by the author of agent or tool.
  const schema = SchemaRepresentation.fromJsonSchemaDocument(document, { patterns: "apply" })
  const decoded = Schema.decodeUnknownResult(schema as Schema.Codec<unknown>)(json, { onExcessProperty: "error" })
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
