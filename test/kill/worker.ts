// A process to be killed: `worker.ts ROLE DB EFFECTS [STEP NTH]`. It kills itself, as nobody else could at that very place, at
// the nth passage through a step.
import { Activation } from "effect-intents"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layerOf } from "./program.ts"

const [role = "both", db = "", effects = "", step, nth] = process.argv.slice(2)

let passed = 0
const checkpoint = (passing: string) =>
  Effect.suspend(() => {
    if (passing !== step || ++passed !== Number(nth)) return Effect.void
    process.kill(process.pid, "SIGKILL")
    return Effect.never
  })

const running = Effect.runFork(
  Layer.launch(Layer.provide(layerOf(role, db, effects), Layer.succeed(Activation.Checkpoint, checkpoint)))
)
running.addObserver((exit) => {
  if (exit._tag === "Failure" && process.exitCode === undefined) {
    console.error(String(exit.cause))
    process.exitCode = 1
  }
})
process.on("SIGTERM", () => {
  process.exitCode = 0
  running.interruptUnsafe()
})
