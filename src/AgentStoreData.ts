/**
 * What goes into a store and comes out of it, and how a store refuses: the data of `AgentStore`.
 *
 * Guarantees: plain data, JSON where it is an agent's own. Times are milliseconds of the store's clock.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type * as Activation from "./Activation.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Ledger from "./Ledger.ts"
import type * as Memory from "./Memory.ts"

/**
 * A key of an agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Target {
  readonly agent: string
  readonly key: string
}

/**
 * The event an activation ran for, at the revision it read.
 *
 * @since 0.1.0
 * @category models
 */
export interface Claimed extends Target {
  readonly offset: number
  readonly revision: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Sent extends Target {
  readonly version: string
  /** Deduplicates events of one agent and key. */
  readonly eventId: string | undefined
  readonly event: CanonicalJson.Json
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Receipt {
  readonly offset: number
  readonly duplicate: boolean
}

/**
 * All an activation needs of a key.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot extends Claimed {
  readonly seq: number
  readonly event: CanonicalJson.Json
  /** How often this event, or this resume, failed since it last committed. */
  readonly failures: number
  readonly memory: Memory.Stored
  readonly continuation: Activation.Continuation | undefined
  readonly rows: ReadonlyArray<Journal.Stored>
  readonly answers: ReadonlyArray<Activation.StepAnswer>
  readonly now: number
}

/**
 * @since 0.1.0
 * @category models
 */
export interface EntryQuery {
  readonly states?: ReadonlyArray<Ledger.State>
  readonly agent?: string
  readonly key?: string
}

/**
 * Where an event is.
 *
 * @since 0.1.0
 * @category models
 */
export interface EventStatus extends Target {
  readonly offset: number
  readonly eventId: string | undefined
  readonly seq: number | undefined
  readonly state: "Waiting" | "Suspended" | "Blocked" | "Completed" | "DeadLetter" | "Cancelled"
  readonly event: CanonicalJson.Json
  readonly failures: number
  readonly output: CanonicalJson.Json | undefined
  readonly reason: Activation.Reason | undefined
}

/**
 * A run as it was recorded, enough to replay it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Recorded extends Target {
  readonly offset: number
  readonly seq: number
  readonly event: CanonicalJson.Json
  readonly rows: ReadonlyArray<Journal.Stored>
  readonly replay: Activation.Replay
  readonly output: CanonicalJson.Json | undefined
}

/**
 * Where a key is.
 *
 * @since 0.1.0
 * @category models
 */
export interface KeyStatus extends Target {
  readonly seq: number
  readonly revision: number
  readonly memory: Memory.Stored
  /** The event under way, if one has committed and not ended. */
  readonly current: number | undefined
  readonly waiting: ReadonlyArray<Activation.Waiting>
  /** Events in the inbox, the current one not counted. */
  readonly inbox: number
  readonly blocked: Activation.Reason | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Output extends Target {
  readonly offset: number
  readonly seq: number
  readonly output: CanonicalJson.Json
}

/**
 * What a key remembers for good: one value per event and name.
 *
 * @since 0.1.0
 * @category models
 */
export interface Remembered extends Target {
  readonly seq: number
  readonly name: string
  readonly value: CanonicalJson.Json
}

/**
 * What was agreed on about a tool when its intents were staged. `digest` is the contract of an intent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Contract {
  readonly digest: string
  readonly tool: string
  /** JSON Schema of the arguments, draft 2020-12, as a model is shown it. */
  readonly parameters: { readonly [keyword: string]: unknown }
}

/**
 * How much was removed.
 *
 * @since 0.1.0
 * @category models
 */
export interface Pruned {
  readonly events: number
  readonly intents: number
  readonly outputs: number
}

/**
 * What could not be finished. `Event`: it never committed. `Resume`: it did, and blocks its key. `Message`: it did not fit.
 * `Intent`: it could not be read, or is not what was signed.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadLetter extends Target {
  readonly id: number
  readonly kind: "Event" | "Resume" | "Message" | "Intent"
  readonly offset: number
  readonly content: CanonicalJson.Json
  readonly reason: Activation.Reason
  readonly at: number
  readonly driven: { readonly by: string; readonly at: number; readonly offset: number } | undefined
}

/**
 * An unknown end that was settled.
 *
 * @since 0.1.0
 * @category models
 */
export interface Resolution {
  readonly offset: number
  readonly id: Intent.Id
  readonly tool: string
  readonly agent: string
  readonly key: string
  readonly by: string
  readonly at: number
  readonly result: Intent.Result | undefined
}

/**
 * The store failed. Whether the operation happened is not known; doing it again is safe.
 *
 * @since 0.1.0
 * @category errors
 */
export class StoreError extends Schema.TaggedError<StoreError>()("StoreError", {
  operation: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `the store failed at '${this.operation}': ${this.detail}`
  }
}

/**
 * The key was committed or cancelled by somebody else in between. The work is thrown away.
 *
 * @since 0.1.0
 * @category errors
 */
export class CommitConflict extends Schema.TaggedError<CommitConflict>()("CommitConflict", {
  agent: Schema.String,
  key: Schema.String,
  expected: Schema.Number,
  actual: Schema.Number
}) {
  override get message() {
    return `key '${this.key}' of '${this.agent}' is at revision ${this.actual}, the commit read ${this.expected}`
  }
}

/**
 * An event id that was seen before with another content.
 *
 * @since 0.1.0
 * @category errors
 */
export class EventConflict extends Schema.TaggedError<EventConflict>()("EventConflict", {
  agent: Schema.String,
  key: Schema.String,
  eventId: Schema.String
}) {
  override get message() {
    return `event '${this.eventId}' of key '${this.key}' of '${this.agent}' was sent before with another content`
  }
}

/**
 * As many events, or messages, wait for a key as may. Send again later.
 *
 * @since 0.1.0
 * @category errors
 */
export class InboxFull extends Schema.TaggedError<InboxFull>()("InboxFull", {
  agent: Schema.String,
  key: Schema.String,
  limit: Schema.Number
}) {
  override get message() {
    return `the inbox of key '${this.key}' of '${this.agent}' is full (${this.limit}); send again later`
  }
}

/**
 * No intent of that id.
 *
 * @since 0.1.0
 * @category errors
 */
export class IntentNotFound extends Schema.TaggedError<IntentNotFound>()("IntentNotFound", { id: Schema.String }) {
  override get message() {
    return `no intent ${this.id}`
  }
}

/**
 * No dead letter of that id that could be driven.
 *
 * @since 0.1.0
 * @category errors
 */
export class DeadLetterNotFound extends Schema.TaggedError<DeadLetterNotFound>()("DeadLetterNotFound", {
  id: Schema.Number
}) {
  override get message() {
    return `no dead letter ${this.id} that could be driven`
  }
}

/**
 * What is younger than the longest time an intent may take to end would be removed with the rest.
 *
 * @since 0.1.0
 * @category errors
 */
export class RetentionTooShort extends Schema.TaggedError<RetentionTooShort>()("RetentionTooShort", {
  olderThan: Schema.Number,
  longest: Schema.Number,
  id: Schema.String
}) {
  override get message() {
    return `a retention of ${this.olderThan} ms is shorter than the ${this.longest} ms intent ${this.id} may wait to be started`
  }
}
