/**
 * What the operations of a store do to its tables. Each is one synchronous piece: it refuses before it changes anything, or it
 * does all of it. A store brings the rows, runs the rule and keeps what changed.
 *
 * Guarantees: the same operation on the same rows comes to the same end in memory, SQLite and Postgres.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as AgentStore from "./AgentStore.ts"
import * as AgentStoreData from "./AgentStoreData.ts"
import type { Event, Key, Tables } from "./AgentStoreTables.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Ledger from "./Ledger.ts"

/**
 * What a rule refuses to do, as a value.
 *
 * @since 0.1.0
 * @category models
 */
export class Refused<out E> {
  readonly error: E
  constructor(error: E) {
    this.error = error
  }
}

/**
 * The arguments of a method of the store.
 *
 * @since 0.1.0
 * @category models
 */
export type Given<
  Name extends "send" | "message" | "append" | "commit" | "fail" | "refuseMessage" | "cancel" | "redrive"
> = Parameters<AgentStore.AgentStore["Service"][Name]>[0]

/**
 * The digest of an event's content: equal contents have equal digests, in whatever order their fields were written.
 *
 * @since 0.1.0
 * @category accessors
 */
export const digestOf = (event: CanonicalJson.Json): string =>
  CanonicalJson.digest(Result.getOrElse(CanonicalJson.encode(event), () => JSON.stringify(event)))

/**
 * The name under which an event id is known.
 *
 * @since 0.1.0
 * @category accessors
 */
export const eventName = ({ agent, eventId, key }: AgentStore.Sent): string => `${agent}\0${key}\0${eventId}`

/**
 * @since 0.1.0
 * @category rules
 */
export const send = (
  tables: Tables,
  sent: AgentStore.Sent,
  now: number,
  limit: number
): AgentStore.Receipt | Refused<AgentStoreData.EventConflict | AgentStoreData.InboxFull> => {
  const { agent, eventId, key } = sent
  const name = eventName(sent)
  const digest = eventId === undefined ? "" : digestOf(sent.event)
  const seen = eventId === undefined ? undefined : tables.eventIds.get(name)
  if (seen !== undefined) {
    return seen.digest === digest
      ? { offset: seen.offset, duplicate: true }
      : new Refused(new AgentStoreData.EventConflict({ agent, key, eventId: String(eventId) }))
  }
  const row = tables.key(sent)
  if (row.inbox.size >= limit) return new Refused(new AgentStoreData.InboxFull({ agent, key, limit }))
  const { offset } = tables.addEvent(row, sent)
  if (eventId !== undefined) tables.eventIds.set(name, { offset, digest })
  tables.changed(row, now)
  return { offset, duplicate: false }
}

/**
 * @since 0.1.0
 * @category rules
 */
export const message = (
  tables: Tables,
  given: Given<"message">,
  now: number,
  limit: number
): { readonly offset: number } | Refused<AgentStoreData.InboxFull> => {
  const { agent, key } = given
  const row = tables.key(given)
  if (row.mailbox.size >= limit) return new Refused(new AgentStoreData.InboxFull({ agent, key, limit }))
  const { offset } = tables.addMessage(row, given.message)
  tables.changed(row, now)
  return { offset }
}

/**
 * @since 0.1.0
 * @category rules
 */
export const refuseMessage = (
  tables: Tables,
  { detail, offset, ...target }: Given<"refuseMessage">,
  now: number
): void => {
  const row = tables.key(target)
  const refused = row.mailbox.find(offset)
  if (refused === undefined) return
  tables.removeMessage(row, refused)
  tables.addLetter(row, {
    kind: "Message",
    offset,
    content: refused.content,
    reason: { kind: "Failure", tag: "MessageRefused", message: detail },
    at: now
  })
  tables.changed(row, now)
}

/**
 * All an activation needs of a key that can be run.
 *
 * @since 0.1.0
 * @category rules
 */
export const snapshot = (tables: Tables, row: Key, now: number): AgentStore.Snapshot => {
  const { agent, continuation, key, memory, revision } = row
  const event = headOf(row)!
  return {
    agent,
    key,
    offset: event.offset,
    revision,
    seq: event.seq ?? row.seq,
    event: event.event,
    failures: event.failures,
    memory,
    continuation,
    rows: event.rows,
    answers: (continuation?.waiting ?? []).map((waiting) => ({
      step: waiting.step,
      answer: tables.answerOf(row, waiting, now)!
    })),
    now
  }
}

