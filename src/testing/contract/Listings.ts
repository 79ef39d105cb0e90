/**
 * `outputs`, `resolutions`, `deadLetters`, `key` and `changes`: what a reader may rely on.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as AgentStore from "../../AgentStore.ts"
import * as Ledger from "../../Ledger.ts"
import type { Bench } from "./Fixture.ts"
import { alone, claim, complete, end, fail, keyOf, load, move, perform, request, send, stage } from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const listings = ({ test }: Bench): void => {
  describe("outputs", () => {
    test(
      "are read behind a cursor, page by page, those of one agent",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (const output of ["1", "2", "3", "4", "5"]) {
          const target = { agent: output === "3" ? "other" : "agent", key: output }
          yield* send(target)
          yield* complete(yield* load(target), { output })
        }
        const first = yield* store.outputs({ agent: "agent", after: 0, limit: 3 })
        assert.deepStrictEqual(first.map(({ output }) => output), ["1", "2", "4"])
        const rest = yield* store.outputs({ agent: "agent", after: first[2]!.offset, limit: 3 })
        assert.deepStrictEqual(rest.map(({ output }) => output), ["5"])
        assert.deepStrictEqual(yield* store.outputs({ agent: "agent", after: rest[0]!.offset, limit: 3 }), [])
        assert.lengthOf(yield* store.outputs({ agent: "other", after: 0, limit: 3 }), 1)
      })
    )

    test(
      "are never passed over by a reader, while many commit",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const keys = Array.from({ length: 20 }, (_, key) => keyOf(key))
        const writers = Effect.forEach(keys, (target) =>
          Effect.forEach([0, 1, 2], (seq) =>
            Effect.gen(function*() {
              yield* send(target)
              yield* complete(yield* load(target), {
                emitted: [`${target.key} ${seq} a`],
                output: `${target.key} ${seq} b`
              })
            })), { concurrency: "unbounded" })
        const writing = yield* Effect.forkScoped(writers)
        const seen: Array<AgentStore.Output> = []
        while (seen.length < 120) {
          const done = writing.pollUnsafe() !== undefined
          const page = yield* store.outputs({ agent: "agent", after: seen[seen.length - 1]?.offset ?? 0, limit: 7 })
          if (done && page.length === 0) break
          seen.push(...page)
          yield* Effect.yieldNow
        }
        const expected = (key: string) => [0, 1, 2].flatMap((seq) => [`${key} ${seq} a`, `${key} ${seq} b`])
        for (const { key } of keys) {
          const ofKey = seen.filter((output) => output.key === key)
          assert.deepStrictEqual(ofKey.map(({ output }) => output), expected(key))
        }
        const offsets = seen.map(({ offset }) => offset)
        assert.deepStrictEqual(offsets, [...new Set(offsets)].sort((a, b) => a - b))
      })
    )
  })

  describe("resolutions", () => {
    test(
      "tell how unknown ends were settled, in order, behind a cursor",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const ids = yield* stage([{}, {}, {}])
        for (const id of ids) {
          yield* end(id, Ledger.unknown("Crashed", "it crashed"))
        }
        assert.deepStrictEqual(yield* store.resolutions({ after: 0, limit: 10 }), [])
        const success = { _tag: "Success" as const, value: "found" }
        yield* move(ids[1]!, Ledger.resolve("maria", { to: "Performed", result: success }))
        yield* move(ids[0]!, Ledger.resolve("juan", { to: "NotPerformed", note: "it never arrived" }))
        yield* move(ids[2]!, Ledger.resolve("maria", { to: "Again" }))
        const all = yield* store.resolutions({ after: 0, limit: 10 })
        assert.deepStrictEqual(all.map(({ by, id }) => [id, by]), [[ids[1], "maria"], [ids[0], "juan"], [
          ids[2],
          "maria"
        ]])
        assert.deepInclude(all[0], { ...alone, tool: "charge", result: success })
        assert.deepInclude(all[1]!.result, { _tag: "NotPerformed" })
        assert.isUndefined(all[2]!.result)
        assert.deepStrictEqual(yield* store.resolutions({ after: all[0]!.offset, limit: 1 }), [all[1]!])
        assert.instanceOf(
          yield* Effect.flip(move(ids[1]!, Ledger.resolve("juan", { to: "Again" }))),
          Ledger.LedgerRefusal
        )
      })
    )
  })

  describe("deadLetters", () => {
    test(
      "are listed with ids of their own, in the order in which they came",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (const event of ["1", "2", "3"]) {
          yield* send({ key: event, event })
          yield* fail(yield* load(keyOf(event)), undefined)
        }
        const letters = yield* store.deadLetters
        assert.deepStrictEqual(letters.map(({ content }) => content), ["1", "2", "3"])
        assert.strictEqual(new Set(letters.map(({ id }) => id)).size, 3)
      })
    )
  })

  describe("key", () => {
    test(
      "of a key nothing is known of is empty, and asking for it makes none",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const empty = {
          ...alone,
          seq: 0,
          revision: 0,
          memory: {},
          current: undefined,
          waiting: [],
          inbox: 0,
          blocked: undefined
        }
        assert.deepStrictEqual(yield* store.key(alone), empty)
        assert.deepStrictEqual(yield* store.key(alone), empty)
      })
    )
  })

  describe("changes", () => {
    test(
      "signals every change to everybody who listens, in queues of their own",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const queues = [yield* store.changes, yield* store.changes]
        const changed = Effect.fnUntraced(function*<E, R>(what: string, change: Effect.Effect<unknown, E, R>) {
          for (const queue of queues) yield* Queue.clear(queue)
          yield* change
          for (const queue of queues) {
            // Far more than a signal takes, and no time at all where it is there.
            const signal = yield* Effect.timeoutOption(Queue.take(queue), "10 seconds")
            assert.isTrue(Option.isSome(signal), what)
          }
        })
        yield* changed("send", send())
        const snapshot = yield* load()
        yield* changed("fail", fail(snapshot, 0))
        yield* changed("commit", complete(snapshot))
        const [id] = yield* stage()
        yield* changed("claim", claim(id!, "token"))
        yield* changed("move", move(id!, Ledger.complete("token", { _tag: "Success", value: null })))
        yield* changed("message", store.message({ ...alone, message: "hello" }))
        yield* request()
        yield* changed("cancel", store.cancel({ ...alone, by: "maria" }))
        yield* send()
        yield* fail(yield* load(), undefined)
        const [letter] = yield* store.deadLetters
        yield* changed("redrive", store.redrive({ id: letter!.id, by: "maria", fresh: false }))
      })
    )

    test(
      "folds what nobody took, and forgets who stopped listening",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const queue = yield* Effect.scoped(store.changes)
        const listening = yield* store.changes
        for (let event = 0; event < 1000; event++) yield* send({ key: `${event}` })
        assert.isAtMost(yield* Queue.size(listening), 1000)
        assert.isAtMost(yield* Queue.size(queue), 1)
        const { ids } = yield* request()
        yield* perform(ids[0]!)
        yield* Queue.take(listening)
      })
    )
  })
}
