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
import type * as Scope from "effect/Scope"
import type * as Activation from "./Activation.ts"
import type {
  Claimed,
  CommitConflict,
  Contract,
  DeadLetter,
  DeadLetterNotFound,
  EntryQuery,
  EventConflict,
  EventStatus,
  InboxFull,
  IntentNotFound,
  KeyStatus,
  Output,
  Pruned,
  Receipt,
  Recorded,
  Remembered,
  Resolution,
  RetentionTooShort,
  Sent,
  Snapshot,
  StoreError,
  Target
} from "./AgentStoreData.ts"
import * as AgentStoreMemory from "./AgentStoreMemory.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Ledger from "./Ledger.ts"

export * from "./AgentStoreData.ts"

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
  /**
   * Up to `limit` keys that can be run now, each with all an activation needs. Keys for which `busy` holds are left out. A key
   * that had its turn comes after those that wait for theirs.
   */
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
  /**
   * Ends an intent that must not be performed, and makes a dead letter of it: nobody starts it any more, and whoever waits for
   * it is told. What has ended already stays as it is.
   */
  readonly putAside: (
    intent: { readonly id: string; readonly tag: string; readonly detail: string }
  ) => Effect.Effect<void, StoreError>
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
  /** What a key remembers for good, the newest first: all of it, or what it keeps under one name. */
  readonly recall: (
    query: Target & { readonly name: string | undefined; readonly limit: number }
  ) => Effect.Effect<ReadonlyArray<Remembered>, StoreError>
  /** Keeps contracts, so that who has only the store can check arguments. */
  readonly declare: (contracts: ReadonlyArray<Contract>) => Effect.Effect<void, StoreError>
  readonly contract: (digest: string) => Effect.Effect<Contract | undefined, StoreError>
  /**
   * Takes or keeps a lock for `lease` milliseconds, and says whether the owner has it; a lease of 0 gives it back. Only a
   * convenience for those who would otherwise do the same work twice: what counts is fenced by revisions and claims.
   */
  readonly lock: (
    lock: { readonly name: string; readonly owner: string; readonly lease: number }
  ) => Effect.Effect<boolean, StoreError>
  /**
   * Removes up to `limit` events that ended more than `olderThan` milliseconds ago, with their journals and their intents, if
   * all of these have ended too, and outputs of that age. What has not finished stays, and so do dead letters. Ids of events
   * that were removed are no longer known.
   */
  readonly prune: (
    query: { readonly olderThan: number; readonly limit: number }
  ) => Effect.Effect<Pruned, RetentionTooShort | StoreError>
  /** Whether secrets of arguments can be kept here: in memory, or sealed with a key. */
  readonly seals: boolean
  /**
   * Runs a handler in a transaction of the store's own database, together with the record of its end, if the claim still holds.
   * What the handler did stays where it says `keep`, and is undone before its result is recorded where it does not. Where it
   * fails everything is undone. `undefined` where the store has no database.
   */
  readonly transact:
    | (<E>(
      claim: { readonly id: string; readonly token: string },
      handler: Effect.Effect<{ readonly result: Intent.Result; readonly keep: boolean }, E>
    ) => Effect.Effect<Ledger.Entry, E | Ledger.StaleClaim | IntentNotFound | StoreError>)
    | undefined
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