/**
 * @since 0.1.0
 * @category rules
 */
export const append = (
  tables: Tables,
  given: Given<"append">
): ReadonlyArray<Journal.Stored> | Refused<AgentStoreData.CommitConflict> => {
  const row = tables.key(given)
  const refused = conflict(row, given)
  if (refused !== undefined) return refused
  const event = headOf(row)!
  // A check covers every row before it, so this compares whole journals.
  if (event.rows.at(-1)?.check !== given.known) return event.rows.slice(given.from)
  tables.replaceRows(event, given.from, given.rows)
  return given.rows
}

/**
 * @since 0.1.0
 * @category rules
 */
export const commit = (
  tables: Tables,
  given: Given<"commit">,
  now: number
): void | Refused<AgentStoreData.CommitConflict | Intent.IntentConflict> => {
  const row = tables.key(given)
  const refused = conflict(row, given)
  if (refused !== undefined) return refused
  const { emitted, intents, journal, memory, outcome, remembered, replay, trace } = given.activated
  for (const draft of intents) {
    const staged = tables.ledger.get(draft.id)
    const error = staged && Intent.conflict(staged.intent, draft)
    if (error !== undefined) return new Refused(error)
  }
  const event = headOf(row)!
  if (event.seq === undefined) {
    event.seq = row.seq++
    row.inbox.remove(event)
    row.current = event
  }
  const { agent, key } = row
  const { seq } = event
  row.revision++
  if (memory !== undefined) row.memory = memory
  tables.replaceRows(event, journal.from, journal.rows)
  tables.addTrace(event.offset, trace)
  event.replay = replay
  event.failures = 0
  event.retryAt = 0
  for (const waiting of row.continuation?.waiting ?? []) useMessage(tables, row, waiting, journal.rows, now)
  for (const output of outcome._tag === "Complete" ? [...emitted, outcome.output] : emitted) {
    tables.addOutput({ agent, key, seq, output }, now)
  }
  for (const { name, value } of remembered) tables.remember(row, seq, name, value)
  for (const draft of intents) if (!tables.ledger.has(draft.id)) tables.stage(row, event, draft, now)
  if (outcome._tag === "Complete") {
    event.output = outcome.output
    tables.endEvent(row, event, "Completed", now)
  } else {
    event.state = "Suspended"
    row.continuation = outcome.continuation
    row.suspendedAt = now
  }
  tables.changed(row, now, "hadTurn")
}

/**
 * @since 0.1.0
 * @category rules
 */
export const fail = (
  tables: Tables,
  given: Given<"fail">,
  now: number
): void | Refused<AgentStoreData.CommitConflict> => {
  const { reason, retryIn } = given
  const row = tables.key(given)
  const refused = conflict(row, given)
  if (refused !== undefined) return refused
  const event = headOf(row)!
  event.failures++
  if (retryIn !== undefined) event.retryAt = now + retryIn
  else park(tables, row, event, reason, now)
  tables.changed(row, now, "hadTurn")
}

/**
 * Makes a dead letter of an event; one that has committed blocks its key.
 *
 * @since 0.1.0
 * @category rules
 */
export const park = (
  tables: Tables,
  row: Key,
  event: Event,
  reason: AgentStore.DeadLetter["reason"],
  now: number
): void => {
  const kind = row.current === event ? "Resume" as const : "Event" as const
  event.reason = reason
  if (kind === "Event") tables.endEvent(row, event, "DeadLetter", now)
  else {
    event.state = "Blocked"
    row.blocked = reason
  }
  tables.addLetter(row, { kind, offset: event.offset, content: event.event, reason, at: now })
}

/**
 * @since 0.1.0
 * @category rules
 */
export const claim = (
  tables: Tables,
  { id, ...options }: Ledger.ClaimOptions & { readonly id: Intent.Id },
  now: number
): Ledger.Entry | undefined => {
  const entry = tables.ledger.get(id)
  if (entry === undefined || entry.claim?.token === options.token) return entry
  const free = tables.claimable(tables.key(entry.intent), now).includes(entry)
  const next = free ? Ledger.claim(options)(entry, now).next : undefined
  if (next !== undefined) tables.write(entry, next, now)
  return next
}

/**
 * @since 0.1.0
 * @category rules
 */
