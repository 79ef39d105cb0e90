/**
 * `sweep`: what time does, on the store's clock. Nothing happens early, and nobody has to look for it: `sweep` says when it is
 * to be called again.
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
  atOnce,
  claim,
  decide,
  fail,
  isReady,
  keyOf,
  load,
  move,
  perform,
  request,
  send,
  stage,
  startable,
  states,
  succeed,
  suspend
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const times = ({ advance, test, tick }: Bench): void => {
  describe("sweep", () => {
    test(
      "has nothing to do in a store where nothing waits for time",
      Effect.gen(function*() {
        assert.isUndefined((yield* sweep).nextAt)
        yield* send()
        assert.isUndefined((yield* sweep).nextAt)
      })
    )

    test(
      "expires an intent nobody started in time, and tells who waits for it",
      Effect.gen(function*() {
        const { ids } = yield* request([{ ttl: 4 * tick }])
        const { nextAt, now } = yield* sweep
        const { intent } = yield* entry(ids[0]!)
        assert.strictEqual(nextAt, intent.expiresAt)
        assert.isAtMost(now, intent.expiresAt)
        assert.deepStrictEqual(yield* states, ["Staged"])
        yield* advance(5)
        assert.deepStrictEqual(yield* startable(), [], "too late is too late, swept or not")
        assert.isUndefined(yield* claim(ids[0]!, "late"))
        yield* sweep
        assert.deepStrictEqual(yield* states, ["Expired"])
        const { answer } = (yield* load()).answers[0]!
        assert.deepInclude(answer.type === "intent" ? answer.result : {}, { _tag: "NotPerformed", reason: "Expired" })
        assert.isUndefined((yield* sweep).nextAt)
      })
    )

    test(
      "leaves alone what was started before it expired",
      Effect.gen(function*() {
        const [id] = yield* stage([{ ttl: 4 * tick }])
        yield* claim(id!, "token", { lease: 20 * tick })
        yield* advance(5)
        yield* sweep
        assert.deepStrictEqual(yield* states, ["Claimed"])
        yield* succeed(id!, "token")
      })
    )

    test(
      "denies what nobody decided in time",
      Effect.gen(function*() {
        const { ids } = yield* request([{ approval: "required", approvalTimeout: 4 * tick, ttl: tick }])
        assert.strictEqual((yield* sweep).nextAt, (yield* entry(ids[0]!)).intent.approvalDueAt)
        yield* advance(5)
        assert.instanceOf(yield* Effect.flip(decide(ids[0]!, true)), Ledger.LedgerRefusal)
        yield* sweep
        assert.deepInclude(yield* entry(ids[0]!), { state: "Denied" })
        assert.deepInclude((yield* entry(ids[0]!)).decision, { approved: false, by: "policy:timeout" })
        assert.isTrue(yield* isReady())
      })
    )

    test(
      "has the next one asked where nobody decided in time, until nobody is left",
      Effect.gen(function*() {
        const escalation = ["dana", "owner"]
        const { ids } = yield* request([{ approval: "required", approvalTimeout: 4 * tick, ttl: tick, escalation }])
        for (const channel of [undefined, ...escalation]) {
          const { nextAt } = yield* sweep
          const asked = yield* entry(ids[0]!)
          assert.deepInclude(asked, { channel, state: "Staged", decision: undefined })
          assert.strictEqual(nextAt, asked.intent.approvalDueAt)
          assert.strictEqual(asked.intent.expiresAt, asked.intent.approvalDueAt! + tick)
          assert.deepStrictEqual(yield* startable(), [])
          assert.isFalse(yield* isReady())
          yield* advance(5)
        }
        yield* sweep
        const denied = yield* entry(ids[0]!)
        assert.deepInclude(denied, { channel: "owner", state: "Denied" })
        assert.deepInclude(denied.decision, { approved: false, by: "policy:timeout" })
        assert.isTrue(yield* isReady())
        assert.isUndefined((yield* sweep).nextAt)
      })
    )

    test(
      "takes a decision from anybody while the next one is asked, swept or not",
      Effect.gen(function*() {
        const given = { approval: "required", approvalTimeout: 4 * tick, ttl: 4 * tick, escalation: ["dana"] } as const
        const [swept, unswept] = yield* stage([given, given])
        yield* advance(5)
        assert.deepInclude(yield* decide(unswept!, true, "tom"), { channel: undefined, state: "Staged" })
        yield* sweep
        const decided = yield* decide(swept!, true, "tom")
        assert.deepInclude(decided, { channel: "dana", state: "Staged" })
        assert.strictEqual(decided.intent.expiresAt, decided.decision!.at + 4 * tick)
        // One at a time, in the order of the key.
        assert.deepStrictEqual(yield* startable(), [swept!])
      })
    )

    test(
      "counts the time to start from the decision",
      Effect.gen(function*() {
        const [id] = yield* stage([{ approval: "required", approvalTimeout: 20 * tick, ttl: 4 * tick }])
        yield* advance(5)
        yield* sweep
        const decided = yield* decide(id!, true)
        assert.strictEqual(decided.intent.expiresAt, decided.decision!.at + 4 * tick)
        assert.strictEqual((yield* sweep).nextAt, decided.intent.expiresAt)
        assert.deepStrictEqual(yield* startable(), [id!])
        yield* advance(5)
        yield* sweep
        assert.deepStrictEqual(yield* states, ["Expired"])
      })
    )

    test(
      "takes a claim whose lease lapsed: the end is unknown, and never tried again",
      Effect.gen(function*() {
        const { ids } = yield* request()
        const claimed = yield* claim(ids[0]!, "token", { lease: 4 * tick })
        assert.strictEqual((yield* sweep).nextAt, claimed!.claim!.until)
        assert.deepStrictEqual(yield* states, ["Claimed"])
        yield* advance(5)
        yield* sweep
        assert.deepInclude(yield* entry(ids[0]!), { state: "Unknown", claim: undefined, attempt: 1 })
        assert.deepStrictEqual(yield* startable(), [])
        const { answer } = (yield* load()).answers[0]!
        assert.deepInclude(answer.type === "intent" ? answer.result : {}, { _tag: "OutcomeUnknown", reason: "Crashed" })
      })
    )

    test(
      "hands an idempotent intent out again, under the same id (K40)",
      Effect.gen(function*() {
        const [id] = yield* stage([{ idempotent: true }])
        yield* claim(id!, "token", { lease: 2 * tick, retryIn: 4 * tick })
        yield* advance(3)
        yield* sweep
        assert.deepInclude(yield* entry(id!), { state: "Staged", attempt: 1 })
        assert.deepStrictEqual(yield* startable(), [])
        yield* advance(5)
        yield* sweep
        assert.deepStrictEqual(yield* startable(), [id!])
        assert.deepInclude(yield* claim(id!, "again"), { attempt: 2 })
      })
    )

    test(
      "lets a renewed lease be (K30)",
      Effect.gen(function*() {
        const [id] = yield* stage()
        yield* claim(id!, "token", { lease: 4 * tick })
        for (let renewals = 0; renewals < 3; renewals++) {
          yield* advance(2)
          yield* move(id!, Ledger.renew("token", 4 * tick))
          yield* sweep
        }
        assert.deepStrictEqual(yield* states, ["Claimed"])
        yield* succeed(id!, "token")
      })
    )

    test(
      "wakes who sleeps, and not before its time",
      Effect.gen(function*() {
        yield* send()
        yield* suspend(yield* load(), [{ type: "timer", step: 0, millis: 4 * tick }])
        const { nextAt, now } = yield* sweep
        assert.isFalse(yield* isReady())
        assert.isAtMost(nextAt!, now + 4 * tick)
        yield* advance(5)
        yield* sweep
        assert.deepStrictEqual((yield* load()).answers, [{ step: 0, answer: { type: "slept" } }])
        assert.isUndefined((yield* sweep).nextAt)
      })
    )

    test(
      "wakes who waits for a message that does not come",
      Effect.gen(function*() {
        yield* send()
        yield* suspend(yield* load(), [{ type: "message", step: 0, millis: 4 * tick, schema: undefined }])
        assert.isFalse(yield* isReady())
        yield* advance(5)
        yield* sweep
        assert.deepStrictEqual((yield* load()).answers, [{ step: 0, answer: { type: "timeout" } }])
      })
    )

    test(
      "says when an event is to be run again",
      Effect.gen(function*() {
        yield* send()
        yield* fail(yield* load(), 4 * tick)
        const { nextAt, now } = yield* sweep
        assert.isAtMost(nextAt!, now + 4 * tick)
        assert.isFalse(yield* isReady())
        yield* advance(5)
        yield* sweep
        assert.isTrue(yield* isReady())
      })
    )

    test(
      "names the earliest of all keys",
      Effect.gen(function*() {
        const long = yield* stage([{ ttl: 100 * tick }])
        const short = yield* stage([{ ttl: 50 * tick }], keyOf("other"))
        assert.strictEqual((yield* sweep).nextAt, (yield* entry(short[0]!)).intent.expiresAt)
        yield* perform(short[0]!)
        const { nextAt } = yield* sweep
        // A store may look once too often, never once too late.
        assert.isAtMost(nextAt!, (yield* entry(long[0]!)).intent.expiresAt)
      })
    )

    test(
      "may be called by everybody at once: what is due happens once",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids } = yield* request([{ ttl: tick }])
        yield* advance(2)
        yield* atOnce(10, () => sweep)
        assert.deepStrictEqual((yield* entry(ids[0]!)).history.map(({ state }) => state), ["Staged", "Expired"])
        assert.strictEqual((yield* load()).answers.length, 1)
        assert.deepInclude(yield* store.key(alone), { revision: 1 })
      })
    )
  })
}

// internal

const sweep = AgentStore.AgentStore.use((store) => store.sweep)

const entry = (id: string) => AgentStore.AgentStore.use((store) => store.entry(id))
