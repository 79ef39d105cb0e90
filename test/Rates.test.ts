/**
 * How many handlers of a tool an effector starts within a span of time.
 */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Layer, Schedule } from "effect"
import { TestClock } from "effect/testing"
import { AgentEngine, AgentStore } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { chargeWith, desk } from "./fixtures/desk.ts"

const engine = AgentEngine.AgentEngine

/** Lets time pass, second by second. */
const pass = (seconds: number) => Effect.repeat(TestClock.adjust("1 second"), { times: seconds - 1 })

/** Handlers that note in which second they were started, by tool. */
const noting = (tool: ReturnType<typeof chargeWith>, script: Desk.Script = () => Effect.succeed("receipt")) => {
  const starts: { charge: Array<number>; sendEmail: Array<number> } = { charge: [], sendEmail: [] }
  const note = (name: "charge" | "sendEmail"): Desk.Script => (intent) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      starts[name].push(now / 1000)
      return script(intent)
    })
  return { starts, handlers: Desk.outside([], { charge: note("charge"), sendEmail: note("sendEmail") }, tool) }
}

const sendAll = (keys: ReadonlyArray<string>, order: typeof Desk.Order.Type) =>
  Effect.flatMap(engine, ({ send }) => Effect.forEach(keys, (key) => send(desk, { key, event: [order] })))

const charging = { do: "act", cents: 5 } as const
const mailing = { do: "act", mail: "hello" } as const

describe("a tool with a rate", () => {
  const limited = chargeWith({ rate: { limit: 2, every: "10 seconds" } })

  it.effect("starts no more than its limit within any such span; another tool is not held up", () => {
    const { handlers, starts } = noting(limited)
    return Effect.gen(function*() {
      yield* sendAll(["1", "2", "3", "4", "5"], charging)
      yield* sendAll(["6", "7", "8"], mailing)
      yield* pass(30)
      assert.deepStrictEqual(starts, { charge: [0, 0, 10, 10, 20], sendEmail: [0, 0, 0] })
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: limited })))
  })

  it.effect("counts each span from its own starts, not from the full minute", () => {
    const { handlers, starts } = noting(limited)
    return Effect.gen(function*() {
      yield* sendAll(["1"], charging)
      yield* pass(7)
      yield* sendAll(["2", "3", "4"], charging)
      yield* pass(20)
      assert.deepStrictEqual(starts.charge, [0, 7, 10, 17])
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: limited })))
  })

  it.effect("asks the store for none of it until the next start is allowed", () => {
    const { handlers, starts } = noting(limited)
    const asked: Array<ReadonlyArray<string>> = []
    const store = Desk.storeWith((store) => ({
      startable: (query) => {
        asked.push(query.tools)
        return store.startable(query)
      }
    }))
    return Effect.gen(function*() {
      yield* sendAll(["1", "2", "3"], charging)
      yield* pass(1)
      asked.length = 0
      yield* pass(4)
      assert.deepStrictEqual(asked, [], "nothing changes, so nothing is asked")
      yield* sendAll(["4"], mailing)
      yield* pass(4)
      assert.isAbove(asked.length, 0)
      assert.isTrue(asked.every((tools) => !tools.includes("charge")), "only for the tool that may start")
      assert.lengthOf(starts.charge, 2)
      yield* pass(1)
      assert.deepStrictEqual(starts, { charge: [0, 0, 10], sendEmail: [5] })
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: limited, store })))
  })

  it.effect("counts starts, not ends, and its limit of handlers at a time still holds", () => {
    const both = chargeWith({ rate: { limit: 2, every: "10 seconds" }, concurrency: 1 })
    const { handlers, starts } = noting(both, () => Effect.delay(Effect.succeed("receipt"), "3 seconds"))
    return Effect.gen(function*() {
      yield* sendAll(["1", "2", "3", "4"], charging)
      yield* pass(30)
      assert.deepStrictEqual(starts.charge, [0, 3, 10, 13])
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: both })))
  })

  it.effect("counts further attempts as starts", () => {
    const again = chargeWith({ rate: { limit: 1, every: "10 seconds" }, idempotent: true, retry: Schedule.recurs(2) })
    const { handlers, starts } = noting(again, () => Effect.die(new Error("no connection")))
    return Effect.gen(function*() {
      yield* sendAll(["1"], charging)
      yield* pass(60)
      assert.deepStrictEqual(starts.charge, [0, 10, 20])
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: again })))
  })

  it.effect("is not used up by an intent that another effector claims first", () => {
    const rare = chargeWith({ rate: { limit: 1, every: "1 hour" } })
    const { handlers, starts } = noting(rare)
    const store = Desk.storeWith((store) => {
      const taken = new Set<string>()
      return {
        claim: (options) =>
          taken.size > 0 ? store.claim(options) : Effect.as(
            Effect.flatMap(
              store.claim({ ...options, token: "of another one", lease: 60 * 60 * 1000 }),
              () => Effect.sync(() => taken.add(options.id))
            ),
            undefined
          )
      }
    })
    return Effect.gen(function*() {
      yield* sendAll(["1", "2"], charging)
      yield* pass(1)
      assert.deepStrictEqual(yield* Desk.states, ["charge Claimed", "charge Performed"])
      assert.deepStrictEqual(starts.charge, [0])
    }).pipe(Effect.provide(Desk.shop(handlers, { charge: rare, store })))
  })

  it.effect("goes by the time that passes, whatever the time of day is set to", () => {
    const { handlers, starts } = noting(limited)
    return Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000)
      yield* Layer.build(Desk.process(handlers, { charge: limited }))
      const client = yield* AgentEngine.client
      for (const key of ["1", "2"]) yield* client.send(desk, { key, event: [charging] })
      yield* pass(1)
      assert.deepStrictEqual(starts.charge, [1000, 1000])
      yield* TestClock.setTime(500_000)
      yield* client.send(desk, { key: "3", event: [charging] })
      yield* pass(30)
      assert.deepStrictEqual(starts.charge, [1000, 1000, 509], "ten seconds after the first")
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})
