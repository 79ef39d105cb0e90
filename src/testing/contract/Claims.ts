/**
 * `startable` and `claim`: whose turn it is, and that nobody else has it.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import type * as Intent from "../../Intent.ts"
import * as Ledger from "../../Ledger.ts"
import type { Bench } from "./Fixture.ts"
import {
  alone,
  atOnce,
  claim,
  decide,
  end,
  keyOf,
  move,
  perform,
  stage,
  startable,
  states,
  succeed
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const claims = ({ test }: Bench): void => {
  describe("startable", () => {
    test(
      "gives the lowest intent of each key, of the tools that are served",
      Effect.gen(function*() {
        const [a] = yield* stage([{}, {}])
        const [b] = yield* stage([{ tool: "sendEmail" }, {}], keyOf("other"))
        const [c] = yield* stage([{}], { agent: "other", key: "key" })
        assert.sameMembers(yield* startable("charge"), [a!, c!])
        assert.sameMembers(yield* startable("charge", "sendEmail"), [a!, b!, c!])
        assert.deepStrictEqual(yield* startable("refund"), [])
      })
    )

    test(
      "leaves out what the caller does, and gives no more than it asks for",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const keys = ["1", "2", "3"].map(keyOf)
        const ids = yield* Effect.forEach(keys, (key) => Effect.map(stage([{}], key), ([id]) => id!))
        const query = { tools: ["charge"], limit: 10 }
        const left = yield* store.startable({ ...query, except: new Set([ids[1]!]) })
        assert.sameMembers(left.map(({ intent }) => intent.id), [ids[0]!, ids[2]!])
        assert.lengthOf(yield* store.startable({ ...query, limit: 2, except: new Set() }), 2)
        const limited = yield* store.startable({ ...query, limit: 1, except: new Set(ids.slice(0, 2)) })
        assert.deepStrictEqual(limited.map(({ intent }) => intent.id), [ids[2]!])
      })
    )

    test(
      "goes on to the next intent of a key when the one before has ended (K33)",
      Effect.gen(function*() {
        const ids = yield* stage([{}, {}, {}])
        for (const id of ids) {
          assert.deepStrictEqual(yield* startable(), [id])
          yield* claim(id, "token")
          assert.deepStrictEqual(yield* startable(), [], "a claimed one holds the later ones back")
          yield* succeed(id, "token")
        }
        assert.deepStrictEqual(yield* states, ["Performed", "Performed", "Performed"])
      })
    )

    test(
      "follows (seq, step), not the order of the ids or of the tools",
      Effect.gen(function*() {
        const first = yield* stage([{}, { tool: "sendEmail" }, {}])
        const second = yield* stage([{ tool: "sendEmail" }, {}])
        const all = [...first, ...second]
        for (const id of all) {
          assert.deepStrictEqual(yield* startable("charge", "sendEmail"), [id])
          yield* perform(id)
        }
      })
    )

    test(
      "is held back neither by what waits for an approval nor by an unknown end",
      Effect.gen(function*() {
        const ids = yield* stage([{ approval: "required" }, {}, {}])
        assert.deepStrictEqual(yield* startable(), [ids[1]!])
        yield* end(ids[1]!, Ledger.unknown("Crashed", "it crashed"))
        assert.deepStrictEqual(yield* startable(), [ids[2]!])
        yield* decide(ids[0]!, true)
        assert.deepStrictEqual(yield* startable(), [ids[0]!], "once it is approved, its turn comes first")
      })
    )

    test(
      "holds later ones back while an idempotent one waits for its next attempt, and gives it when that is due",
      Effect.gen(function*() {
        const ids = yield* stage([{ idempotent: true }, {}])
        yield* claim(ids[0]!, "token", { retryIn: 60 * 60 * 1000 })
        yield* move(ids[0]!, Ledger.complete("token", Ledger.unknown("Crashed", "it crashed")))
        assert.deepStrictEqual(yield* states, ["Staged", "Staged"])
        assert.deepStrictEqual(yield* startable(), [])
        assert.isUndefined(yield* claim(ids[0]!, "early"))
        assert.isUndefined(yield* claim(ids[1]!, "out of order"))
      })
    )

    test(
      "gives an unknown end whose `verify` nobody asked yet, beside the key's order",
      Effect.gen(function*() {
        const ids = yield* stage([{ verify: true }, {}])
        yield* end(ids[0]!, Ledger.unknown("Crashed", "it crashed"))
        assert.sameMembers(yield* startable(), ids)
        const asking = yield* claim(ids[0]!, "asking")
        assert.deepInclude(asking, { state: "Unknown", attempt: 1 })
        assert.deepStrictEqual(yield* startable(), [ids[1]!])
        yield* succeed(ids[0]!, "asking", "it had happened")
        assert.deepStrictEqual(yield* states, ["Performed", "Staged"])
      })
    )
  })

  describe("claim", () => {
    test(
      "gives the entry to one owner, with an attempt and a lease on the store's clock",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const [id] = yield* stage()
        const entry = yield* claim(id!, "token", { owner: "effector 1", lease: 1000 })
        assert.deepInclude(entry, { state: "Claimed", attempt: 1, startedAt: entry!.claim!.until - 1000 })
        assert.deepInclude(entry!.claim, { owner: "effector 1", token: "token" })
        assert.isUndefined(yield* claim(id!, "another"))
        assert.deepStrictEqual(yield* store.entry(id!), entry)
      })
    )

    test(
      "is given again to the token that has it, and uses nothing up",
      Effect.gen(function*() {
        const [id] = yield* stage()
        const entry = yield* claim(id!, "token")
        assert.deepStrictEqual(yield* claim(id!, "token"), entry)
      })
    )

    test(
      "is not given where it is another one's turn, where it has ended, or where there is none",
      Effect.gen(function*() {
        const ids = yield* stage([{}, {}])
        assert.isUndefined(yield* claim(ids[1]!, "out of order"))
        yield* perform(ids[0]!)
        assert.isUndefined(yield* claim(ids[0]!, "again"))
        assert.isUndefined(yield* claim("00000000-0000-5000-8000-000000000000" as Intent.Id, "nothing"))
        assert.deepStrictEqual(yield* states, ["Performed", "Staged"])
      })
    )

    test(
      "is not given before an approval, nor for a question to a person",
      Effect.gen(function*() {
        const [gated] = yield* stage([{ approval: "required" }])
        const [question] = yield* stage([{ approval: "required", kind: "approval" }], keyOf("asks"))
        assert.isUndefined(yield* claim(gated!, "token"))
        yield* decide(gated!, true)
        assert.strictEqual((yield* claim(gated!, "token"))!.state, "Claimed")
        yield* decide(question!, true)
        assert.isUndefined(yield* claim(question!, "token"))
      })
    )

    test(
      "goes to one of many that ask at once",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (let round = 0; round < 10; round++) {
          const [id] = yield* stage([{}], keyOf(round))
          const given = yield* atOnce(10, (owner) => claim(id!, `token ${owner}`))
          const held = given.filter((entry) => entry !== undefined)
          assert.lengthOf(held, 1)
          assert.deepInclude(yield* store.entry(id!), { attempt: 1, claim: held[0]!.claim })
        }
      })
    )

    test(
      "lets several effectors share the work: each intent starts once, those of a key in order",
      Effect.gen(function*() {
        const keys = Array.from({ length: 5 }, (_, key) => keyOf(key))
        const staged = yield* Effect.forEach(keys, (key) => stage([{}, {}, {}, {}], key))
        const started: Array<Intent.Id> = []
        const effector = (name: string) =>
          Effect.gen(function*() {
            for (let free = yield* startable(); free.length > 0; free = yield* startable()) {
              for (const id of free) {
                const token = `${name} ${id}`
                const entry = yield* claim(id, token)
                if (entry === undefined) continue
                started.push(id)
                yield* Effect.yieldNow
                yield* succeed(id, token)
              }
            }
          })
        // One that finds nothing free may leave early; the last one to hold a claim finds the rest.
        yield* Effect.forEach(["a", "b", "c"], effector, { concurrency: "unbounded" })
        yield* effector("last")
        assert.strictEqual(started.length, 20)
        for (const ids of staged) assert.deepStrictEqual(started.filter((id) => ids.includes(id)), ids)
        assert.isTrue((yield* states).every((state) => state === "Performed"))
      })
    )

    test(
      "takes turns per key of an agent",
      Effect.gen(function*() {
        const [first] = yield* stage([{}], alone)
        const [second] = yield* stage([{}], { ...alone, agent: "other" })
        yield* claim(first!, "one")
        assert.strictEqual((yield* claim(second!, "two"))!.state, "Claimed")
      })
    )
  })
}
