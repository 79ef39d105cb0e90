/**
 * The rows that the operations of one transaction need: loaded, worked on by the rules of `AgentStoreRules.ts`, and compared
 * with what was loaded when it is time to write.
 *
 * Guarantees: what did not change is not written.
 *
 * @since 0.1.0
 */
import type * as Activation from "../Activation.ts"
import type * as AgentStore from "../AgentStore.ts"
import { type Event, inOrder, type Key, type Message, Tables } from "../AgentStoreTables.ts"
import type * as CanonicalJson from "../CanonicalJson.ts"
import type * as Journal from "../Journal.ts"
import type * as Ledger from "../Ledger.ts"
import * as SqlRows from "./SqlRows.ts"

/**
 * What was loaded of a key.
 *
 * @since 0.1.0
 * @category models
 */
export interface LoadedKey {
  readonly id: number
  readonly readyAt: number | undefined
  readonly continuation: Activation.Continuation | undefined
  readonly memory: unknown
  /** The columns as they were. */
  readonly text: string
}

/**
 * @since 0.1.0
 * @category models
 */
export class WorkingSet extends Tables {
  readonly loadedKeys = new Map<Key, LoadedKey>()
  /** The columns of an event as they were, and how many rows its journal had. */
  readonly loadedEvents = new Map<Event, { readonly text: string; readonly journal: number }>()
  readonly loadedEntries = new Map<string, { readonly entry: Ledger.Entry; readonly text: string }>()
  readonly loadedLetters = new Map<number, AgentStore.DeadLetter>()
  readonly numbers = { event: [] as Array<number>, message: [] as Array<number>, letter: [] as Array<number> }
  /** The intents that cannot be read, with the reason. */
  readonly damaged = new Map<string, string>()

  readonly changedKeys = new Map<Key, "hadTurn" | undefined>()
  readonly outputs: Array<Omit<AgentStore.Output, "offset"> & { readonly at: number }> = []
  readonly traces: Array<{ readonly event: number; readonly trace: Activation.Trace }> = []
  readonly resolutions: Array<Omit<AgentStore.Resolution, "offset">> = []
  readonly memories: Array<{
    readonly target: AgentStore.Target
    readonly seq: number
    readonly name: string
    readonly value: CanonicalJson.Json
  }> = []
  readonly addedMessages = new Map<number, { readonly key: Key; readonly content: CanonicalJson.Json }>()
  readonly removedMessages: Array<number> = []
  /** Journals whose rows from `from` on are replaced. */
  readonly journals = new Map<number, { readonly from: number; readonly rows: ReadonlyArray<Journal.Stored> }>()

  next(what: "event" | "message" | "letter"): number {
    const number = this.numbers[what].shift()
    if (number === undefined) throw new Error(`no number was reserved for a new ${what}`)
    return number
  }

  addOutput(output: Omit<AgentStore.Output, "offset">, at: number): void {
    this.outputs.push({ ...output, at })
  }

  addTrace(event: number, trace: ReadonlyArray<Activation.Trace>): void {
    for (const row of trace) this.traces.push({ event, trace: row })
  }

  addResolution(resolution: Omit<AgentStore.Resolution, "offset">): void {
    this.resolutions.push(resolution)
  }

  remember(target: AgentStore.Target, seq: number, name: string, value: CanonicalJson.Json): void {
    this.memories.push({ target, seq, name, value })
  }

  override addMessage(key: Key, content: CanonicalJson.Json): Message {
    const message = super.addMessage(key, content)
    this.addedMessages.set(message.offset, { key, content })
    return message
  }

  override removeMessage(key: Key, message: Message): void {
    super.removeMessage(key, message)
    if (!this.addedMessages.delete(message.offset)) this.removedMessages.push(message.offset)
  }

  replaceRows(event: Event, from: number, rows: ReadonlyArray<Journal.Stored>): void {
    const before = this.journals.get(event.offset)
    this.journals.set(
      event.offset,
      before === undefined || before.from >= from
        ? { from, rows }
        : { from: before.from, rows: [...before.rows.slice(0, from - before.from), ...rows] }
    )
    event.rows = [...event.rows.slice(0, from), ...rows]
  }

  changed(key: Key, _now: number, hadTurn?: "hadTurn"): void {
    this.changedKeys.set(key, hadTurn ?? this.changedKeys.get(key))
  }

  /** Puts the intents of a key that were loaded in order. */
  order(key: Key): void {
    key.open.sort((a, b) => inOrder(this.ledger.get(a)!.intent, this.ledger.get(b)!.intent))
  }

  /** Adds an entry that was read. */
  addEntry(row: { readonly [column: string]: any }, sealing: SqlRows.Sealing | undefined): void {
    if (this.ledger.has(row["id"])) return
    const { damage, entry, event } = SqlRows.toEntry(row, sealing)
    const { id } = entry.intent
    this.ledger.set(id, entry)
    this.stagedBy.set(id, event)
    this.loadedEntries.set(id, { entry, text: derived(row) })
    if (damage !== undefined) this.damaged.set(id, damage)
  }
}

/**
 * The columns of an entry by which it is found: where only these change, the entry is written as well.
 *
 * @since 0.1.0
 * @category accessors
 */
export const derived = (row: { readonly [column: string]: any }): string =>
  JSON.stringify([numberOf(row["holds"]), numberOf(row["claimable_at"]), numberOf(row["due_at"])])

/**
 * The columns of a key that are always written together.
 *
 * @since 0.1.0
 * @category accessors
 */
export const stateOf = (key: Key): { readonly [column: string]: string | number | null } => ({
  seq: key.seq,
  revision: key.revision,
  current_id: key.current?.offset ?? null,
  inbox: key.inbox.size,
  mailbox: key.mailbox.size,
  suspended_at: key.suspendedAt,
  blocked: key.blocked === undefined ? null : JSON.stringify(key.blocked)
})

/**
 * The columns of an event that may change.
 *
 * @since 0.1.0
 * @category accessors
 */
export const stateOfEvent = (event: Event): { readonly [column: string]: string | number | null } => ({
  seq: event.seq ?? null,
  state: event.state,
  retry_at: event.retryAt,
  failures: event.failures,
  reason: event.reason === undefined ? null : JSON.stringify(event.reason),
  ended_at: event.endedAt ?? null
})

// internal

const numberOf = (column: unknown): number | null => column === null || column === undefined ? null : Number(column)
