/**
 * Finds what can be done now: keys to run, intents to claim, and when time has to act next. No lock is taken: what is found is
 * checked again by the operation that follows from it.
 *
 * Guarantees: each question is answered by an index, however much is stored. A row that cannot be read is put aside.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as SqlError from "effect/sql/SqlError"
import type * as AgentStore from "../AgentStore.ts"
import * as Rules from "../AgentStoreRules.ts"
import { type Key, Line } from "../AgentStoreTables.ts"
import * as Ledger from "../Ledger.ts"
import type { Session } from "./SqlDialect.ts"
import { journalsOf, toEvent, toKey } from "./SqlLoad.ts"
import * as SqlRows from "./SqlRows.ts"
import { WorkingSet } from "./SqlWorkingSet.ts"

/**
 * The keys that can be run, as far as they can be read, and those that cannot with the reason.
 *
 * @since 0.1.0
 * @category finding
 */
export const ready = (
  session: Session,
  query: Parameters<AgentStore.AgentStore["Service"]["ready"]>[0],
  sealing: SqlRows.Sealing | undefined
): Effect.Effect<
  {
    readonly snapshots: ReadonlyArray<AgentStore.Snapshot>
    readonly damaged: ReadonlyArray<AgentStore.Target & { readonly damage: string }>
  },
  SqlError.SqlError
> =>
  Effect.gen(function*() {
    const now = yield* session.now
    const rows = yield* candidates(session, query, now)
    if (rows.length === 0) return { snapshots: [], damaged: [] }
    const set = new WorkingSet()
    const damaged: Array<AgentStore.Target & { readonly damage: string }> = []
    yield* addHeads(session, set, rows, damaged)
    yield* addAnswers(session, set, sealing)
    const found = Array.from(set.keys.values()).filter((key) => set.readyAt(key) <= now)
    return { snapshots: found.map((key) => Rules.snapshot(set, key, now)), damaged }
  })

/**
 * Intents that could be claimed now, and the ids of those that cannot be read.
 *
 * @since 0.1.0
 * @category finding
 */
export const startable = (
  session: Session,
  { except, limit, tools }: Parameters<AgentStore.AgentStore["Service"]["startable"]>[0],
  sealing: SqlRows.Sealing | undefined
): Effect.Effect<
  { readonly entries: ReadonlyArray<Ledger.Entry>; readonly damaged: ReadonlyArray<string> },
  SqlError.SqlError
> =>
  Effect.gen(function*() {
    const now = yield* session.now
    const places = tools.map(() => "?").join(", ")
    const rows = yield* session.all(
      `SELECT ${SqlRows.entryColumns} FROM ei_intents i JOIN ei_keys k ON k.id = i.key_id `
        + `WHERE i.tool IN (${places}) AND i.claimable_at <= ? ORDER BY i.claimable_at, i.n LIMIT ?`,
      [...tools, now, limit + except.size]
    )
    const read = rows.map((row) => SqlRows.toEntry(row, sealing))
    return {
      entries: read.filter(({ damage, entry }) =>
        damage === undefined && !except.has(entry.intent.id)
        && (Ledger.isStartable(entry, now) || Ledger.isVerifiable(entry, now))
      ).map(({ entry }) => entry).slice(0, limit),
      damaged: read.filter(({ damage }) => damage !== undefined).map(({ entry }) => entry.intent.id)
    }
  })

/**
 * When time changes something next, and what it changes now: the keys that have an intent on which time acts.
 *
 * @since 0.1.0
 * @category finding
 */
export const due = (session: Session): Effect.Effect<
  {
    readonly now: number
    readonly nextAt: number | undefined
    readonly targets: ReadonlyArray<AgentStore.Target>
  },
  SqlError.SqlError
> =>
  Effect.gen(function*() {
    const now = yield* session.now
    const [row] = yield* session.all(
      "SELECT (SELECT min(due_at) FROM ei_intents WHERE due_at IS NOT NULL) AS due, "
        + "(SELECT min(claimable_at) FROM ei_intents WHERE claimable_at > ?) AS claimable, "
        + "(SELECT min(ready_at) FROM ei_keys WHERE ready_at > ?) AS ready",
      [now, now + 1]
    )
    const times = [row.due, row.claimable, row.ready].filter((time) => time !== null).map(Number)
    const nextAt = times.length === 0 ? undefined : Math.min(...times)
    const targets = row.due === null || Number(row.due) > now ? [] : yield* session.all(
      "SELECT DISTINCT k.agent, k.key FROM ei_keys k JOIN "
        + "(SELECT key_id FROM ei_intents WHERE due_at <= ? ORDER BY due_at LIMIT 256) i ON i.key_id = k.id",
      [now]
    )
    return { now, nextAt, targets }
  })

