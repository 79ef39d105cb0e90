/**
 * `npm start`: account events from a file through the triage agent, and a summary.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Layer, Logger, Runtime, Schema } from "effect"
import { AgentEngine, AgentStore, Effector } from "effect-intents"
import { Command, Flag } from "effect/cli"
import { fileURLToPath } from "node:url"
import { triage } from "./agent.ts"
import { readLines } from "./input.ts"
import { Outside, Reads, SideEffects } from "./outside.ts"
import { progress, report } from "./report.ts"
import { run } from "./run.ts"
import { freezeAccount, pageAnalyst, refund } from "./tools.ts"

const Live = AgentEngine.layer(triage).pipe(
  Layer.provide([Effector.layer(freezeAccount, pageAnalyst, refund), Reads]),
  Layer.provide(SideEffects),
  Layer.provideMerge([Outside.layer, AgentStore.layerMemory])
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
    json: Flag.Boolean("json").pipe(
      Flag.withDescription("Print the summary as one JSON object."),
      Flag.withDefault(false)
    )
  },
  Effect.fnUntraced(
    function*({ events, json }) {
      const summary = yield* run(readLines(events), yield* progress)
      yield* Console.log(json ? JSON.stringify(summary) : report(summary))
      if (summary.deadLetters.length + summary.outside.twice > 0) return yield* new Exit({ code: 1 })
    },
    Effect.provide(Live)
  )
).pipe(Command.withDescription("Sorts account events by how much they look like fraud."))

const main = Command.run(command, { version: "0.1.0" }).pipe(
  Effect.catchTags({
    // The help and the error were printed; asked for, the help is no error.
    ShowHelp: ({ errors }) => errors.length === 0 ? Effect.void : Effect.fail(new Exit({ code: 2 })),
    PlatformError: (error) =>
      Effect.andThen(
        Console.error(`triage: cannot read the events: ${error.message}`),
        Effect.fail(new Exit({ code: 1 }))
      )
  }),
  Effect.provide([NodeServices.layer, Layer.succeed(Logger.LogToStderr, true)])
)

NodeRuntime.runMain(main)
