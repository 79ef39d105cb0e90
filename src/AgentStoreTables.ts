/**
 * The rows of a store, and what follows from them: which key can be run and from when, and which of its intents may be
 * claimed. `AgentStoreRules.ts` works on these tables; what keeps them, all or the part an operation needs, extends the class.
 *
 * Guarantees: a rule is the same rule in every store. Times are milliseconds of the store's clock.
 *
 * @since 0.1.0
 */
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
  readonly inbox: Line<Event>
  readonly mailbox: Line<Message>
  /** The event that has committed and not ended; it is in the inbox no more. */
  current: Event | undefined
  continuation: Activation.Continuation | undefined
  suspendedAt: number
  blocked: Activation.Reason | undefined
  /** The ids of staged and claimed intents, in order. */
  readonly open: Array<string>
  /** The ids of unknown ends nobody was told of. */
  readonly unanswered: Array<string>
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
  replay: Activation.Replay | undefined
  output: CanonicalJson.Json | undefined
  reason: Activation.Reason | undefined
  endedAt: number | undefined
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Message {
  readonly offset: number
  readonly content: CanonicalJson.Json
}

/**
 * Those that wait, in the order of their offsets. The first are here; `beyond` more may be elsewhere.
 *
 * @since 0.1.0
 * @category models
 */
export class Line<A extends { readonly offset: number }> {
  private readonly items: Array<A> = []
  private beyond: number
  constructor(first: ReadonlyArray<A> = [], beyond = 0) {
    this.items.push(...first)
    this.beyond = beyond
  }

  get size(): number {
    return this.items.length + this.beyond
  }

  get first(): A | undefined {
    return this.items[0]
  }

  find(offset: number): A | undefined {
    return this.items.find((item) => item.offset === offset)
  }

  add(item: A): void {
    if (this.beyond > 0 && item.offset > this.items.at(-1)!.offset) {
      this.beyond++
      return
    }
    const after = this.items.findLastIndex(({ offset }) => offset < item.offset)
    this.items.splice(after + 1, 0, item)
  }

  remove(item: A): void {
    this.items.splice(this.items.indexOf(item), 1)
  }
}

/**
 * The rows, and what hangs on a change of one.
 *
 * @since 0.1.0
 * @category models
 */
export abstract class Tables {
  readonly keys = new Map<string, Key>()
  readonly events = new Map<number, Event>()
  /** The event of an id, and the digest of its content. */
  readonly eventIds = new Map<string, { readonly offset: number; readonly digest: string }>()
  readonly ledger = new Map<string, Ledger.Entry>()
  /** The event in whose activation an intent was staged: its trace tells how the intent ended. */
  readonly stagedBy = new Map<string, number>()
  readonly letters = new Map<number, AgentStore.DeadLetter>()

  /** The next offset of an event, a message or a dead letter. */
  abstract next(what: "event" | "message" | "letter"): number
  abstract addOutput(output: Omit<AgentStore.Output, "offset">, now: number): void
  abstract addTrace(event: number, trace: ReadonlyArray<Activation.Trace>): void
  abstract addResolution(resolution: Omit<AgentStore.Resolution, "offset">): void
  abstract remember(target: AgentStore.Target, seq: number, name: string, value: CanonicalJson.Json): void
  /** Puts rows in the place of those from `from` on. */
  abstract replaceRows(event: Event, from: number, rows: ReadonlyArray<Journal.Stored>): void
  /** Something about a key has changed. A key that `hadTurn` stands behind the others that can be run. */
  abstract changed(key: Key, now: number, hadTurn?: "hadTurn"): void

  find({ agent, key }: AgentStore.Target): Key | undefined {
    return this.keys.get(`${agent}\0${key}`)
  }

  /** The row of a key, made where there is none. */
  key(target: AgentStore.Target): Key {
    return this.find(target) ?? this.addKey(emptyKey(target))
  }

  addKey(key: Key): Key {
    this.keys.set(`${key.agent}\0${key.key}`, key)
    return key
  }

  /** When an answer to what a key waits for is there, or will be by the clock alone. `Infinity` where it is not. */
  answeredAt(key: Key, waiting: Activation.Waiting): number {
    if (waiting.type === "intent") return this.ledger.get(waiting.id)?.answer === undefined ? Infinity : 0
    return waiting.type === "message" && key.mailbox.size > 0 ? 0 : waitingDue(key, waiting)
  }

  /** What a waiting key was answered, if it was by now. */
  answerOf(key: Key, waiting: Activation.Waiting, now: number): Journal.Answer | undefined {
    if (waiting.type === "intent") return this.ledger.get(waiting.id)?.answer
    const message = waiting.type === "message" ? key.mailbox.first : undefined
    if (message !== undefined) return { type: "message", message: message.content, offset: message.offset }
    if (waitingDue(key, waiting) > now) return undefined
    return waiting.type === "timer" ? { type: "slept" } : { type: "timeout" }
  }

  /** From when on a key can be run. `Infinity` where it cannot. */
  readyAt(key: Key): number {
    const event = key.current ?? key.inbox.first
    if (key.blocked !== undefined || event === undefined) return Infinity
    const answers = (key.continuation?.waiting ?? []).map((waiting) => this.answeredAt(key, waiting))
    return Math.max(event.retryAt, ...answers)
  }