// internal

/** Rows of keys that can be run, as many as are asked for, in the order of their turns. */
const candidates = (
  session: Session,
  { agents, busy, limit }: Parameters<AgentStore.AgentStore["Service"]["ready"]>[0],
  now: number
) =>
  Effect.gen(function*() {
    const places = agents.map(() => "?").join(", ")
    const found: Array<any> = []
    // Busy keys stand in the same line: pages are read until there are enough others.
    let after = { at: -1, id: -1 }
    while (found.length < limit) {
      const size = limit - found.length + 64
      const page = yield* session.all(
        `SELECT id, agent, key, ready_at FROM ei_keys WHERE (ready_at, id) > (?, ?) AND ready_at < ? AND agent IN (${places}) `
          + "ORDER BY ready_at, id LIMIT ?",
        [after.at, after.id, now + 1, ...agents, size]
      )
      found.push(...page.filter(({ agent, key }) => !busy(agent, key)))
      const last = page.at(-1)
      if (page.length < size) break
      after = { at: Number(last.ready_at), id: Number(last.id) }
    }
    return found.slice(0, limit)
  })

/** Adds keys with the event that comes first in each, and with its first message. */
const addHeads = (
  session: Session,
  set: WorkingSet,
  found: ReadonlyArray<any>,
  damaged: Array<AgentStore.Target & { readonly damage: string }>
) =>
  Effect.gen(function*() {
    const ids = found.map(({ id }) => ({ id: Number(id) }))
    const rows = yield* session.each({ id: "int" }, ids, "SELECT * FROM ei_keys WHERE id = :id")
    const heads = yield* session.each(
      { id: "int", current_id: "int" },
      rows.map(({ current_id, id }) => ({ id: Number(id), current_id })),
      "SELECT * FROM ei_events WHERE id = coalesce(:current_id, "
        + "(SELECT min(id) FROM ei_events WHERE key_id = :id AND state = 'Waiting'))"
    )
    const mail = rows.filter(({ mailbox }) => Number(mailbox) > 0).map(({ id }) => ({ id: Number(id) }))
    const messages = mail.length === 0 ? [] : yield* session.each(
      { id: "int" },
      mail,
      "SELECT id, key_id, content FROM ei_messages WHERE key_id = :id ORDER BY id LIMIT 1"
    )
    const journals = yield* journalsOf(
      session,
      heads.filter(({ journal }) => Number(journal) > 0).map(({ id }) => Number(id))
    )
    const byKey = new Map(heads.map((head) => [Number(head.key_id), head]))
    for (const row of rows) {
      const id = Number(row.id)
      const head = byKey.get(id)
      if (head === undefined) continue
      const damage = damageOf(row, head)
      if (damage !== undefined) {
        damaged.push({ agent: row.agent, key: row.key, damage })
        continue
      }
      const event = toEvent(row, head)
      event.rows = journals.get(event.offset) ?? []
      const message = messages.find(({ key_id }) => Number(key_id) === id)
      const isCurrent = row.current_id !== null
      const key: Key = {
        ...toKey(row),
        memory: SqlRows.parse(row.memory) as Key["memory"],
        inbox: new Line(isCurrent ? [] : [event]),
        mailbox: new Line(
          message === undefined
            ? []
            : [{ offset: Number(message.id), content: SqlRows.parse(message.content) ?? null }]
        ),
        current: isCurrent ? event : undefined
      }
      set.addKey(key)
    }
  })

/** What of a key or of its event cannot be read, if anything. */
const damageOf = (key: any, event: any): string | undefined =>
  SqlRows.parse(key.memory) === undefined
    ? "the memory of the key cannot be read"
    : key.continuation !== null && key.continuation !== "" && SqlRows.parse(key.continuation) === undefined
    ? "the suspension of the key cannot be read"
    : SqlRows.parse(event.event) === undefined
    ? "the event cannot be read"
    : undefined

/** Adds the intents that keys wait for. */
const addAnswers = (session: Session, set: WorkingSet, sealing: SqlRows.Sealing | undefined) =>
  Effect.gen(function*() {
    const ids = Array.from(set.keys.values()).flatMap(({ continuation }) =>
      (continuation?.waiting ?? []).flatMap((waiting) => waiting.type === "intent" ? [{ id: waiting.id }] : [])
    )
    if (ids.length === 0) return
    const rows = yield* session.each(
      { id: "text" },
      ids,
      `SELECT ${SqlRows.entryColumns} FROM ei_intents i JOIN ei_keys k ON k.id = i.key_id WHERE i.id = :id`
    )
    for (const row of rows) set.addEntry(row, sealing)
  })
