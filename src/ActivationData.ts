/**
 * What goes into an activation and what comes out of it, as data: an activation could run in one process and be committed by
 * another.
 *
 * Guarantees: nothing here holds a function, a fiber or a value without JSON, but `Intent.Sealed` arguments.
 *
 * @since 0.1.0
 */
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Memory from "./Memory.ts"

/**
 * What one activation is run with. Times are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Input {
  readonly key: string
  readonly seq: number
  /** Where the event stands in the inbox: with the key it seeds the randomness. */
  readonly offset: number
  readonly event: CanonicalJson.Json
  readonly now: number
  /** The memory as committed before this event. */
  readonly memory: Memory.Stored
  readonly continuation: Continuation | undefined
  readonly rows: ReadonlyArray<Journal.Stored>
  /** What the steps it waits for were answered. */
  readonly answers: ReadonlyArray<StepAnswer>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface StepAnswer {
  readonly step: number
  readonly answer: Journal.Answer
}

/**
 * Where an activation goes on: committed with the suspension.
 *
 * @since 0.1.0
 * @category models
 */
export interface Continuation {
  readonly version: string
  /** The segment that comes next. */
  readonly segment: number
  /** How many journal rows are committed. */
  readonly rows: number
  readonly waiting: ReadonlyArray<Waiting>
  /** Where a replay starts: the event's start, or the last explicit `Suspend`. */
  readonly base: {
    readonly segment: number
    readonly step: number
    readonly rows: number
    readonly memory: Memory.Stored
    readonly state: CanonicalJson.Json | undefined
    /** The intents `Suspend` waited for: their results are what the agent is resumed with. */
    readonly awaited: ReadonlyArray<Awaited>
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Awaited {
  readonly id: Intent.Id
  readonly step: number
  readonly tool: string
}

/**
 * What a suspended activation waits for. Durations are milliseconds from the commit.
 *
 * @since 0.1.0
 * @category models
 */
export type Waiting =
  | { readonly type: "intent"; readonly step: number; readonly id: Intent.Id }
  | { readonly type: "timer"; readonly step: number; readonly millis: number }
  | {
    readonly type: "message"
    readonly step: number
    readonly millis: number | undefined
    /** JSON Schema of the message, where the schema has one. */
    readonly schema: { readonly [key: string]: unknown } | undefined
  }

/**
 * What an activation leaves to be committed, all or nothing. `journal.rows` replace what the store holds from `journal.from`
 * on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Activated {
  readonly outcome:
    | { readonly _tag: "Complete"; readonly output: CanonicalJson.Json }
    | { readonly _tag: "Suspended"; readonly continuation: Continuation }
  readonly intents: ReadonlyArray<Intent.Draft>
  /** The emitted outputs; the one of `Complete` is not among them. */
  readonly emitted: ReadonlyArray<CanonicalJson.Json>
  /** What the key is to remember for good, by name. */
  readonly remembered: ReadonlyArray<{ readonly name: string; readonly value: CanonicalJson.Json }>
  /** The memory after this segment, or `undefined` where it did not change. */
  readonly memory: Memory.Stored | undefined
  readonly journal: { readonly from: number; readonly rows: ReadonlyArray<Journal.Stored> }
  readonly trace: ReadonlyArray<Trace>
  /** What a replay of the whole run starts from. */
  readonly replay: Replay
}

/**
 * What a replay starts from, and how many segments it has to go through.
 *
 * @since 0.1.0
 * @category models
 */
export interface Replay {
  readonly base: Continuation["base"]
  readonly segments: number
}

/**
 * What an activation did, in order; what a replay repeats is not among it.
 *
 * @since 0.1.0
 * @category models
 */
export type Trace =
  | {
    readonly type: "ToolCall"
    readonly tool: string
    readonly argumentsDigest: string
    readonly outcome: Journal.Outcome["_tag"]
  }
  | { readonly type: "ModelCall"; readonly step: number; readonly model: string }
  | { readonly type: "IntentStaged"; readonly step: number; readonly tool: string; readonly id: Intent.Id }
  | { readonly type: "Suspended"; readonly segment: number }
  | { readonly type: "Completed" }
  /** Written when the intent has ended, and once more where an unknown end is settled. */
  | {
    readonly type: "IntentEnded"
    readonly step: number
    readonly tool: string
    readonly id: Intent.Id
    readonly result: Intent.Result
  }
