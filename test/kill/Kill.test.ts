import { assert, describe, it } from "@effect/vitest"
import { Crash } from "effect-intents/testing"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { folder } from "../fixtures/folder.ts"
import { freshDatabase } from "../fixtures/postgres.ts"
import { seeded } from "../fixtures/random.ts"
import { ended, inspect, prepare, settled, start, stop, type World } from "./driver.ts"

const stores: ReadonlyArray<readonly [name: string, db: Effect.Effect<string, unknown, Scope.Scope>]> = [
  ["SQLite", Effect.map(folder, (folder) => `${folder}/agents.db`)],
  ["Postgres", freshDatabase]
]

const world = (db: Effect.Effect<string, unknown, Scope.Scope>): Effect.Effect<World, unknown, Scope.Scope> =>
  Effect.gen(function*() {
    return { db: yield* db, effects: `${yield* folder}/effects` }
  })

for (const [store, db] of stores) {
  describe(`processes killed with SIGKILL, over ${store}`, () => {
    for (const step of Crash.steps) {
      it.live(`lose nothing and do nothing twice at ${step}`, () =>
        Effect.scoped(Effect.gen(function*() {
          const here = yield* world(db)
          yield* prepare(here, 2, 4)
          // The third passage: neither the first intent nor the last.
          const killed = yield* start(here, "both", { step, nth: 3 })
          assert.strictEqual(yield* ended(killed), "SIGKILL", `${step} was not hit`)
          const next = yield* start(here, "both")
          assert.strictEqual(yield* settled(here, 4, 20_000), 4)
          assert.strictEqual(yield* stop(next), 0)
          const { repeated, unknown, wrong } = yield* inspect(here, 2, 4, 1)
          assert.deepStrictEqual(wrong, [])
          // Only a start without a record is unknown, or done again where the tool may be.
          if (step !== "effector:execute" && step !== "effector:complete") {
            assert.isAtMost(unknown, step.startsWith("activation") ? 2 : 1)
          }
          if (step !== "effector:complete") assert.isAtMost(repeated, 1)
        })), 60_000)
    }

    it.live("at random, an engine and three effectors, keep every promise", () =>
      Effect.scoped(Effect.gen(function*() {
        const seed = Number(process.env["KILL_SEED"] ?? Date.now() % 1_000_000)
        console.log(`KILL_SEED=${seed}`)
        const random = seeded(seed)
        const here = yield* world(db)
        yield* prepare(here, 10, 40)
        const roles = ["engine", "effector", "effector", "effector"] as const
        const running = yield* Effect.forEach(roles, (role) => start(here, role))
        let kills = 0
        for (let round = 0; round < 6; round++) {
          yield* Effect.sleep(300 + random() * 700)
          const index = Math.floor(random() * roles.length)
          running[index]!.kill("SIGKILL")
          yield* ended(running[index]!)
          kills++
          running[index] = yield* start(here, roles[index]!)
        }
        assert.strictEqual(yield* settled(here, 40, 60_000), 40, `KILL_SEED=${seed}`)
        yield* Effect.forEach(running, stop, { concurrency: "unbounded" })
        const { wrong } = yield* inspect(here, 10, 40, kills)
        assert.deepStrictEqual(wrong, [], `KILL_SEED=${seed}`)
      })), 120_000)
  })
}
