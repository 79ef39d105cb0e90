/**
 * What every `AgentStore` promises, as tests: method by method, and where methods meet. A store of your own keeps the promises
 * when it passes, unchanged.
 *
 * Guarantees: nothing but the methods of the store is used, and no test depends on another.
 *
 * @since 0.1.0
 */
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import type * as AgentStore from "../../AgentStore.ts"
import { cancels } from "./Cancels.ts"
import { claims } from "./Claims.ts"
import { commits } from "./Commits.ts"
import { failures } from "./Failures.ts"
import type { Bench } from "./Fixture.ts"
import { inboxes } from "./Inboxes.ts"
import { journals } from "./Journals.ts"
import { listings } from "./Listings.ts"
import { moves } from "./Moves.ts"
import { times } from "./Times.ts"
import { wakings } from "./Wakings.ts"

/**
 * How a store is tested.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** How many events the store takes into the inbox of one key. Default 10,000; a small limit makes a quick test. */
  readonly inboxLimit?: number
  /**
   * Runs on the real clock, for a store whose work takes real time. `tick` is the unit in which tests wait, in milliseconds:
   * long enough for a handful of operations. `advance` lets time pass for the store; without it the test sleeps.
   */
  readonly live?: {
    readonly tick: number
    readonly advance?: (millis: number) => Effect.Effect<void>
  }
}

/**
 * Declares the suite for a store. Each build of the layer has to give an empty one. Runs under `TestClock`, unless `live` is
 * given.
 *
 * @since 0.1.0
 * @category testing
 */
export const suite = <E>(
  name: string,
  layer: Layer.Layer<AgentStore.AgentStore, E>,
  { inboxLimit = 10_000, live }: Options = {}
): void => {
  const tick = live?.tick ?? 60_000
  const pass = live === undefined ? TestClock.adjust : live.advance ?? Effect.sleep
  const tester = live === undefined ? it.effect : it.live
  const bench: Bench = {
    tick,
    inboxLimit,
    advance: (ticks) => pass(ticks * tick),
    test: (name, body) => tester(name, () => Effect.provide(body, Layer.fresh(layer)))
  }
  describe(`AgentStore: ${name}`, () => {
    for (const part of [inboxes, commits, journals, failures, cancels, claims, moves, wakings, times, listings]) {
      part(bench)
    }
  })
}