export const move = <E>(
  tables: Tables,
  id: string,
  move: Ledger.Move<E>,
  now: number
): Ledger.Entry | Refused<E | AgentStoreData.IntentNotFound> => {
  const entry = tables.ledger.get(id)
  if (entry === undefined) return new Refused(new AgentStoreData.IntentNotFound({ id }))
  const { next, refusal } = move(entry, now)
  if (next !== undefined) tables.write(entry, next, now)
  return refusal === undefined ? next ?? entry : new Refused(refusal)
}

/**
 * @since 0.1.0
 * @category rules
 */
export const putAside = (
  tables: Tables,
  { detail, id, tag }: { readonly id: string; readonly tag: string; readonly detail: string },
  now: number
): void => {
  const entry = tables.ledger.get(id)
  if (entry === undefined || Ledger.isTerminal(entry)) return
  const { intent: { key, seq, step, tool } } = entry
  tables.write(entry, Ledger.discarded(entry, detail, now), now)
  tables.addLetter(tables.key(entry.intent), {
    kind: "Intent",
    offset: tables.stagedBy.get(id)!,
    content: { id, tool, seq, step },
    reason: { kind: "Failure", tag, message: `intent ${id} ('${tool}' for key '${key}'): ${detail}` },
    at: now
  })
}

/**
 * @since 0.1.0
 * @category rules
 */
export const cancel = (
  tables: Tables,
  { by, ...target }: Given<"cancel">,
  now: number
): { readonly offset: number } | undefined => {
  const row = tables.find(target)
  const event = row && headOf(row)
  if (row === undefined || event === undefined) return undefined
  row.revision++
  for (const id of Array.from(row.open)) {
    const entry = tables.ledger.get(id)!
    if (entry.intent.seq !== event.seq) continue
    const { next } = Ledger.cancel(by)(entry, now)
    if (next !== undefined) tables.write(entry, next, now)
  }
  tables.endEvent(row, event, "Cancelled", now)
  tables.changed(row, now)
  return { offset: event.offset }
}

/**
 * @since 0.1.0
 * @category rules
 */
export const redrive = (
  tables: Tables,
  { by, fresh, id }: Given<"redrive">,
  now: number
): { readonly offset: number } | Refused<AgentStoreData.DeadLetterNotFound> => {
  const notFound = () => new Refused(new AgentStoreData.DeadLetterNotFound({ id }))
  const letter = tables.letters.get(id)
  if (letter === undefined || letter.driven !== undefined) return notFound()
  if (letter.kind !== "Event" && letter.kind !== "Resume") return notFound()
  const row = tables.key(letter)
  const event = tables.events.get(letter.offset)!
  if (letter.kind === "Event") {
    event.state = "Waiting"
    row.inbox.add(event)
  } else {
    if (row.current !== event || row.blocked === undefined) return notFound()
    event.state = "Suspended"
    row.blocked = undefined
  }
  event.reason = undefined
  event.endedAt = undefined
  event.failures = 0
  event.retryAt = 0
  if (fresh) tables.replaceRows(event, row.current === event ? row.continuation!.rows : 0, [])
  tables.letters.set(id, { ...letter, driven: { by, at: now, offset: event.offset } })
  tables.changed(row, now)
  return { offset: event.offset }
}

// internal

/** The event that is under way, or comes next. */
const headOf = (row: Key): Event | undefined => row.current ?? row.inbox.first

const conflict = (row: Key, claimed: AgentStore.Claimed): Refused<AgentStoreData.CommitConflict> | undefined => {
  const { agent, key, revision } = row
  return revision === claimed.revision && headOf(row)?.offset === claimed.offset
    ? undefined
    : new Refused(new AgentStoreData.CommitConflict({ agent, key, expected: claimed.revision, actual: revision }))
}

/** The message that woke the key is used up with the commit that was made of it. */
const useMessage = (
  tables: Tables,
  row: Key,
  waiting: NonNullable<Key["continuation"]>["waiting"][number],
  rows: ReadonlyArray<Journal.Stored>,
  now: number
): void => {
  const isUsed = rows.some(({ row }) =>
    row.type === "answer" && row.step === waiting.step && row.answer.type === "message"
  )
  const message = row.mailbox.first
  if (isUsed && message !== undefined && tables.answerOf(row, waiting, now)?.type === "message") {
    tables.removeMessage(row, message)
  }
}
