/**
 * What must be durable, as a service: inbox, keys, journals, ledger, outputs, dead letters. Every method is one atomic
 * operation; nothing is acknowledged before it is durable. Times are milliseconds of the store's clock.
 *
 * Guarantees: a commit is conditional on the revision it read; an answer and the waking of the key that waits for it are one
 * operation. Refuses: a second commit of one revision (`CommitConflict`), and one event id with two contents (`EventConflict`).
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Activation from "./Activation.ts"
import * as AgentStoreMemory from "./AgentStoreMemory.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Ledger from "./Ledger.ts"
import type * as Memory from "./Memory.ts"

/**
 * The durable home of agents.
 *
 * @since 0.1.0
 * @category services
 */
export class AgentStore extends Context.Service<AgentStore, {
  /** Adds an event to the inbox of a key. The same event id with the same content is a duplicate and changes nothing. */
  readonly send: (event: Sent) => Effect.Effect<Receipt, EventConflict | InboxFull | StoreError>
  /** Adds a message to the mailbox of a key. */
  readonly message: (
    message: Target & { readonly message: CanonicalJson.Json }
  ) => Effect.Effect<{ readonly offset: number }, InboxFull | StoreError>
  /** Up to `limit` keys that can be run now, each with all an activation needs. Keys for which `busy` holds are left out. */
  readonly ready: (query: {
    readonly agents: ReadonlyArray<string>
    readonly limit: number
    readonly busy: (agent: string, key: string) => boolean
  }) => Effect.Effect<ReadonlyArray<Snapshot>, StoreError>
  /**
   * Puts rows of an uncommitted segment in the place of those from `from` on, if the last row that stands has the check
   * `known` (`undefined` where there is none). Else somebody else was there: answers the rows from `from` on and keeps them.
   */
  readonly append: (
    rows: Claimed & {
      readonly from: number
      readonly rows: ReadonlyArray<Journal.Stored>
      readonly known: string | undefined
    }
  ) => Effect.Effect<ReadonlyArray<Journal.Stored>, CommitConflict | StoreError>
  /** Commits an activation, all or nothing. */
  readonly commit: (
    commit: Claimed & { readonly version: string; readonly activated: Activation.Activated }
  ) => Effect.Effect<void, CommitConflict | Intent.IntentConflict | StoreError>
  /**
   * Records that an activation failed: to be run again at `retryAt`, or else a dead letter. A resume that failed for good
   * stays where it is and blocks its key.
   */
  readonly fail: (
    failure: Claimed & { readonly reason: Activation.Reason; readonly retryIn: number | undefined }
  ) => Effect.Effect<void, CommitConflict | StoreError>
  /** Takes a message that does not fit out of a mailbox and makes it a dead letter; the key keeps waiting. */
  readonly refuseMessage: (
    message: Target & { readonly offset: number; readonly detail: string }
  ) => Effect.Effect<void, StoreError>
  /**
   * Up to `limit` intents of the given tools that could be claimed now: of each key the one whose turn it is, and unknown ends
   * that are to be verified.
   */
  readonly startable: (query: {
    readonly tools: ReadonlyArray<string>
    readonly except: ReadonlySet<string>
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<Ledger.Entry>, StoreError>
  /**
   * Claims an intent if it is the one its key's order allows. `undefined` where it is not, or not any more. The same token
   * claims once and is given the entry again.
   */
  readonly claim: (
    claim: Ledger.ClaimOptions & { readonly id: Intent.Id }
  ) => Effect.Effect<Ledger.Entry | undefined, StoreError>
  /** Applies a move to one entry. Late evidence is written even where the caller is refused. */
  readonly move: <E>(id: string, move: Ledger.Move<E>) => Effect.Effect<Ledger.Entry, E | IntentNotFound | StoreError>
  /** Lets time act: expiries, decisions, leases. Gives when it has to be called again. */
  readonly sweep: Effect.Effect<{ readonly nextAt: number | undefined; readonly now: number }, StoreError>
  /** Ends the current event of a key as Cancelled, with its unstarted intents. `undefined` where there is none. */
  readonly cancel: (
    target: Target & { readonly by: string }
  ) => Effect.Effect<{ readonly offset: number } | undefined, StoreError>
  /** Drives a dead letter again: its event, byte for byte, or the resume it blocks. `fresh` drops an uncommitted journal. */
  readonly redrive: (
    letter: { readonly id: number; readonly by: string; readonly fresh: boolean }
  ) => Effect.Effect<{ readonly offset: number }, DeadLetterNotFound | StoreError>
  readonly entry: (id: string) => Effect.Effect<Ledger.Entry, IntentNotFound | StoreError>
  /** Entries by state and key, in the order they were staged. */
  readonly entries: (query: EntryQuery) => Effect.Effect<ReadonlyArray<Ledger.Entry>, StoreError>
  readonly event: (offset: number) => Effect.Effect<EventStatus | undefined, StoreError>
  readonly key: (target: Target) => Effect.Effect<KeyStatus, StoreError>
  /** The run of an event that has committed, kept as long as the event is. */
  readonly recorded: (offset: number) => Effect.Effect<Recorded | undefined, StoreError>
  /** What was done for an event, in order. */
  readonly trace: (offset: number) => Effect.Effect<ReadonlyArray<Activation.Trace>, StoreError>
  /** Outputs of an agent behind a cursor, in the order of their offsets. */
  readonly outputs: (query: {
    readonly agent: string
    readonly after: number
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<Output>, StoreError>
  readonly deadLetters: Effect.Effect<ReadonlyArray<DeadLetter>, StoreError>
  /** Unknown ends that were settled after their agent had been told, behind a cursor. */
  readonly resolutions: (query: {
    readonly after: number
    readonly limit: number
  }) => Effect.Effect<ReadonlyArray<Resolution>, StoreError>
  /** A queue of its own for the caller, with a signal after every change; several may be folded into one. */
  readonly changes: Effect.Effect<Queue.Queue<void>, never, Scope.Scope>
}>()("effect-intents/AgentStore") {}

/**
 * A store in memory, empty at first.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemory: Layer.Layer<AgentStore> = Layer.effect(
  AgentStore,
  Effect.suspend(() => AgentStoreMemory.make())
)

/**
 * `layerMemory` with options.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerMemoryWith = (options: AgentStoreMemory.Options): Layer.Layer<AgentStore> =>
  Layer.effect(AgentStore, AgentStoreMemory.make(options))

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
 * What could not be finished. `Event`: it never committed. `Resume`: it did, and blocks its key. `Message`: it did not fit.
 *
 * @since 0.1.0
 * @category models
 */
export interface DeadLetter extends Target {
  readonly id: number
  readonly kind: "Event" | "Resume" | "Message"
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
