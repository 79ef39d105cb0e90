/**
 * The ledger: every move an intent may make. Moves are pure; a store applies one at a time, conditional on the present
 * entry, so that memory, SQLite and Postgres obey the same rules.
 *
 * Guarantees: one entry per id; one terminal record; an answer once given never changes. Refuses: moves by anybody but the
 * owner of the claim (`StaleClaim`), and moves the state does not allow (`LedgerRefusal`).
 *
 * @since 0.1.0
 */
import type * as Intent from "./Intent.ts"
import {
  type Decided,
  dueAt,
  type Entry,
  isStartable,
  isVerifiable,
  LedgerRefusal,
  nextChannel,
  StaleClaim,
  type State,
  waitsForApproval
} from "./LedgerEntry.ts"

export * from "./LedgerEntry.ts"

/**
 * A move: the entry to write, if any, and the refusal the caller is told, if any. Late evidence is written and refused.
 *
 * @since 0.1.0
 * @category models
 */
export type Move<E> = (
  entry: Entry,
  now: number
) => { readonly next: Entry | undefined; readonly refusal: E | undefined }

/**
 * What a claim is made with. `lease` and `retryIn` are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface ClaimOptions {
  readonly owner: string
  readonly token: string
  readonly lease: number
  /** The delay before the next attempt, should the end of this one be unknown; `undefined` where there is none. */
  readonly retryIn: number | undefined
}

/**
 * Claims a startable intent, or an unknown end to be verified. The same token may claim again: nothing changes.
 *
 * @since 0.1.0
 * @category moves
 */
export const claim = ({ lease, owner, retryIn, token }: ClaimOptions): Move<LedgerRefusal> => (entry, now) => {
  if (entry.claim?.token === token) return unchanged
  const held = { owner, token, until: now + lease, retryIn }
  if (isVerifiable(entry, now)) return write(noted({ ...entry, claim: held }, now, `${owner} asks the tool's verify`))
  if (!isStartable(entry, now)) return refuse(entry, "claim")
  const attempt = entry.attempt + 1
  const started = { ...entry, state: "Claimed" as const, attempt, claim: held, startedAt: now, endedAt: undefined }
  return write(noted(started, now, `by ${owner}, attempt ${attempt}`))
}

/**
 * Extends a lease.
 *
 * @since 0.1.0
 * @category moves
 */
export const renew = (token: string, lease: number): Move<StaleClaim> => (entry, now) =>
  entry.claim?.token === token ? write({ ...entry, claim: { ...entry.claim, until: now + lease } }) : stale(entry)

/**
 * Gives back a claim whose handler, or whose `verify`, was never called: nothing is used up.
 *
 * @since 0.1.0
 * @category moves
 */
export const release = (token: string): Move<StaleClaim> => (entry, now) => {
  if (entry.claim?.token !== token) return stale(entry)
  const free = { ...entry, claim: undefined }
  return write(
    entry.state === "Claimed"
      ? noted({ ...free, state: "Staged", attempt: entry.attempt - 1, startedAt: undefined }, now, "released")
      : free
  )
}

/**
 * Records how a claimed intent ended. An unknown end is performed again where the tool is idempotent and its schedule not
 * over; else the waiting agent is told, after the tool's `verify` was asked. `stillRunning` says that the handler did not heed
 * its interruption: then there is no use in asking.
 *
 * An owner that lost its claim is told `StaleClaim`. What it knows is stored beside the record, and settles an end that is
 * still unknown, unless somebody started the intent again.
 *
 * @since 0.1.0
 * @category moves
 */
export const complete =
  (token: string, result: Intent.Result, stillRunning = false): Move<StaleClaim> => (entry, now) => {
    if (entry.claim?.token === token) {
      if (entry.state === "Unknown") return write(verified({ ...entry, claim: undefined }, result, now))
      return write(
        result._tag === "OutcomeUnknown"
          ? lost(entry, result, now, stillRunning)
          : ended({ ...entry, claim: undefined, lastToken: token }, result, now)
      )
    }
    const last = entry.lastToken === token
    if (last && entry.claim === undefined && JSON.stringify(entry.result) === JSON.stringify(result)) return unchanged
    // Nobody ever started it: a report of its end is no evidence.
    if (result._tag === "OutcomeUnknown" || entry.attempt === 0) return stale(entry)
    const evidence = { ...entry, late: entry.late ?? result }
    const settles = last && (entry.state === "Unknown" || entry.state === "Staged")
    return { ...stale(entry), next: settles ? settled(evidence, "late evidence", result, now) : evidence }
  }

/**
 * Notes that an effector serves the tool under another contract and could not read the arguments. The intent stays staged.
 *
 * @since 0.1.0
 * @category moves
 */
