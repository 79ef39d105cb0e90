/**
 * Writes what changed in a working set, table by table.
 *
 * Guarantees: the columns by which work is found say the same as the rows. The offsets of outputs and resolutions come in the
 * order of the commits, so that a reader behind a cursor passes none by.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as SqlError from "effect/sql/SqlError"
import * as Rules from "../AgentStoreRules.ts"
import type { Event, Key } from "../AgentStoreTables.ts"
import * as Intent from "../Intent.ts"
import type { Columns, Row, Session } from "./SqlDialect.ts"
import { idDigest } from "./SqlLoad.ts"
import * as SqlRows from "./SqlRows.ts"
import { derived, stateOf, stateOfEvent, type WorkingSet } from "./SqlWorkingSet.ts"

/**
 * Tells one place in the queue of keys from the next, where they are taken in the same millisecond.
 *
 * @since 0.1.0
 * @category models
 */
export class Turns {
  private last = 0

  /** A time less than a millisecond after `now`, or shortly after the one before. */
  next(now: number): number {
    this.last = Math.max(now, this.last + 1 / 1024)
    if (this.last >= now + 1) this.last = now
    return this.last
  }
}

/**
 * Writes a working set, inside the transaction that loaded it. Gives whether anything changed.
 *
 * @since 0.1.0
 * @category writing
 */
export const flush = (
  session: Session,
  set: WorkingSet,
  now: number,
  turns: Turns,
  sealing: SqlRows.Sealing | undefined
): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.gen(function*() {
    let changed = false
    const write = (
      rows: ReadonlyArray<Row>,
      effect: (rows: ReadonlyArray<Row>) => Effect.Effect<void, SqlError.SqlError>
    ) => {
      if (rows.length === 0) return Effect.void
      changed = true
      return effect(rows)
    }
    const insert = (table: string, columns: Columns, rows: ReadonlyArray<Row>, conflict?: string) =>
      write(rows, (rows) => session.insert(table, columns, rows, conflict))
    const idOf = (key: Key) => set.loadedKeys.get(key)!.id

    const events = Array.from(set.events.values())
    const added = events.filter((event) => !set.loadedEvents.has(event))
    yield* insert("ei_events", newEvent, added.map((event) => ofNewEvent(event, idOf(set.key(event)))))
    const changedEvents = events.filter((event) => isChanged(set, event))
    yield* write(
      changedEvents.map((event) => ofChangedEvent(set, event)),
      (rows) => session.update("ei_events", "id", changingEvent, rows, ["replay", "output"])
    )
    yield* writeJournals(session, set, insert)
    yield* insert(
      "ei_traces",
      { event: "int", entry: "text" },
      set.traces.map(({ event, trace }) => ({ event, entry: JSON.stringify(trace) }))
    )
    yield* writeIntents(session, set, sealing, insert, write)
    yield* writeMessages(session, set, insert, write)
    yield* writeLetters(session, set, insert, write)
    yield* insert(
      "ei_memories",
      { key_id: "int", name: "text", seq: "int", value: "text" },
      lastOf(set.memories.map(({ name, seq, target, value }) => ({
        key_id: idOf(set.key(target)),
        name,
        seq,
        value: JSON.stringify(value)
      }))),
      "ON CONFLICT (key_id, name, seq) DO UPDATE SET value = excluded.value"
    )
    yield* write(
      keysOf(set, now, turns),
      (rows) => session.update("ei_keys", "id", keyColumns, rows, ["continuation", "memory"])
    )
    yield* writeInOrder(session, set, now, insert)
    return changed
  })

// internal

type Write = (
  rows: ReadonlyArray<Row>,
  effect: (rows: ReadonlyArray<Row>) => Effect.Effect<void, SqlError.SqlError>
) => Effect.Effect<void, SqlError.SqlError>

type Insert = (
  table: string,
  columns: Columns,
  rows: ReadonlyArray<Row>,
  conflict?: string
) => Effect.Effect<void, SqlError.SqlError>

const eventState = {
  id: "int",
  seq: "int",
  state: "text",
  retry_at: "real",
  failures: "int",
  journal: "int",
  reason: "text",
  ended_at: "real"
} as const

const newEvent = {
  ...eventState,
  key_id: "int",
  version: "text",
  event_id: "text",
  event_digest: "text",
  id_digest: "text",
  event: "text"
} as const

const changingEvent = { ...eventState, replay: "text", output: "text" } as const

