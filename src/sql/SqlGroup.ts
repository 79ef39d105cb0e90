/**
 * Group commit: operations that are ready together share one transaction. Each is done by a rule on the rows it needs; what
 * the rules changed is written, and only when that is durable is anybody told.
 *
 * Guarantees: a group holds at most so many operations and never waits for more to come. An operation that is refused, or
 * cannot be written, does not fail its neighbours.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import * as AgentStore from "../AgentStore.ts"
import * as Rules from "../AgentStoreRules.ts"
import type * as Intent from "../Intent.ts"
import * as Ledger from "../Ledger.ts"
import type { Dialect, Session } from "./SqlDialect.ts"
import { flush, type Turns } from "./SqlFlush.ts"
import { load, type Need } from "./SqlLoad.ts"
import type * as SqlRows from "./SqlRows.ts"
import type { WorkingSet } from "./SqlWorkingSet.ts"

/**
 * One operation. Its rule is synchronous: it finds its rows in the working set.
 *
 * @since 0.1.0
 * @category models
 */
export interface Operation<A, E> {
  readonly name: string
  readonly needs: Need
  /** It may take the first event of its key out of the line: a group holds one such operation per key. */
  readonly isTaking?: boolean
  readonly rule: (set: WorkingSet, now: number) => A | Rules.Refused<E>
}

/**
 * What transactions are made with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Database {
  readonly sql: SqlClient.SqlClient
  readonly dialect: Dialect
  readonly sealing: SqlRows.Sealing | undefined
  /** Runs in a transaction that changes something. */
  readonly signal: (session: Session) => Effect.Effect<void, SqlError.SqlError>
  /** Told when a change is durable. */
  readonly changed: () => void
  readonly turns: Turns
}

/**
 * Does an operation, sooner or later in a group.
 *
 * @since 0.1.0
 * @category models
 */
export type Submit = <A, E>(operation: Operation<A, E>) => Effect.Effect<A, E | AgentStore.StoreError>

/**
 * Commits groups of at most `size` operations, as long as the scope. What still waits when it ends is told that the store is
 * closed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (database: Database, size: number): Effect.Effect<Submit, never, Scope.Scope> =>
  Effect.gen(function*() {
    const waiting: Array<Waiting> = []
    const arrived = yield* Queue.sliding<void>(1)
    let isClosed = false

    const commit = (group: ReadonlyArray<Waiting>): Effect.Effect<void> =>
      Effect.flatMap(Effect.exit(together(database, group.map(({ operation }) => operation))), (exit) => {
        if (Exit.isSuccess(exit)) {
          group.forEach(({ result }, index) => Deferred.doneUnsafe(result, exit.value[index]!))
          return Effect.void
        }
        if (group.length > 1 && !isAway(exit.cause)) {
          return Effect.forEach(group, (one) => commit([one]), { discard: true })
        }
        for (const { operation, result } of group) {
          Deferred.doneUnsafe(result, Exit.fail(storeError(operation.name, exit.cause)))
        }
        return Effect.void
      })

    const loop = Effect.gen(function*() {
      while (true) {
        yield* Queue.take(arrived)
        while (waiting.length > 0) {
          // Whoever was woken by the last group comes along with the next.
          yield* Effect.yieldNow
          yield* commit(nextGroup(waiting, size))
        }
      }
    })
    yield* Effect.forkScoped(Effect.withTracerEnabled(loop, false), { startImmediately: true })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        isClosed = true
        for (const { operation, result } of waiting) Deferred.doneUnsafe(result, Exit.fail(closed(operation.name)))
      })
    )
    return (operation) =>
      Effect.suspend(() => {
        if (isClosed) return Effect.fail(closed(operation.name))
        const result = Deferred.makeUnsafe<any, any>()
        waiting.push({ operation, result })
        Queue.offerUnsafe(arrived, undefined)
        return Deferred.await(result)
      })
  })

/**
 * Runs a handler in a transaction together with the record of its end: see `AgentStore.transact`.
 *
 * @since 0.1.0
 * @category transactions
 */
