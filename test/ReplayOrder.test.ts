import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber } from "effect"
import { Journal } from "../src/index.ts"
import * as ReplayOrder from "../src/ReplayOrder.ts"

const now = { startImmediately: true }

/** A journal of reads in this order, and a way to ask for them. */
const replay = (size: number) => {
  const rows: Array<Journal.Stored> = []
  for (let position = 0; position < size; position++) {
    const row = {
      type: "read" as const,
      segment: 0,
      tool: "lookup",
      digest: `${position}`,
      occurrence: 0,
      outcome: { _tag: "Success" as const, value: position }
    }
    rows.push(Journal.seal(rows.at(-1)?.check ?? "", position, row))
  }
  const opened = Journal.open({ agent: "a", key: "k", rows, committed: size, since: 0, segment: 1 })
  if (opened._tag === "Failure") throw opened.failure
  const journal = opened.success
  const order = ReplayOrder.make(journal, Context.empty())
  const given: Array<number> = []
  const ask = (position: number) =>
    Effect.map(order.turn(rows[position]!), () => {
      journal.pass(rows[position]!)
      given.push(position)
    })
  return { ask, given }
}

describe("a replay", () => {
  it.effect("gives what comes next at once, without a turn of the scheduler", () =>
    Effect.gen(function*() {
      const { ask, given } = replay(3)
      const fiber = yield* Effect.forkChild(Effect.all([ask(0), ask(1), ask(2)]), now)
      assert.isDefined(fiber.pollUnsafe())
      assert.deepStrictEqual(given, [0, 1, 2])
    }))

  it.effect("gives everything in its order, in whatever order it is asked for", () =>
    Effect.gen(function*() {
      const { ask, given } = replay(500)
      const positions = Array.from({ length: 500 }, (_, index) => (index * 37) % 500)
      yield* Effect.forEach(positions, ask, { concurrency: "unbounded" })
      assert.deepStrictEqual(given, positions.toSorted((a, b) => a - b))
    }))

  it.effect("lets whoever is given something go on, up to its next question, before the next one", () =>
    Effect.gen(function*() {
      const { ask, given } = replay(4)
      yield* Effect.all([Effect.andThen(ask(2), ask(3)), Effect.andThen(ask(0), ask(1))], { concurrency: 2 })
      assert.deepStrictEqual(given, [0, 1, 2, 3])
    }))

  it.effect("waits for nobody for ever: what nobody asks for is passed over, the rest keeps its order", () =>
    Effect.gen(function*() {
      const { ask, given } = replay(6)
      yield* Effect.forEach([5, 1, 3], ask, { concurrency: "unbounded" })
      assert.deepStrictEqual(given, [1, 3, 5])
      yield* ask(4)
      assert.deepStrictEqual(given, [1, 3, 5, 4])
    }))

  it.effect("forgets whoever was interrupted while it waited", () =>
    Effect.gen(function*() {
      const { ask, given } = replay(3)
      const waiting = yield* Effect.forkChild(ask(1), now)
      yield* Fiber.interrupt(waiting)
      yield* Effect.all([ask(2), ask(0)], { concurrency: 2 })
      assert.deepStrictEqual(given, [0, 2])
    }))
})
