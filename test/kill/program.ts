// What the killed processes run: an agent that asks for payments that may be repeated and for refunds that may not, and a
// note in the store's own database. What happens outside is appended to a file that belongs to no process.
import { Agent, AgentEngine, Effector, Intent, Memory, Tool } from "effect-intents"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SqlClient from "effect/sql/SqlClient"
import { appendFileSync } from "node:fs"

export interface Done {
  readonly tool: string
  readonly id: string
  readonly key: string
  readonly seq: number
  readonly step: number
  readonly attempt: number
  readonly pid: number
}

const parameters = { order: Schema.Int }

export const pay = Tool.sideEffect("pay", {
  description: "Pay an order; the idempotency key is passed on.",
  parameters,
  success: Schema.String,
  idempotent: true
})

export const refund = Tool.sideEffect("refund", {
  description: "Refund an order; nobody asks for a key.",
  parameters,
  success: Schema.String
})

export const record = Tool.sideEffect("record", {
  description: "Record an order in the store's database.",
  parameters,
  transactional: true,
  timeout: "10 seconds"
})

export const mail = Tool.sideEffect("mail", { description: "Send a mail.", parameters })

const tools = [pay, refund, record, mail] as const

/** Counts the orders of its key across three suspensions. */
export const orders = Agent.make(
  "orders",
  {
    event: Schema.Int,
    output: Schema.Struct({ order: Schema.Int, count: Schema.Int, refund: Schema.Literals(["refunded", "unknown"]) }),
    memory: { count: Memory.entry(Schema.Int, () => 0) }
  },
  Effect.fnUntraced(function*(ctx, order) {
    yield* ctx.memory.update("count", (count) => count + 1)
    yield* ctx.request(pay({ order }))
    const refunded = yield* ctx.request(refund({ order })).pipe(
      Effect.as("refunded" as const),
      Effect.catchTag("IntentOutcomeUnknown", () => Effect.succeed("unknown" as const))
    )
    yield* ctx.request(record({ order }))
    yield* ctx.act(mail({ order }))
    return Agent.complete({ order, count: yield* ctx.memory.get("count"), refund: refunded })
  })
)

/** A durable store by its address: `postgres://…`, or the path of a SQLite file. */
export const storeAt = (db: string) =>
  Layer.unwrap(
    // A process killed with SIGKILL loses no page of the file, whatever was synchronised.
    db.startsWith("postgres://")
      ? Effect.map(
        Effect.promise(() => import("effect-intents/postgres")),
        ({ PostgresAgentStore }) => PostgresAgentStore.layer({ url: Redacted.make(db) })
      )
      : Effect.map(
        Effect.promise(() => import("effect-intents/sqlite")),
        ({ SqliteAgentStore }) =>
          SqliteAgentStore.layer({ filename: db, synchronous: "normal", busyTimeout: "20 seconds" })
      )
  )

/** The table the transactional tool writes to. A second row of one intent would be an error of its own. */
export const createRecords = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql.unsafe("CREATE TABLE records (intent TEXT NOT NULL, key TEXT NOT NULL)")
)

const handlers = (effects: string) => {
  const happens = (tool: string) =>
    Effect.gen(function*() {
      const { attempt, id, key, seq, step } = yield* Intent.Current
      const done: Done = { tool, id, key, seq, step, attempt, pid: process.pid }
      yield* Effect.sync(() => appendFileSync(effects, `${JSON.stringify(done)}\n`))
    })
  return Layer.mergeAll(
    pay.toLayer(() => Effect.as(happens("pay"), "paid")),
    refund.toLayer(() => Effect.as(happens("refund"), "refunded")),
    mail.toLayer(() => happens("mail")),
    record.toLayer(() =>
      Effect.gen(function*() {
        const sql = yield* SqlClient.SqlClient
        const { id, key } = yield* Intent.Current
        yield* Effect.orDie(sql`INSERT INTO records (intent, key) VALUES (${id}, ${key})`)
      })
    )
  )
}

export const lease = 1000

const effector = (effects: string) =>
  Effector.layerWith({ lease, concurrency: 16 })(...tools).pipe(Layer.provide(handlers(effects)))

/** The layers of a process by what it does. */
export const layerOf = (role: string, db: string, effects: string): Layer.Layer<any, unknown> => {
  const store = storeAt(db)
  if (role === "effector") return Layer.provide(effector(effects), store)
  const performed = role === "engine" ? Effector.elsewhere(...tools) : effector(effects)
  return AgentEngine.layer(orders).pipe(Layer.provide(performed), Layer.provide(store))
}
