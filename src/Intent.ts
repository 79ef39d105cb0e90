/**
 * An intent: a side effect that was asked for, as data. Its id names a place (agent, key, seq, step), never the arguments;
 * their digest stands beside it.
 *
 * Guarantees: the same place gives the same id on every run and machine. Refuses: another tool or other arguments under one
 * id (`IntentConflict`), and names or keys that two encodings could confuse (`InvalidKeyError`).
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Schema from "effect/Schema"
import { v5 } from "uuid"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Tool from "./Tool.ts"

/**
 * The id of an intent: a version 5 UUID in lower case. It is the idempotency key of the handler.
 *
 * @since 0.1.0
 * @category models
 */
export const Id = Schema.String.pipe(Schema.check(Schema.isPattern(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)))
  .pipe(Schema.brand("IntentId"))

/**
 * @since 0.1.0
 * @category models
 */
export type Id = typeof Id.Type

/**
 * The place of an activation and the key it works for.
 *
 * @since 0.1.0
 * @category models
 */
export interface Place {
  readonly agent: string
  readonly key: string
  /** The number of the event among the committed ones of this agent and key. */
  readonly seq: number
  readonly step: number
}

/**
 * A side effect that was asked for. Times are milliseconds of the store's clock.
 *
 * @since 0.1.0
 * @category models
 */
export interface Intent extends Place {
  readonly id: Id
  /** `approval` is a question to a person and nothing else; `tool` is the name it was given. */
  readonly kind: "tool" | "approval"
  readonly tool: string
  readonly contract: string
  /** Canonical JSON; redacted parts are replaced by `"<redacted>"` and stand in `sealed`. */
  readonly arguments: string
  /** SHA-256 of the canonical JSON with the redacted parts in place. */
  readonly argumentsDigest: string
  readonly sealed: Sealed | undefined
  readonly createdAt: number
  /** Not started by then means it never is. Counts from the decision where approval is required. */
  readonly expiresAt: number
  /** How long the intent may wait to be started, in milliseconds. */
  readonly ttl: number
  readonly approval: "none" | "required"
  /** How long each of those who are asked may take to decide, in milliseconds; `undefined` where no approval is required. */
  readonly approvalTimeout: number | undefined
  readonly approvalDueAt: number | undefined
  /** Who is asked next, in order, when nobody has decided in time. */
  readonly escalation: ReadonlyArray<string>
  readonly idempotent: boolean
  readonly verify: boolean
  /** Its handler runs in the transaction that records its end: what has no record has not happened. */
  readonly transactional: boolean
  readonly traceId: string
  readonly signature: Signature | undefined
}

/**
 * Who vouches for an intent or a decision: the key, and the HMAC-SHA256 in hexadecimal.
 *
 * @since 0.1.0
 * @category models
 */
export interface Signature {
  readonly keyId: string
  readonly mac: string
}

/**
 * An intent as an activation stages it: its times are set by the store when it is committed.
 *
 * @since 0.1.0
 * @category models
 */
export interface Draft extends Omit<Intent, "createdAt" | "expiresAt" | "approvalDueAt"> {}

/**
 * The arguments of an intent whose tool has redacted parameters: never printed, never listed. A store that keeps them sealed
 * opens them when they are asked for, and gives `undefined` where it cannot.
 *
 * @since 0.1.0
 * @category models
 */
export class Sealed {
  readonly #open: () => string | undefined
  constructor(args: string | (() => string | undefined)) {
    this.#open = typeof args === "string" ? () => args : args
  }
  static reveal(sealed: Sealed): string | undefined {
    return sealed.#open()
  }
  toJSON(): string {
    return "<sealed>"
  }
  toString(): string {
    return "<sealed>"
  }
}

/**
 * Why an intent was certainly never started.
 *
 * @since 0.1.0
 * @category models
 */
export type NotPerformedReason = "Expired" | "Rejected" | "Denied" | "Cancelled"

/**
 * Why nobody knows whether an intent happened.
 *
 * @since 0.1.0
 * @category models
 */
export type UnknownReason = "Crashed" | "TimedOut" | "LeaseLost" | "Defect"

/**
 * How an intent ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Result =
  /** Performed; the tool's success as JSON. */
  | { readonly _tag: "Success"; readonly value: CanonicalJson.Json }
  /** Performed; the tool's own typed failure as JSON. */
  | { readonly _tag: "Failure"; readonly error: CanonicalJson.Json }
  /** Performed; the result cannot be handed over. */
  | { readonly _tag: "Unavailable"; readonly message: string }
  /** Certainly never started. */
  | { readonly _tag: "NotPerformed"; readonly reason: NotPerformedReason; readonly message: string }
  /** Started, and its end was not recorded. */
  | { readonly _tag: "OutcomeUnknown"; readonly reason: UnknownReason; readonly message: string }

/**
 * The intent a SideEffect handler performs, for that handler only.
 *
 * @since 0.1.0
 * @category services
 */
export const Current: Context.Service<Tool.CurrentIntent, CurrentIntent> = Context.Service(
  "effect-intents/Intent/Current"
)

/**
 * What a handler is told of the intent it performs. `id` is the idempotency key, the same in every attempt.
 *
 * @since 0.1.0
 * @category models
 */
export interface CurrentIntent extends Place {
  readonly id: Id
  /** 1 for the first start. */
  readonly attempt: number
}

