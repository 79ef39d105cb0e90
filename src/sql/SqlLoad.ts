/**
 * Loads what operations need into a working set: keys and what comes first in them, intents, letters, journals.
 *
 * Guarantees: a key is locked before anything of it is read, keys in one order everywhere, so that two transactions neither
 * overtake nor wait for each other for ever.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as SqlError from "effect/sql/SqlError"
import type * as AgentStore from "../AgentStore.ts"
import { type Event, type Key, Line } from "../AgentStoreTables.ts"
import * as CanonicalJson from "../CanonicalJson.ts"
import * as Ledger from "../Ledger.ts"
import type { Dialect, Session } from "./SqlDialect.ts"
import * as SqlRows from "./SqlRows.ts"
import { stateOf, stateOfEvent, WorkingSet } from "./SqlWorkingSet.ts"

/**
 * What an operation needs to find in its working set.
 *
 * @since 0.1.0
 * @category models
 */
export interface Need {
  readonly target?: AgentStore.Target
  /** Makes the row of the key where there is none. */
  readonly creates?: boolean
  /** Ids of intents: their keys are loaded with them. */
  readonly ids?: ReadonlyArray<string>
  readonly eventId?: string | undefined
  readonly letter?: number
  /** The journal of the event that comes first, or of the one of the letter. */
  readonly journal?: boolean
  /** All intents of the key that are staged or claimed. */
  readonly open?: boolean
  /** All intents of the key that time has to act on. */
  readonly due?: number
  readonly numbers?: ReadonlyArray<"event" | "message" | "letter">
}

/**
 * Loads what is needed, inside a transaction.
 *
 * @since 0.1.0
 * @category loading
 */
export const load = (
  session: Session,
  dialect: Dialect,
  needs: ReadonlyArray<Need>,
  sealing: SqlRows.Sealing | undefined
): Effect.Effect<WorkingSet, SqlError.SqlError> =>
  Effect.gen(function*() {
    const set = new WorkingSet()
    const keyIds = yield* resolve(session, needs)
    const keys = yield* lockKeys(session, dialect, Array.from(keyIds))
    yield* addKeys(session, set, keys)
    yield* addLetters(session, set, needs)
    yield* addEntries(session, set, needs, sealing)
    yield* addEventIds(session, set, needs)
    yield* addJournals(session, set, needs)
    for (const what of ["event", "message", "letter"] as const) {
      const count = needs.reduce((sum, { numbers = [] }) => sum + numbers.filter((name) => name === what).length, 0)
      if (count > 0) set.numbers[what].push(...(yield* session.reserve(what, count)))
    }
    return set
  })

/**
 * The key of a row of `ei_keys`, without its inbox, its mailbox and its intents.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toKey = (row: { readonly [column: string]: any }): Key => ({
  agent: row["agent"],
  key: row["key"],
  seq: Number(row["seq"]),
  revision: Number(row["revision"]),
  memory: {},
  inbox: new Line(),
  mailbox: new Line(),
  current: undefined,
  continuation: (SqlRows.parse(row["continuation"]) ?? undefined) as Key["continuation"],
  suspendedAt: Number(row["suspended_at"]),
  blocked: (SqlRows.parse(row["blocked"]) ?? undefined) as Key["blocked"],
  open: [],
  unanswered: []
})

/**
 * The event of a row of `ei_events`, without its content where that was not read.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toEvent = (key: AgentStore.Target, row: { readonly [column: string]: any }): Event => ({
  agent: key.agent,
  key: key.key,
  version: row["version"],
  eventId: undefined,
  event: SqlRows.parse(row["event"]) ?? null,
  offset: Number(row["id"]),
  seq: row["seq"] === null ? undefined : Number(row["seq"]),
  state: row["state"],
  retryAt: Number(row["retry_at"]),
  failures: Number(row["failures"]),
  rows: [],
  replay: undefined,
  output: undefined,
  reason: (SqlRows.parse(row["reason"]) ?? undefined) as Event["reason"],
  endedAt: row["ended_at"] === null ? undefined : Number(row["ended_at"])
})

/**
 * The digest under which an event id is found: an id may be any string, and long.
 *
 * @since 0.1.0
 * @category accessors
 */
