/**
 * `cancel`: the current event of a key ends with what it had not started, and nothing else does.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import * as Ledger from "../../Ledger.ts"
import type { Bench } from "./Fixture.ts"
import {
  alone,
  claim,
  complete,
  decide,
  draft,
  fail,
  isReady,
  keyOf,
  load,
  perform,
  request,
  send,
  stage,
  startable,
  states,
  succeed,
  suspend,
  waitingFor
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const cancels = ({ test }: Bench): void => {
  describe("cancel", () => {
    test(
      "ends the suspended event of a key; a started intent runs to its own record (K44)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids, offset } = yield* request([{}, {}])
        yield* claim(ids[0]!, "token")
        assert.deepStrictEqual(yield* cancel(), { offset })
        assert.deepInclude(yield* store.event(offset), { state: "Cancelled", seq: 0 })
        assert.deepStrictEqual(yield* states, ["Claimed", "Cancelled"])
        yield* succeed(ids[0]!, "token")
        assert.deepStrictEqual(yield* states, ["Performed", "Cancelled"])
        assert.isFalse(yield* isReady(), "no agent code runs")
        assert.deepInclude(yield* store.key(alone), { current: undefined, waiting: [], seq: 1 })
      })
    )

    test(
      "ends an event that has not begun, and takes no number for it",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send({ event: "first" })
        yield* send({ event: "second" })
        assert.deepStrictEqual(yield* cancel(), { offset })
        assert.deepInclude(yield* store.event(offset), { state: "Cancelled", seq: undefined })
        assert.deepInclude(yield* load(), { event: "second", seq: 0 })
      })
    )

    test(
      "raises the revision, so that the activation under way cannot commit",
      Effect.gen(function*() {
        yield* send()
        const running = yield* load()
        yield* cancel()
        const refusal = yield* Effect.flip(complete(running, { intents: [draft(running, 0)] }))
        assert.instanceOf(refusal, AgentStore.CommitConflict)
        assert.strictEqual(refusal.actual, running.revision + 1)
        assert.deepStrictEqual(yield* states, [])
      })
    )

    test(
      "leaves the intents of earlier events alone",
      Effect.gen(function*() {
        const [earlier] = yield* stage()
        yield* request()
        yield* cancel()
        assert.deepStrictEqual(yield* states, ["Staged", "Cancelled"])
        assert.deepStrictEqual(yield* startable(), [earlier!])
      })
    )

    test(
      "refuses a decision on what it cancelled (K58)",
      Effect.gen(function*() {
        const { ids } = yield* request([{ approval: "required" }])
        yield* cancel()
        const refusal = yield* Effect.flip(decide(ids[0]!, true))
        assert.instanceOf(refusal, Ledger.LedgerRefusal)
        assert.deepInclude(refusal, { id: ids[0]!, state: "Cancelled" })
      })
    )

    test(
      "frees a blocked key, whose dead letter is of no use any more",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids, offset } = yield* request()
        yield* perform(ids[0]!)
        yield* fail(yield* load(), undefined)
        yield* send({ event: "next" })
        assert.deepStrictEqual(yield* cancel(), { offset })
        assert.isUndefined((yield* store.key(alone)).blocked)
        assert.strictEqual((yield* load()).event, "next")
        const [letter] = yield* store.deadLetters
        const refusal = yield* Effect.flip(store.redrive({ id: letter!.id, by: "maria", fresh: false }))
        assert.instanceOf(refusal, AgentStore.DeadLetterNotFound)
      })
    )

    test(
      "does nothing where there is nothing",
      Effect.gen(function*() {
        assert.isUndefined(yield* cancel())
        yield* send()
        yield* complete(yield* load())
        assert.isUndefined(yield* cancel())
      })
    )

    test(
      "beside a commit leaves nothing half done, whichever comes first",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (let round = 0; round < 20; round++) {
          const { offset } = yield* send(keyOf(round))
          const snapshot = yield* load(keyOf(round))
          const intents = [draft(snapshot, 0)]
          const committing = Effect.asVoid(Effect.exit(suspend(snapshot, waitingFor(...intents), { intents })))
          const cancelling = Effect.asVoid(cancel(keyOf(round)))
          yield* Effect.all(round % 2 === 0 ? [committing, cancelling] : [cancelling, committing], {
            concurrency: "unbounded"
          })
          assert.strictEqual((yield* store.event(offset))!.state, "Cancelled")
          const entries = yield* store.entries(keyOf(round))
          assert.isTrue(entries.every(({ state }) => state === "Cancelled"))
        }
      })
    )
  })
}

// internal

const cancel = (target: AgentStore.Target = alone) =>
  AgentStore.AgentStore.use((store) => store.cancel({ ...target, by: "maria" }))
