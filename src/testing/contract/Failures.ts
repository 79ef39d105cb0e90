/**
 * `fail` and `redrive`: an activation that failed runs again when its time comes, or becomes a dead letter that an operator can
 * drive.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import type * as Journal from "../../Journal.ts"
import type { Bench } from "./Fixture.ts"
import {
  alone,
  atOnce,
  complete,
  draft,
  fail,
  isReady,
  load,
  perform,
  reason,
  request,
  send,
  stored,
  suspend,
  waitingFor
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const failures = (bench: Bench): void => {
  ends(bench)
  redrives(bench)
}

// internal

const ends = ({ advance, test, tick }: Bench) =>
  describe("fail", () => {
    test(
      "keeps an event that is to be run again at the head of its key until its time",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send({ event: "first" })
        yield* send({ event: "second" })
        yield* fail(yield* load(), 4 * tick)
        assert.isFalse(yield* isReady())
        assert.deepInclude(yield* store.event(offset), { state: "Waiting", failures: 1, seq: undefined })
        yield* advance(5)
        yield* store.sweep
        const again = yield* load()
        assert.deepInclude(again, { event: "first", failures: 1, revision: 0, seq: 0 })
        yield* fail(again, 0)
        assert.strictEqual((yield* load()).failures, 2)
        yield* complete(yield* load())
        assert.deepInclude(yield* load(), { event: "second", failures: 0 })
        assert.deepStrictEqual(yield* store.deadLetters, [])
      })
    )

    test(
      "counts the failures of a resume by themselves",
      Effect.gen(function*() {
        yield* send()
        yield* fail(yield* load(), 0)
        const first = yield* load()
        const intents = [draft(first, 0)]
        yield* suspend(first, waitingFor(...intents), { intents })
        yield* perform(intents[0]!.id)
        assert.strictEqual((yield* load()).failures, 0)
        yield* fail(yield* load(), 0)
        const resumed = yield* load()
        assert.strictEqual(resumed.failures, 1)
        assert.lengthOf(resumed.answers, 1)
      })
    )

    test(
      "makes an event that never committed a dead letter that holds it, and goes on with the next",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const event = { b: 1, a: "\u2028" }
        const { offset } = yield* send({ event })
        yield* send({ event: "next" })
        yield* fail(yield* load(), undefined)
        assert.deepInclude(yield* store.event(offset), { state: "DeadLetter", reason, seq: undefined })
        const [letter] = yield* store.deadLetters
        assert.deepInclude(letter, { ...alone, kind: "Event", offset, reason, driven: undefined })
        assert.strictEqual(JSON.stringify(letter!.content), JSON.stringify(event))
        assert.deepInclude(yield* load(), { event: "next", seq: 0 })
      })
    )

    test(
      "blocks the key of a resume, which keeps its answers and its inbox waiting",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids, offset } = yield* request()
        yield* perform(ids[0]!)
        yield* send({ event: "waits" })
        yield* fail(yield* load(), undefined)
        assert.isFalse(yield* isReady())
        assert.deepInclude(yield* store.event(offset), { state: "Blocked", seq: 0, reason })
        assert.deepInclude(yield* store.key(alone), { blocked: reason, inbox: 1, current: offset, seq: 1 })
        assert.deepInclude((yield* store.deadLetters)[0], { kind: "Resume", offset })
        assert.isDefined((yield* store.entry(ids[0]!)).answer)
      })
    )

    test(
      "is refused to an owner whose revision is over",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        const stale = yield* load()
        yield* complete(stale)
        yield* send({ event: "next" })
        for (const retryIn of [0, undefined]) {
          assert.instanceOf(yield* Effect.flip(fail(stale, retryIn)), AgentStore.CommitConflict)
        }
        assert.strictEqual((yield* store.event(stale.offset))!.state, "Completed")
        assert.deepInclude(yield* load(), { event: "next", failures: 0 })
        assert.deepStrictEqual(yield* store.deadLetters, [])
      })
    )
  })

const redrives = ({ test }: Bench) =>
  describe("redrive", () => {
    test(
      "runs a dead event again, byte for byte, in its old place, and marks the letter (K21)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const event = { b: 1, a: [null] }
        const { offset } = yield* send({ event })
        yield* send({ event: "later" })
        yield* fail(yield* load(), undefined)
        const [letter] = yield* store.deadLetters
        assert.deepStrictEqual(yield* redrive(letter!.id), { offset })
        const again = yield* load()
        assert.strictEqual(JSON.stringify(again.event), JSON.stringify(event))
        assert.deepInclude(again, { offset, failures: 0 })
        assert.deepInclude((yield* store.deadLetters)[0]!.driven, { by: "maria", offset })
        assert.deepInclude(yield* store.event(offset), { state: "Waiting", reason: undefined })
        yield* complete(again)
        assert.strictEqual((yield* load()).event, "later")
      })
    )

    test(
      "unblocks a resume, which goes on with its answers",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids, offset } = yield* request()
        yield* perform(ids[0]!)
        yield* fail(yield* load(), undefined)
        yield* redrive((yield* store.deadLetters)[0]!.id)
        assert.deepInclude(yield* store.event(offset), { state: "Suspended" })
        const resumed = yield* load()
        assert.deepInclude(resumed, { offset, seq: 0, failures: 0 })
        assert.lengthOf(resumed.answers, 1)
        yield* complete(resumed)
        assert.isUndefined((yield* store.key(alone)).blocked)
      })
    )

    for (const fresh of [false, true]) {
      test(
        fresh ? "drops an uncommitted journal where asked to" : "keeps an uncommitted journal",
        Effect.gen(function*() {
          const store = yield* AgentStore.AgentStore
          yield* send()
          const first = yield* load()
          const intents = [draft(first, 0)]
          yield* suspend(first, waitingFor(...intents), { intents, rows: [row(0).row] })
          yield* perform(intents[0]!.id)
          const { agent, key, offset, revision } = yield* load()
          yield* store.append({ agent, key, offset, revision, from: 1, rows: [row(1)], known: row(0).check })
          yield* fail(yield* load(), undefined)
          yield* redrive((yield* store.deadLetters)[0]!.id, fresh)
          assert.deepStrictEqual((yield* load()).rows, fresh ? [row(0)] : [row(0), row(1)])
        })
      )
    }

    test(
      "drives a letter once, and none that is not there",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        yield* fail(yield* load(), undefined)
        const [letter] = yield* store.deadLetters
        const drives = yield* atOnce(5, () => Effect.result(redrive(letter!.id)))
        assert.lengthOf(drives.filter(({ _tag }) => _tag === "Success"), 1)
        assert.strictEqual((yield* store.key(alone)).inbox, 1)
        for (const id of [letter!.id, letter!.id + 1]) {
          const refusal = yield* Effect.flip(redrive(id))
          assert.instanceOf(refusal, AgentStore.DeadLetterNotFound)
          assert.strictEqual(refusal.id, id)
        }
      })
    )

    test(
      "gives a second failure a letter of its own",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        yield* fail(yield* load(), undefined)
        yield* redrive((yield* store.deadLetters)[0]!.id)
        yield* fail(yield* load(), undefined)
        const letters = yield* store.deadLetters
        assert.deepStrictEqual(letters.map(({ driven }) => driven !== undefined), [true, false])
        yield* redrive(letters[1]!.id)
        yield* complete(yield* load())
      })
    )
  })

const row = (position: number): Journal.Stored => stored(position, { type: "time", segment: position, at: position })

const redrive = (id: number, fresh = false) =>
  AgentStore.AgentStore.use((store) => store.redrive({ id, by: "maria", fresh }))