export const idDigest = (eventId: string): string => CanonicalJson.digest(JSON.stringify(eventId))

// internal

/** The ids of the keys that are needed. Keys that are to be made are made. */
const resolve = (session: Session, needs: ReadonlyArray<Need>) =>
  Effect.gen(function*() {
    const ids = new Set<number>()
    const targets = distinct(needs.flatMap(({ creates = false, target }) => target ? [{ target, creates }] : []))
    const find = (rows: ReadonlyArray<{ readonly agent: string; readonly key: string }>) =>
      session.each(named, rows, "SELECT id, agent, key FROM ei_keys WHERE agent = :agent AND key = :key")
    if (targets.length > 0) {
      const found = yield* find(targets)
      const names = new Set(found.map(({ agent, key }) => `${agent}\0${key}`))
      const missing = targets.filter(({ agent, creates, key }) => creates && !names.has(`${agent}\0${key}`))
      for (const { id } of found) ids.add(Number(id))
      if (missing.length > 0) {
        const rows = missing.map(({ agent, key }) => ({ agent, key, ...newKey }))
        yield* session.insert("ei_keys", newKeyColumns, rows, "ON CONFLICT (agent, key) DO NOTHING")
        for (const { id } of yield* find(missing.map(({ agent, key }) => ({ agent, key })))) ids.add(Number(id))
      }
    }
    const intents = needs.flatMap(({ ids = [], target }) => target === undefined ? ids : [])
    if (intents.length > 0) {
      const rows = yield* session.each(
        { id: "text" },
        Array.from(new Set(intents), (id) => ({ id })),
        "SELECT key_id FROM ei_intents WHERE id = :id"
      )
      for (const { key_id } of rows) ids.add(Number(key_id))
    }
    const letters = needs.flatMap(({ letter }) => letter === undefined ? [] : [{ id: letter }])
    if (letters.length > 0) {
      const rows = yield* session.each({ id: "int" }, letters, "SELECT key_id FROM ei_letters WHERE id = :id")
      for (const { key_id } of rows) ids.add(Number(key_id))
    }
    return ids
  })

const lockKeys = (session: Session, dialect: Dialect, ids: ReadonlyArray<number>) =>
  ids.length === 0 ? Effect.succeed([]) : session.all(
    dialect.lock(
      "id, agent, key, seq, revision, current_id, inbox, mailbox, suspended_at, ready_at, blocked, continuation",
      "ei_keys"
    ),
    [dialect.ids(ids)]
  )

const light = `id, key_id, version, seq, state, retry_at, failures, journal, reason, ended_at`

const addKeys = (session: Session, set: WorkingSet, rows: ReadonlyArray<any>) =>
  Effect.gen(function*() {
    const waiting = rows.filter(({ inbox }) => Number(inbox) > 0).map(({ id }) => ({ id }))
    const current = rows.filter(({ current_id }) => current_id !== null).map(({ current_id }) => ({ id: current_id }))
    const mail = rows.filter(({ mailbox }) => Number(mailbox) > 0).map(({ id }) => ({ id }))
    const first = waiting.length === 0 ? [] : yield* session.each(
      { id: "int" },
      waiting,
      `SELECT ${light} FROM ei_events WHERE key_id = :id AND state = 'Waiting' ORDER BY id LIMIT 2`
    )
    const underWay = current.length === 0 ? [] : yield* session.each(
      { id: "int" },
      current,
      `SELECT ${light} FROM ei_events WHERE id = :id`
    )
    const messages = mail.length === 0 ? [] : yield* session.each(
      { id: "int" },
      mail,
      `SELECT id, key_id, content FROM ei_messages WHERE key_id = :id ORDER BY id LIMIT 2`
    )
    for (const row of rows) {
      const id = Number(row.id)
      const ofKey = (found: ReadonlyArray<any>) => found.filter(({ key_id }) => Number(key_id) === id)
      const events = ofKey(first).map((event) => [toEvent(row, event), event] as const)
      const mailbox = ofKey(messages).map(({ content, id }) => ({
        offset: Number(id),
        content: SqlRows.parse(content) ?? null
      }))
      const [event] = ofKey(underWay).map((event) => [toEvent(row, event), event] as const)
      const key: Key = {
        ...toKey(row),
        inbox: new Line(events.map(([event]) => event), Number(row.inbox) - events.length),
        mailbox: new Line(mailbox, Number(row.mailbox) - mailbox.length),
        current: event?.[0]
      }
      set.addKey(key)
      for (const [added, row] of event === undefined ? events : [...events, event]) addEvent(set, added, row)
      set.loadedKeys.set(key, {
        id,
        readyAt: row.ready_at === null ? undefined : Number(row.ready_at),
        continuation: key.continuation,
        memory: key.memory,
        text: JSON.stringify(stateOf(key))
      })
    }
  })

