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
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"

/**
 * Where the file is and how it is used.
 *
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
 * A client of a file. While a transaction is open, other queries of this process wait for it to end.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.provide(Layer.effect(SqlClient.SqlClient, make(options)), Reactivity.layer)

/**
 * `layer` as an effect; the end of the scope closes the file.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  options: Options
): Effect.Effect<SqlClient.SqlClient, SqlError.SqlError, Scope.Scope | Reactivity.Reactivity> =>
  Effect.gen(function*() {
    const db = yield* Effect.acquireRelease(open(options), (db) => Effect.sync(() => db.close()))
    const prepare = prepareIn(db)
    const run = (text: string, params: ReadonlyArray<unknown>, mode: "rows" | "raw" | "values") =>
      Effect.withFiber<any, SqlError.SqlError>((fiber) =>
        attempt("execute", () => {
          const { isReading, statement } = prepare(text)
          const bound = params.map(bind)
          if (isReading) {
            statement.setReadBigInts(fiber.getRef(SqlClient.SafeIntegers))
            statement.setReturnArrays(mode === "values")
            return statement.all(...bound)
          }
          // Else a row id beyond 2^53 throws after the statement has run.
          statement.setReadBigInts(true)
          const result = statement.run(...bound)
          return mode === "raw" ? result : []
        })
      )
    const execute: SqlConnection.Connection["execute"] = (text, params, transform) =>
      transform === undefined ? run(text, params, "rows") : Effect.map(run(text, params, "rows"), transform)
    const connection: SqlConnection.Connection = {
      execute,
      executeUnprepared: execute,
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
    const millis = Math.ceil(Duration.toMillis(Duration.fromInputUnsafe(busyTimeout)))
    try {
      db.exec(`PRAGMA busy_timeout = ${millis}; PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`)
      return db
    } catch (error) {
      // A file that is no database is found out here, and is not held open.
      db.close()
      throw error
    }
  })

interface Prepared {
  readonly statement: StatementSync
  readonly isReading: boolean
}

/** Prepares statements, and keeps those that were used last. */
const prepareIn = (db: DatabaseSync) => {
  const known = new Map<string, Prepared>()
  return (text: string): Prepared => {
    const found = known.get(text)
    if (found !== undefined) {
      known.delete(text)
      known.set(text, found)
      return found
    }
    const statement = db.prepare(text)
    // SQLite would run the first of several statements and say nothing of the rest.
    if (/[^\s;]/.test(withoutComments(text.slice(statement.sourceSQL.length)))) {
      throw new TypeError(`one statement at a time, not: ${text.slice(0, 200)}`)
    }
    const prepared = { statement, isReading: statement.columns().length > 0 }
    if (known.size >= 512) known.delete(known.keys().next().value!)
    known.set(text, prepared)
    return prepared
  }
}

const withoutComments = (text: string): string => text.replace(/--[^\n]*|\/\*[\s\S]*?\*\//g, "")

/** As node:sqlite throws it. */
type SqliteError = Error & { readonly errcode?: number | undefined; errno?: number | undefined }

const attempt = <A>(operation: string, body: () => A) =>
  Effect.try({
    try: body,
    catch: (error) => {
      const cause: SqliteError = error instanceof Error ? error : new Error(String(error))
      cause.errno = cause.errcode
      const message = `${operation}: ${cause.message}`
      return new SqlError.SqlError({ reason: SqlError.classifySqliteError(cause, { message, operation }) })
    }
  })

/** A value as node:sqlite keeps it; it would take what is refused here for something else. */
const bind = (value: unknown): SQLInputValue => {
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
      if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString()
  }
  throw new TypeError(`SQLite has no value for a parameter that is ${kindOf(value)}`)
}

const kindOf = (value: unknown): string =>
  typeof value === "string" ? "ill-formed text" : typeof value === "object" ? "an object" : String(value)
