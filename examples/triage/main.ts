/**
 * `npm start`: account events from a file through the triage agent, and a summary.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Layer, Logger, Option, Runtime, Schema } from "effect"
import { AgentEngine, Effector } from "effect-intents"
import { Command, Flag } from "effect/cli"
import { fileURLToPath } from "node:url"
import { triage } from "./agent.ts"
import { readLines } from "./input.ts"
import * as Outside from "./outside.ts"
import { progress, report } from "./report.ts"
import { run } from "./run.ts"
import { outsideOf, storeAt } from "./store.ts"
import { freezeAccount, pageAnalyst, refund } from "./tools.ts"

/** Everything that runs here. A claim of a process that died is free again after two seconds. */
const live = (db: string, crashAt: number | undefined) =>
  AgentEngine.layer(triage).pipe(
    Layer.provide([Effector.layerWith({ lease: "2 seconds" })(freezeAccount, pageAnalyst, refund), Outside.Reads]),
    Layer.provide(Outside.SideEffects),
    Layer.provideMerge([Outside.layer(outsideOf(db), crashAt), storeAt(db)])
  )

/** How the process ends. What there is to say was printed before. */
class Exit extends Schema.TaggedError<Exit>()("Exit", { code: Schema.Int }) {
  override readonly [Runtime.errorExitCode] = this.code
  override readonly [Runtime.errorReported] = false
}

const command = Command.make(
  "triage",
  {
    events: Flag.String("events").pipe(
      Flag.withMetavar("PATH"),
      Flag.withDescription(
        "A file with one event per line, or - for standard input. Default: the events shipped with it."
      ),
      Flag.withDefault(fileURLToPath(new URL("events.ndjson", import.meta.url)))
    ),
    db: Flag.String("db").pipe(
      Flag.withMetavar("PATH|URL"),
      Flag.withDescription(
        "Where the agents live: a SQLite file, postgres://…, or memory. Run again, it goes on there."
      ),
      Flag.withDefault(".effect-intents/triage.db")
    ),
    crashAt: Flag.Int("crash-at").pipe(
      Flag.withMetavar("N"),
      Flag.withDescription(
        "Kill the process at the Nth effect, before it is recorded. Run again, it finishes the work."
      ),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the summary as one JSON object."),
      Flag.withDefault(false)
    )
  },
  Effect.fnUntraced(
    function*({ crashAt, db, events, json }) {
      const program = run(readLines(events), yield* progress)
      const summary = yield* Effect.provide(program, live(db, Option.getOrUndefined(crashAt)))
      yield* Console.log(json ? JSON.stringify(summary) : report(summary))
      if (summary.deadLetters.length + summary.outside.twice > 0) return yield* new Exit({ code: 1 })
    }
  )
).pipe(Command.withDescription("Sorts account events by how much they look like fraud."))

const cannot = (what: string, { message }: { readonly message: string }) =>
  Effect.andThen(Console.error(`triage: cannot ${what}: ${message}`), Effect.fail(new Exit({ code: 1 })))

const main = Command.run(command, { version: "0.1.0" }).pipe(
  Effect.catchTags({
    // The help and the error were printed; asked for, the help is no error.
    ShowHelp: ({ errors }) => errors.length === 0 ? Effect.void : Effect.fail(new Exit({ code: 2 })),
    SqlError: (error) => cannot("open the store", error),
    SchemaVersionError: (error) => cannot("open the store", error),
    PlatformError: (error) => cannot("read the events", error)
  }),
  Effect.provide([NodeServices.layer, Layer.succeed(Logger.LogToStderr, true)])
)

NodeRuntime.runMain(main)
