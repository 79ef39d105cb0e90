/**
 * `move`, `entry` and `entries`: one move at a time on one record per id, and only by those who may.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import type * as Journal from "../../Journal.ts"
import * as Ledger from "../../Ledger.ts"
import type { Bench } from "./Fixture.ts"
import {
  alone,
  atOnce,
  claim,
  decide,
  keyOf,
  load,
  move,
  perform,
  request,
  send,
  stage,
  startable,
  states,
  succeed
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const moves = ({ advance, test, tick }: Bench): void => {
  describe("move", () => {
    test(
      "writes what the move gives, and answers it",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        yield* claim(id!, "token")
        const performed = yield* succeed(id!, "token", { receipt: [7, null] })
        assert.deepInclude(performed, { state: "Performed", claim: undefined })
        assert.deepStrictEqual(performed.result, { _tag: "Success", value: { receipt: [7, null] } })
        assert.isAtLeast(performed.endedAt!, performed.startedAt!)
        assert.deepStrictEqual(yield* store.entry(id!), performed)
        assert.deepStrictEqual(performed.history.map(({ state }) => state), ["Staged", "Claimed", "Performed"])
      })
    )

    test(
      "writes nothing where the move refuses, and gives the refusal",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        yield* claim(id!, "token")
        const before = yield* store.entry(id!)
        const refusal = yield* Effect.flip(move(id!, Ledger.cancel("maria")))
        assert.instanceOf(refusal, Ledger.LedgerRefusal)
        assert.deepInclude(refusal, { id: id!, state: "Claimed", reason: "already started" })
        assert.deepStrictEqual(yield* store.entry(id!), before)
      })
    )

    test(
      "changes nothing where the move has nothing to write",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        const before = yield* store.entry(id!)
        assert.deepStrictEqual(yield* move(id!, () => ({ next: undefined, refusal: undefined })), before)
        assert.deepStrictEqual(yield* store.entry(id!), before)
      })
    )

    test(
      "refuses an id that is not there",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const unknown = "00000000-0000-5000-8000-000000000000"
        const refusals = [
          yield* Effect.flip(move(unknown, Ledger.cancel("maria"))),
          yield* Effect.flip(store.entry(unknown))
        ]
        for (const refusal of refusals) {
          assert.instanceOf(refusal, AgentStore.IntentNotFound)
          assert.strictEqual(refusal.id, unknown)
        }
      })
    )

    test(
      "sees the entry that the move before it wrote, also when many come at once",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        const count: Ledger.Move<never> = (entry) => ({
          next: { ...entry, attempt: entry.attempt + 1 },
          refusal: undefined
        })
        yield* atOnce(25, () => move(id!, count))
        assert.strictEqual((yield* store.entry(id!)).attempt, 25)
      })
    )

    test(
      "lets the first decision count, of many at once",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage([{ approval: "required" }])
        const decisions = yield* Effect.forEach(
          Array.from({ length: 10 }, (_, index) => `decider ${index}`),
          (by, index) => Effect.result(decide(id!, index % 2 === 0, by)),
          { concurrency: "unbounded" }
        )
        const counted = decisions.flatMap((result) => result._tag === "Success" ? [result.success.decision!.by] : [])
        assert.lengthOf(counted, 1)
        assert.strictEqual((yield* store.entry(id!)).decision!.by, counted[0])
      })
    )
  })

  describe("a decision that changes the arguments", () => {
    test(
      "is kept beside what was asked for, and told with the answer",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids: [id] } = yield* request([{ approval: "required" }])
        const before = (yield* store.entry(id!)).intent
        const edited = { arguments: `{"amountCents":7}`, argumentsDigest: "digest of 7" }
        const decided = yield* move(id!, Ledger.decide({ approved: true, by: "maria", edited }))
        assert.deepStrictEqual(yield* store.entry(id!), decided)
        assert.deepInclude(decided.decision, { approved: true, by: "maria", edited })
        assert.deepInclude(decided.intent, { arguments: before.arguments, argumentsDigest: before.argumentsDigest })
        assert.strictEqual(Ledger.effectiveArguments(yield* store.entry(id!)), edited.arguments)
        yield* perform(id!)
        const answer: Journal.Answer = {
          type: "intent",
          result: { _tag: "Success", value: "receipt" },
          edited: { by: "maria", arguments: edited.arguments }
        }
        assert.deepStrictEqual((yield* store.entry(id!)).answer, answer)
        assert.deepStrictEqual((yield* load()).answers, [{ step: 0, answer }])
      })
    )

    test(
      "is refused where it is about other arguments than were asked for, and nothing is written",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage([{ approval: "required" }])
        const before = yield* store.entry(id!)
        const edited = { arguments: "{}", argumentsDigest: "digest of nothing" }
        const decision = { approved: true, by: "maria", argumentsDigest: edited.argumentsDigest, edited }
        const refusal = yield* Effect.flip(move(id!, Ledger.decide(decision)))
        assert.deepInclude(refusal, { _tag: "LedgerRefusal", reason: "the decision is about other arguments" })
        assert.deepStrictEqual(yield* store.entry(id!), before)
        yield* move(id!, Ledger.decide({ ...decision, argumentsDigest: before.intent.argumentsDigest }))
        assert.deepStrictEqual((yield* store.entry(id!)).decision!.edited, edited)
      })
    )
  })

  describe("the token of a claim", () => {
    test(
      "is asked for by whoever completes, renews or releases",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        yield* claim(id!, "token")
        const before = yield* store.entry(id!)
        const refusals = [
          yield* Effect.flip(move(id!, Ledger.renew("forged", 1000))),
          yield* Effect.flip(move(id!, Ledger.release("forged"))),
          yield* Effect.flip(move(id!, Ledger.complete("forged", Ledger.unknown("Crashed", "forged"))))
        ]
        for (const refusal of refusals) {
          assert.instanceOf(refusal, Ledger.StaleClaim)
          assert.deepInclude(refusal, { id: id!, tool: "charge", key: "key", state: "Claimed" })
        }
        assert.deepStrictEqual(yield* store.entry(id!), before)
      })
    )

    test(
      "gives back an intent whose handler was never called: nothing is used up (K43)",
      Effect.gen(function*() {
        const [id] = yield* stage()
        yield* claim(id!, "token")
        assert.deepInclude(yield* move(id!, Ledger.release("token")), { state: "Staged", attempt: 0, claim: undefined })
        assert.deepStrictEqual(yield* startable(), [id!])
        assert.strictEqual((yield* claim(id!, "next"))!.attempt, 1)
      })
    )

    test(
      "is worth nothing once somebody else ran the intent again: the record stays theirs (K31)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage([{ idempotent: true }])
        yield* claim(id!, "A", { lease: tick, retryIn: 0 })
        yield* advance(2)
        yield* store.sweep
        assert.deepInclude(yield* claim(id!, "B"), { attempt: 2 })
        const refusal = yield* Effect.flip(succeed(id!, "A", "of A"))
        assert.instanceOf(refusal, Ledger.StaleClaim)
        yield* succeed(id!, "B", "of B")
        yield* Effect.flip(succeed(id!, "A", "of A"))
        const { result, state } = yield* store.entry(id!)
        assert.deepStrictEqual({ result, state }, { result: { _tag: "Success", value: "of B" }, state: "Performed" })
      })
    )

    test(
      "still carries late evidence: it is kept beside the record and settles an end that was unknown",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        yield* claim(id!, "token", { lease: tick })
        yield* advance(2)
        yield* store.sweep
        const unknown = yield* store.entry(id!)
        assert.deepInclude(unknown, { state: "Unknown" })
        assert.instanceOf(yield* Effect.flip(succeed(id!, "token", "late")), Ledger.StaleClaim)
        const settled = yield* store.entry(id!)
        assert.deepInclude(settled, { state: "Performed", late: { _tag: "Success", value: "late" } })
        assert.deepStrictEqual(settled.answer, unknown.answer, "what the agent was told stays")
        const resolutions = yield* store.resolutions({ after: 0, limit: 10 })
        assert.deepStrictEqual(resolutions.map(({ by, id, result }) => ({ by, id, result })), [
          { by: "late evidence", id: id!, result: { _tag: "Success", value: "late" } }
        ])
      })
    )
  })

  describe("entries", () => {
    test(
      "are listed by state and key, in the order they were staged",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const first = yield* stage([{}, {}])
        const other = yield* stage([{}], keyOf("other"))
        const second = yield* stage([{}])
        yield* perform(first[0]!)
        const found = (query: AgentStore.EntryQuery) =>
          Effect.map(store.entries(query), (entries) => entries.map(({ intent }) => intent.id))
        assert.deepStrictEqual(yield* found({}), [...first, ...other, ...second])
        assert.deepStrictEqual(yield* found(alone), [...first, ...second])
        assert.deepStrictEqual(yield* found({ states: ["Staged"] }), [first[1]!, ...other, ...second])
        assert.deepStrictEqual(yield* found({ ...alone, states: ["Performed", "Claimed"] }), [first[0]!])
        assert.deepStrictEqual(yield* found({ agent: "nobody" }), [])
        assert.deepStrictEqual(yield* states, ["Performed", "Staged", "Staged", "Staged"])
      })
    )

    test(
      "outlive the event that staged them",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        yield* send()
        yield* load()
        yield* store.cancel({ ...alone, by: "maria" })
        assert.strictEqual((yield* store.entry(id!)).state, "Staged")
      })
    )
  })
}
