/**
 * The tables of the store in memory: all rows, and indexes over them by which the next work is found.
 *
 * Guarantees: an idle key costs its row and nothing else.
 *
 * @since 0.1.0
 */
import * as Queue from "effect/Queue"
import type * as Activation from "./Activation.ts"
import type * as AgentStore from "./AgentStore.ts"
import { type Event, type Key, Tables } from "./AgentStoreTables.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Journal from "./Journal.ts"
import * as Ledger from "./Ledger.ts"

/**
 * @since 0.1.0
 * @category models
 */
export class MemoryTables extends Tables {
  readonly traces = new Map<number, Array<Activation.Trace>>()
  readonly outputs: Array<AgentStore.Output & { readonly at: number }> = []
  readonly resolutions: Array<AgentStore.Resolution> = []
  /** By key: what it remembers for good, in the order in which it came to know it. */
  readonly remembered = new Map<string, Array<AgentStore.Remembered>>()
  readonly contracts = new Map<string, AgentStore.Contract>()
  readonly locks = new Map<string, { readonly owner: string; readonly until: number }>()
  readonly listeners = new Set<Queue.Queue<void>>()
  readonly ready = new Set<Key>()
  readonly startable = new Set<Key>()
  private readonly counts = { event: 0, message: 0, letter: 0 }
  /** The keys for which time changes something, and when. */
  private readonly timed = new Map<Key, number>()
  private nextDue = Infinity
  private lastOutput = 0

  next(what: "event" | "message" | "letter"): number {
    return ++this.counts[what]
  }

  addOutput(output: Omit<AgentStore.Output, "offset">, at: number): void {
    this.outputs.push({ offset: ++this.lastOutput, ...output, at })
  }

  /** Removes outputs up to a time, and says how many. */
  dropOutputs(before: number): number {
    const kept = this.outputs.findIndex(({ at }) => at > before)
    return this.outputs.splice(0, kept < 0 ? this.outputs.length : kept).length
  }

  forget(id: string): void {
    this.ledger.delete(id)
    this.stagedBy.delete(id)
  }

  addTrace(event: number, trace: ReadonlyArray<Activation.Trace>): void {
    const traced = this.traces.get(event)
    if (traced === undefined) this.traces.set(event, [...trace])
    else traced.push(...trace)
  }

  addResolution(resolution: Omit<AgentStore.Resolution, "offset">): void {
    this.resolutions.push({ offset: this.resolutions.length + 1, ...resolution })
  }

  remember({ agent, key }: AgentStore.Target, seq: number, name: string, value: CanonicalJson.Json): void {
    const known = this.remembered.get(`${agent}\0${key}`) ?? []
    this.remembered.set(`${agent}\0${key}`, [
      ...known.filter((row) => row.seq !== seq || row.name !== name),
      { agent, key, seq, name, value }
    ])
  }

  replaceRows(event: Event, from: number, rows: ReadonlyArray<Journal.Stored>): void {
    event.rows = [...event.rows.slice(0, from), ...rows]
  }

  /** Brings the indexes of a key up to date and tells everybody who listens. */
  changed(key: Key, now: number, hadTurn?: "hadTurn"): void {
    if (hadTurn !== undefined) this.ready.delete(key)
    const readyAt = this.readyAt(key)
    contained(this.ready, key, readyAt <= now)
    contained(this.startable, key, this.claimable(key, now).length > 0)
    // What woke the key before now has done so. What fell due for an entry before now is still to be done.
    const dues = [...key.open, ...key.unanswered].map((id) => Ledger.dueAt(this.ledger.get(id)!, now) ?? Infinity)
    const due = Math.min(readyAt > now ? readyAt : Infinity, ...dues)
    if (due < Infinity) this.timed.set(key, due)
    else this.timed.delete(key)
    this.nextDue = Math.min(this.nextDue, due)
    for (const listener of this.listeners) Queue.offerUnsafe(listener, undefined)
  }

  /** Lets time act on the keys for which something is due. Gives when it has to be called again. */
  sweep(now: number): number | undefined {
    if (this.nextDue <= now) {
      this.nextDue = Infinity
      for (const [key, due] of Array.from(this.timed)) {
        if (due > now) this.nextDue = Math.min(this.nextDue, due)
        else this.sweepKey(key, now)
      }
    }
    return this.nextDue === Infinity ? undefined : this.nextDue
  }
}

// internal

const contained = (set: Set<Key>, key: Key, wanted: boolean): void => {
  if (wanted) set.add(key)
  else set.delete(key)
}
