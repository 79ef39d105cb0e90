/**
 * The ledger: what is remembered of each intent, and every move it may make. Moves are pure; a store applies one at a time,
 * conditional on the present entry, so that memory, SQLite and Postgres obey the same rules.
 *
 * Guarantees: one entry per id; one terminal record; an answer once given never changes. Refuses: moves by anybody but the
 * owner of the claim (`StaleClaim`), and moves the state does not allow (`LedgerRefusal`).
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type * as Intent from "./Intent.ts"
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
  /** The token of the last claim that ended without a record. */
  readonly lastToken: string | undefined
  readonly decision: { readonly approved: boolean; readonly by: string; readonly at: number } | undefined
  readonly startedAt: number | undefined
  readonly endedAt: number | undefined
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
 * The right to run a handler until `until`, proved by `token`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Claim {
  readonly owner: string
  readonly token: string
  readonly until: number
}

/**
 * A move: the entry to write, if any, and what the caller is told.
 *
 * @since 0.1.0
 * @category models
 */
export type Move<E> = (
  entry: Entry,
  now: number
) => { readonly next: Entry | undefined; readonly refusal: E | undefined }

/**
 * The entry of an intent that was just staged.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stage = (draft: Intent.Draft, now: number): Entry => {
  const { approvalTimeout, ...intent } = draft
  const approvalDueAt = approvalTimeout === undefined ? undefined : now + approvalTimeout
  return {
    intent: { ...intent, createdAt: now, approvalDueAt, expiresAt: (approvalDueAt ?? now) + draft.ttl },
    state: "Staged",
    attempt: 0,
    availableAt: now,
    claim: undefined,
    lastToken: undefined,
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
 * Whether an intent may be claimed now: staged, decided, not expired, not between two attempts.
 *
 * @since 0.1.0
 * @category guards
 */
export const isStartable = (entry: Entry, now: number): boolean =>
  entry.state === "Staged" && entry.intent.kind === "tool" && !waitsForApproval(entry) && entry.availableAt <= now
  && (entry.attempt > 0 || entry.intent.expiresAt > now)

/**
 * Whether the tool's `verify` is to be asked about an unknown end nobody was told of yet.
 *
 * @since 0.1.0
 * @category guards
 */
export const isVerifiable = (entry: Entry, now: number): boolean =>
  entry.state === "Unknown" && entry.intent.verify && entry.answer === undefined
  && (entry.claim === undefined || entry.claim.until <= now)

/**
 * When something about an entry is due: its decision, its expiry, its lease.
 *
 * @since 0.1.0
 * @category guards
 */
export const dueAt = (entry: Entry): number | undefined => {
  if (entry.claim !== undefined) return entry.claim.until
  if (waitsForApproval(entry)) return entry.intent.approvalDueAt
  if (entry.state === "Staged") return entry.attempt === 0 ? entry.intent.expiresAt : entry.availableAt
  return entry.state === "Unknown" && entry.answer === undefined ? entry.intent.expiresAt : undefined
}

/**
 * Claims a startable intent, or an unknown end to be verified.
 *
 * @since 0.1.0
 * @category moves
 */
export const claim = (owner: string, token: string, lease: number): Move<LedgerRefusal> => (entry, now) => {
  const held = { owner, token, until: now + lease }
  if (isVerifiable(entry, now)) return write({ ...entry, claim: held, lastToken: undefined })
  if (!isStartable(entry, now)) return refuse(entry, "claim")
  return write(
    noted(
      { ...entry, state: "Claimed", attempt: entry.attempt + 1, claim: held, lastToken: undefined, startedAt: now },
      now,
      `by ${owner}, attempt ${entry.attempt + 1}`
    )
  )
}

/**
 * Extends a lease.
 *
 * @since 0.1.0
 * @category moves
 */
export const renew = (token: string, lease: number): Move<StaleClaim> => (entry, now) =>
  entry.claim?.token === token
    ? write({ ...entry, claim: { ...entry.claim, until: now + lease } })
    : stale(entry)

/**
 * Gives back a claim whose handler was never called: nothing is used up.
 *
 * @since 0.1.0
 * @category moves
 */
export const release = (token: string): Move<StaleClaim> => (entry, now) =>
  entry.claim?.token === token
    ? write(noted(
      {
        ...entry,
        state: entry.state === "Claimed" ? "Staged" : entry.state,
        attempt: entry.state === "Claimed" ? entry.attempt - 1 : entry.attempt,
        claim: undefined,
        startedAt: entry.state === "Claimed" ? undefined : entry.startedAt
      },
      now,
      "released"
    ))
    : stale(entry)

