/**
 * The tables of the store in memory, and the indexes over them: which keys can be run, which have an intent to claim, and
 * which time will change. Whatever changes a key ends with `changed`, which brings its indexes up to date.
 *
 * Guarantees: an idle key costs its row and nothing else.
 *
 * @since 0.1.0
 */
import * as Queue from "effect/Queue"
import type * as Activation from "./Activation.ts"
import type * as AgentStore from "./AgentStore.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Ledger from "./Ledger.ts"
import type * as Memory from "./Memory.ts"

/**
 * The row of a key.
 *
 * @since 0.1.0
 * @category models
 */
export interface Key {
  readonly agent: string
  readonly key: string
  seq: number
  revision: number
  memory: Memory.Stored
  readonly inbox: Array<Event>
  readonly mailbox: Array<{ readonly offset: number; readonly content: CanonicalJson.Json }>
  /** The event that has committed and not ended; it is in the inbox no more. */
  current: Event | undefined
  continuation: Activation.Continuation | undefined
  suspendedAt: number
  blocked: Activation.Reason | undefined
  /** The ids of staged and claimed intents, in order. */
  readonly open: Array<string>
  /** The ids of unknown ends nobody was told of. */
  readonly unanswered: Array<string>
  /** When time changes something about it next. */
  due: number
}

/**
 * The row of an event.
 *
 * @since 0.1.0
 * @category models
 */
