/**
 * `append` and `recorded`: the journal of a run, before its commit and for as long as its event is kept.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import type * as Journal from "../../Journal.ts"
import type { Bench } from "./Fixture.ts"
import { alone, atOnce, complete, draft, fail, load, perform, send, stored, suspend, waitingFor } from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const journals = ({ test }: Bench): void => {
  describe("append", () => {
    test(
      "keeps rows for the next run, without a commit",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        const snapshot = yield* load()
        const rows = [reply(0, "paid for")]
        assert.deepStrictEqual(yield* append(snapshot, rows), rows)
        assert.deepStrictEqual((yield* load()).rows, rows)
        assert.deepInclude(yield* store.key(alone), { revision: 0, seq: 0 })
        assert.strictEqual((yield* store.event(snapshot.offset))!.state, "Waiting")
      })
    )

    test(
      "keeps the rows that are there, and answers them to who did not know of them",
      Effect.gen(function*() {
        yield* send()
        const snapshot = yield* load()
        const first = [reply(0, "first")]
        yield* append(snapshot, first)
        assert.deepStrictEqual(yield* append(snapshot, [reply(0, "second"), reply(1, "third")]), first)
        assert.deepStrictEqual((yield* load()).rows, first)
      })
    )

    test(
      "adds to the rows the caller knows of, or puts others in their place",
      Effect.gen(function*() {
        yield* send()
        const snapshot = yield* load()
        const first = reply(0, "first")
        yield* append(snapshot, [first])
        const longer = [first, reply(1, "second")]
        assert.deepStrictEqual(yield* append(snapshot, longer, first), longer)
        assert.deepStrictEqual((yield* load()).rows, longer)
        assert.deepStrictEqual(yield* append(snapshot, [reply(0, "late")], first), longer)
        const another = [reply(0, "another way")]
        assert.deepStrictEqual(yield* append(snapshot, another, longer[1]), another)
        assert.deepStrictEqual((yield* load()).rows, another)
      })
    )

    test(
      "leaves committed rows alone",
      Effect.gen(function*() {
        yield* send()
        const first = yield* load()
        const intents = [draft(first, 0)]
        const committed = reply(0, "committed")
        yield* suspend(first, waitingFor(...intents), { intents, rows: [committed.row] })
        yield* perform(intents[0]!.id)
        const resumed = yield* load()
        assert.deepStrictEqual(yield* append(resumed, [reply(1, "unknowing")]), [])
        assert.deepStrictEqual(yield* append(resumed, [reply(1, "new")], committed), [reply(1, "new")])
        assert.deepStrictEqual((yield* load()).rows, [committed, reply(1, "new")])
      })
    )

    test(
      "gives all who append at once the rows of one of them",
      Effect.gen(function*() {
        yield* send()
        const snapshot = yield* load()
        const answers = yield* atOnce(10, (owner) => append(snapshot, [reply(0, `owner ${owner}`)]))
        const kept = (yield* load()).rows
        assert.lengthOf(kept, 1)
        for (const answer of answers) assert.deepStrictEqual(answer, kept)
      })
    )

    test(
      "is refused to an owner whose revision is over",
      Effect.gen(function*() {
        yield* send()
        const stale = yield* load()
        yield* complete(stale)
        assert.instanceOf(yield* Effect.flip(append(stale, [reply(0, "late")])), AgentStore.CommitConflict)
        yield* send()
        assert.instanceOf(yield* Effect.flip(append(stale, [reply(0, "late")])), AgentStore.CommitConflict)
        assert.deepStrictEqual((yield* load()).rows, [])
      })
    )

    test(
      "survives a failed run, and goes into the commit of the next",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const snapshot = yield* load()
        yield* append(snapshot, [reply(0, "paid for")])
        yield* fail(snapshot, 0)
        const again = yield* load()
        assert.deepStrictEqual(again.rows, [reply(0, "paid for")])
        yield* complete(again, { rows: again.rows.map(({ row }) => row) })
        assert.deepStrictEqual((yield* store.recorded(offset))!.rows, [reply(0, "paid for")])
      })
    )

    test(
      "gives way to the rows of the commit",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const snapshot = yield* load()
        yield* append(snapshot, [reply(0, "of another way"), reply(1, "of another way")])
        yield* complete(snapshot, { rows: [reply(0, "of this way").row] })
        assert.deepStrictEqual((yield* store.recorded(offset))!.rows, [reply(0, "of this way")])
      })
    )
  })

  describe("recorded", () => {
    test(
      "gives the run of an event from its first commit on, all segments of it",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send({ event: { cents: 1 } })
        assert.isUndefined(yield* store.recorded(offset))
        const first = yield* load()
        const intents = [draft(first, 0)]
        yield* suspend(first, waitingFor(...intents), { intents, rows: [reply(0, "a").row] })
        assert.deepInclude(yield* store.recorded(offset), { ...alone, seq: 0, output: undefined })
        yield* perform(intents[0]!.id)
        yield* complete(yield* load(), { rows: [reply(1, "b").row], output: "done" })
        const recorded = yield* store.recorded(offset)
        assert.deepInclude(recorded, { ...alone, offset, seq: 0, event: { cents: 1 }, output: "done" })
        assert.deepStrictEqual(recorded!.rows, [reply(0, "a"), reply(1, "b")])
        assert.strictEqual(recorded!.replay.segments, 2)
      })
    )

    test(
      "comes with the trace of all segments and of the ends of their intents, in order, and is not there for an event that is not",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const first = yield* load()
        const intents = [draft(first, 0)]
        yield* suspend(first, waitingFor(...intents), { intents, trace: [{ type: "Suspended", segment: 0 }] })
        yield* perform(intents[0]!.id)
        yield* complete(yield* load(), { trace: [{ type: "Completed" }] })
        assert.deepStrictEqual(yield* store.trace(offset), [
          { type: "Suspended", segment: 0 },
          {
            type: "IntentEnded",
            step: 0,
            tool: "charge",
            id: intents[0]!.id,
            result: { _tag: "Success", value: "receipt" }
          },
          { type: "Completed" }
        ])
        assert.deepStrictEqual(yield* store.trace(offset + 1), [])
        assert.isUndefined(yield* store.recorded(offset + 1))
      })
    )
  })
}

// internal

const reply = (position: number, text: string): Journal.Stored =>
  stored(position, {
    type: "answer",
    segment: 0,
    step: position,
    answer: { type: "message", message: text, offset: 0 }
  })

/** Appends to the uncommitted segment, knowing of everything up to a row. */
const append = (snapshot: AgentStore.Snapshot, rows: ReadonlyArray<Journal.Stored>, known?: Journal.Stored) => {
  const { agent, continuation, key, offset, revision } = snapshot
  return AgentStore.AgentStore.use((store) =>
    store.append({ agent, key, offset, revision, from: continuation?.rows ?? 0, rows, known: known?.check })
  )
}