/**
 * Records how a claimed intent ended. Late evidence of the last owner is stored beside the record and settles an end that is
 * still unknown; the caller is told `StaleClaim` all the same.
 *
 * @since 0.1.0
 * @category moves
 */
export const complete = (token: string, result: Intent.Result): Move<StaleClaim> => (entry, now) => {
  if (entry.claim?.token === token) {
    return write(
      entry.state === "Unknown"
        ? result._tag === "OutcomeUnknown"
          ? answered({ ...entry, claim: undefined }, { type: "intent", result })
          : settled(entry, "verify", result, now)
        : ended({ ...entry, claim: undefined, lastToken: token }, result, now)
    )
  }
  const settles = entry.lastToken === token && result._tag !== "OutcomeUnknown" && entry.resolution === undefined
    && (entry.state === "Unknown" || entry.state === "Staged")
  const evidence = entry.late === undefined ? { ...entry, late: result } : entry
  return { next: settles ? settled(evidence, "late evidence", result, now) : evidence, refusal: staleClaim(entry) }
}

/**
 * Returns an intent of an idempotent tool, whose end is unknown, to be performed again.
 *
 * @since 0.1.0
 * @category moves
 */
export const again =
  (token: string, availableAt: number, reason: Intent.UnknownReason): Move<StaleClaim> => (entry, now) =>
    entry.claim?.token === token
      ? write(noted({ ...entry, state: "Staged", claim: undefined, lastToken: token, availableAt }, now, reason))
      : stale(entry)

/**
 * Notes that an effector serves the tool under another contract and could not read the arguments. The intent stays staged.
 *
 * @since 0.1.0
 * @category moves
 */
export const mismatched = (owner: string, contract: string): Move<never> => (entry) =>
  write({ ...entry, mismatch: { owner, contract } })

/**
 * Refuses an intent before its handler was ever called.
 *
 * @since 0.1.0
 * @category moves
 */
export const reject = (message: string): Move<LedgerRefusal> => (entry, now) =>
  entry.state === "Staged" && entry.attempt === 0
    ? write(ended(entry, notPerformed("Rejected", message), now))
    : refuse(entry, "reject")

/**
 * What time does to an entry: decisions and intents fall due, leases lapse. `undefined` where nothing is due.
 *
 * @since 0.1.0
 * @category moves
 */
export const lapse = (entry: Entry, now: number): Entry | undefined => {
  const due = dueAt(entry)
  if (due === undefined || due > now) return undefined
  if (entry.state === "Claimed") {
    const { owner, token } = entry.claim!
    const lost = { ...entry, claim: undefined, lastToken: token }
    return entry.intent.idempotent
      ? noted({ ...lost, state: "Staged", availableAt: now }, now, `lease of ${owner} lapsed`)
      : crashed(lost, unknown("Crashed", `the lease of ${owner} lapsed after the start`), now)
  }
  if (entry.state === "Unknown") {
    if (entry.claim !== undefined) return { ...entry, claim: undefined }
    return answered(entry, { type: "intent", result: entry.result! })
  }
  if (waitsForApproval(entry)) {
    return decided(entry, false, timeoutPolicy, now)
  }
  return entry.attempt > 0 ? undefined : ended(entry, notPerformed("Expired", "nobody started it in time"), now)
}

/**
 * A decision on an intent that waits for one. The first counts.
 *
 * @since 0.1.0
 * @category moves
 */
export const decide = (
  decision: { readonly approved: boolean; readonly by: string; readonly argumentsDigest: string | undefined }
): Move<LedgerRefusal> =>
(entry, now) => {
  const { approvalDueAt, argumentsDigest } = entry.intent
  const decidedBy = entry.decision?.by
  if (decidedBy !== undefined && decidedBy !== timeoutPolicy) {
    return refuse(entry, "decide", `already decided by ${decidedBy}`)
  }
  if (decidedBy === timeoutPolicy || (waitsForApproval(entry) && approvalDueAt !== undefined && approvalDueAt <= now)) {
    return refuse(entry, "decide", "too late")
  }
  if (!waitsForApproval(entry)) return refuse(entry, "decide")
  if (decision.argumentsDigest !== undefined && decision.argumentsDigest !== argumentsDigest) {
    return refuse(entry, "decide", "the decision is about other arguments")
  }
  return write(decided(entry, decision.approved, decision.by, now))
}

/**
 * Cancels an intent nobody has started.
 *
 * @since 0.1.0
 * @category moves
 */
export const cancel = (by: string): Move<LedgerRefusal> => (entry, now) =>
  entry.state === "Staged" && entry.attempt === 0
    ? write(ended(entry, notPerformed("Cancelled", `cancelled by ${by}`), now))
    : refuse(entry, "cancel", entry.attempt > 0 ? "already started" : undefined)