  /** The entries of a key that may be claimed now: the one whose turn it is, and unknown ends to be verified. */
  claimable(key: Key, now: number): ReadonlyArray<Ledger.Entry> {
    const first = this.firstOf(key)
    const unanswered = key.unanswered.map((id) => this.ledger.get(id)!)
    return [
      ...(first !== undefined && Ledger.isStartable(first, now) ? [first] : []),
      ...unanswered.filter((entry) => Ledger.isVerifiable(entry, now))
    ]
  }

  /** The entry of a key whose turn it is, if it has one. */
  firstOf(key: Key): Ledger.Entry | undefined {
    let first: Ledger.Entry | undefined
    for (const id of key.open) {
      const entry = this.ledger.get(id)!
      if (entry.state === "Claimed") return entry
      if (first === undefined && Ledger.holdsOrder(entry)) first = entry
    }
    return first
  }

  /** Adds the entry of an intent that was just staged. */
  stage(key: Key, event: Event, draft: Intent.Draft, now: number): void {
    this.ledger.set(draft.id, Ledger.stage(draft, now))
    this.stagedBy.set(draft.id, event.offset)
    key.open.push(draft.id)
  }

  /** Replaces an entry. What hangs on it follows: order, waiting keys, resolutions. */
  write(before: Ledger.Entry, next: Ledger.Entry, now: number): void {
    const { agent, id, key: name, step, tool } = next.intent
    const key = this.key(next.intent)
    this.ledger.set(id, next)
    if (next.result !== undefined && next.result !== before.result) {
      this.addTrace(this.stagedBy.get(id)!, [{ type: "IntentEnded", step, tool, id, result: next.result }])
    }
    const isOpen = next.state === "Staged" || next.state === "Claimed"
    if (contains(key.open, id, isOpen)) {
      key.open.sort((a, b) => inOrder(this.ledger.get(a)!.intent, this.ledger.get(b)!.intent))
    }
    contains(key.unanswered, id, Ledger.isUnanswered(next))
    const resolved = Ledger.resolved(before, next)
    if (resolved !== undefined) this.addResolution({ id, tool, agent, key: name, ...resolved })
    this.changed(key, now)
  }

  endEvent(key: Key, event: Event, state: Event["state"], now: number): void {
    event.state = state
    event.endedAt = now
    if (key.current === event) key.current = undefined
    else key.inbox.remove(event)
    key.continuation = undefined
    key.blocked = undefined
  }

  addMessage(key: Key, content: CanonicalJson.Json): Message {
    const message = { offset: this.next("message"), content }
    key.mailbox.add(message)
    return message
  }

  removeMessage(key: Key, message: Message): void {
    key.mailbox.remove(message)
  }

  addLetter(key: Key, letter: Omit<AgentStore.DeadLetter, "id" | "driven" | "agent" | "key">): void {
    const { agent, key: name } = key
    const id = this.next("letter")
    this.letters.set(id, { ...letter, agent, key: name, id, driven: undefined })
  }

  addEvent(key: Key, sent: AgentStore.Sent): Event {
    const event: Event = {
      ...sent,
      offset: this.next("event"),
      seq: undefined,
      state: "Waiting",
      retryAt: 0,
      failures: 0,
      rows: [],
      replay: undefined,
      output: undefined,
      reason: undefined,
      endedAt: undefined
    }
    this.events.set(event.offset, event)
    key.inbox.add(event)
    return event
  }

  /** Lets time act on the entries of a key. */
  sweepKey(key: Key, now: number): void {
    for (const id of [...key.open, ...key.unanswered]) {
      let entry = this.ledger.get(id)!
      for (let next = Ledger.lapse(entry, now); next !== undefined; next = Ledger.lapse(entry, now)) {
        this.write(entry, next, now)
        entry = next
      }
    }
    this.changed(key, now)
  }
}

/**
 * The row of a key for which nothing has happened yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const emptyKey = ({ agent, key }: AgentStore.Target): Key => ({
  agent,
  key,
  seq: 0,
  revision: 0,
  memory: {},
  inbox: new Line(),
  mailbox: new Line(),
  current: undefined,
  continuation: undefined,
  suspendedAt: 0,
  blocked: undefined,
  open: [],
  unanswered: []
})

/**
 * The order in which the intents of a key start.
 *
 * @since 0.1.0
 * @category accessors
 */
export const inOrder = (a: Intent.Place, b: Intent.Place): number => a.seq - b.seq || a.step - b.step

// internal

const waitingDue = (key: Key, waiting: Activation.Waiting): number =>
  waiting.type === "intent" || waiting.millis === undefined ? Infinity : key.suspendedAt + waiting.millis

/** Puts an id into a list, or takes it out. Whether it was put in. */
const contains = (list: Array<string>, id: string, wanted: boolean): boolean => {
  const index = list.indexOf(id)
  if (wanted && index < 0) return list.push(id) > 0
  if (!wanted && index >= 0) list.splice(index, 1)
  return false
}
