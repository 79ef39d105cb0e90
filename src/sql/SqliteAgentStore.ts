/**
 * The embedded store: one SQLite file, through `node:sqlite`. Several processes may use one file.
 *
 * Guarantees: what is acknowledged survives the process and the machine (WAL, `synchronous=FULL`).
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import * as AgentStore from "../AgentStore.ts"
import * as SqlAgentStore from "./SqlAgentStore.ts"
import * as SqlDialect from "./SqlDialect.ts"
import * as SqliteClient from "./SqliteClient.ts"
import type * as SqlSchema from "./SqlSchema.ts"

/**
 * Where the file is and how it is used. `pollInterval` is how soon changes of other processes are seen, at least 50
 * milliseconds, which is the default.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends SqliteClient.Options, SqlAgentStore.Options {}

/**
 * A store in a file, with the `SqlClient` of that file for transactional tools.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<AgentStore.AgentStore | SqlClient.SqlClient, SqlError.SqlError | SqlSchema.SchemaVersionError> =>
  Layer.provideMerge(Layer.effect(AgentStore.AgentStore, make(options)), SqliteClient.layer(options))

// internal

const make = (options: SqlAgentStore.Options) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => {
    const interval = Math.max(50, Duration.toMillis(Duration.fromInputUnsafe(options.pollInterval ?? 50)))
    const version = Effect.map(
      sql.unsafe<{ data_version: number }>("PRAGMA data_version"),
      ([row]) => row?.data_version
    )
    return SqlAgentStore.make(
      {
        dialect: SqlDialect.sqlite,
        // Others see the file change.
        signal: () => Effect.void,
        watch: (changed) => {
          let seen: number | undefined
          const look = Effect.map(version, (found) => {
            if (seen !== undefined && found !== seen) changed()
            seen = found
          })
          // What cannot be read now is looked at again: whoever uses the store meets the failure as well.
          return Effect.forever(Effect.andThen(Effect.ignore(look), Effect.sleep(interval)))
        }
      },
      options
    )
  })
