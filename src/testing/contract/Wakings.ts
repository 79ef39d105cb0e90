/**
 * Answers and suspensions never miss each other: whichever comes first, the key goes on when everything it waits for is
 * answered, and not before.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as AgentStore from "../../AgentStore.ts"
import type * as Intent from "../../Intent.ts"
import * as Ledger from "../../Ledger.ts"
import type { Bench } from "./Fixture.ts"
import {
  claim,
  decide,
  draft,
  end,
  isReady,
  keyOf,
  load,
  move,
  perform,
  request,
  send,
  stage,
  suspend,
  waitingFor
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const wakings = ({ test }: Bench): void => {
  describe("a suspended key", () => {
    test(
      "goes on when all it waits for is answered, in the order of its steps (K22)",
      Effect.gen(function*() {
        for (const order of [[0, 1, 2], [2, 1, 0], [1, 2, 0]]) {
          const target = keyOf(String(order))
          // Each waits for a decision, so that they can be answered in any order.
          const { ids } = yield* request([gated, gated, gated], target)
          for (const step of order) {
            assert.isFalse(yield* isReady(target))
            yield* decide(ids[step]!, false)
          }
          assert.deepStrictEqual((yield* load(target)).answers.map(({ step }) => step), [0, 1, 2])
        }
      })
    )

    const endings: ReadonlyArray<[string, (id: Intent.Id) => Effect.Effect<unknown, unknown, AgentStore.AgentStore>]> =
      [
        ["Success", (id) => perform(id)],
        ["Failure", (id) => end(id, { _tag: "Failure", error: "no" })],
        ["Unavailable", (id) => end(id, { _tag: "Unavailable", message: "too large" })],
        ["OutcomeUnknown", (id) => end(id, Ledger.unknown("Defect", "it died"))],
        ["NotPerformed", (id) => move(id, Ledger.reject("it does not fit"))],
        ["NotPerformed", (id) => move(id, Ledger.cancel("maria"))]
      ]
    for (const [tag, ending] of endings) {
      test(
        `is told of a result of each kind: ${tag}`,
        Effect.gen(function*() {
          const { ids } = yield* request()
          yield* ending(ids[0]!)
          const { answer } = (yield* load()).answers[0]!
          assert.strictEqual(answer.type === "intent" ? answer.result._tag : undefined, tag)
        })
      )
    }

    test(
      "is told of a decision by the question it asked",
      Effect.gen(function*() {
        const { ids } = yield* request([{ ...gated, kind: "approval", tool: "approval" }])
        yield* decide(ids[0]!, true)
        assert.deepStrictEqual((yield* load()).answers, [
          { step: 0, answer: { type: "decision", approved: true, by: "maria" } }
        ])
      })
    )

    test(
      "is told what was recorded first, whatever is found out later",
      Effect.gen(function*() {
        const { ids } = yield* request()
        yield* end(ids[0]!, Ledger.unknown("Crashed", "it crashed"))
        const told = (yield* load()).answers
        yield* move(ids[0]!, Ledger.resolve("maria", { to: "Performed", result: { _tag: "Success", value: "late" } }))
        assert.deepStrictEqual((yield* load()).answers, told)
      })
    )

    test(
      "goes on at once where the answer came before the suspension",
      Effect.gen(function*() {
        const [id] = yield* stage()
        yield* perform(id!)
        yield* send()
        const snapshot = yield* load()
        yield* suspend(snapshot, [{ type: "intent", step: 0, id: id! }])
        assert.strictEqual((yield* load()).offset, snapshot.offset)
      })
    )

    test(
      "hears nothing of an answer to another key",
      Effect.gen(function*() {
        const { ids } = yield* request()
        yield* request([{}], keyOf("other"))
        yield* perform(ids[0]!)
        assert.isFalse(yield* isReady(keyOf("other")))
        assert.isTrue(yield* isReady())
      })
    )
  })

  describe("an answer that is recorded while the suspension commits (K89)", () => {
    for (const first of ["the answer", "the commit"]) {
      test(
        `counts each of 200 times beside another one, ${first} first`,
        Effect.gen(function*() {
          for (let round = 0; round < 200; round++) {
            // An agent of its own, so that a round does not load the keys of the others.
            const target = { agent: `agent${round}`, key: "key" }
            const [awaited] = yield* stage([gated], target)
            yield* send(target)
            const snapshot = yield* load(target)
            const intents = [draft(snapshot, 1, gated)]
            const waiting = [{ type: "intent" as const, step: 0, id: awaited! }, ...waitingFor(...intents)]
            const committing = suspend(snapshot, waiting, { intents })
            const both = [Effect.asVoid(decide(awaited!, false)), Effect.asVoid(committing)]
            yield* Effect.all(first === "the answer" ? both : both.reverse(), {
              concurrency: "unbounded",
              discard: true
            })
            assert.isFalse(yield* isReady(target))
            yield* decide(intents[0]!.id, false)
            assert.lengthOf((yield* load(target)).answers, 2)
          }
        })
      )

      test(
        `wakes the key each of 200 times, ${first} first`,
        Effect.gen(function*() {
          for (let round = 0; round < 200; round++) {
            // An agent of its own, so that a round does not load the keys of the others.
            const target = { agent: `agent${round}`, key: "key" }
            const [id] = yield* stage([{}], target)
            yield* claim(id!, "token")
            yield* send(target)
            const snapshot = yield* load(target)
            const committing = suspend(snapshot, [{ type: "intent", step: 0, id: id! }])
            const completing = move(id!, Ledger.complete("token", { _tag: "Success", value: round }))
            const both = [Effect.asVoid(completing), Effect.asVoid(committing)]
            yield* Effect.all(first === "the answer" ? both : both.reverse(), {
              concurrency: "unbounded",
              discard: true
            })
            assert.isTrue(yield* isReady(target), `round ${round}`)
          }
        })
      )
    }
  })
}

// internal

const gated = { approval: "required" } as const