const addEvent = (set: WorkingSet, event: Event, row: { readonly [column: string]: any }): void => {
  set.events.set(event.offset, event)
  set.loadedEvents.set(event, { text: JSON.stringify(stateOfEvent(event)), journal: Number(row["journal"]) })
}

const addLetters = (session: Session, set: WorkingSet, needs: ReadonlyArray<Need>) =>
  Effect.gen(function*() {
    const ids = needs.flatMap(({ letter }) => letter === undefined ? [] : [{ id: letter }])
    if (ids.length === 0) return
    const rows = yield* session.each(
      { id: "int" },
      ids,
      `SELECT l.*, k.agent, k.key FROM ei_letters l JOIN ei_keys k ON k.id = l.key_id WHERE l.id = :id`
    )
    for (const row of rows) {
      const letter = toLetter(row)
      set.letters.set(letter.id, letter)
      set.loadedLetters.set(letter.id, letter)
      if (letter.kind !== "Event" || set.events.has(letter.offset)) continue
      const events = yield* session.all(`SELECT ${light} FROM ei_events WHERE id = ?`, [letter.offset])
      for (const event of events) addEvent(set, toEvent(letter, event), event)
    }
  })

/**
 * The dead letter of a row, its content from the event where it is one.
 *
 * @since 0.1.0
 * @category decoding
 */
export const toLetter = (row: { readonly [column: string]: any }): AgentStore.DeadLetter => ({
  id: Number(row["id"]),
  agent: row["agent"],
  key: row["key"],
  kind: row["kind"],
  offset: Number(row["event"]),
  content: SqlRows.parse(row["content"]) ?? null,
  reason: SqlRows.parse(row["reason"]) as unknown as AgentStore.DeadLetter["reason"],
  at: Number(row["at"]),
  driven: (SqlRows.parse(row["driven"]) ?? undefined) as AgentStore.DeadLetter["driven"]
})

const entryOf = (where: string) =>
  `SELECT ${SqlRows.entryColumns}, i.holds, i.claimable_at, i.due_at FROM ei_intents i JOIN ei_keys k ON k.id = i.key_id WHERE ${where}`

const addEntries = (
  session: Session,
  set: WorkingSet,
  needs: ReadonlyArray<Need>,
  sealing: SqlRows.Sealing | undefined
) =>
  Effect.gen(function*() {
    const keys = Array.from(set.loadedKeys)
    const awaited = keys.flatMap(([{ continuation }]) =>
      (continuation?.waiting ?? []).flatMap((waiting) => waiting.type === "intent" ? [waiting.id] : [])
    )
    const ids = Array.from(new Set([...awaited, ...needs.flatMap(({ ids = [] }) => ids)]), (id) => ({ id }))
    const byId = ids.length === 0 ? [] : yield* session.each({ id: "text" }, ids, entryOf("i.id = :id"))
    for (const row of byId) set.addEntry(row, sealing)
    // Each operation takes at most one intent out of the order of its key, and puts at most one in front.
    // A few sizes only: each is a statement to prepare.
    const turns = [4, 32].find((turns) => turns > needs.length) ?? 1024
    const inTurn = keys.length === 0 ? [] : yield* session.each(
      { id: "int" },
      keys.map(([, { id }]) => ({ id })),
      entryOf(`i.key_id = :id AND i.holds IS NOT NULL`) + ` ORDER BY i.holds, i.seq, i.step LIMIT ${turns}`
    )
    for (const row of inTurn) set.addEntry(row, sealing)
    for (const { due, open, target } of needs) {
      const key = target && set.find(target)
      const id = key && set.loadedKeys.get(key)?.id
      if (id === undefined || (due === undefined && open !== true)) continue
      const where = due === undefined ? "i.state IN ('Staged', 'Claimed')" : "i.due_at <= ?"
      const rows = yield* session.all(entryOf(`i.key_id = ? AND ${where}`), due === undefined ? [id] : [id, due])
      for (const row of rows) set.addEntry(row, sealing)
    }
    for (const entry of set.ledger.values()) {
      const { id } = entry.intent
      const key = set.key(entry.intent)
      if (entry.state === "Staged" || entry.state === "Claimed") key.open.push(id)
      if (Ledger.isUnanswered(entry)) key.unanswered.push(id)
    }
    for (const [key] of keys) set.order(key)
  })

