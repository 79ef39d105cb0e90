/**
 * The store for many processes and machines: Postgres, through `@effect/sql-pg`.
 *
 * Guarantees: times are the server's, whatever the clocks of the processes say. Changes are told by `NOTIFY`, once per
 * transaction, and looked for now and then where a notice was lost.
 *
 * @since 0.1.0
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import * as AgentStore from "../AgentStore.ts"
import * as SqlAgentStore from "./SqlAgentStore.ts"
import * as SqlDialect from "./SqlDialect.ts"
import type * as SqlSchema from "./SqlSchema.ts"

/**
 * Where the database is and how it is used. `pollInterval` is how soon changes of other processes are seen where a notice was
 * lost; default 2 seconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends SqlAgentStore.Options {
  /** `postgres://user:password@host:port/database`. */
  readonly url: Redacted.Redacted
  /** How many connections are used at most, one of them to listen. Default 10. */
  readonly maxConnections?: number
}

/**
 * A store in a database, with the `SqlClient` of that database for transactional tools.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  { maxConnections = 10, url, ...options }: Options
): Layer.Layer<
  AgentStore.AgentStore | SqlClient.SqlClient | PgClient.PgClient,
  SqlError.SqlError | SqlSchema.SchemaVersionError
> =>
  Layer.provideMerge(
    Layer.effect(AgentStore.AgentStore, make(options)),
    PgClient.layer({ url, maxConnections, applicationName: "effect-intents" })
  )

// internal

const channel = "effect_intents"

const make = (options: SqlAgentStore.Options) =>
  Effect.flatMap(PgClient.PgClient, (pg) => {
    // Told to others only: this process knows what it did itself.
    const self = crypto.randomUUID()
    const interval = Duration.fromInputUnsafe(options.pollInterval ?? "2 seconds")
    return SqlAgentStore.make(
      {
        dialect: SqlDialect.postgres,
        signal: (session) => Effect.asVoid(session.all("SELECT pg_notify(?, ?)", [channel, self])),
        watch: (changed) => {
          const listen = Effect.scoped(Effect.gen(function*() {
            const notices = yield* pg.listen(channel)
            // What was told while nobody listened.
            changed()
            while (true) {
              const { payload } = yield* Queue.take(notices)
              if (payload !== self) changed()
            }
          })).pipe(Effect.ignore, Effect.andThen(Effect.sleep("1 second")), Effect.forever)
          const poll = Effect.forever(Effect.andThen(Effect.sleep(interval), Effect.sync(changed)))
          return Effect.andThen(Effect.all([listen, poll], { concurrency: "unbounded" }), Effect.never)
        }
      },
      options
    )
  })
