/**
 * What stores keep beside the work itself: contracts, locks, and how long the past is kept.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as SqlError from "effect/sql/SqlError"
import * as AgentStore from "../AgentStore.ts"
import type { Session } from "./SqlDialect.ts"

type Service = AgentStore.AgentStore["Service"]

/**
 * @since 0.1.0
 * @category keeping
 */
export const declare = (
  session: Session,
  contracts: ReadonlyArray<AgentStore.Contract>
): Effect.Effect<void, SqlError.SqlError> =>
  contracts.length === 0 ? Effect.void : session.insert(
    "ei_contracts",
    { digest: "text", tool: "text", parameters: "text" },
    Array.from(new Map(contracts.map((contract) => [contract.digest, contract])).values(), (contract) => ({
      digest: contract.digest,
      tool: contract.tool,
      parameters: JSON.stringify(contract.parameters)
    })),
    "ON CONFLICT (digest) DO NOTHING"
  )

/**
 * @since 0.1.0
 * @category keeping
 */
export const lock = (
  session: Session,
  { lease, name, owner }: Parameters<Service["lock"]>[0]
): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.gen(function*() {
    const now = yield* session.now
    const free = "ei_locks.owner = ? OR ei_locks.until <= ?"
    if (lease <= 0) {
      yield* session.all(`DELETE FROM ei_locks WHERE name = ? AND (${free})`, [name, owner, now])
      return (yield* session.all("SELECT 1 AS held FROM ei_locks WHERE name = ?", [name])).length === 0
    }
    const rows = yield* session.all(
      "INSERT INTO ei_locks (name, owner, until) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
        + `SET owner = excluded.owner, until = excluded.until WHERE ${free} RETURNING name`,
      [name, owner, now + lease, owner, now]
    )
    return rows.length > 0
  })

/**
 * Removes what ended before the window, inside a transaction.
 *
 * @since 0.1.0
 * @category keeping
 */
export const prune = (
  session: Session,
  { limit, olderThan }: Parameters<Service["prune"]>[0]
): Effect.Effect<AgentStore.Pruned, SqlError.SqlError | AgentStore.RetentionTooShort> =>
  Effect.gen(function*() {
    const [longest] = yield* session.all("SELECT id, ttl FROM ei_intents ORDER BY ttl DESC LIMIT 1")
    if (longest !== undefined && Number(longest.ttl) > olderThan) {
      return yield* new AgentStore.RetentionTooShort({ olderThan, longest: Number(longest.ttl), id: longest.id })
    }
    const before = (yield* session.now) - olderThan
    const rows = yield* session.all(
      "SELECT e.id FROM ei_events e WHERE e.state IN ('Completed', 'Cancelled') AND e.ended_at <= ? AND NOT EXISTS "
        + "(SELECT 1 FROM ei_intents i WHERE i.event = e.id AND (i.state IN ('Staged', 'Claimed', 'Unknown') OR i.ended_at > ?)) "
        + "ORDER BY e.ended_at LIMIT ?",
      [before, before, limit]
    )
    const events = rows.map(({ id }) => ({ event_id: Number(id) }))
    const columns = { event_id: "int" } as const
    let intents = 0
    if (events.length > 0) {
      const counts = yield* session.each(
        columns,
        events,
        "SELECT count(*) AS n FROM ei_intents WHERE event = :event_id"
      )
      intents = counts.reduce((sum, { n }) => sum + Number(n), 0)
      for (const table of ["ei_journal", "ei_traces", "ei_intents", "ei_letters"]) {
        yield* session.remove(table, columns, events, "event = :event_id")
      }
      yield* session.remove("ei_events", columns, events, "id = :event_id")
    }
    const [outputs] = yield* session.all("SELECT count(*) AS n FROM ei_outputs WHERE at <= ?", [before])
    yield* session.all("DELETE FROM ei_outputs WHERE at <= ?", [before])
    yield* session.all("DELETE FROM ei_resolutions WHERE at <= ?", [before])
    return { events: events.length, intents, outputs: Number(outputs.n) }
  })