export const mismatched = (owner: string, contract: string): Move<never> => (entry) =>
  entry.mismatch?.contract === contract ? unchanged : write({ ...entry, mismatch: { owner, contract } })

/**
 * Refuses an intent before its handler was ever called.
 *
 * @since 0.1.0
 * @category moves
 */
export const reject = (message: string): Move<LedgerRefusal> => (entry, now) =>
  entry.state === "Staged" && entry.attempt === 0
    ? write(ended(entry, notPerformed("Rejected", message), now))
    : refuse(entry, "reject", alreadyStarted(entry))

/**
 * Ends an intent whose record cannot be read: nobody can start it any more, and whoever waits for it is told.
 *
 * @since 0.1.0
 * @category moves
 */
export const discarded = (entry: Entry, reason: string, now: number): Entry =>
  entry.state === "Staged" && entry.attempt === 0
    ? ended(entry, notPerformed("Rejected", reason), now)
    : ended({ ...entry, claim: undefined }, unknown("Crashed", reason), now)

/**
 * What time does to an entry: decisions and starts fall due, leases lapse. `undefined` where nothing is due.
 *
 * @since 0.1.0
 * @category moves
 */
export const lapse = (entry: Entry, now: number): Entry | undefined => {
  const due = dueAt(entry, now)
  if (due === undefined || due > now) return undefined
  if (entry.state === "Claimed") {
    return lost(entry, unknown("Crashed", `the lease of ${entry.claim!.owner} lapsed after the start`), now, false)
  }
  if (entry.state === "Unknown") {
    return entry.claim === undefined
      ? answered(entry, entry.result!)
      : { ...entry, claim: undefined }
  }
  if (waitsForApproval(entry)) {
    const channel = nextChannel(entry)
    return channel === undefined
      ? decided(entry, { approved: false, by: timeoutPolicy }, now)
      : escalated(entry, channel, now)
  }
  return entry.attempt === 0
    ? ended(entry, notPerformed("Expired", "nobody started it in time"), now)
    : unsettled({ ...entry, endedAt: now }, entry.result!, now, "nobody started it again in time")
}

/**
 * What is decided about an intent. `argumentsDigest` is that of the arguments that were shown.
 *
 * @since 0.1.0
 * @category models
 */
export interface Decision extends Pick<Decided, "approved" | "by"> {
  readonly argumentsDigest?: string | undefined
  /** What it is to be performed with instead. Only who has checked it against the contract of the intent may say so. */
  readonly edited?: Decided["edited"]
  readonly signature?: Decided["signature"]
}

/**
 * A decision on an intent that waits for one, by anybody: who was asked is no rule about who may. The first counts.
 *
 * @since 0.1.0
 * @category moves
 */
export const decide = (decision: Decision): Move<LedgerRefusal> => (entry, now) => {
  const { approval, approvalDueAt, argumentsDigest } = entry.intent
  const decidedBy = entry.decision?.by
  if (decidedBy !== undefined && decidedBy !== timeoutPolicy) {
    return refuse(entry, "decide", `already decided by ${decidedBy}`)
  }
  // Where somebody else is asked next it is not too late yet, swept or not.
  const isOver = approvalDueAt !== undefined && approvalDueAt <= now && nextChannel(entry) === undefined
  if (decidedBy === timeoutPolicy || (waitsForApproval(entry) && isOver)) {
    return refuse(entry, "decide", "too late")
  }
  if (approval === "none") return refuse(entry, "decide", "it needs no approval")
  if (!waitsForApproval(entry)) return refuse(entry, "decide")
  if (decision.argumentsDigest !== undefined && decision.argumentsDigest !== argumentsDigest) {
    return refuse(entry, "decide", "the decision is about other arguments")
  }
  const issue = decision.edited === undefined ? undefined : editIssue(entry)
  if (issue !== undefined) return refuse(entry, "decide", issue)
  return write(decided(entry, decision, now))
}

/**
 * Why nobody may change the arguments of an intent, if so.
 *
 * @since 0.1.0
 * @category guards
 */
export const editIssue = ({ intent }: Entry): string | undefined =>
  intent.kind === "approval"
    ? "a question has no arguments that could be changed"
    : intent.sealed !== undefined
    ? "its arguments are sealed: nobody was shown what would be changed"
    : undefined

/**
 * Cancels an intent nobody has started.
 *
 * @since 0.1.0
 * @category moves
 */
