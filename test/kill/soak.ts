// `npm run soak`: one engine and three effectors, killed at random, over many orders; then everything that is promised is
// checked. Ends with 1 where a promise was broken.
import { NodeRuntime } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { parseArgs } from "node:util"
import { folder } from "../fixtures/folder.ts"
import { startServer, stopServer } from "../fixtures/postgres-server.ts"
import { freshDatabaseOn } from "../fixtures/postgres.ts"
import { seeded } from "../fixtures/random.ts"
import { ended, inspect, prepare, settled, start, stop, type World } from "./driver.ts"

const help = `npm run soak -- [options]

  --store sqlite|postgres   where the agents live (default sqlite; postgres: DATABASE_URL, or a server of its own)
  --events N                orders, four intents each (default 10000)
  --keys N                  customers (default 500)
  --every MS                milliseconds between two kills (default 1500)
  --minutes N               gives up after so long (default 60)
  --seed N                  brings the same kills again
`

const { values } = parseArgs({
  options: {
    store: { type: "string", default: "sqlite" },
    events: { type: "string", default: "10000" },
    keys: { type: "string", default: "500" },
    every: { type: "string", default: "1500" },
    minutes: { type: "string", default: "60" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    help: { type: "boolean", default: false }
  }
})

const [events, keys, every, minutes, seed] = [values.events, values.keys, values.every, values.minutes, values.seed]
  .map(Number) as [number, number, number, number, number]

const postgres: Effect.Effect<string, unknown, Scope.Scope> = Effect.flatMap(
  Effect.acquireRelease(Effect.sync(startServer), (server) => Effect.sync(() => stopServer(server))),
  ({ url }) => freshDatabaseOn(url)
)

const soak = Effect.gen(function*() {
  const outside = yield* folder
  const db = values.store === "postgres" ? yield* postgres : `${outside}/agents.db`
  const world: World = { db, effects: `${outside}/effects` }
  console.log(`${events} orders of ${keys} customers over ${values.store}, --seed ${seed}`)
  yield* prepare(world, keys, events)
  const random = seeded(seed)
  const roles = ["engine", "effector", "effector", "effector"] as const
  const running = yield* Effect.forEach(roles, (role) => start(world, role))
  let kills = 0
  const killing = yield* Effect.forkChild(Effect.gen(function*() {
    while (true) {
      yield* Effect.sleep(every * (0.5 + random()))
      const index = Math.floor(random() * roles.length)
      running[index]!.kill("SIGKILL")
      yield* ended(running[index]!)
      kills++
      running[index] = yield* start(world, roles[index]!)
    }
  }))
  const began = performance.now()
  let told = 0
  const done = yield* settled(world, events, minutes * 60_000, (ended) => {
    const now = performance.now()
    if (now - told < 5000) return
    told = now
    console.log(`${Math.round((now - began) / 1000)} s: ${ended} of ${events} orders, ${kills} kills`)
  })
  yield* Fiber.interrupt(killing)
  yield* Effect.forEach(running, stop, { concurrency: "unbounded" })
  const { effects, performed, repeated, unknown, wrong } = yield* inspect(world, keys, events, kills)
  console.log(
    `${done} orders ended in ${
      Math.round((performance.now() - began) / 1000)
    } s, ${kills} kills: ${performed} intents performed, `
      + `${unknown} unknown, ${effects} effects outside, ${repeated} of them the same again under the same key`
  )
  for (const line of wrong.slice(0, 20)) console.error(line)
  console.log(wrong.length === 0 ? "every promise was kept" : `${wrong.length} promises were broken; --seed ${seed}`)
  return wrong.length === 0 && done >= events
})

if (values.help) {
  console.log(help)
} else {
  // Ctrl-C stops the processes it has started.
  NodeRuntime.runMain(Effect.scoped(Effect.map(soak, (kept) => void (process.exitCode = kept ? 0 : 1))))
}