export interface Event extends AgentStore.Sent {
  readonly offset: number
  seq: number | undefined
  state: AgentStore.EventStatus["state"]
  retryAt: number
  failures: number
  rows: ReadonlyArray<Journal.Stored>
  readonly trace: Array<Activation.Trace>
  replay: Activation.Replay | undefined
  output: CanonicalJson.Json | undefined
  reason: Activation.Reason | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export class Tables {
  readonly keys = new Map<string, Key>()
  /** The event of offset 1 comes first. */
  readonly events: Array<Event> = []
  readonly eventIds = new Map<string, Event>()
  readonly ledger = new Map<string, Ledger.Entry>()
  /** The event in whose activation an intent was staged: its trace tells how the intent ended. */
  readonly stagedBy = new Map<string, Event>()
  readonly outputs: Array<AgentStore.Output> = []
  readonly letters: Array<AgentStore.DeadLetter> = []
  readonly resolutions: Array<AgentStore.Resolution> = []
  /** How many messages there were: the offset of the last. */
  messages = 0
  readonly listeners = new Set<Queue.Queue<void>>()
  readonly ready = new Set<Key>()
  readonly startable = new Set<Key>()
  private readonly timed = new Set<Key>()
  private nextDue = Infinity

  find({ agent, key }: AgentStore.Target): Key | undefined {
    return this.keys.get(`${agent}\0${key}`)
  }

  /** The row of a key, made where there is none. */
  key(target: AgentStore.Target): Key {
    const found = this.find(target)
    if (found !== undefined) return found
    const { agent, key } = target
    const created: Key = {
      agent,
      key,
      seq: 0,
      revision: 0,
      memory: {},
      inbox: [],
      mailbox: [],
      current: undefined,
      continuation: undefined,
      suspendedAt: 0,
      blocked: undefined,
      open: [],
      unanswered: [],
      due: Infinity
    }
    this.keys.set(`${agent}\0${key}`, created)
    return created
  }

  event(offset: number): Event {
    return this.events[offset - 1]!
  }

  /** A key that had its turn stands behind the others that can be run. */
  hadTurn(key: Key, now: number): void {
    this.ready.delete(key)
    this.changed(key, now)
  }

  /** Brings the indexes of a key up to date and tells everybody who listens. */
  changed(key: Key, now: number): void {
    this.refresh(key, now)
    this.notify()
  }

  notify(): void {
    for (const listener of this.listeners) Queue.offerUnsafe(listener, undefined)
  }

  /** What a waiting key was answered, if it was by now. */
  answerOf(key: Key, waiting: Activation.Waiting, now: number): Journal.Answer | undefined {
    if (waiting.type === "intent") return this.ledger.get(waiting.id)?.answer
    const message = waiting.type === "message" ? key.mailbox[0] : undefined
    if (message !== undefined) return { type: "message", message: message.content, offset: message.offset }
    if (waitingDue(key, waiting) > now) return undefined
    return waiting.type === "timer" ? { type: "slept" } : { type: "timeout" }
  }

  isReady(key: Key, now: number): boolean {
    const event = key.current ?? key.inbox[0]
    if (key.blocked !== undefined || event === undefined || event.retryAt > now) return false
    return (key.continuation?.waiting ?? []).every((waiting) => this.answerOf(key, waiting, now) !== undefined)
  }

  /** The entries of a key that may be claimed now: the one whose turn it is, and unknown ends to be verified. */
  claimable(key: Key, now: number): ReadonlyArray<Ledger.Entry> {
    const open = key.open.map((id) => this.ledger.get(id)!)
    const first = open.find(({ state }) => state === "Claimed") ?? open.find(Ledger.holdsOrder)
    const unanswered = key.unanswered.map((id) => this.ledger.get(id)!)
    return [
      ...(first !== undefined && Ledger.isStartable(first, now) ? [first] : []),
      ...unanswered.filter((entry) => Ledger.isVerifiable(entry, now))
    ]
  }

  /** Adds the entry of an intent that was just staged. */
  stage(key: Key, event: Event, draft: Intent.Draft, now: number): void {
    this.ledger.set(draft.id, Ledger.stage(draft, now))
    this.stagedBy.set(draft.id, event)
    key.open.push(draft.id)
  }

  /** Replaces an entry. What hangs on it follows: order, waiting keys, resolutions. */
  write(before: Ledger.Entry, next: Ledger.Entry, now: number): void {
    const { agent, id, key: name, step, tool } = next.intent
    const key = this.key(next.intent)
    this.ledger.set(id, next)
    if (next.result !== undefined && next.result !== before.result) {
      this.stagedBy.get(id)!.trace.push({ type: "IntentEnded", step, tool, id, result: next.result })
    }
    contains(key.open, id, next.state === "Staged" || next.state === "Claimed")
    contains(key.unanswered, id, Ledger.isUnanswered(next))
    key.open.sort((a, b) => inOrder(this.ledger.get(a)!.intent, this.ledger.get(b)!.intent))
    const resolved = Ledger.resolved(before, next)
    if (resolved !== undefined) {
      this.resolutions.push({ offset: this.resolutions.length + 1, id, tool, agent, key: name, ...resolved })
    }
    this.changed(key, now)
  }

  endEvent(key: Key, event: Event, state: Event["state"]): void {
    event.state = state
    if (key.current === event) key.current = undefined
    else key.inbox.splice(key.inbox.indexOf(event), 1)
    key.continuation = undefined
    key.blocked = undefined
  }

  addLetter(key: Key, letter: Omit<AgentStore.DeadLetter, "id" | "driven" | "agent" | "key">): void {
    const { agent, key: name } = key
    this.letters.push({ ...letter, agent, key: name, id: this.letters.length + 1, driven: undefined })
  }

  addEvent(key: Key, sent: AgentStore.Sent): Event {
    const event: Event = {
      ...sent,
      offset: this.events.length + 1,
      seq: undefined,
      state: "Waiting",
      retryAt: 0,
      failures: 0,
      rows: [],
      trace: [],
      replay: undefined,
      output: undefined,
      reason: undefined
    }
    this.events.push(event)
    key.inbox.push(event)
    return event
  }

  /** Lets time act on the keys for which something is due. Gives when it has to be called again. */
  sweep(now: number): number | undefined {
    if (this.nextDue <= now) {
      this.nextDue = Infinity
      for (const key of Array.from(this.timed)) {
        if (key.due > now) this.nextDue = Math.min(this.nextDue, key.due)
        else this.sweepKey(key, now)
      }
    }
    return this.nextDue === Infinity ? undefined : this.nextDue
  }

  private sweepKey(key: Key, now: number): void {
    for (const id of [...key.open, ...key.unanswered]) {
      let entry = this.ledger.get(id)!
      for (let next = Ledger.lapse(entry, now); next !== undefined; next = Ledger.lapse(entry, now)) {
        this.write(entry, next, now)
        entry = next
      }
    }
    this.changed(key, now)
  }

  private refresh(key: Key, now: number): void {
    contained(this.ready, key, this.isReady(key, now))
    contained(this.startable, key, this.claimable(key, now).length > 0)
    key.due = this.dueAt(key, now)
    contained(this.timed, key, key.due < Infinity)
    this.nextDue = Math.min(this.nextDue, key.due)
  }

  private dueAt(key: Key, now: number): number {
    const event = key.current ?? key.inbox[0]
    const wakes = [
      event === undefined || key.blocked !== undefined ? 0 : event.retryAt,
      ...(key.continuation?.waiting ?? []).map((waiting) => waitingDue(key, waiting))
    ]
    // What woke the key before now has done so. What fell due for an entry before now is still to be done.
    const dues = [...key.open, ...key.unanswered].map((id) => Ledger.dueAt(this.ledger.get(id)!, now) ?? Infinity)
    return Math.min(...wakes.filter((wake) => wake > now), ...dues)
  }
}

// internal

const waitingDue = (key: Key, waiting: Activation.Waiting): number =>
  waiting.type === "intent" || waiting.millis === undefined ? Infinity : key.suspendedAt + waiting.millis

const contains = (list: Array<string>, id: string, wanted: boolean): void => {
  const index = list.indexOf(id)
  if (wanted && index < 0) list.push(id)
  if (!wanted && index >= 0) list.splice(index, 1)
}

const contained = (set: Set<Key>, key: Key, wanted: boolean): void => {
  if (wanted) set.add(key)
  else set.delete(key)
}

const inOrder = (a: Intent.Intent, b: Intent.Intent): number => a.seq - b.seq || a.step - b.step