export const cancel = (by: string): Move<LedgerRefusal> => (entry, now) =>
  entry.state === "Staged" && entry.attempt === 0
    ? write(ended(entry, notPerformed("Cancelled", `cancelled by ${by}`), now))
    : refuse(entry, "cancel", alreadyStarted(entry))

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
  if (entry.state !== "Unknown") return refuse(entry, "resolve", "only an unknown end can be settled")
  switch (settlement.to) {
    case "Performed":
      return write(settled(entry, by, settlement.result, now))
    case "NotPerformed":
      return write(settled(entry, by, notPerformed("Rejected", settlement.note), now))
    case "Again": {
      const staged = { state: "Staged" as const, claim: undefined, availableAt: now, resolution: { by, at: now } }
      return write(noted({ ...entry, ...staged }, now, `again, by ${by}`))
    }
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

// internal

const timeoutPolicy = "policy:timeout"

const write = (next: Entry) => ({ next, refusal: undefined })

const unchanged = { next: undefined, refusal: undefined }

const stale = (entry: Entry) => ({
  next: undefined,
  refusal: new StaleClaim({ id: entry.intent.id, tool: entry.intent.tool, key: entry.intent.key, state: entry.state })
})

const refuse = (entry: Entry, move: string, reason = "its state does not allow it") => ({
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

const alreadyStarted = (entry: Entry): string | undefined => entry.attempt > 0 ? "already started" : undefined

const noted = (entry: Entry, at: number, note: string): Entry => ({
  ...entry,
  history: [...entry.history, { at, state: entry.state, note }]
})

const answered = (entry: Entry, result: Intent.Result): Entry => {
  if (entry.answer !== undefined) return entry
  const { by, edited } = entry.decision ?? {}
  return by === undefined || edited === undefined
    ? { ...entry, answer: { type: "intent", result } }
    : { ...entry, answer: { type: "intent", result, edited: { by, arguments: edited.arguments } } }
}

const stateOf = (result: Intent.Result): State =>
  result._tag === "NotPerformed" ? result.reason : result._tag === "OutcomeUnknown" ? "Unknown" : "Performed"

const noteOf = (result: Intent.Result): string =>
  result._tag === "NotPerformed" || result._tag === "OutcomeUnknown"
    ? `${result.reason}: ${result.message}`
    : result._tag

const ended = (entry: Entry, result: Intent.Result, now: number): Entry =>
  answered(noted({ ...entry, state: stateOf(result), result, endedAt: now }, now, noteOf(result)), result)

/** The end of a claim without a record. */
const lost = (entry: Entry, result: Intent.Result, now: number, stillRunning: boolean): Entry => {
  const { retryIn, token } = entry.claim!
  const free = { ...entry, claim: undefined, lastToken: token, result, endedAt: now }
  return (entry.intent.idempotent || entry.intent.transactional) && retryIn !== undefined
    ? noted({ ...free, state: "Staged", availableAt: now + retryIn }, now, noteOf(result))
    : stillRunning
    ? answered(unsettled(free, result, now, noteOf(result)), result)
    : unsettled(free, result, now, noteOf(result))
}

/** An unknown end. Nobody is told before the tool's `verify`, where there is one, was asked. */
const unsettled = (entry: Entry, result: Intent.Result, now: number, note: string): Entry => {
  // What a transaction did is gone with it: without a record it has not happened.
  if (entry.intent.transactional) return ended(entry, notPerformed("Rejected", `rolled back: ${note}`), now)
  const next = noted({ ...entry, state: "Unknown", resolution: undefined }, now, note)
  return entry.intent.verify ? next : answered(next, result)
}

const verified = (entry: Entry, result: Intent.Result, now: number): Entry =>
  result._tag === "OutcomeUnknown"
    ? answered(noted(entry, now, "verify does not know"), result)
    : settled(entry, "verify", result, now)

const settled = (entry: Entry, by: string, result: Intent.Result, now: number): Entry => ({
  ...ended({ ...entry, claim: undefined, resolution: { by, at: now } }, result, now),
  endedAt: entry.endedAt ?? now
})

/** Asks the next one. The time to start counts from the decision, whoever makes it. */
const escalated = (entry: Entry, channel: string, now: number): Entry => {
  const approvalDueAt = now + entry.intent.approvalTimeout!
  const intent = { ...entry.intent, approvalDueAt, expiresAt: approvalDueAt + entry.intent.ttl }
  return noted({ ...entry, intent, channel }, now, `nobody decided in time: ${channel} is asked`)
}

const decided = (entry: Entry, { approved, by, edited, signature }: Decision, now: number): Entry => {
  const next = { ...entry, decision: { approved, by, at: now, edited, signature } }
  if (entry.intent.kind === "approval") {
    const state = approved ? "Performed" as const : "Denied" as const
    const result: Intent.Result = { _tag: "Success", value: approved }
    return noted({ ...next, state, result, answer: { type: "decision", approved, by }, endedAt: now }, now, `by ${by}`)
  }
  if (!approved) return ended(next, notPerformed("Denied", `denied by ${by}`), now)
  const note = `approved by ${by}${edited === undefined ? "" : ", with other arguments"}`
  return noted({ ...next, intent: { ...entry.intent, expiresAt: now + entry.intent.ttl } }, now, note)
}
