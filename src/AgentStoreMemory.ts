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
import * as Result from "effect/Result"
import type * as AgentStore from "./AgentStore.ts"
import * as AgentStoreData from "./AgentStoreData.ts"
import { type Key, Tables } from "./AgentStoreMemoryTables.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Ledger from "./Ledger.ts"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** How many events, and how many messages, may wait for one key. Default 10,000. */
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
    const limit = options.inboxLimit ?? 10_000
    const tables = new Tables()
    return {
      ...inboxes(tables, limit),
      ...activations(tables),
      ...intents(tables),
      ...operations(tables),
      ...listings(tables),
      changes: Effect.acquireRelease(
        Effect.map(Queue.sliding<void>(1), (queue) => {
          tables.listeners.add(queue)
          return queue
        }),
        (queue) => Effect.sync(() => tables.listeners.delete(queue))
      )
    }
  })

// internal

type Methods<Name extends keyof AgentStore.AgentStore["Service"]> = Pick<AgentStore.AgentStore["Service"], Name>

/** What a method refuses to do, as a value: the body of a method stays one synchronous piece. */
class Refused<E> {
  readonly error: E
  constructor(error: E) {
    this.error = error
  }
}

const operation = <A>(body: (now: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, body)

const attempt = <A, E>(body: (now: number) => A | Refused<E>): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.currentTimeMillis, (now): Effect.Effect<A, E> => {
    const result = body(now)
    return result instanceof Refused ? Effect.fail(result.error) : Effect.succeed(result)
  })

const inboxes = (tables: Tables, limit: number): Methods<"send" | "message" | "refuseMessage"> => ({
  send: (sent) =>
    attempt<AgentStore.Receipt, AgentStoreData.EventConflict | AgentStoreData.InboxFull>((now) => {
      const { agent, event, eventId, key } = sent
      const name = `${agent}\0${key}\0${eventId}`
      const seen = eventId === undefined ? undefined : tables.eventIds.get(name)
      if (seen !== undefined) {
        return textOf(seen.event) === textOf(event)
          ? { offset: seen.offset, duplicate: true }
          : new Refused(new AgentStoreData.EventConflict({ agent, key, eventId: String(eventId) }))
      }
      const row = tables.key(sent)
      if (row.inbox.length >= limit) return new Refused(new AgentStoreData.InboxFull({ agent, key, limit }))
      const added = tables.addEvent(row, sent)
      if (eventId !== undefined) tables.eventIds.set(name, added)
      tables.changed(row, now)
      return { offset: added.offset, duplicate: false }
    }),

  message: (message) =>
    attempt<{ readonly offset: number }, AgentStoreData.InboxFull>((now) => {
      const { agent, key } = message
      const row = tables.key(message)
      if (row.mailbox.length >= limit) return new Refused(new AgentStoreData.InboxFull({ agent, key, limit }))
      const offset = ++tables.messages
      row.mailbox.push({ offset, content: message.message })
      tables.changed(row, now)
      return { offset }
    }),

  refuseMessage: (refused) =>
    operation((now) => {
      const row = tables.key(refused)
      const index = row.mailbox.findIndex(({ offset }) => offset === refused.offset)
      if (index < 0) return
      const [message] = row.mailbox.splice(index, 1)
      tables.addLetter(row, {
        kind: "Message",
        offset: refused.offset,
        content: message!.content,
        reason: { kind: "Failure", tag: "MessageRefused", message: refused.detail },
        at: now
      })
      tables.changed(row, now)
    })
})

