/**
 * `AgentStore` over a database: SQLite in one file, or Postgres. The rules are those of every store; here they are given rows,
 * and what they changed is made durable.
 *
 * Guarantees: nothing is acknowledged before it is durable. A change is seen at once in this process, and in others as soon as
 * the database tells of it. Refuses a database of a newer version, untouched.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import type * as AgentStore from "../AgentStore.ts"
import * as Rules from "../AgentStoreRules.ts"
import * as Signing from "../Signing.ts"
import { discard, park } from "./SqlDamage.ts"
import type { Dialect, Session } from "./SqlDialect.ts"
import * as SqlFind from "./SqlFind.ts"
import { Turns } from "./SqlFlush.ts"
import * as SqlGroup from "./SqlGroup.ts"
import * as SqlKeeping from "./SqlKeeping.ts"
import * as SqlListings from "./SqlListings.ts"
import type * as SqlRows from "./SqlRows.ts"
import * as SqlSchema from "./SqlSchema.ts"

/**
 * How a store works.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** How many events, and how many messages, may wait for one key. Default 10,000. */
  readonly inboxLimit?: number
  /** How many operations share a transaction at most. Default 256. */
  readonly groupSize?: number
  /** How often changes of other processes are looked for where nobody tells of them. Default: see the layer of each database. */
  readonly pollInterval?: Duration.Input
}

/**
 * What a database adds to what both have in common.
 *
 * @since 0.1.0
 * @category models
 */
export interface Backend {
  readonly dialect: Dialect
  /** Runs in every transaction that changes something. */
  readonly signal: (session: Session) => Effect.Effect<void, SqlError.SqlError>
  /** Calls back when another process may have changed something, for ever. */
  readonly watch: (changed: () => void) => Effect.Effect<never>
}

/**
 * A store over the `SqlClient` in the context, its tables brought up to date.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  backend: Backend,
  options: Options
): Effect.Effect<
  AgentStore.AgentStore["Service"],
  SqlError.SqlError | SqlSchema.SchemaVersionError,
  SqlClient.SqlClient | Scope.Scope
> =>
  Effect.gen(function*() {
    yield* SqlSchema.migrate
    const sql = yield* SqlClient.SqlClient
    const sealing = sealingBy(yield* Signing.Signing)
    const listeners = new Set<Queue.Queue<void>>()
    const changed = () => {
      for (const listener of listeners) Queue.offerUnsafe(listener, undefined)
    }
    const database: SqlGroup.Database = { ...backend, sql, sealing, changed, turns: new Turns() }
    const submit = yield* SqlGroup.make(database, options.groupSize ?? 256)
    yield* Effect.forkScoped(Effect.withTracerEnabled(backend.watch(changed), false), { startImmediately: true })
    const look: Look = (operation, found) =>
      Effect.withTracerEnabled(
        Effect.mapError(
          found(sessionOf(database)),
          (error) => SqlError.isSqlError(error) ? SqlGroup.storeError(operation, Cause.fail(error)) : error
        ),
        false
      ) as any
    return {
      ...changing(submit, look, options.inboxLimit ?? 10_000),
      ...finding(submit, look, sealing),
      ...listing(look, sealing),
      ...keeping(database, look),
      seals: sealing !== undefined,
      transact: SqlGroup.transact(database),
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

type Service = AgentStore.AgentStore["Service"]

type Methods<Name extends keyof Service> = Pick<Service, Name>

const sealingBy = (signing: Signing.Signing | undefined): SqlRows.Sealing | undefined =>
  signing && {
    seal: (text, id) => Signing.seal(signing.ring, text, id),
    open: (sealed, id) => Result.getOrUndefined(Signing.open(signing.ring, sealed, id))
  }

/** Looks at rows, on whatever connection is free. */
type Look = <A, E>(
  operation: string,
  found: (session: Session) => Effect.Effect<A, E>
) => Effect.Effect<A, Exclude<E, SqlError.SqlError> | AgentStore.StoreError>

const sessionOf = ({ dialect, sql }: SqlGroup.Database): Session =>
  dialect.on({
    execute: (text, params) =>
      Effect.flatMap(Effect.serviceOption(sql.transactionService), (transaction) =>
        transaction._tag === "Some"
          ? transaction.value[0].execute(text, params, undefined)
          : sql.unsafe(text, params).withoutTransform)
  })