const addEventIds = (session: Session, set: WorkingSet, needs: ReadonlyArray<Need>) =>
  Effect.gen(function*() {
    const asked = needs.flatMap(({ eventId, target }) => {
      const key = target && set.find(target)
      const loaded = key && set.loadedKeys.get(key)
      return eventId === undefined || loaded === undefined
        ? []
        : [{ key_id: loaded.id, digest: idDigest(eventId), eventId }]
    })
    if (asked.length === 0) return
    const rows = yield* session.each(
      { key_id: "int", digest: "text" },
      asked.map(({ digest, key_id }) => ({ digest, key_id })),
      `SELECT id, key_id, id_digest, event_digest FROM ei_events WHERE key_id = :key_id AND id_digest = :digest`
    )
    const found = new Map(rows.map((row) => [`${row.key_id} ${row.id_digest}`, row]))
    for (const { eventId, target } of needs) {
      const key = target && set.find(target)
      const loaded = key && set.loadedKeys.get(key)
      if (eventId === undefined || loaded === undefined) continue
      const row = found.get(`${loaded.id} ${idDigest(eventId)}`)
      if (row === undefined) continue
      const name = `${key!.agent}\0${key!.key}\0${eventId}`
      set.eventIds.set(name, { offset: Number(row.id), digest: row.event_digest })
    }
  })

const addJournals = (session: Session, set: WorkingSet, needs: ReadonlyArray<Need>) =>
  Effect.gen(function*() {
    const events = new Set(needs.flatMap(({ journal, letter, target }) => {
      if (journal !== true) return []
      const key = target && set.find(target)
      const offset = letter === undefined ? (key?.current ?? key?.inbox.first)?.offset : set.letters.get(letter)?.offset
      return offset === undefined ? [] : [offset]
    }))
    if (events.size === 0) return
    const rows = yield* journalsOf(session, Array.from(events))
    for (const [offset, journal] of rows) {
      const event = set.events.get(offset)
      if (event !== undefined) event.rows = journal
    }
  })

/**
 * The journals of events by offset.
 *
 * @since 0.1.0
 * @category loading
 */
export const journalsOf = (session: Session, events: ReadonlyArray<number>) =>
  Effect.map(
    session.each(
      { event: "int" },
      events.map((event) => ({ event })),
      "SELECT event, position, seal, entry FROM ei_journal WHERE event = :event ORDER BY position"
    ),
    (rows) =>
      new Map(
        Array.from(
          Map.groupBy(rows, ({ event }) => Number(event)),
          ([event, found]) => [event, found.map(SqlRows.toJournalRow).sort((a, b) => a.position - b.position)] as const
        )
      )
  )

/** Each target once; one of them that is to be made is made. */
const distinct = (targets: ReadonlyArray<{ readonly target: AgentStore.Target; readonly creates: boolean }>) => {
  const byName = new Map<string, { readonly agent: string; readonly key: string; readonly creates: boolean }>()
  for (const { creates, target: { agent, key } } of targets) {
    const name = `${agent}\0${key}`
    byName.set(name, { agent, key, creates: creates || byName.get(name)?.creates === true })
  }
  return Array.from(byName.values())
}

const named = { agent: "text", key: "text" } as const

const newKey = { seq: 0, revision: 0, inbox: 0, mailbox: 0, suspended_at: 0, memory: "{}" }

const newKeyColumns = {
  ...named,
  seq: "int",
  revision: "int",
  inbox: "int",
  mailbox: "int",
  suspended_at: "real",
  memory: "text"
} as const