/**
 * How an operator settles an unknown end.
 *
 * @since 0.1.0
 * @category models
 */
export type Settlement =
  | { readonly to: "Performed"; readonly result: Extract<Intent.Result, { readonly _tag: "Success" | "Failure" }> }
  | { readonly to: "NotPerformed"; readonly note: string }
  | { readonly to: "Again" }

/**
 * Settles an unknown end, once. The answer an agent was given does not change.
 *
 * @since 0.1.0
 * @category moves
 */
export const resolve = (by: string, settlement: Settlement): Move<LedgerRefusal> => (entry, now) => {
  if (entry.state !== "Unknown" || entry.resolution !== undefined) return refuse(entry, "resolve")
  const resolution = { by, at: now }
  switch (settlement.to) {
    case "Performed":
      return write(settled(entry, by, settlement.result, now))
    case "NotPerformed":
      return write(settled(entry, by, notPerformed("Rejected", settlement.note), now))
    case "Again":
      return write(
        noted(
          { ...entry, state: "Staged", claim: undefined, availableAt: now, resolution, endedAt: undefined },
          now,
          `by ${by}`
        )
      )
  }
}

/**
 * The result of an intent that never started.
 *
 * @since 0.1.0
 * @category constructors
 */
export const notPerformed = (reason: Intent.NotPerformedReason, message: string): Intent.Result => ({
  _tag: "NotPerformed",
  reason,
  message
})

/**
 * The result of an intent whose end is not known.
 *
 * @since 0.1.0
 * @category constructors
 */
export const unknown = (reason: Intent.UnknownReason, message: string): Intent.Result => ({
  _tag: "OutcomeUnknown",
  reason,
  message
})

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

const timeoutPolicy = "policy:timeout"

const write = (next: Entry) => ({ next, refusal: undefined })

const staleClaim = ({ intent, state }: Entry) =>
  new StaleClaim({ id: intent.id, tool: intent.tool, key: intent.key, state })

const stale = (entry: Entry) => ({ next: undefined, refusal: staleClaim(entry) })

const refuse = (entry: Entry, move: string, reason = `an intent that is ${entry.state} does not`) => ({
  next: undefined,
  refusal: new LedgerRefusal({
    id: entry.intent.id,
    tool: entry.intent.tool,
    key: entry.intent.key,
    state: entry.state,
    move,
    reason
  })
})

const noted = (entry: Entry, at: number, note: string): Entry => ({
  ...entry,
  history: [...entry.history, { at, state: entry.state, note }]
})

const answered = (entry: Entry, answer: Journal.Answer): Entry =>
  entry.answer === undefined ? { ...entry, answer } : entry

const stateOf = (result: Intent.Result): State =>
  result._tag === "NotPerformed" ? result.reason : result._tag === "OutcomeUnknown" ? "Unknown" : "Performed"

const noteOf = (result: Intent.Result): string =>
  result._tag === "NotPerformed" || result._tag === "OutcomeUnknown"
    ? `${result.reason}: ${result.message}`
    : result._tag

const closed = (entry: Entry, result: Intent.Result, now: number): Entry =>
  noted({ ...entry, state: stateOf(result), result, endedAt: now }, now, noteOf(result))

const ended = (entry: Entry, result: Intent.Result, now: number): Entry =>
  answered(closed(entry, result, now), { type: "intent", result })

/** Nobody is told of a crash before the tool's `verify`, where there is one, was asked. */
const crashed = (entry: Entry, result: Intent.Result, now: number): Entry =>
  entry.intent.verify ? closed(entry, result, now) : ended(entry, result, now)

const settled = (entry: Entry, by: string, result: Intent.Result, now: number): Entry =>
  answered(
    noted(
      {
        ...entry,
        state: stateOf(result),
        result,
        claim: undefined,
        resolution: { by, at: now },
        endedAt: entry.endedAt ?? now
      },
      now,
      `by ${by}: ${noteOf(result)}`
    ),
    { type: "intent", result }
  )

const decided = (entry: Entry, approved: boolean, by: string, now: number): Entry => {
  const next = { ...entry, decision: { approved, by, at: now } }
  if (entry.intent.kind === "approval") {
    const result: Intent.Result = { _tag: "Success", value: approved }
    return answered(
      noted({ ...next, state: approved ? "Performed" : "Denied", result, endedAt: now }, now, `by ${by}`),
      { type: "decision", approved, by }
    )
  }
  return approved
    ? noted({ ...next, intent: { ...entry.intent, expiresAt: now + entry.intent.ttl } }, now, `approved by ${by}`)
    : ended(next, notPerformed("Denied", `denied by ${by}`), now)
}