const activations = (tables: Tables): Methods<"ready" | "append" | "commit" | "fail"> => ({
  ready: ({ agents, busy, limit }) =>
    operation((now) => {
      const found: Array<AgentStore.Snapshot> = []
      for (const row of tables.ready) {
        if (found.length >= limit) break
        const { agent, continuation, key, memory, revision } = row
        if (!agents.includes(agent) || busy(agent, key)) continue
        const event = row.current ?? row.inbox[0]!
        found.push({
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
        })
      }
      return found
    }),

  append: (appended) =>
    attempt<ReadonlyArray<Journal.Stored>, AgentStoreData.CommitConflict>(() => {
      const row = tables.key(appended)
      const refused = conflict(row, appended)
      if (refused !== undefined) return refused
      const event = tables.event(appended.offset)
      // A check covers every row before it, so this compares whole journals.
      if (event.rows.at(-1)?.check !== appended.known) return event.rows.slice(appended.from)
      event.rows = [...event.rows.slice(0, appended.from), ...appended.rows]
      return appended.rows
    }),

  commit: (commit) =>
    attempt<void, AgentStoreData.CommitConflict | Intent.IntentConflict>((now) => {
      const row = tables.key(commit)
      const refused = conflict(row, commit)
      if (refused !== undefined) return refused
      const { emitted, intents, journal, memory, outcome, replay, trace } = commit.activated
      for (const draft of intents) {
        const staged = tables.ledger.get(draft.id)
        const error = staged && Intent.conflict(staged.intent, draft)
        if (error !== undefined) return new Refused(error)
      }
      const event = tables.event(commit.offset)
      if (event.seq === undefined) {
        event.seq = row.seq++
        row.current = event
        row.inbox.shift()
      }
      row.revision++
      if (memory !== undefined) row.memory = memory
      event.rows = [...event.rows.slice(0, journal.from), ...journal.rows]
      event.trace.push(...trace)
      event.replay = replay
      event.failures = 0
      event.retryAt = 0
      for (const waiting of row.continuation?.waiting ?? []) {
        // The answer that woke the key is used up with the commit that was made of it.
        const answer = tables.answerOf(row, waiting, now)
        const used = journal.rows.some(({ row }) =>
          row.type === "answer" && row.step === waiting.step && row.answer.type === "message"
        )
        if (answer?.type === "message" && used) row.mailbox.shift()
      }
      for (const output of outcome._tag === "Complete" ? [...emitted, outcome.output] : emitted) {
        tables.outputs.push({
          offset: tables.outputs.length + 1,
          agent: row.agent,
          key: row.key,
          seq: event.seq,
          output
        })
      }
      for (const draft of intents) if (!tables.ledger.has(draft.id)) tables.stage(row, event, draft, now)
      if (outcome._tag === "Complete") {
        event.output = outcome.output
        tables.endEvent(row, event, "Completed")
      } else {
        event.state = "Suspended"
        row.continuation = outcome.continuation
        row.suspendedAt = now
      }
      tables.hadTurn(row, now)
    }),

  fail: (failure) =>
    attempt<void, AgentStoreData.CommitConflict>((now) => {
      const { reason, retryIn } = failure
      const row = tables.key(failure)
      const refused = conflict(row, failure)
      if (refused !== undefined) return refused
      const event = tables.event(failure.offset)
      event.failures++
      if (retryIn !== undefined) {
        event.retryAt = now + retryIn
      } else {
        const kind = row.current === event ? "Resume" as const : "Event" as const
        event.reason = reason
        if (kind === "Event") tables.endEvent(row, event, "DeadLetter")
        else {
          event.state = "Blocked"
          row.blocked = reason
        }
        tables.addLetter(row, { kind, offset: event.offset, content: event.event, reason, at: now })
      }
      tables.hadTurn(row, now)
    })
})

const intents = (tables: Tables): Methods<"startable" | "claim" | "move" | "sweep"> => ({
  startable: ({ except, limit, tools }) =>
    operation((now) => {
      const found: Array<Ledger.Entry> = []
      for (const row of tables.startable) {
        if (found.length >= limit) break
        found.push(
          ...tables.claimable(row, now).filter(({ intent }) => tools.includes(intent.tool) && !except.has(intent.id))
        )
      }
      return found.slice(0, limit)
    }),

  claim: ({ id, ...options }) =>
    operation((now) => {
      const entry = tables.ledger.get(id)
      if (entry === undefined || entry.claim?.token === options.token) return entry
      const free = tables.claimable(tables.key(entry.intent), now).includes(entry)
      const next = free ? Ledger.claim(options)(entry, now).next : undefined
      if (next !== undefined) tables.write(entry, next, now)
      return next
    }),

  move: <E>(id: string, move: Ledger.Move<E>) =>
    attempt<Ledger.Entry, E | AgentStoreData.IntentNotFound>((now) => {
      const entry = tables.ledger.get(id)
      if (entry === undefined) return new Refused(new AgentStoreData.IntentNotFound({ id }))
      const { next, refusal } = move(entry, now)
      if (next !== undefined) tables.write(entry, next, now)
      return refusal === undefined ? next ?? entry : new Refused(refusal)
    }),

  sweep: operation((now) => ({ nextAt: tables.sweep(now), now }))
})

