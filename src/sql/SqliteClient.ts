/**
 * An `SqlClient` over `node:sqlite`: one connection to one file.
 *
 * Guarantees: WAL, and `synchronous=FULL` unless told otherwise: what is committed survives the machine. Refuses values that
 * SQLite would silently store as something else.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlConnection from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { DatabaseSync, type StatementSync } from "node:sqlite"

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The path of the file, which is made where there is none; `:memory:` for a database that ends with the process. */
  readonly filename: string
  /** How long a statement waits for another process that writes. It blocks this process meanwhile. Default 5 seconds. */
  readonly busyTimeout?: Duration.Input
  /** `"normal"` is faster and may lose the last commits with the machine's power. Default `"full"`. */
  readonly synchronous?: "full" | "normal"
}

/**
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.provide(Layer.effect(SqlClient.SqlClient, make(options)), Reactivity.layer)

/**
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<SqlClient.SqlClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function*() {
    const db = yield* Effect.acquireRelease(open(options), (db) => Effect.sync(() => db.close()))
    const cache = new Map<string, StatementSync>()
    const statement = (text: string): StatementSync => {
      const known = cache.get(text)
      if (known !== undefined) return known
      const made = db.prepare(text)
      if (cache.size >= 512) cache.delete(cache.keys().next().value!)
      cache.set(text, made)
      return made
    }
    const run = (text: string, params: ReadonlyArray<unknown>, mode: "rows" | "raw" | "values") =>
      Effect.withFiber<any, SqlError.SqlError>((fiber) =>
        attempt("execute", () => {
          const prepared = statement(text)
          prepared.setReadBigInts(fiber.getRef(SqlClient.SafeIntegers))
          prepared.setReturnArrays(mode === "values")
          const bound = params.map(bind)
          if (prepared.columns().length > 0) return prepared.all(...bound)
          prepared.setReadBigInts(true)
          const result = prepared.run(...bound)
          return mode === "raw" ? result : []
        })
      )
    const transformed = (mode: "rows") =>
    (
      text: string,
      params: ReadonlyArray<unknown>,
      transform: ((rows: ReadonlyArray<any>) => ReadonlyArray<any>) | undefined
    ) => transform === undefined ? run(text, params, mode) : Effect.map(run(text, params, mode), transform)
    const connection: SqlConnection.Connection = {
      execute: transformed("rows"),
      executeUnprepared: transformed("rows"),
      executeRaw: (text, params) => run(text, params, "raw"),
      executeValues: (text, params) => run(text, params, "values"),
      executeValuesUnprepared: (text, params) => run(text, params, "values"),
      executeStream: () => Stream.die("streams are not supported")
    }
    return yield* SqlClient.make({
      ...SqlClient.makeSqliteAcquirers({
        connection: Effect.succeed(connection),
        semaphore: yield* Semaphore.make(1),
        isTransaction: () => db.isTransaction
      }),
      compiler: Statement.makeCompilerSqlite(),
      driver: "sqlite-node",
      beginTransaction: "BEGIN IMMEDIATE",
      releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "sqlite"]]
    })
  })

// internal

const open = ({ busyTimeout = "5 seconds", filename, synchronous = "full" }: Options) =>
  attempt(`open '${filename}'`, () => {
    const db = new DatabaseSync(filename)
    const millis = Duration.toMillis(Duration.fromInputUnsafe(busyTimeout))
    db.exec(`PRAGMA busy_timeout = ${millis}; PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`)
    return db
  })

const attempt = <A>(operation: string, body: () => A) =>
  Effect.try({
    try: body,
    catch: (cause: any) =>
      new SqlError.SqlError({
        reason: SqlError.classifySqliteError(Object.assign(cause, { errno: cause.errcode }), {
          message: cause.message,
          operation
        })
      })
  })

const bind = (value: unknown): any => {
  switch (typeof value) {
    case "boolean":
      return value ? 1 : 0
    case "number":
      if (Number.isFinite(value)) return value
      break
    case "string":
      if (value.isWellFormed()) return value
      break
    case "bigint":
      return value
    case "object":
      if (value === null || value instanceof Uint8Array) return value
      if (value instanceof Date) return value.toISOString()
  }
  throw new TypeError(`SQLite has no ${String(value)}`)
}
