import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { SqliteClient } from "../../src/sqlite/index.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-intents-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

const inMemory = SqliteClient.layer({ filename: ":memory:" })

const test = (
  name: string,
  body: (sql: SqlClient.SqlClient) => Effect.Effect<void, unknown>,
  layer: Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> = inMemory
) => it.effect(name, () => Effect.provide(Effect.flatMap(SqlClient.SqlClient, body), Layer.fresh(layer)))

const refused = (effect: Effect.Effect<unknown, SqlError.SqlError>) =>
  Effect.map(Effect.flip(effect), ({ message }) => message)

describe("values", () => {
  test("come back as they went in", (sql) =>
    Effect.gen(function*() {
      yield* sql`CREATE TABLE t (a, b, c, d, e, f)`
      const bytes = new Uint8Array([0, 255])
      const at = new Date("2026-12-04T00:00:00.000Z")
      yield* sql.unsafe("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ["zażółć\0", 1.5, true, null, bytes, at])
      const [row] = yield* sql`SELECT * FROM t`
      assert.deepStrictEqual({ ...row }, { a: "zażółć\0", b: 1.5, c: 1, d: null, e: bytes, f: at.toISOString() })
    }))

  for (
    const [name, value] of [
      ["undefined", undefined],
      ["NaN", NaN],
      ["Infinity", Infinity],
      ["a lone surrogate", "\ud800"],
      ["an object", { a: 1 }],
      ["an array", [1]],
      ["a Date that is none", new Date(NaN)]
    ] as const
  ) {
    test(`are refused where SQLite would store something else: ${name}`, (sql) =>
      Effect.gen(function*() {
        yield* sql`CREATE TABLE t (a, b)`
        assert.include(yield* refused(sql.unsafe("INSERT INTO t VALUES (?, ?)", [value, 1])), "SQLite has no value")
        assert.lengthOf(yield* sql`SELECT * FROM t`, 0)
      }))
  }

  test("beyond 2^53 are refused unless they are asked for as bigint, and nothing is executed twice", (sql) =>
    Effect.gen(function*() {
      yield* sql`CREATE TABLE t (id INTEGER PRIMARY KEY)`
      const big = 2n ** 62n
      yield* sql`INSERT INTO t VALUES (${big})`
      yield* sql`INSERT INTO t VALUES (${1})`
      assert.include(yield* refused(sql`SELECT max(id) AS id FROM t`), "execute")
      const [row] = yield* Effect.provideService(sql`SELECT max(id) AS id FROM t`, SqlClient.SafeIntegers, true)
      assert.strictEqual(row!["id"], big)
      assert.deepStrictEqual((yield* sql`SELECT count(*) AS n FROM t`).map((row) => row["n"]), [2])
    }))
})

describe("statements", () => {
  test("are refused where a text holds several, before the first is run", (sql) =>
    Effect.gen(function*() {
      yield* sql`CREATE TABLE t (a)`
      assert.include(yield* refused(sql.unsafe("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")), "one statement")
      assert.lengthOf(yield* sql`SELECT * FROM t`, 0)
      yield* sql.unsafe("INSERT INTO t VALUES (1); -- and that was it\n")
      assert.lengthOf(yield* sql`SELECT * FROM t`, 1)
    }))

  test("that fail say what was wrong", (sql) =>
    Effect.gen(function*() {
      assert.include(yield* refused(sql`SELECT * FROM nowhere`), "no such table: nowhere")
      yield* sql`CREATE TABLE t (a PRIMARY KEY)`
      yield* sql`INSERT INTO t VALUES (1)`
      const { reason } = yield* Effect.flip(sql`INSERT INTO t VALUES (1)`)
      assert.include(["UniqueViolation", "ConstraintError"], reason._tag)
    }))

  test("are more than are kept prepared", (sql) =>
    Effect.gen(function*() {
      for (let index = 0; index < 1200; index++) {
        const [row] = yield* sql.unsafe<{ readonly n: number }>(`SELECT ${index % 600} AS n`)
        assert.strictEqual(row!.n, index % 600)
      }
    }))
})

describe("transactions", () => {
  test("are undone where they fail or are interrupted, and savepoints inside of them alone", (sql) =>
    Effect.gen(function*() {
      yield* sql`CREATE TABLE t (a)`
      const insert = (value: number) => sql`INSERT INTO t VALUES (${value})`
      yield* Effect.exit(sql.withTransaction(Effect.andThen(insert(1), Effect.fail("no"))))
      const hanging = yield* Effect.forkChild(sql.withTransaction(Effect.andThen(insert(2), Effect.never)))
      yield* Effect.yieldNow
      yield* Effect.yieldNow
      yield* Fiber.interrupt(hanging)
      yield* sql.withTransaction(Effect.gen(function*() {
        yield* insert(3)
        yield* Effect.exit(sql.withTransaction(Effect.andThen(insert(4), Effect.fail("no"))))
        yield* sql.withTransaction(insert(5))
      }))
      assert.deepStrictEqual((yield* sql`SELECT a FROM t`).map((row) => row["a"]), [3, 5])
    }))
})

describe("a file", () => {
  it.effect("that cannot be opened, or is no database, is named", () =>
    Effect.scoped(Effect.gen(function*() {
      const path = yield* folder
      const open = (filename: string) =>
        refused(Effect.scoped(Effect.asVoid(Layer.build(SqliteClient.layer({ filename })))))
      const missing = join(path, "no such folder", "agents.db")
      assert.include(yield* open(missing), missing)
      const text = join(path, "notes.txt")
      writeFileSync(text, "This is no database. ".repeat(100))
      assert.include(yield* open(text), text)
      assert.include(yield* open(text), "not a database")
    })))

  it.effect("is durable and shared: WAL, synchronous FULL", () =>
    Effect.scoped(Effect.gen(function*() {
      const filename = join(yield* folder, "agents.db")
      const pragmas = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const [mode] = yield* sql`PRAGMA journal_mode`
        const [synchronous] = yield* sql`PRAGMA synchronous`
        return [mode!["journal_mode"], synchronous!["synchronous"]]
      })
      const full = yield* Effect.provide(pragmas, SqliteClient.layer({ filename }))
      assert.deepStrictEqual(full, ["wal", 2])
      const normal = yield* Effect.provide(pragmas, SqliteClient.layer({ filename, synchronous: "normal" }))
      assert.deepStrictEqual(normal, ["wal", 1])
    })))

  it.effect("that another process writes to is waited for as long as the busy timeout, then refused; later it works", () =>
    Effect.scoped(Effect.gen(function*() {
      const filename = join(yield* folder, "agents.db")
      const other = new DatabaseSync(filename)
      const body = Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        yield* sql`CREATE TABLE t (a)`
        other.exec("BEGIN IMMEDIATE")
        const { reason } = yield* Effect.flip(sql`INSERT INTO t VALUES (1)`)
        assert.strictEqual(reason._tag, "LockTimeoutError")
        other.exec("ROLLBACK")
        yield* sql`INSERT INTO t VALUES (1)`
        assert.lengthOf(yield* sql`SELECT * FROM t`, 1)
      })
      yield* Effect.provide(body, SqliteClient.layer({ filename, busyTimeout: 50 }))
      other.close()
    })))

  test("that is full refuses, keeps what it has, and takes more when there is room", (sql) =>
    Effect.gen(function*() {
      yield* sql`CREATE TABLE t (a)`
      yield* sql`PRAGMA max_page_count = 10`
      const insert = sql`INSERT INTO t VALUES (${"x".repeat(30_000)})`
      yield* insert
      assert.include(yield* refused(insert), "full")
      assert.lengthOf(yield* sql`SELECT 1 FROM t`, 1)
      yield* sql`PRAGMA max_page_count = 100`
      yield* insert
      assert.lengthOf(yield* sql`SELECT 1 FROM t`, 2)
    }))
})
