/**
 * What SQLite and Postgres spell differently, under what the store says once: rows written many at a time, and rows looked up
 * for each of many keys.
 *
 * Guarantees: SQLite runs a prepared statement per row on its one connection; Postgres gets one statement for all of them.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as SqlConnection from "effect/sql/SqlConnection"
import type * as SqlError from "effect/sql/SqlError"

/**
 * The types of columns.
 *
 * @since 0.1.0
 * @category models
 */
export type Type = "int" | "real" | "text"

/**
 * Columns and their types.
 *
 * @since 0.1.0
 * @category models
 */
export type Columns = { readonly [name: string]: Type }

/**
 * A row of columns by name.
 *
 * @since 0.1.0
 * @category models
 */
export type Row = { readonly [name: string]: string | number | null }

/**
 * A connection, spoken to in one dialect.
 *
 * @since 0.1.0
 * @category models
 */
export interface Session {
  /** Runs one statement; `?` are its parameters. */
  readonly all: (text: string, params?: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<any>, SqlError.SqlError>
  /** The rows a select gives for each of many; `:name` stands for a column of one. */
  readonly each: (
    columns: Columns,
    rows: ReadonlyArray<Row>,
    select: string
  ) => Effect.Effect<ReadonlyArray<any>, SqlError.SqlError>
  readonly insert: (
    table: string,
    columns: Columns,
    rows: ReadonlyArray<Row>,
    conflict?: string
  ) => Effect.Effect<void, SqlError.SqlError>
  /** Sets columns of the rows that are found by `by`. With `keep`, `null` leaves these columns as they are. */
  readonly update: (
    table: string,
    by: string,
    columns: Columns,
    rows: ReadonlyArray<Row>,
    keep?: ReadonlyArray<string>
  ) => Effect.Effect<void, SqlError.SqlError>
  /** Removes what a condition says for each of many; `:name` stands for a column of one. */
  readonly remove: (
    table: string,
    columns: Columns,
    rows: ReadonlyArray<Row>,
    where: string
  ) => Effect.Effect<void, SqlError.SqlError>
  /** So many numbers, each greater than those given out before to whoever holds the same rows. */
  readonly reserve: (sequence: string, count: number) => Effect.Effect<ReadonlyArray<number>, SqlError.SqlError>
  /** The time of the store, in milliseconds. */
  readonly now: Effect.Effect<number, SqlError.SqlError>
}

/**
 * A dialect.
 *
 * @since 0.1.0
 * @category models
 */
export interface Dialect {
  readonly name: "sqlite" | "postgres"
  /** Selects the rows of some ids in the order of these ids, and keeps them as they are until the transaction ends. */
  readonly lock: (columns: string, table: string) => string
  /** Ids as the one parameter of `lock`. */
  readonly ids: (ids: ReadonlyArray<number>) => string
  readonly on: (connection: Pick<SqlConnection.Connection, "execute">) => Session
}

/**
 * SQLite. Times are those of this process: all processes on one file share a machine.
 *
 * @since 0.1.0
 * @category dialects
 */
export const sqlite: Dialect = {
  name: "sqlite",
  lock: (columns, table) => `SELECT ${columns} FROM ${table} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`,
  ids: (ids) => JSON.stringify(ids),
  on: (connection) => {
    const run = (text: string, params: ReadonlyArray<unknown>) => connection.execute(text, params, undefined)
    const forEach = (text: string, names: ReadonlyArray<string>, rows: ReadonlyArray<Row>) =>
      Effect.forEach(rows, (row) => run(text, names.map((name) => row[name])), { discard: true })
    const positional = (text: string) => {
      const names: Array<string> = []
      const positional = text.replace(parameter, (_, name: string) => {
        names.push(name)
        return "?"
      })
      return { names, text: positional }
    }
    return {
      all: (text, params = []) => run(text, params),
      each: (_, rows, select) => {
        const { names, text } = positional(select)
        return Effect.map(
          Effect.forEach(rows, (row) => run(text, names.map((name) => row[name]))),
          (found) => found.flat()
        )
      },
      remove: (table, _, rows, where) => {
        const { names, text } = positional(where)
        return forEach(`DELETE FROM ${table} WHERE ${text}`, names, rows)
      },
      insert: (table, columns, rows, conflict = "") => {
        const names = Object.keys(columns)
        const values = names.map(() => "?").join(", ")
        return forEach(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${values}) ${conflict}`, names, rows)
      },
      update: (table, by, columns, rows, keep = []) => {
        const names = Object.keys(columns).filter((name) => name !== by)
        const sets = names.map((name) => keep.includes(name) ? `${name} = coalesce(?, ${name})` : `${name} = ?`)
        return forEach(`UPDATE ${table} SET ${sets.join(", ")} WHERE ${by} = ?`, [...names, by], rows)
      },
      reserve: (sequence, count) =>
        Effect.map(
          run(
            "INSERT INTO ei_counters (name, value) VALUES (?, ?) "
              + "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value RETURNING value",
            [sequence, count]
          ),
          ([{ value }]) => Array.from({ length: count }, (_, index) => Number(value) - count + 1 + index)
        ),
      now: Clock.currentTimeMillis
    }
  }
}

/**
 * Postgres. Times are the server's.
 *
 * @since 0.1.0
 * @category dialects
 */
export const postgres: Dialect = {
  name: "postgres",
  lock: (columns, table) => `SELECT ${columns} FROM ${table} WHERE id = ANY(?::text::bigint[]) ORDER BY id FOR UPDATE`,
  ids: (ids) => `{${ids.join(",")}}`,
  on: (connection) => {
    const run = (text: string, params: ReadonlyArray<unknown>) =>
      Effect.map(connection.execute(text, params, undefined), withNumbers)
    const record = (columns: Columns) =>
      `json_to_recordset($1::text::json) AS v(${
        Object.entries(columns).map(([name, type]) => `${name} ${postgresTypes[type]}`).join(", ")
      })`
    return {
      all: (text, params = []) => {
        let index = 0
        return run(text.replaceAll("?", () => `$${++index}`), params)
      },
      each: (columns, rows, select) =>
        run(
          `SELECT q.* FROM ${record(columns)} CROSS JOIN LATERAL (${select.replace(parameter, "v.$1")}) AS q`,
          [JSON.stringify(rows)]
        ),
      insert: (table, columns, rows, conflict = "") => {
        const names = Object.keys(columns).join(", ")
        return Effect.asVoid(
          run(`INSERT INTO ${table} (${names}) SELECT ${names} FROM ${record(columns)} ${conflict}`, [
            JSON.stringify(rows)
          ])
        )
      },
      update: (table, by, columns, rows, keep = []) => {
        const sets = Object.keys(columns).filter((name) => name !== by).map((name) =>
          keep.includes(name) ? `${name} = coalesce(v.${name}, t.${name})` : `${name} = v.${name}`
        )
        return Effect.asVoid(
          run(`UPDATE ${table} AS t SET ${sets.join(", ")} FROM ${record(columns)} WHERE t.${by} = v.${by}`, [
            JSON.stringify(rows)
          ])
        )
      },
      remove: (table, columns, rows, where) =>
        Effect.asVoid(
          run(`DELETE FROM ${table} USING ${record(columns)} WHERE ${where.replace(parameter, "v.$1")}`, [
            JSON.stringify(rows)
          ])
        ),
      reserve: (sequence, count) =>
        Effect.map(
          run(`SELECT nextval('ei_${sequence}_offsets') AS value FROM generate_series(1, $1::int)`, [count]),
          (rows) => rows.map(({ value }) => Number(value))
        ),
      now: Effect.map(
        run("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now", []),
        ([{ now }]) => Math.floor(Number(now))
      )
    }
  }
}

// internal

/** A `bigint` column comes as a bigint; none of ours grows beyond 2^53. */
const withNumbers = (rows: ReadonlyArray<any>): ReadonlyArray<any> => {
  const [first] = rows
  if (first === undefined) return rows
  const columns = Object.keys(first)
  for (const row of rows) {
    for (const column of columns) if (typeof row[column] === "bigint") row[column] = Number(row[column])
  }
  return rows
}

/** A column of the row a select is run for; not the cast `::type`. */
const parameter = /(?<!:):([a-z_]+)/g

const postgresTypes = { int: "bigint", real: "double precision", text: "text" } as const