const changing = (
  submit: SqlGroup.Submit,
  look: Look,
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
  send: (sent) =>
    submit({
      name: "send",
      needs: { target: sent, creates: true, eventId: sent.eventId, numbers: ["event"] },
      rule: (set, now) => Rules.send(set, sent, now, limit)
    }),
  message: (message) =>
    submit({
      name: "message",
      needs: { target: message, creates: true, numbers: ["message"] },
      rule: (set, now) => Rules.message(set, message, now, limit)
    }),
  refuseMessage: (refused) =>
    submit({
      name: "refuseMessage",
      needs: { target: refused, creates: true, numbers: ["letter"] },
      isTaking: true,
      rule: (set, now) => Rules.refuseMessage(set, refused, now)
    }),
  append: (appended) =>
    submit({
      name: "append",
      needs: { target: appended, creates: true, journal: true },
      isTaking: true,
      rule: (set) => Rules.append(set, appended)
    }),
  commit: (commit) =>
    submit({
      name: "commit",
      needs: { target: commit, creates: true, ids: idsIn(commit.activated) },
      isTaking: true,
      rule: (set, now) => Rules.commit(set, commit, now)
    }),
  fail: (failure) =>
    submit({
      name: "fail",
      needs: { target: failure, creates: true, numbers: ["letter"] },
      isTaking: true,
      rule: (set, now) => Rules.fail(set, failure, now)
    }),
  claim: (options) =>
    submit({ name: "claim", needs: { ids: [options.id] }, rule: (set, now) => Rules.claim(set, options, now) }),
  move: (id, move) =>
    submit({ name: "move", needs: { ids: [id] }, rule: (set, now) => Rules.move(set, id, move, now) }),
  putAside: (intent) =>
    submit<void, never>({
      name: "putAside",
      needs: { ids: [intent.id], numbers: ["letter"] },
      rule: (set, now) => Rules.putAside(set, intent, now)
    }),
  sweep: Effect.gen(function*() {
    while (true) {
      const { nextAt, now, targets } = yield* look("sweep", SqlFind.due)
      if (targets.length === 0) return { nextAt, now }
      yield* Effect.forEach(targets, (target) => sweepKey(submit, target, now), {
        concurrency: "unbounded",
        discard: true
      })
    }
  }),
  cancel: (target) =>
    submit({
      name: "cancel",
      needs: { target, open: true },
      isTaking: true,
      rule: (set, now) => Rules.cancel(set, target, now)
    }),
  redrive: (letter) =>
    submit({
      name: "redrive",
      needs: { letter: letter.id, journal: letter.fresh },
      isTaking: true,
      rule: (set, now) => Rules.redrive(set, letter, now)
    })
})

/** The intents an activation stages, and those it goes on waiting for: one may have been answered in between. */
const idsIn = ({ intents, outcome }: Parameters<Service["commit"]>[0]["activated"]): ReadonlyArray<string> => [
  ...intents.map(({ id }) => id),
  ...(outcome._tag === "Complete" ? [] : outcome.continuation.waiting).flatMap((waiting) =>
    waiting.type === "intent" ? [waiting.id] : []
  )
]

const sweepKey = (submit: SqlGroup.Submit, target: AgentStore.Target, due: number) =>
  submit<void, never>({
    name: "sweep",
    needs: { target, due, numbers: ["letter"] },
    isTaking: true,
    rule: (set, now) => {
      const key = set.find(target)
      if (key === undefined) return
      for (const [id, damage] of set.damaged) discard(set, id, damage, now)
      set.sweepKey(key, now)
    }
  })

const finding = (
  submit: SqlGroup.Submit,
  look: Look,
  sealing: SqlRows.Sealing | undefined
): Methods<"ready" | "startable"> => ({
  ready: (query) =>
    Effect.gen(function*() {
      const { damaged, snapshots } = yield* look("ready", (session) => SqlFind.ready(session, query, sealing))
      yield* Effect.forEach(damaged, (target) => park(submit, target), { discard: true })
      return snapshots
    }),
  startable: (query) =>
    Effect.gen(function*() {
      const { damaged, entries } = yield* look("startable", (session) => SqlFind.startable(session, query, sealing))
      yield* Effect.forEach(damaged, (id) =>
        submit<void, never>({
          name: "discard",
          needs: { ids: [id], numbers: ["letter"] },
          rule: (set, now) => discard(set, id, set.damaged.get(id), now)
        }), { discard: true })
      return entries
    })
})

const listing = (
  look: Look,
  sealing: SqlRows.Sealing | undefined
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
  entry: (id) => look("entry", (session) => SqlListings.entry(session, id, sealing)),
  entries: (query) => look("entries", (session) => SqlListings.entries(session, query, sealing)),
  event: (offset) => look("event", (session) => SqlListings.event(session, offset)),
  key: (target) => look("key", (session) => SqlListings.key(session, target)),
  recorded: (offset) => look("recorded", (session) => SqlListings.recorded(session, offset)),
  trace: (offset) => look("trace", (session) => SqlListings.trace(session, offset)),
  outputs: (query) => look("outputs", (session) => SqlListings.outputs(session, query)),
  deadLetters: look("deadLetters", SqlListings.deadLetters),
  resolutions: (query) => look("resolutions", (session) => SqlListings.resolutions(session, query)),
  recall: (query) => look("recall", (session) => SqlListings.recall(session, query)),
  contract: (digest) => look("contract", (session) => SqlListings.contract(session, digest))
})

const keeping = (database: SqlGroup.Database, look: Look): Methods<"declare" | "lock" | "prune"> => ({
  declare: (contracts) => look("declare", (session) => SqlKeeping.declare(session, contracts)),
  lock: (lock) => look("lock", (session) => SqlKeeping.lock(session, lock)),
  prune: (query) => look("prune", (session) => database.sql.withTransaction(SqlKeeping.prune(session, query)))
})