export const transact =
  (database: Database): NonNullable<AgentStore.AgentStore["Service"]["transact"]> => (claim, handler) => {
    const { sql } = database
    const { id, token } = claim
    const run = transaction(
      database,
      [{ ids: [id] }],
      (set, now): Effect.Effect<Undone | { readonly result: Intent.Result }, any> => {
        const entry = set.ledger.get(id)
        if (entry === undefined) return Effect.fail(new AgentStore.IntentNotFound({ id }))
        const { refusal } = Ledger.renew(token, 0)(entry, now)
        if (refusal !== undefined) return Effect.fail(refusal)
        // A savepoint: what the handler did is undone where it says so, and its end is recorded all the same.
        const ended = Effect.flatMap(
          handler,
          (end) => end.keep ? Effect.succeed(end) : Effect.fail(new Undone(end.result))
        )
        return Effect.catchIf(sql.withTransaction(ended), (error) => error instanceof Undone, Effect.succeed)
      },
      (set, { result }, now) => Rules.move(set, id, Ledger.complete(token, result), now)
    )
    return Effect.flatMap(
      Effect.catchIf(run, SqlError.isSqlError, (error) => Effect.fail(storeError("transact", Cause.fail(error)))),
      (done) => done instanceof Rules.Refused ? Effect.fail(done.error) : Effect.succeed(done)
    ) as any
  }

/**
 * A failure of the database, as the store's.
 *
 * @since 0.1.0
 * @category errors
 */
export const storeError = (operation: string, cause: Cause.Cause<unknown>): AgentStore.StoreError => {
  const error = Cause.squash(cause)
  return new AgentStore.StoreError({ operation, detail: error instanceof Error ? detailOf(error) : String(error) })
}

// internal

interface Waiting {
  readonly operation: Operation<any, any>
  readonly result: Deferred.Deferred<any, any>
}

class Undone {
  readonly result: Intent.Result
  constructor(result: Intent.Result) {
    this.result = result
  }
}

const closed = (operation: string) => new AgentStore.StoreError({ operation, detail: "the store was closed" })

const detailOf = (error: Error): string =>
  SqlError.isSqlError(error)
    ? `${error.reason._tag}: ${String((error.reason.cause as Error)?.message ?? error.message)}`
    : error.message

/** The database cannot be reached, or is locked: it is for the others of the group as well. */
const isAway = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.squash(cause)
  return SqlError.isSqlError(error) &&
    (error.reason._tag === "ConnectionError" || error.reason._tag === "LockTimeoutError")
}

/** Takes the next group out of those that wait. Of those that take an event of one key, only the first comes along. */
const nextGroup = (waiting: Array<Waiting>, size: number): ReadonlyArray<Waiting> => {
  const group: Array<Waiting> = []
  const left: Array<Waiting> = []
  const taken = new Set<string>()
  for (const one of waiting) {
    const { isTaking, needs: { letter, target } } = one.operation
    const name = isTaking === true ? target === undefined ? `${letter}` : `${target.agent}\0${target.key}` : undefined
    const fits = group.length < size && (name === undefined || !taken.has(name))
    if (fits && name !== undefined) taken.add(name)
    if (fits) group.push(one)
    else left.push(one)
  }
  waiting.splice(0, waiting.length, ...left)
  return group
}

const together = (database: Database, operations: ReadonlyArray<Operation<any, any>>) =>
  transaction(
    database,
    operations.map(({ needs }) => needs),
    () => Effect.void,
    (set, _, now) =>
      operations.map(({ rule }): Exit.Exit<any, any> => {
        const done = rule(set, now)
        return done instanceof Rules.Refused ? Exit.fail(done.error) : Exit.succeed(done)
      })
  )

/** Loads rows, works on them and writes what changed, in one transaction. */
const transaction = <A, B, E>(
  database: Database,
  needs: ReadonlyArray<Need>,
  before: (set: WorkingSet, now: number) => Effect.Effect<A, E>,
  rule: (set: WorkingSet, before: A, now: number) => B
): Effect.Effect<B, E | SqlError.SqlError> => {
  const { changed, dialect, sealing, signal, sql, turns } = database
  const body = Effect.flatMap(Effect.service(sql.transactionService), ([connection]) =>
    Effect.gen(function*() {
      const session = dialect.on(connection)
      const set = yield* load(session, dialect, needs, sealing)
      const started = yield* before(set, yield* session.now)
      const now = yield* session.now
      const result = rule(set, started, now)
      const isChanged = yield* flush(session, set, now, turns, sealing)
      if (isChanged) yield* signal(session)
      return { result, isChanged }
    }))
  return sql.withTransaction(
    body as Effect.Effect<{ readonly result: B; readonly isChanged: boolean }, E | SqlError.SqlError>
  ).pipe(
    Effect.retry({ times: 5, while: (error) => SqlError.isSqlError(error) && isCollision(error) }),
    Effect.map(({ isChanged, result }) => {
      if (isChanged) changed()
      return result
    })
  )
}

/** Two transactions got in each other's way, and this one was the one to give way. */
const isCollision = ({ reason: { _tag } }: SqlError.SqlError): boolean =>
  _tag === "DeadlockError" || _tag === "SerializationError"