const keyColumns = {
  id: "int",
  seq: "int",
  revision: "int",
  current_id: "int",
  inbox: "int",
  mailbox: "int",
  suspended_at: "real",
  ready_at: "real",
  blocked: "text",
  continuation: "text",
  memory: "text"
} as const

const textOf = (json: unknown): string | null => json === undefined ? null : JSON.stringify(json)

const ofNewEvent = (event: Event, keyId: number): Row => ({
  ...stateOfEvent(event),
  journal: 0,
  id: event.offset,
  key_id: keyId,
  version: event.version,
  event_id: textOf(event.eventId),
  event_digest: event.eventId === undefined ? null : Rules.digestOf(event.event),
  id_digest: event.eventId === undefined ? null : idDigest(event.eventId),
  event: JSON.stringify(event.event)
})

const isChanged = (set: WorkingSet, event: Event): boolean => {
  const before = set.loadedEvents.get(event)
  return before !== undefined
    && (set.journals.has(event.offset) || before.text !== JSON.stringify(stateOfEvent(event)))
}

const ofChangedEvent = (set: WorkingSet, event: Event): Row => {
  const journal = set.journals.get(event.offset)
  return {
    ...stateOfEvent(event),
    id: event.offset,
    journal: journal === undefined ? set.loadedEvents.get(event)!.journal : journal.from + journal.rows.length,
    replay: textOf(event.replay),
    output: textOf(event.output)
  }
}

const writeJournals = (session: Session, set: WorkingSet, insert: Insert) =>
  Effect.gen(function*() {
    const journals = Array.from(set.journals)
    const replaced = journals.filter(([event, { from }]) => {
      const before = set.events.get(event)
      return (before && set.loadedEvents.get(before)?.journal || 0) > from
    })
    if (replaced.length > 0) {
      yield* session.remove(
        "ei_journal",
        { of_event: "int", since: "int" },
        replaced.map(([event, { from }]) => ({ of_event: event, since: from })),
        "event = :of_event AND position >= :since"
      )
    }
    yield* insert(
      "ei_journal",
      { event: "int", position: "int", seal: "text", entry: "text" },
      journals.flatMap(([event, { rows }]) =>
        rows.map(({ check, position, row }) => ({ event, position, seal: check, entry: JSON.stringify(row) }))
      )
    )
  })

const writeIntents = (
  session: Session,
  set: WorkingSet,
  sealing: SqlRows.Sealing | undefined,
  insert: Insert,
  write: Write
) =>
  Effect.gen(function*() {
    const firsts = new Set(Array.from(set.keys.values(), (key) => set.firstOf(key)))
    const added: Array<Row> = []
    const changed: Array<Row> = []
    for (const [id, entry] of set.ledger) {
      const row = SqlRows.ofEntry(entry, firsts.has(entry))
      const before = set.loadedEntries.get(id)
      if (before !== undefined) {
        if (before.entry !== entry || before.text !== derived(row)) changed.push(row)
        continue
      }
      const { seq, step, tool, ttl } = entry.intent
      added.push({
        ...row,
        key_id: set.loadedKeys.get(set.key(entry.intent))!.id,
        event: set.stagedBy.get(id)!,
        seq,
        step,
        tool,
        ttl,
        sealed: sealedOf(entry.intent, sealing)
      })
    }
    yield* insert("ei_intents", SqlRows.staged, added)
    yield* write(changed, (rows) => session.update("ei_intents", "id", SqlRows.changing, rows))
  })

const sealedOf = (intent: Intent.Intent, sealing: SqlRows.Sealing | undefined): string | null => {
  const secret = intent.sealed && Intent.Sealed.reveal(intent.sealed)
  if (secret === undefined) return null
  if (sealing === undefined) throw new Error(`no keys were given to seal the arguments of '${intent.tool}'`)
  return sealing.seal(secret, intent.id)
}

const writeMessages = (session: Session, set: WorkingSet, insert: Insert, write: Write) =>
  Effect.gen(function*() {
    yield* insert(
      "ei_messages",
      { id: "int", key_id: "int", content: "text" },
      Array.from(set.addedMessages, ([id, { content, key }]) => ({
        id,
        key_id: set.loadedKeys.get(key)!.id,
        content: JSON.stringify(content)
      }))
    )
    yield* write(
      set.removedMessages.map((message) => ({ message })),
      (rows) => session.remove("ei_messages", { message: "int" }, rows, "id = :message")
    )
  })

