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
import type * as AgentStore from "./AgentStore.ts"
import * as AgentStoreData from "./AgentStoreData.ts"
import { MemoryTables } from "./AgentStoreMemoryTables.ts"
import * as Rules from "./AgentStoreRules.ts"
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
    const tables = new MemoryTables()
    return {
      ...changing(tables, limit),
      ...finding(tables),
      ...listing(tables),
      ...keeping(tables),
      seals: true,
      transact: undefined,
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

const operation = <A>(body: (now: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, body)

const attempt = <A, E>(body: (now: number) => A | Rules.Refused<E>): Effect.Effect<A, E> =>
  Effect.flatMap(Clock.currentTimeMillis, (now): Effect.Effect<A, E> => {
    const result = body(now)
    return result instanceof Rules.Refused ? Effect.fail(result.error) : Effect.succeed(result)
  })

const changing = (
  tables: MemoryTables,
  limit: number
): Methods<
  | "send"
  | "message"
  | "refuseMessage"
  | "append"
  | "commit"
  | "fail"
  | "claim"
  | "move"
  | "putAside"
  | "sweep"
  | "cancel"
  | "redrive"
> => ({
  send: (sent) => attempt((now) => Rules.send(tables, sent, now, limit)),
  message: (message) => attempt((now) => Rules.message(tables, message, now, limit)),
  refuseMessage: (refused) => operation((now) => Rules.refuseMessage(tables, refused, now)),
  append: (appended) => attempt(() => Rules.append(tables, appended)),
  commit: (commit) => attempt((now) => Rules.commit(tables, commit, now)),
  fail: (failure) => attempt((now) => Rules.fail(tables, failure, now)),
  claim: (options) => operation((now) => Rules.claim(tables, options, now)),
  move: (id, move) => attempt((now) => Rules.move(tables, id, move, now)),
  putAside: (intent) => operation((now) => Rules.putAside(tables, intent, now)),
  sweep: operation((now) => ({ nextAt: tables.sweep(now), now })),
  cancel: (target) => operation((now) => Rules.cancel(tables, target, now)),
  redrive: (letter) => attempt((now) => Rules.redrive(tables, letter, now))
})

const finding = (tables: MemoryTables): Methods<"ready" | "startable"> => ({
  ready: ({ agents, busy, limit }) =>
    operation((now) => {
      const found: Array<AgentStore.Snapshot> = []
      for (const row of tables.ready) {
        if (found.length >= limit) break
        if (agents.includes(row.agent) && !busy(row.agent, row.key)) found.push(Rules.snapshot(tables, row, now))
      }
      return found
    }),

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
    })
})

const listing = (
  tables: MemoryTables
): Methods<
  | "entry"
  | "entries"
  | "event"
  | "key"
  | "recorded"
  | "trace"
  | "outputs"
  | "deadLetters"
  | "resolutions"
  | "recall"
  | "contract"
> => ({
  entry: (id) => attempt(() => tables.ledger.get(id) ?? new Rules.Refused(new AgentStoreData.IntentNotFound({ id }))),

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
      const found = tables.events.get(offset)
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
        inbox: found?.inbox.size ?? 0,
        blocked: found?.blocked
      }
    }),

  recorded: (offset) =>
    operation(() => {
      const found = tables.events.get(offset)
      if (found?.replay === undefined || found.seq === undefined) return undefined
      const { agent, event, key, output, replay, rows, seq } = found
      return { agent, key, offset, seq, event, rows, replay, output }
    }),

  trace: (offset) => operation(() => [...(tables.traces.get(offset) ?? [])]),

  outputs: ({ after, agent, limit }) =>
    operation(() => {
      const found: Array<AgentStore.Output> = []
      for (const output of behind(tables.outputs, after)) {
        if (found.length >= limit) break
        if (output.agent !== agent) continue
        const { key, offset, seq } = output
        found.push({ agent, key, offset, seq, output: output.output })
      }
      return found
    }),

  deadLetters: operation(() => Array.from(tables.letters.values())),
  resolutions: ({ after, limit }) => operation(() => behind(tables.resolutions, after).slice(0, limit)),

  recall: ({ agent, key, limit, name }) =>
    operation(() =>
      (tables.remembered.get(`${agent}\0${key}`) ?? [])
        .filter((row) => name === undefined || row.name === name)
        .toReversed()
        .slice(0, limit)
    ),

  contract: (digest) => operation(() => tables.contracts.get(digest))
})

const keeping = (tables: MemoryTables): Methods<"declare" | "lock" | "prune"> => ({
  declare: (contracts) =>
    operation(() => {
      for (const contract of contracts) tables.contracts.set(contract.digest, contract)
    }),

  lock: ({ lease, name, owner }) =>
    operation((now) => {
      const held = tables.locks.get(name)
      if (held !== undefined && held.owner !== owner && held.until > now) return false
      if (lease > 0) tables.locks.set(name, { owner, until: now + lease })
      else tables.locks.delete(name)
      return true
    }),

  prune: ({ limit, olderThan }) =>
    attempt<AgentStore.Pruned, AgentStoreData.RetentionTooShort>((now) => {
      const byEvent = Map.groupBy(tables.ledger.values(), ({ intent: { id } }) => tables.stagedBy.get(id)!)
      for (const { intent: { id, ttl } } of tables.ledger.values()) {
        if (ttl > olderThan) {
          return new Rules.Refused(new AgentStoreData.RetentionTooShort({ olderThan, longest: ttl, id }))
        }
      }
      const before = now - olderThan
      const isOld = (at: number | undefined) => at !== undefined && at <= before
      let events = 0
      let intents = 0
      for (const { agent, endedAt, eventId, key, offset, state } of tables.events.values()) {
        if (events >= limit) break
        const entries = byEvent.get(offset) ?? []
        const hasEnded = (state === "Completed" || state === "Cancelled") && isOld(endedAt)
        if (!hasEnded || entries.some((entry) => !Ledger.isTerminal(entry) || !isOld(entry.endedAt))) continue
        for (const { intent } of entries) tables.forget(intent.id)
        tables.events.delete(offset)
        tables.traces.delete(offset)
        tables.eventIds.delete(`${agent}\0${key}\0${eventId}`)
        events++
        intents += entries.length
      }
      return { events, intents, outputs: tables.dropOutputs(before) }
    })
})

/** Rows behind a cursor, of those in the order of their offsets. */
const behind = <Row extends { readonly offset: number }>(rows: ReadonlyArray<Row>, after: number): ReadonlyArray<Row> =>
  rows.slice(Math.max(0, after - (rows[0]?.offset ?? 1) + 1))
