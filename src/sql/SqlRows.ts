/**
 * Rows of the ledger as they are stored, and back.
 *
 * Guarantees: an entry comes back as it went in. A row that cannot be read gives an entry in its state nevertheless, marked as
 * unreadable: it can be put aside, answered and looked at, and nothing else waits for it.
 *
 * @since 0.1.0
 */
import type * as AgentStore from "../AgentStore.ts"
import type * as CanonicalJson from "../CanonicalJson.ts"
import * as Intent from "../Intent.ts"
import type * as Journal from "../Journal.ts"
import * as Ledger from "../Ledger.ts"
import type { Columns, Row } from "./SqlDialect.ts"

/**
 * How the secret arguments of intents are kept: sealed for one intent, and opened again.
 *
 * @since 0.1.0
 * @category models
 */
export interface Sealing {
  readonly seal: (text: string, id: string) => string
  /** `undefined` where no key opens it, or it was changed. */
  readonly open: (sealed: string, id: string) => string | undefined
}

/**
 * The columns of an intent that may change.
 *
 * @since 0.1.0
 * @category models
 */
export const changing: Columns = {
  id: "text",
  state: "text",
  attempt: "int",
  ended_at: "real",
  holds: "int",
  claimable_at: "real",
  due_at: "real",
  intent: "text",
  record: "text"
}

/**
 * The columns of an intent that was just staged.
 *
 * @since 0.1.0
 * @category models
 */
export const staged: Columns = {
  ...changing,
  key_id: "int",
  event: "int",
  seq: "int",
  step: "int",
  tool: "text",
  ttl: "real",
  sealed: "text"
}

/**
 * What an entry is read from.
 *
 * @since 0.1.0
 * @category models
 */
export const entryColumns =
  "i.n, i.id, i.key_id, i.event, i.seq, i.step, i.tool, i.state, i.attempt, i.intent, i.sealed, i.record, k.agent, k.key"

/**
 * An entry as it was read.
 *
 * @since 0.1.0
 * @category models
 */
export interface Read {
  readonly entry: Ledger.Entry
  readonly keyId: number
  readonly event: number
  /** Why it could not be read, if it could not. */
  readonly damage: string | undefined
}

/**
 * The changing columns of an entry. `isFirst`: its turn has come among the intents of its key.
 *
 * @since 0.1.0
 * @category encoding
 */
export const ofEntry = (entry: Ledger.Entry, isFirst: boolean): Row => {
  const { intent, ...record } = entry
  const { sealed: _, ...shown } = intent
  const unanswered = Ledger.isUnanswered(entry)
  return {
    id: intent.id,
    state: entry.state,
    attempt: entry.attempt,
    ended_at: entry.endedAt ?? null,
    holds: entry.state === "Claimed" ? 0 : Ledger.holdsOrder(entry) ? 1 : null,
    claimable_at: unanswered
      ? entry.claim?.until ?? entry.endedAt ?? 0
      : isFirst && entry.state === "Staged" && intent.kind === "tool"
      ? entry.availableAt
      : null,
    // What is due apart from a next attempt, which nobody but the effector acts on.
    due_at: Ledger.dueAt(entry, Infinity) ?? null,
    intent: JSON.stringify(shown),
    record: JSON.stringify(record)
  }
}

/**
 * The entry of a row.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toEntry = (row: { readonly [column: string]: any }, sealing: Sealing | undefined): Read => {
  const place = { keyId: Number(row["key_id"]), event: Number(row["event"]) }
  const intent = parse(row["intent"])
  const record = parse(row["record"])
  const damage = !isRecord(intent) || intent["id"] !== row["id"] || intent["tool"] !== row["tool"]
    ? "its intent cannot be read"
    : !isRecord(record) || record["state"] !== row["state"] || !Array.isArray(record["history"])
    ? "its record cannot be read"
    : undefined
  const entry = damage === undefined
    // The columns beside them say that these are the texts that were written.
    ? {
      ...emptyRecord,
      ...filled(record as { readonly [name: string]: any }),
      intent: { ...emptyIntent, ...(intent as object), sealed: sealedOf(row, sealing) }
    }
    : unreadable(row, damage)
  return { ...place, entry: entry as Ledger.Entry, damage }
}

/**
 * A row of a journal. One that cannot be read fits no check, so the journal is found to be damaged.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toJournalRow = (row: { readonly [column: string]: any }): Journal.Stored => ({
  position: Number(row["position"]),
  check: row["seal"],
  row: (parse(row["entry"]) ?? { type: "time", segment: -1, at: 0 }) as Journal.Row
})

/**
 * JSON that was stored, `undefined` where it is none.
 *
 * @since 0.1.0
 * @category decoding
 */
export const parse = (text: unknown): CanonicalJson.Json | undefined => {
  if (typeof text !== "string") return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Why a row was put aside.
 *
 * @since 0.1.0
 * @category constructors
 */
export const undecodable = (message: string): AgentStore.DeadLetter["reason"] => ({
  kind: "Failure",
  tag: "undecodable",
  message
})

// internal

const isRecord = (json: unknown): json is { readonly [name: string]: unknown } =>
  typeof json === "object" && json !== null && !Array.isArray(json)

const sealedOf = (row: { readonly [column: string]: any }, sealing: Sealing | undefined): Intent.Sealed | undefined => {
  const sealed = row["sealed"]
  if (typeof sealed !== "string") return undefined
  return new Intent.Sealed(() => sealing?.open(sealed, row["id"]))
}

/** JSON has no `undefined`: what was left out inside of a record. */
const filled = ({ claim, decision, ...record }: { readonly [name: string]: any }) => ({
  ...record,
  ...(claim && { claim: { retryIn: undefined, ...claim } }),
  ...(decision && { decision: { edited: undefined, signature: undefined, ...decision } })
})

const emptyIntent = {
  sealed: undefined,
  approvalTimeout: undefined,
  approvalDueAt: undefined,
  signature: undefined
}

const emptyRecord: Omit<Ledger.Entry, "intent"> = {
  state: "Staged",
  attempt: 0,
  availableAt: 0,
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
  history: []
}

/** What the columns say of an entry that cannot be read. */
const unreadable = (row: { readonly [column: string]: any }, damage: string): Ledger.Entry => {
  const result = { _tag: "Unavailable" as const, message: damage }
  const isOpen = row["state"] === "Staged" || row["state"] === "Claimed" || row["state"] === "Unknown"
  return {
    ...emptyRecord,
    state: row["state"],
    attempt: Number(row["attempt"]),
    result: isOpen ? undefined : result,
    answer: isOpen ? undefined : { type: "intent", result },
    intent: {
      ...emptyIntent,
      id: row["id"],
      agent: row["agent"],
      key: row["key"],
      seq: Number(row["seq"]),
      step: Number(row["step"]),
      kind: "tool",
      tool: row["tool"],
      contract: "",
      arguments: "null",
      argumentsDigest: "",
      createdAt: 0,
      expiresAt: Infinity,
      ttl: 0,
      approval: "none",
      escalation: [],
      idempotent: false,
      verify: false,
      transactional: false,
      traceId: ""
    }
  }
}