const writeLetters = (session: Session, set: WorkingSet, insert: Insert, write: Write) =>
  Effect.gen(function*() {
    const letters = Array.from(set.letters.values())
    yield* insert(
      "ei_letters",
      { id: "int", key_id: "int", kind: "text", event: "int", content: "text", reason: "text", at: "real" },
      letters.filter(({ id }) => !set.loadedLetters.has(id)).map((letter) => ({
        id: letter.id,
        key_id: set.loadedKeys.get(set.key(letter))!.id,
        kind: letter.kind,
        event: letter.offset,
        // The content of an event stands with the event, as long as it is a dead letter.
        content: letter.kind === "Event" || letter.kind === "Resume" ? null : JSON.stringify(letter.content),
        reason: JSON.stringify(letter.reason),
        at: letter.at
      }))
    )
    yield* write(
      letters.filter((letter) => (set.loadedLetters.get(letter.id) ?? letter) !== letter)
        .map(({ driven, id }) => ({ id, driven: textOf(driven) })),
      (rows) => session.update("ei_letters", "id", { id: "int", driven: "text" }, rows)
    )
  })

/** The rows of the keys that changed. */
const keysOf = (set: WorkingSet, now: number, turns: Turns): ReadonlyArray<Row> =>
  Array.from(set.loadedKeys).flatMap(([key, loaded]) => {
    const state = stateOf(key)
    const readyAt = readySince(set, key, now, turns)
    const continuation = key.continuation === loaded.continuation ? null : textOf(key.continuation) ?? ""
    const memory = key.memory === loaded.memory ? null : JSON.stringify(key.memory)
    const isSame = JSON.stringify(state) === loaded.text && readyAt === loaded.readyAt && continuation === null
      && memory === null
    return isSame ? [] : [{ id: loaded.id, ...state, ready_at: readyAt ?? null, continuation, memory }]
  })

/**
 * Since when a key can be run, or from when on. Keys are run in this order: one that can be run already keeps its place, one
 * that had its turn goes to the end.
 */
const readySince = (set: WorkingSet, key: Key, now: number, turns: Turns): number | undefined => {
  const readyAt = set.readyAt(key)
  const before = set.loadedKeys.get(key)!.readyAt
  if (readyAt === Infinity) return undefined
  if (readyAt > now) return readyAt
  const hadTurn = set.changedKeys.get(key) !== undefined
  return before !== undefined && before < now + 1 && !hadTurn ? before : turns.next(now)
}

const writeInOrder = (session: Session, set: WorkingSet, now: number, insert: Insert) =>
  Effect.gen(function*() {
    if (set.outputs.length > 0) {
      const offsets = yield* inCommitOrder(session, "output", set.outputs.length)
      yield* insert(
        "ei_outputs",
        { id: "int", agent: "text", key: "text", seq: "int", output: "text", at: "real" },
        set.outputs.map(({ agent, at, key, output, seq }, index) => ({
          id: offsets + index,
          agent,
          key,
          seq,
          output: JSON.stringify(output),
          at
        }))
      )
    }
    if (set.resolutions.length > 0) {
      const offsets = yield* inCommitOrder(session, "resolution", set.resolutions.length)
      yield* insert(
        "ei_resolutions",
        { id: "int", entry: "text", at: "real" },
        set.resolutions.map((resolution, index) => ({
          id: offsets + index,
          entry: JSON.stringify(resolution),
          at: now
        }))
      )
    }
  })

/** The first of so many offsets. The row of the counter is held until the commit. */
const inCommitOrder = (session: Session, name: string, count: number): Effect.Effect<number, SqlError.SqlError> =>
  Effect.map(
    session.all(
      "INSERT INTO ei_counters (name, value) VALUES (?, ?) "
        + "ON CONFLICT (name) DO UPDATE SET value = ei_counters.value + excluded.value RETURNING value",
      [name, count]
    ),
    ([{ value }]) => Number(value) - count + 1
  )

/** The last of several values under one name: a statement writes a row only once. */
const lastOf = <R extends { readonly key_id: number; readonly name: string; readonly seq: number }>(
  rows: ReadonlyArray<R>
): ReadonlyArray<R> =>
  Array.from(new Map(rows.map((row) => [JSON.stringify([row.key_id, row.name, row.seq]), row])).values())