/**
 * The id of a place. `seq` may exceed 2^53 as a bigint.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeId = (agent: string, key: string, seq: number | bigint, step: number): Id =>
  idFromBytes(keyBytes(agent, key), seq, step)

/**
 * The id of a place whose key is given as bytes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const idFromBytes = (key: Uint8Array, seq: number | bigint, step: number): Id =>
  v5(`${Buffer.from(key).toString("hex")}|${seq}|${step}`, namespace) as Id

/**
 * The trace id of an event's activations: 32 hex digits.
 *
 * @since 0.1.0
 * @category constructors
 */
export const traceId = (agent: string, key: string, seq: number): string =>
  v5(`${Buffer.from(keyBytes(agent, key)).toString("hex")}|${seq}|trace`, namespace).replaceAll("-", "")

/**
 * Fails when the staged intent is not the one asked for: another tool or other arguments under the same id.
 *
 * @since 0.1.0
 * @category guards
 */
export const conflict = (
  staged: Pick<Intent, "id" | "agent" | "key" | "tool" | "argumentsDigest">,
  asked: Pick<Intent, "tool" | "argumentsDigest">
): IntentConflict | undefined =>
  staged.tool === asked.tool && staged.argumentsDigest === asked.argumentsDigest ? undefined : new IntentConflict({
    id: staged.id,
    agent: staged.agent,
    key: staged.key,
    stagedTool: staged.tool,
    stagedDigest: staged.argumentsDigest,
    askedTool: asked.tool,
    askedDigest: asked.argumentsDigest
  })

/**
 * What is wrong with a key, if anything: 1 to 1,024 bytes of well-formed Unicode without NUL.
 *
 * @since 0.1.0
 * @category guards
 */
export const keyIssue = (key: string): InvalidKeyError | undefined => {
  const reason = typeof key !== "string" ?
    "a key is a string"
    : key === "" ?
    "a key is not empty"
    : key.includes("\0") ?
    "a key holds no NUL"
    : !key.isWellFormed() ?
    "a key is well-formed Unicode"
    : Buffer.byteLength(key) > 1024 ?
    `a key has at most 1,024 bytes, this one ${Buffer.byteLength(key)}`
    : undefined
  return reason === undefined
    ? undefined
    : new InvalidKeyError({ key: String(key).slice(0, 80).toWellFormed(), reason })
}

/**
 * A key that cannot name an entity.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidKeyError extends Schema.TaggedError<InvalidKeyError>()("InvalidKeyError", {
  key: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `key '${this.key}': ${this.reason}`
  }
}

/**
 * One id, two different requests. The first record stands; nothing is passed off as the answer to the second.
 *
 * @since 0.1.0
 * @category errors
 */
export class IntentConflict extends Schema.TaggedError<IntentConflict>()("IntentConflict", {
  id: Schema.String,
  agent: Schema.String,
  key: Schema.String,
  stagedTool: Schema.String,
  stagedDigest: Schema.String,
  askedTool: Schema.String,
  askedDigest: Schema.String
}) {
  override get message() {
    return `intent ${this.id} of '${this.agent}' for key '${this.key}' was staged as '${this.stagedTool}' with arguments `
      + `${this.stagedDigest}, now asked for as '${this.askedTool}' with ${this.askedDigest}`
  }
}

/**
 * The intent certainly never started: it may be asked for again without being done twice.
 *
 * @since 0.1.0
 * @category errors
 */
export class IntentNotPerformed extends Schema.TaggedError<IntentNotPerformed>()("IntentNotPerformed", {
  id: Schema.String,
  tool: Schema.String,
  key: Schema.String,
  reason: Schema.Literals(["Expired", "Rejected", "Denied", "Cancelled"]),
  detail: Schema.String
}) {
  override get message() {
    return `'${this.tool}' was not performed for key '${this.key}' (${this.reason}, intent ${this.id}): ${this.detail}`
  }
}

/**
 * The intent was started and its end is not known: it may have happened. Never ask for it again without looking.
 *
 * @since 0.1.0
 * @category errors
 */
export class IntentOutcomeUnknown extends Schema.TaggedError<IntentOutcomeUnknown>()("IntentOutcomeUnknown", {
  id: Schema.String,
  tool: Schema.String,
  key: Schema.String,
  reason: Schema.Literals(["Crashed", "TimedOut", "LeaseLost", "Defect"]),
  detail: Schema.String
}) {
  override get message() {
    return `the outcome of '${this.tool}' for key '${this.key}' is unknown, it may have happened `
      + `(${this.reason}, intent ${this.id}): ${this.detail}`
  }
}

/**
 * The intent was performed and its result cannot be handed over. It is never run again.
 *
 * @since 0.1.0
 * @category errors
 */
export class ResultUnavailable extends Schema.TaggedError<ResultUnavailable>()("ResultUnavailable", {
  id: Schema.String,
  tool: Schema.String,
  key: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `'${this.tool}' was performed for key '${this.key}' (intent ${this.id}), but its result is not available: `
      + this.detail
  }
}

// internal

const namespace = "6f3e9d2a-1c47-5b8e-9a10-2d4f6b8c0e11"

const keyBytes = (agent: string, key: string): Uint8Array => Buffer.from(`${agent}\0${key}`, "utf8")
