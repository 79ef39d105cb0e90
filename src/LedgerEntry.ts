/**
 * What is remembered of each intent: an entry, and what can be read off it. How an entry may move is in `Ledger.ts`.
 *
 * Guarantees: pure data, so that every store keeps the same and asks the same questions of it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"

/**
 * The states of an intent.
 *
 * @since 0.1.0
 * @category models
 */
export type State = "Staged" | "Claimed" | "Performed" | "Unknown" | "Expired" | "Rejected" | "Denied" | "Cancelled"

/**
 * What is remembered of an intent. Times are milliseconds of the store's clock.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly intent: Intent.Intent
  readonly state: State
  /** How many times its handler was started. */
  readonly attempt: number
  /** Not started before, between two attempts of an idempotent tool. */
  readonly availableAt: number
  readonly claim: Claim | undefined
  /** The token of the last claim that ended or lapsed: its owner may still bring evidence. */
  readonly lastToken: string | undefined
  /** Who is asked to decide now, after the first did not; `undefined` for the first. */
  readonly channel: string | undefined
  readonly decision: Decided | undefined
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
  /** How it ended; while it is staged again, what the last attempt came to. */
  readonly result: Intent.Result | undefined
  /** What the waiting agent is told: set once. */
  readonly answer: Journal.Answer | undefined
  /** What an owner reported after it had lost its claim. */
  readonly late: Intent.Result | undefined
  /** The contract of an effector that serves the tool by name and could not read these arguments. */
  readonly mismatch: { readonly owner: string; readonly contract: string } | undefined
  /** How an unknown end was settled. */
  readonly resolution: { readonly by: string; readonly at: number } | undefined
  readonly history: ReadonlyArray<{ readonly at: number; readonly state: State; readonly note: string }>
}

/**
 * What was decided about an intent. `edited` are the arguments it is performed with instead of those it was asked for with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Decided {
  readonly approved: boolean
  readonly by: string
  readonly at: number
  readonly edited: { readonly arguments: string; readonly argumentsDigest: string } | undefined
  readonly signature: Intent.Signature | undefined
}

/**
 * The right to run a handler until `until`, proved by `token`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Claim {
  readonly owner: string
  readonly token: string
  readonly until: number
  /** The delay before the next attempt, should the end of this one be unknown; `undefined` where there is none. */
  readonly retryIn: number | undefined
}

/**
 * The entry of an intent that was just staged.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stage = (draft: Intent.Draft, now: number): Entry => {
  const { approvalTimeout } = draft
  const approvalDueAt = approvalTimeout === undefined ? undefined : now + approvalTimeout
  return {
    intent: { ...draft, createdAt: now, approvalDueAt, expiresAt: (approvalDueAt ?? now) + draft.ttl },
    state: "Staged",
    attempt: 0,
    availableAt: now,
    claim: undefined,
    lastToken: undefined,
    channel: undefined,
    decision: undefined,
    startedAt: undefined,
    endedAt: undefined,
    result: undefined,
    answer: undefined,
    late: undefined,
    mismatch: undefined,
    resolution: undefined,
    history: [{ at: now, state: "Staged", note: "" }]
  }
}

/**
 * Whether nothing but a late report may change an entry any more.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTerminal = ({ state }: Entry): boolean =>
  state !== "Staged" && state !== "Claimed" && state !== "Unknown"

/**
 * Whether an intent waits for a person to decide.
 *
 * @since 0.1.0
 * @category guards
 */
export const waitsForApproval = (entry: Entry): boolean =>
  entry.state === "Staged" && entry.intent.approval === "required" && entry.decision === undefined

/**
 * Whether an intent holds back the later ones of its key: it is under way, or about to be.
 *
 * @since 0.1.0
 * @category guards
 */
export const holdsOrder = (entry: Entry): boolean =>
  entry.state === "Claimed" || (entry.state === "Staged" && !waitsForApproval(entry))

/**
 * Whether an intent may be claimed now: staged, decided, not between two attempts, and not too late.
 *
 * @since 0.1.0
 * @category guards
 */
export const isStartable = (entry: Entry, now: number): boolean =>
  entry.state === "Staged" && entry.intent.kind === "tool" && !waitsForApproval(entry) && entry.availableAt <= now
  && startBy(entry) > now

/**
 * Whether the tool's `verify` is to be asked about an unknown end nobody was told of yet.
 *
 * @since 0.1.0
 * @category guards
 */
export const isVerifiable = (entry: Entry, now: number): boolean =>
  isUnanswered(entry) && (entry.claim === undefined || entry.claim.until <= now)

/**
 * Whether an end is unknown and nobody was told so yet: the tool's `verify` is asked first.
 *
 * @since 0.1.0
 * @category guards
 */
export const isUnanswered = (entry: Entry): boolean =>
  entry.state === "Unknown" && entry.intent.verify && entry.answer === undefined

