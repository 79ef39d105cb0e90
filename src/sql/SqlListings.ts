/**
 * What can be looked at: intents, events, keys, outputs, dead letters. Nothing is locked or changed.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as SqlError from "effect/sql/SqlError"
import type * as Activation from "../Activation.ts"
import * as AgentStore from "../AgentStore.ts"
import type * as Ledger from "../Ledger.ts"
import type { Session } from "./SqlDialect.ts"
import { journalsOf, toLetter } from "./SqlLoad.ts"
import * as SqlRows from "./SqlRows.ts"

type Service = AgentStore.AgentStore["Service"]

type Found<A> = Effect.Effect<A, SqlError.SqlError>

/**
 * @since 0.1.0
 * @category listings
 */
export const entry = (
  session: Session,
  id: string,
  sealing: SqlRows.Sealing | undefined
): Effect.Effect<Ledger.Entry, SqlError.SqlError | AgentStore.IntentNotFound> =>
  Effect.flatMap(
    session.all(
      `SELECT ${SqlRows.entryColumns} FROM ei_intents i JOIN ei_keys k ON k.id = i.key_id WHERE i.id = ?`,
      [id]
    ),
    ([row]) =>
      row === undefined
        ? Effect.fail(new AgentStore.IntentNotFound({ id }))
        : Effect.succeed(SqlRows.toEntry(row, sealing).entry)
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const entries = (
  session: Session,
  { agent, key, states }: AgentStore.EntryQuery,
  sealing: SqlRows.Sealing | undefined
): Found<ReadonlyArray<Ledger.Entry>> => {
  const conditions = [
    ...(states === undefined ? [] : [`i.state IN (${["''", ...states.map(() => "?")].join(", ")})`]),
    ...(agent === undefined ? [] : ["k.agent = ?"]),
    ...(key === undefined ? [] : ["k.key = ?"])
  ]
  return Effect.map(
    session.all(
      `SELECT ${SqlRows.entryColumns} FROM ei_intents i JOIN ei_keys k ON k.id = i.key_id `
        + `${conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`} ORDER BY i.n`,
      [...(states ?? []), ...(agent === undefined ? [] : [agent]), ...(key === undefined ? [] : [key])]
    ),
    (rows) => rows.map((row) => SqlRows.toEntry(row, sealing).entry)
  )
}

/**
 * @since 0.1.0
 * @category listings
 */
export const event = (session: Session, offset: number): Found<AgentStore.EventStatus | undefined> =>
  Effect.map(session.all(eventById, [offset]), ([row]) =>
    row && {
      agent: row.agent,
      key: row.key,
      offset,
      eventId: (SqlRows.parse(row.event_id) ?? undefined) as string | undefined,
      seq: row.seq === null ? undefined : Number(row.seq),
      state: row.state,
      event: SqlRows.parse(row.event) ?? null,
      failures: Number(row.failures),
      output: SqlRows.parse(row.output),
      reason: (SqlRows.parse(row.reason) ?? undefined) as Activation.Reason | undefined
    })

/**
 * @since 0.1.0
 * @category listings
 */
export const key = (session: Session, { agent, key }: AgentStore.Target): Found<AgentStore.KeyStatus> =>
  Effect.map(session.all("SELECT * FROM ei_keys WHERE agent = ? AND key = ?", [agent, key]), ([row]) => {
    const continuation = SqlRows.parse(row?.continuation) as unknown as Activation.Continuation | undefined
    return {
      agent,
      key,
      seq: Number(row?.seq ?? 0),
      revision: Number(row?.revision ?? 0),
      memory: (SqlRows.parse(row?.memory) ?? {}) as AgentStore.KeyStatus["memory"],
      current: (row?.current_id ?? null) === null ? undefined : Number(row.current_id),
      waiting: continuation?.waiting ?? [],
      inbox: Number(row?.inbox ?? 0),
      blocked: (SqlRows.parse(row?.blocked) ?? undefined) as Activation.Reason | undefined
    }
  })

/**
 * @since 0.1.0
 * @category listings
 */
export const recorded = (session: Session, offset: number): Found<AgentStore.Recorded | undefined> =>
  Effect.gen(function*() {
    const [row] = yield* session.all(eventById, [offset])
    if (row === undefined || row.replay === null || row.seq === null) return undefined
    const journals = yield* journalsOf(session, [offset])
    return {
      agent: row.agent,
      key: row.key,
      offset,
      seq: Number(row.seq),
      event: SqlRows.parse(row.event) ?? null,
      rows: journals.get(offset) ?? [],
      replay: SqlRows.parse(row.replay) as unknown as Activation.Replay,
      output: SqlRows.parse(row.output)
    }
  })

/**
 * @since 0.1.0
 * @category listings
 */
export const trace = (session: Session, offset: number): Found<ReadonlyArray<Activation.Trace>> =>
  Effect.map(
    session.all("SELECT entry FROM ei_traces WHERE event = ? ORDER BY id", [offset]),
    (rows) => rows.map(({ entry }) => SqlRows.parse(entry) as unknown as Activation.Trace)
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const outputs = (
  session: Session,
  { after, agent, limit }: Parameters<Service["outputs"]>[0]
): Found<ReadonlyArray<AgentStore.Output>> =>
  Effect.map(
    session.all("SELECT * FROM ei_outputs WHERE agent = ? AND id > ? ORDER BY id LIMIT ?", [agent, after, limit]),
    (rows) =>
      rows.map((row) => ({
        agent: row.agent,
        key: row.key,
        offset: Number(row.id),
        seq: Number(row.seq),
        output: SqlRows.parse(row.output) ?? null
      }))
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const deadLetters = (session: Session): Found<ReadonlyArray<AgentStore.DeadLetter>> =>
  Effect.map(
    session.all(
      "SELECT l.id, l.kind, l.event, l.reason, l.at, l.driven, coalesce(l.content, e.event) AS content, k.agent, k.key "
        + "FROM ei_letters l JOIN ei_keys k ON k.id = l.key_id LEFT JOIN ei_events e ON e.id = l.event AND l.content IS NULL "
        + "ORDER BY l.id"
    ),
    (rows) => rows.map(toLetter)
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const resolutions = (
  session: Session,
  { after, limit }: Parameters<Service["resolutions"]>[0]
): Found<ReadonlyArray<AgentStore.Resolution>> =>
  Effect.map(
    session.all("SELECT id, entry FROM ei_resolutions WHERE id > ? ORDER BY id LIMIT ?", [after, limit]),
    (rows) =>
      rows.map(({ entry, id }) => ({
        result: undefined,
        ...(SqlRows.parse(entry) as unknown as Omit<AgentStore.Resolution, "offset" | "result">),
        offset: Number(id)
      }))
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const recall = (
  session: Session,
  { agent, key, limit, name }: Parameters<Service["recall"]>[0]
): Found<ReadonlyArray<AgentStore.Remembered>> =>
  Effect.map(
    session.all(
      "SELECT m.seq, m.name, m.value FROM ei_memories m JOIN ei_keys k ON k.id = m.key_id "
        + `WHERE k.agent = ? AND k.key = ? ${
          name === undefined ? "" : "AND m.name = ?"
        } ORDER BY m.seq DESC, m.id DESC LIMIT ?`,
      [agent, key, ...(name === undefined ? [] : [name]), limit]
    ),
    (rows) =>
      rows.map((row) => ({
        agent,
        key,
        seq: Number(row.seq),
        name: row.name,
        value: SqlRows.parse(row.value) ?? null
      }))
  )

/**
 * @since 0.1.0
 * @category listings
 */
export const contract = (session: Session, digest: string): Found<AgentStore.Contract | undefined> =>
  Effect.map(session.all("SELECT tool, parameters FROM ei_contracts WHERE digest = ?", [digest]), ([row]) =>
    row && {
      digest,
      tool: row.tool,
      parameters: SqlRows.parse(row.parameters) as AgentStore.Contract["parameters"]
    })

// internal

const eventById = "SELECT e.*, k.agent, k.key FROM ei_events e JOIN ei_keys k ON k.id = e.key_id WHERE e.id = ?"