const operations = (tables: Tables): Methods<"cancel" | "redrive"> => ({
  cancel: (target) =>
    operation((now) => {
      const row = tables.find(target)
      const event = row?.current ?? row?.inbox[0]
      if (row === undefined || event === undefined) return undefined
      row.revision++
      for (const id of Array.from(row.open)) {
        const entry = tables.ledger.get(id)!
        if (entry.intent.seq !== event.seq) continue
        const { next } = Ledger.cancel(target.by)(entry, now)
        if (next !== undefined) tables.write(entry, next, now)
      }
      tables.endEvent(row, event, "Cancelled")
      tables.changed(row, now)
      return { offset: event.offset }
    }),

  redrive: ({ by, fresh, id }) =>
    attempt<{ readonly offset: number }, AgentStoreData.DeadLetterNotFound>((now) => {
      const letter = tables.letters[id - 1]
      if (letter === undefined || letter.driven !== undefined || letter.kind === "Message") {
        return new Refused(new AgentStoreData.DeadLetterNotFound({ id }))
      }
      const row = tables.key(letter)
      const event = tables.event(letter.offset)
      if (letter.kind === "Event") {
        event.state = "Waiting"
        row.inbox.push(event)
        row.inbox.sort((a, b) => a.offset - b.offset)
      } else {
        if (row.current !== event || row.blocked === undefined) {
          return new Refused(new AgentStoreData.DeadLetterNotFound({ id }))
        }
        event.state = "Suspended"
        row.blocked = undefined
      }
      event.reason = undefined
      event.failures = 0
      event.retryAt = 0
      if (fresh) event.rows = event.rows.slice(0, row.current === event ? row.continuation!.rows : 0)
      tables.letters[id - 1] = { ...letter, driven: { by, at: now, offset: event.offset } }
      tables.changed(row, now)
      return { offset: event.offset }
    })
})

const listings = (
  tables: Tables
): Methods<
  "entry" | "entries" | "event" | "key" | "recorded" | "trace" | "outputs" | "deadLetters" | "resolutions"
> => ({
  entry: (id) =>
    attempt<Ledger.Entry, AgentStoreData.IntentNotFound>(() =>
      tables.ledger.get(id) ?? new Refused(new AgentStoreData.IntentNotFound({ id }))
    ),

  entries: ({ agent, key, states }) =>
    operation(() =>
      Array.from(tables.ledger.values()).filter((entry) =>
        (states === undefined || states.includes(entry.state))
        && (agent === undefined || entry.intent.agent === agent)
        && (key === undefined || entry.intent.key === key)
      )
    ),

  event: (offset) =>
    operation(() => {
      const found = tables.events[offset - 1]
      if (found === undefined) return undefined
      const { agent, event, eventId, failures, key, output, reason, seq, state } = found
      return { agent, key, offset, eventId, seq, state, event, failures, output, reason }
    }),

  key: (target) =>
    operation(() => {
      const found = tables.find(target)
      return {
        agent: target.agent,
        key: target.key,
        seq: found?.seq ?? 0,
        revision: found?.revision ?? 0,
        memory: found?.memory ?? {},
        current: found?.current?.offset,
        waiting: found?.continuation?.waiting ?? [],
        inbox: found?.inbox.length ?? 0,
        blocked: found?.blocked
      }
    }),

  recorded: (offset) =>
    operation(() => {
      const found = tables.events[offset - 1]
      if (found?.replay === undefined || found.seq === undefined) return undefined
      const { agent, event, key, output, replay, rows, seq } = found
      return { agent, key, offset, seq, event, rows, replay, output }
    }),

  trace: (offset) => operation(() => [...(tables.events[offset - 1]?.trace ?? [])]),

  outputs: ({ after, agent, limit }) =>
    operation(() => {
      const found: Array<AgentStore.Output> = []
      for (let index = after; index < tables.outputs.length && found.length < limit; index++) {
        const output = tables.outputs[index]!
        if (output.agent === agent) found.push(output)
      }
      return found
    }),

  deadLetters: operation(() => [...tables.letters]),

  resolutions: ({ after, limit }) => operation(() => tables.resolutions.slice(after, after + limit))
})

const conflict = (row: Key, claimed: AgentStore.Claimed): Refused<AgentStoreData.CommitConflict> | undefined => {
  const { agent, key, revision } = row
  const current = row.current ?? row.inbox[0]
  return revision === claimed.revision && current?.offset === claimed.offset
    ? undefined
    : new Refused(new AgentStoreData.CommitConflict({ agent, key, expected: claimed.revision, actual: revision }))
}

/** Equal contents have equal texts, in whatever order their fields were written. */
const textOf = (json: CanonicalJson.Json): string =>
  Result.getOrElse(CanonicalJson.encode(json), () => JSON.stringify(json))
