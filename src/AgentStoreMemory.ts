/**
 * The store in memory: for tests and for agents whose past may die with their process. It obeys the same contract as the
 * durable stores, under whatever `Clock` it is called with.
 *
 * Guarantees: every operation is one synchronous piece, so none is ever seen half done.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Activation from "./Activation.ts"
import * as AgentStore from "./AgentStore.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Ledger from "./Ledger.ts"
import type * as Memory from "./Memory.ts"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** How many events may wait in the inbox of one key. Default 10,000. */
  readonly inboxLimit?: number
}

/**
 * A new, empty store.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options: Options = {}): Effect.Effect<AgentStore.AgentStore["Service"]> =>
  Effect.sync(() => {
    const inboxLimit = options.inboxLimit ?? 10_000
    const keys = new Map<string, Key>()
    const events: Array<Event> = []
    const eventIds = new Map<string, Event>()
    const ledger = new Map<string, Ledger.Entry>()
    const owners = new Map<string, Key>()
    const outputs: Array<AgentStore.Output> = []
    const letters: Array<AgentStore.DeadLetter> = []
    const resolutions: Array<AgentStore.Resolution> = []
    const ready = new Set<Key>()
    const startable = new Set<Key>()
    const timed = new Set<Key>()
    const listeners = new Set<Queue.Queue<void>>()
    let nextMessage = 0
    let nextDue = Infinity

    const keyOf = ({ agent, key }: AgentStore.Target): Key => {
      const name = `${agent}\0${key}`
      const known = keys.get(name)
      if (known !== undefined) return known
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
        unanswered: []
      }
      keys.set(name, created)
      return created
    }

    const operation = <A>(body: (now: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, body)

    const attempt = <A, E>(body: (now: number) => A | Refused<E>): Effect.Effect<A, E> =>
      Effect.flatMap(Clock.currentTimeMillis, (now): Effect.Effect<A, E> => {
        const result = body(now)
        return result instanceof Refused ? Effect.fail(result.error) : Effect.succeed(result)
      })

    const notify = (): void => {
      for (const listener of listeners) Queue.offerUnsafe(listener, undefined)
    }

    const waitingDue = (key: Key, waiting: Activation.Waiting): number | undefined =>
      waiting.type === "intent" || waiting.millis === undefined ? undefined : key.suspendedAt + waiting.millis

    const answerOf = (key: Key, waiting: Activation.Waiting, now: number): Journal.Answer | undefined => {
      if (waiting.type === "intent") return ledger.get(waiting.id)?.answer
      const message = waiting.type === "message" ? key.mailbox[0] : undefined
      if (message !== undefined) return { type: "message", message: message.content, offset: message.offset }
      const due = waitingDue(key, waiting)
      if (due === undefined || due > now) return undefined
      return waiting.type === "timer" ? { type: "slept" } : { type: "timeout" }
    }

    const isReady = (key: Key, now: number): boolean => {
      if (key.blocked !== undefined) return false
      const event = key.current ?? key.inbox[0]
      if (event === undefined || event.retryAt > now) return false
      return key.continuation === undefined
        || key.continuation.waiting.every((waiting) => answerOf(key, waiting, now) !== undefined)
    }

    const firstOpen = (key: Key): Ledger.Entry | undefined => {
      const entries = key.open.map((id) => ledger.get(id)!)
      return entries.find((entry) => entry.state === "Claimed") ?? entries.find(Ledger.holdsOrder)
    }

    /** The entry of a key that may be claimed now. */
    const candidate = (key: Key, now: number): Ledger.Entry | undefined => {
      const first = firstOpen(key)
      if (first !== undefined && Ledger.isStartable(first, now)) return first
      return key.unanswered.map((id) => ledger.get(id)!).find((entry) => Ledger.isVerifiable(entry, now))
    }

    const dues = (key: Key): ReadonlyArray<number> => {
      const event = key.current ?? key.inbox[0]
      return [
        ...(event === undefined || key.blocked !== undefined ? [] : [event.retryAt]),
        ...(key.continuation?.waiting ?? []).map((waiting) => waitingDue(key, waiting)),
        ...[...key.open, ...key.unanswered].map((id) => Ledger.dueAt(ledger.get(id)!))
      ].filter((due) => due !== undefined)
    }

    /** Brings the indexes of a key up to date after any change of it. */
    const refresh = (key: Key, now: number): void => {
      ready.delete(key)
      startable.delete(key)
      timed.delete(key)
      if (isReady(key, now)) ready.add(key)
      if (candidate(key, now) !== undefined) startable.add(key)
      for (const due of dues(key)) {
        if (due <= now) continue
        timed.add(key)
        nextDue = Math.min(nextDue, due)
      }
    }

    const changed = (key: Key, now: number): void => {
      refresh(key, now)
      notify()
    }

    const writeEntry = (before: Ledger.Entry, next: Ledger.Entry, now: number): void => {
      const { id } = next.intent
      ledger.set(id, next)
      const key = owners.get(id)!
      const at = (list: Array<string>, wanted: boolean) => {
        const index = list.indexOf(id)
        if (wanted && index < 0) list.push(id)
        if (!wanted && index >= 0) list.splice(index, 1)
      }
      at(key.open, next.state === "Staged" || next.state === "Claimed")
      at(key.unanswered, next.state === "Unknown" && next.answer === undefined)
      if (key.open.length > 1) key.open.sort((a, b) => inOrder(ledger.get(a)!.intent, ledger.get(b)!.intent))
      if (before.resolution === undefined && next.resolution !== undefined) {
        const { agent, key, tool } = next.intent
        const { at, by } = next.resolution
        const result = next.state === "Staged" ? undefined : next.result
        resolutions.push({ offset: resolutions.length + 1, id: next.intent.id, tool, agent, key, by, at, result })
      }
      changed(key, now)
    }

    const conflict = (key: Key, claimed: AgentStore.Claimed): Refused<AgentStore.CommitConflict> | undefined => {
      const current = key.current ?? key.inbox[0]
      return key.revision === claimed.revision && current?.offset === claimed.offset ? undefined : new Refused(
        new AgentStore.CommitConflict({
          agent: key.agent,
          key: key.key,
          expected: claimed.revision,
          actual: key.revision
        })
      )
    }

    const endEvent = (key: Key, event: Event, state: Event["state"]): void => {
      event.state = state
      if (key.current === event) key.current = undefined
      else key.inbox.splice(key.inbox.indexOf(event), 1)
      key.continuation = undefined
      key.blocked = undefined
    }

    const addLetter = (letter: Omit<AgentStore.DeadLetter, "id" | "driven">): void => {
      letters.push({ ...letter, id: letters.length + 1, driven: undefined })
    }

    const addEvent = (key: Key, sent: AgentStore.Sent): Event => {
      const event: Event = {
        ...sent,
        offset: events.length + 1,
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
      events.push(event)
      key.inbox.push(event)
      return event
    }

    const sweepKey = (key: Key, now: number): void => {
      for (const id of [...key.open, ...key.unanswered]) {
        const before = ledger.get(id)!
        const next = Ledger.lapse(before, now)
        if (next !== undefined) writeEntry(before, next, now)
      }
      refresh(key, now)
    }

    return {
      send: (sent) =>
        attempt<AgentStore.Receipt, AgentStore.EventConflict | AgentStore.InboxFull>((now) => {
          const key = keyOf(sent)
          const name = `${sent.agent}\0${sent.key}\0${sent.eventId}`
          const seen = sent.eventId === undefined ? undefined : eventIds.get(name)
          if (seen !== undefined) {
            return JSON.stringify(seen.event) === JSON.stringify(sent.event)
              ? { offset: seen.offset, duplicate: true }
              : new Refused(
                new AgentStore.EventConflict({ agent: sent.agent, key: sent.key, eventId: String(sent.eventId) })
              )
          }
          if (key.inbox.length >= inboxLimit) {
            return new Refused(new AgentStore.InboxFull({ agent: sent.agent, key: sent.key, limit: inboxLimit }))
          }
          const event = addEvent(key, sent)
          if (sent.eventId !== undefined) eventIds.set(name, event)
          changed(key, now)
          return { offset: event.offset, duplicate: false }
        }),

      message: (message) =>
        operation((now) => {
          const key = keyOf(message)
          const offset = ++nextMessage
          key.mailbox.push({ offset, content: message.message })
          changed(key, now)
          return { offset }
        }),

      ready: ({ agents, busy, limit }) =>
        operation((now) => {
          const found: Array<AgentStore.Snapshot> = []
          for (const key of ready) {
            if (found.length >= limit) break
            if (!agents.includes(key.agent) || busy(key.agent, key.key)) continue
            if (!isReady(key, now)) continue
            const event = (key.current ?? key.inbox[0])!
            found.push({
              agent: key.agent,
              key: key.key,
              offset: event.offset,
              revision: key.revision,
              seq: event.seq ?? key.seq,
              event: event.event,
              failures: event.failures,
              memory: key.memory,
              continuation: key.continuation,
              rows: event.rows,
              answers: (key.continuation?.waiting ?? []).map((waiting) => ({
                step: waiting.step,
                answer: answerOf(key, waiting, now)!
              })),
              now
            })
          }
          return found
        }),

      append: (appended) =>
        attempt<ReadonlyArray<Journal.Stored>, AgentStore.CommitConflict>(() => {
          const key = keyOf(appended)
          const refused = conflict(key, appended)
          if (refused !== undefined) return refused
          const event = events[appended.offset - 1]!
          const there = event.rows.slice(appended.from)
          // A longer run of rows than the one offered was written by another owner, or by an earlier attempt.
          const extends_ = appended.rows.length > there.length
            && there.every((row, index) => row.check === appended.rows[index]!.check)
          if (!extends_) return there
          event.rows = [...event.rows.slice(0, appended.from), ...appended.rows]
          return appended.rows
        }),

      commit: (commit) =>
        attempt<void, AgentStore.CommitConflict | Intent.IntentConflict>((now) => {
          const key = keyOf(commit)
          const refused = conflict(key, commit)
          if (refused !== undefined) return refused
          const { emitted, intents, journal, memory, outcome, replay, trace } = commit.activated
          for (const draft of intents) {
            const staged = ledger.get(draft.id)
            const error = staged && Intent.conflict(staged.intent, draft)
            if (error !== undefined) return new Refused(error)
          }
          const event = events[commit.offset - 1]!
          if (event.seq === undefined) {
            event.seq = key.seq++
            key.current = event
            key.inbox.shift()
          }
          key.revision++
          if (memory !== undefined) key.memory = memory
          event.rows = [...event.rows.slice(0, journal.from), ...journal.rows]
          event.trace.push(...trace)
          event.replay = replay
          event.failures = 0
          event.retryAt = 0
          for (const waiting of key.continuation?.waiting ?? []) {
            // The answer that woke the key is used up with the commit that was made of it.
            const answer = answerOf(key, waiting, now)
            const used = journal.rows.some(({ row }) =>
              row.type === "answer" && row.step === waiting.step && row.answer.type === "message"
            )
            if (answer?.type === "message" && used) key.mailbox.shift()
          }
          for (const output of outcome._tag === "Complete" ? [...emitted, outcome.output] : emitted) {
            outputs.push({ offset: outputs.length + 1, agent: key.agent, key: key.key, seq: event.seq, output })
          }
          for (const draft of intents) {
            if (ledger.has(draft.id)) continue
            ledger.set(draft.id, Ledger.stage(draft, now))
            owners.set(draft.id, key)
            key.open.push(draft.id)
          }
          if (outcome._tag === "Complete") {
            event.output = outcome.output
            endEvent(key, event, "Completed")
          } else {
            event.state = "Suspended"
            key.continuation = outcome.continuation
            key.suspendedAt = now
          }
          changed(key, now)
        }),

      fail: (failure) =>
        attempt<void, AgentStore.CommitConflict>((now) => {
          const key = keyOf(failure)
          const refused = conflict(key, failure)
          if (refused !== undefined) return refused
          const event = events[failure.offset - 1]!
          event.failures++
          if (failure.retryIn !== undefined) {
            event.retryAt = now + failure.retryIn
          } else {
            const kind = key.current === event ? "Resume" as const : "Event" as const
            event.reason = failure.reason
            if (kind === "Event") endEvent(key, event, "DeadLetter")
            else {
              event.state = "Blocked"
              key.blocked = failure.reason
            }
            addLetter({
              agent: key.agent,
              key: key.key,
              kind,
              offset: event.offset,
              content: event.event,
              reason: failure.reason,
              at: now
            })
          }
          changed(key, now)
        }),

      refuseMessage: (refused) =>
        operation((now) => {
          const key = keyOf(refused)
          const index = key.mailbox.findIndex(({ offset }) => offset === refused.offset)
          if (index < 0) return
          const [message] = key.mailbox.splice(index, 1)
          addLetter({
            agent: key.agent,
            key: key.key,
            kind: "Message",
            offset: refused.offset,
            content: message!.content,
            reason: { kind: "Failure", tag: "MessageRefused", message: refused.detail },
            at: now
          })
          changed(key, now)
        }),

      startable: ({ except, limit, tools }) =>
        operation((now) => {
          const found: Array<Ledger.Entry> = []
          for (const key of startable) {
            if (found.length >= limit) break
            const entry = candidate(key, now)
            if (entry !== undefined && tools.includes(entry.intent.tool) && !except.has(entry.intent.id)) {
              found.push(entry)
            }
          }
          return found
        }),

      claim: ({ id, lease, owner, token }) =>
        operation((now) => {
          const key = owners.get(id)
          const entry = key && candidate(key, now)
          if (entry?.intent.id !== id) return undefined
          const { next } = Ledger.claim(owner, token, lease)(entry, now)
          if (next !== undefined) writeEntry(entry, next, now)
          return next
        }),

      move: <E>(id: string, move: Ledger.Move<E>) =>
        attempt<Ledger.Entry, E | AgentStore.IntentNotFound>((now) => {
          const entry = ledger.get(id)
          if (entry === undefined) return new Refused(new AgentStore.IntentNotFound({ id }))
          const { next, refusal } = move(entry, now)
          if (next !== undefined) writeEntry(entry, next, now)
          return refusal === undefined ? next ?? entry : new Refused(refusal)
        }),

      sweep: operation((now) => {
        if (nextDue <= now) {
          nextDue = Infinity
          for (const key of Array.from(timed)) sweepKey(key, now)
          notify()
        }
        return { nextAt: nextDue === Infinity ? undefined : nextDue, now }
      }),

      cancel: (target) =>
        operation((now) => {
          const key = keyOf(target)
          const event = key.current ?? key.inbox[0]
          if (event === undefined) return undefined
          key.revision++
          for (const id of Array.from(key.open)) {
            const entry = ledger.get(id)!
            if (entry.intent.seq !== event.seq) continue
            const { next } = Ledger.cancel(target.by)(entry, now)
            if (next !== undefined) writeEntry(entry, next, now)
          }
          endEvent(key, event, "Cancelled")
          changed(key, now)
          return { offset: event.offset }
        }),

      redrive: ({ by, fresh, id }) =>
        attempt<{ readonly offset: number }, AgentStore.DeadLetterNotFound>((now) => {
          const letter = letters[id - 1]
          if (letter === undefined || letter.driven !== undefined || letter.kind === "Message") {
            return new Refused(new AgentStore.DeadLetterNotFound({ id }))
          }
          const key = keyOf(letter)
          const again = events[letter.offset - 1]!
          if (letter.kind === "Event") {
            again.state = "Waiting"
            again.reason = undefined
            key.inbox.push(again)
            key.inbox.sort((a, b) => a.offset - b.offset)
          } else {
            if (key.current !== again || key.blocked === undefined) {
              return new Refused(new AgentStore.DeadLetterNotFound({ id }))
            }
            again.state = "Suspended"
            key.blocked = undefined
          }
          again.failures = 0
          again.retryAt = 0
          if (fresh) again.rows = again.rows.slice(0, key.current === again ? key.continuation!.rows : 0)
          letters[id - 1] = { ...letter, driven: { by, at: now, offset: again.offset } }
          changed(key, now)
          return { offset: again.offset }
        }),

      entry: (id) =>
        attempt<Ledger.Entry, AgentStore.IntentNotFound>(() =>
          ledger.get(id) ?? new Refused(new AgentStore.IntentNotFound({ id }))
        ),

      entries: ({ agent, key, states }) =>
        operation(() =>
          [...ledger.values()].filter((entry) =>
            (states === undefined || states.includes(entry.state))
            && (agent === undefined || entry.intent.agent === agent) && (key === undefined || entry.intent.key === key)
          )
        ),

      event: (offset) =>
        operation(() => {
          const found = events[offset - 1]
          if (found === undefined) return undefined
          const { agent, event, eventId, failures, key, output, reason, seq, state } = found
          return { agent, key, offset, eventId, seq, state, event, failures, output, reason }
        }),

      key: (target) =>
        operation(() => {
          const { agent, blocked, continuation, current, inbox, key, memory, revision, seq } = keyOf(target)
          return {
            agent,
            key,
            seq,
            revision,
            memory,
            current: current?.offset,
            waiting: continuation?.waiting ?? [],
            inbox: inbox.length,
            blocked
          }
        }),

      recorded: (offset) =>
        operation(() => {
          const found = events[offset - 1]
          if (found?.replay === undefined || found.seq === undefined) return undefined
          const { agent, event, key, output, replay, rows, seq } = found
          return { agent, key, offset, seq, event, rows, replay, output }
        }),

      trace: (offset) => operation(() => [...(events[offset - 1]?.trace ?? [])]),

      outputs: ({ after, agent, limit }) =>
        operation(() => {
          const found: Array<AgentStore.Output> = []
          for (let index = after; index < outputs.length && found.length < limit; index++) {
            if (outputs[index]!.agent === agent) found.push(outputs[index]!)
          }
          return found
        }),

      deadLetters: operation(() => [...letters]),

      resolutions: ({ after, limit }) => operation(() => resolutions.slice(after, after + limit)),

      changes: Effect.acquireRelease(
        Effect.map(Queue.sliding<void>(1), (queue) => {
          listeners.add(queue)
          return queue
        }),
        (queue) => Effect.sync(() => listeners.delete(queue))
      )
    }
  })

// internal

interface Key {
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
}

interface Event extends AgentStore.Sent {
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

class Refused<E> {
  readonly error: E
  constructor(error: E) {
    this.error = error
  }
}

const inOrder = (a: Intent.Intent, b: Intent.Intent): number => a.seq - b.seq || a.step - b.step