/**
 * When time changes something about an entry next: a decision, a start or a lease falls due, or it may be tried again.
 *
 * @since 0.1.0
 * @category accessors
 */
export const dueAt = (entry: Entry, now: number): number | undefined => {
  if (entry.claim !== undefined) return entry.claim.until
  if (waitsForApproval(entry)) return entry.intent.approvalDueAt
  if (entry.state === "Staged") return entry.availableAt > now ? entry.availableAt : startBy(entry)
  // A `verify` nobody asks for as long as a start might have taken is not waited for any longer.
  return isUnanswered(entry) ? entry.endedAt! + entry.intent.ttl : undefined
}

/**
 * Who is asked to decide next, should nobody have done so in time. Each name once, so that asking ends.
 *
 * @since 0.1.0
 * @category accessors
 */
export const nextChannel = ({ channel, intent }: Entry): string | undefined => {
  const channels = [...new Set(intent.escalation)]
  return channels[channel === undefined ? 0 : channels.indexOf(channel) + 1]
}

/**
 * The arguments an intent is performed with, as canonical JSON: those a person put in their place, or those that were asked
 * for. `undefined` where they are sealed and cannot be opened.
 *
 * @since 0.1.0
 * @category accessors
 */
export const effectiveArguments = ({ decision, intent }: Pick<Entry, "decision" | "intent">): string | undefined =>
  decision?.edited?.arguments
    ?? (intent.sealed === undefined ? intent.arguments : Intent.Sealed.reveal(intent.sealed))

/**
 * Since when an intent waits for nothing but somebody to start it, if it does: these are the backlog.
 *
 * @since 0.1.0
 * @category accessors
 */
export const waitingSince = (entry: Entry): number | undefined =>
  entry.state !== "Staged" || entry.intent.kind === "approval" || waitsForApproval(entry)
    ? undefined
    : entry.attempt > 0
    ? entry.availableAt
    : entry.decision?.at ?? entry.intent.createdAt

/**
 * Where an intent is, in words for a person: "approved, not performed, 1 h".
 *
 * @since 0.1.0
 * @category accessors
 */
export const describe = (entry: Entry, now: number): string => {
  const { approvalDueAt, approvalTimeout, createdAt } = entry.intent
  if (waitsForApproval(entry)) {
    const since = entry.channel === undefined ? createdAt : (approvalDueAt ?? now) - (approvalTimeout ?? 0)
    return `waits for ${entry.channel ?? "approval"}, ${span(now - since)}`
  }
  const since = waitingSince(entry)
  if (since === undefined) return entry.state
  const how = entry.attempt > 0 ? "to be performed again" : "not performed"
  return `${entry.decision === undefined ? "staged" : "approved"}, ${how}, ${span(now - since)}`
}

/**
 * How a move settled an unknown end that its agent had been told of, where it did: at once, or by performing it again.
 *
 * @since 0.1.0
 * @category accessors
 */
export const resolved = (
  before: Entry,
  next: Entry
): { readonly by: string; readonly at: number; readonly result: Intent.Result | undefined } | undefined => {
  if (before.answer === undefined || next.resolution === undefined) return undefined
  if (before.resolution === undefined) {
    return { ...next.resolution, result: isTerminal(next) ? next.result : undefined }
  }
  const performedAgain = isTerminal(next) && !isTerminal(before)
  const at = Math.max(next.resolution.at, next.endedAt ?? 0)
  return performedAgain ? { by: next.resolution.by, at, result: next.result } : undefined
}

/**
 * Somebody else owns the intent by now, or its record is written. Nothing the caller reported replaced it.
 *
 * @since 0.1.0
 * @category errors
 */
export class StaleClaim extends Schema.TaggedError<StaleClaim>()("StaleClaim", {
  id: Schema.String,
  tool: Schema.String,
  key: Schema.String,
  state: Schema.String
}) {
  override get message() {
    return `the claim on intent ${this.id} ('${this.tool}' for key '${this.key}') is stale: it is ${this.state}`
  }
}

/**
 * The state of an intent does not allow the move.
 *
 * @since 0.1.0
 * @category errors
 */
export class LedgerRefusal extends Schema.TaggedError<LedgerRefusal>()("LedgerRefusal", {
  id: Schema.String,
  tool: Schema.String,
  key: Schema.String,
  state: Schema.String,
  move: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `cannot ${this.move} intent ${this.id} ('${this.tool}' for key '${this.key}'), which is ${this.state}: ${this.reason}`
  }
}

// internal

/** The first start counts from the staging or the decision; a further one from when it was free to start. */
const startBy = ({ attempt, availableAt, intent }: Entry): number =>
  attempt === 0 ? intent.expiresAt : availableAt + intent.ttl

const span = (millis: number): string => {
  const [unit, size] = units.find(([_, size]) => millis >= size) ?? units[units.length - 1]!
  return `${Math.max(0, Math.floor(millis / size))} ${unit}`
}

const units: ReadonlyArray<readonly [unit: string, millis: number]> = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000]
]
