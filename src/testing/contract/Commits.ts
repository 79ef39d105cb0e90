/**
 * `ready` and `commit`: what an activation is given, and that all it left lands in one piece or not at all.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as AgentStore from "../../AgentStore.ts"
import * as Intent from "../../Intent.ts"
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
  ready,
  request,
  send,
  stage,
  states,
  suspend,
  waitingFor
} from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const commits = (bench: Bench): void => {
  snapshots(bench)
  landings(bench)
  refusals(bench)
}

// internal

const snapshots = ({ test }: Bench) =>
  describe("ready", () => {
    test(
      "gives all an activation needs, and takes nothing away",
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* ready(), [])
        const { offset } = yield* send({ event: { cents: 1 } })
        for (let look = 0; look < 2; look++) {
          const { now, ...snapshot } = yield* load()
          assert.isNumber(now)
          assert.deepStrictEqual(snapshot, {
            ...alone,
            offset,
            revision: 0,
            seq: 0,
            event: { cents: 1 },
            failures: 0,
            memory: {},
            continuation: undefined,
            rows: [],
            answers: []
          })
        }
      })
    )

    test(
      "gives the keys of the agents that are asked for, without the busy ones, up to the limit",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (const key of ["1", "2", "3"]) for (const agent of ["a", "b"]) yield* send({ agent, key })
        const found = (limit: number, busy: string) =>
          Effect.map(
            store.ready({ agents: ["a"], limit, busy: (_, key) => key === busy }),
            (snapshots) => snapshots.map(({ agent, key }) => `${agent}${key}`).sort()
          )
        assert.deepStrictEqual(yield* found(10, "2"), ["a1", "a3"])
        assert.lengthOf(yield* found(2, ""), 2)
        assert.deepStrictEqual(yield* found(0, ""), [])
      })
    )

    test(
      "gives the events of a key one after the other, in the order in which they were sent",
      Effect.gen(function*() {
        const events = ["first", "second", "third"]
        for (const event of events) yield* send({ event })
        for (const event of events) {
          const snapshots = yield* ready()
          assert.deepStrictEqual(snapshots.map((snapshot) => snapshot.event), [event])
          yield* complete(snapshots[0]!)
        }
        assert.deepStrictEqual(yield* ready(), [])
      })
    )

    test(
      "keeps an ordinary event back while the key is suspended (K23)",
      Effect.gen(function*() {
        const { ids, offset } = yield* request()
        yield* send({ event: "hello" })
        assert.isFalse(yield* isReady())
        yield* perform(ids[0]!)
        const resumed = yield* load()
        assert.strictEqual(resumed.offset, offset)
        yield* complete(resumed)
        assert.strictEqual((yield* load()).event, "hello")
      })
    )

    test(
      "keeps two agents apart that work for one key (K88)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const assess = { agent: "assess", key: "c-9" }
        const refunds = { agent: "refunds", key: "c-9" }
        yield* request([{}], assess)
        yield* stage([{}], refunds)
        assert.deepStrictEqual(yield* states, ["Staged", "Staged"])
        yield* send(refunds)
        yield* complete(yield* load(refunds), { memory: { seen: 1 } })
        assert.deepInclude(yield* store.key(assess), { seq: 1, memory: {}, inbox: 0 })
        assert.deepInclude(yield* store.key(refunds), { seq: 2, memory: { seen: 1 }, inbox: 0, waiting: [] })
      })
    )
  })

const landings = ({ test }: Bench) =>
  describe("commit", () => {
    test(
      "ends an event with everything it left",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const snapshot = yield* load()
        const intent = draft(snapshot, 0)
        yield* complete(snapshot, {
          output: { band: "high" },
          emitted: ["one", "two"],
          memory: { count: 1 },
          intents: [intent],
          trace: [{ type: "IntentStaged", step: 0, tool: "charge", id: intent.id }, { type: "Completed" }]
        })
        assert.deepInclude(yield* store.event(offset), { state: "Completed", seq: 0, output: { band: "high" } })
        assert.deepStrictEqual(yield* store.key(alone), {
          ...alone,
          seq: 1,
          revision: 1,
          memory: { count: 1 },
          current: undefined,
          waiting: [],
          inbox: 0,
          blocked: undefined
        })
        const outputs = yield* store.outputs({ agent: "agent", after: 0, limit: 10 })
        assert.deepStrictEqual(outputs.map(({ key, output, seq }) => [key, seq, output]), [
          ["key", 0, "one"],
          ["key", 0, "two"],
          ["key", 0, { band: "high" }]
        ])
        assert.deepStrictEqual((yield* store.trace(offset)).map(({ type }) => type), ["IntentStaged", "Completed"])
        assert.deepInclude((yield* store.entry(intent.id)).intent, { argumentsDigest: intent.argumentsDigest })
      })
    )

    test(
      "keeps what a suspension needs until it goes on",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const first = yield* load()
        const intents = [draft(first, 0)]
        const waiting = waitingFor(...intents)
        const rows = [{ type: "time" as const, segment: 0, at: 7 }]
        yield* suspend(first, waiting, { intents, memory: { count: 1 }, rows })
        assert.deepInclude(yield* store.event(offset), { state: "Suspended", seq: 0, output: undefined })
        assert.deepInclude(yield* store.key(alone), { current: offset, waiting, revision: 1, inbox: 0 })
        yield* perform(intents[0]!.id, "receipt")
        const resumed = yield* load()
        assert.deepInclude(resumed, { offset, seq: 0, revision: 1, memory: { count: 1 } })
        assert.deepStrictEqual(resumed.rows.map(({ row }) => row), rows)
        assert.deepInclude(resumed.continuation, { segment: 1, rows: 1, waiting })
        assert.deepStrictEqual(resumed.answers, [
          { step: 0, answer: { type: "intent", result: { _tag: "Success", value: "receipt" } } }
        ])
      })
    )

    test(
      "leaves the memory alone where an activation did not write it",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (const left of [{ memory: { a: 1 } }, {}]) {
          yield* send()
          yield* complete(yield* load(), left)
          assert.deepStrictEqual((yield* store.key(alone)).memory, { a: 1 })
        }
        yield* send()
        yield* complete(yield* load(), { memory: { b: [2] } })
        assert.deepStrictEqual((yield* store.key(alone)).memory, { b: [2] })
      })
    )

    test(
      "numbers the events of a key without a gap, whatever happens to others, and keeps the number over a resume",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const seqs: Array<number | undefined> = []
        for (const how of ["complete", "fail", "resume", "cancel", "complete"]) {
          yield* send()
          const snapshot = yield* load()
          if (how === "fail") yield* fail(snapshot, undefined)
          if (how === "cancel") yield* store.cancel({ ...alone, by: "maria" })
          if (how === "complete") yield* complete(snapshot)
          if (how === "resume") {
            const intents = [draft(snapshot, 0)]
            yield* suspend(snapshot, waitingFor(...intents), { intents })
            yield* perform(intents[0]!.id)
            const resumed = yield* load()
            assert.strictEqual(resumed.seq, snapshot.seq)
            yield* complete(resumed)
          }
          seqs.push((yield* store.event(snapshot.offset))!.seq)
        }
        assert.deepStrictEqual(seqs, [0, undefined, 1, undefined, 2])
        assert.strictEqual((yield* store.key(alone)).seq, 3)
      })
    )

    test(
      "keeps the first record of an intent that is staged again with the same content",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const next = draft({ ...alone, seq: 1 }, 0)
        const [id] = yield* stage([next])
        yield* perform(id!)
        const before = yield* store.entry(id!)
        yield* send()
        yield* complete(yield* load(), { intents: [next] })
        assert.deepStrictEqual(yield* store.entry(id!), before)
      })
    )

    test(
      "stamps the times of its intents by the store's clock (K45)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        const snapshot = yield* load()
        const gated = { approval: "required", approvalTimeout: 500, ttl: 1000 } as const
        yield* complete(snapshot, { intents: [draft(snapshot, 0, { ttl: 1000 }), draft(snapshot, 1, gated)] })
        const [free, waits] = yield* store.entries({})
        const { createdAt } = free!.intent
        assert.isAtLeast(createdAt, snapshot.now)
        assert.deepInclude(free!.intent, { expiresAt: createdAt + 1000, approvalDueAt: undefined })
        assert.deepInclude(waits!.intent, { createdAt, approvalDueAt: createdAt + 500 })
      })
    )
  })

const refusals = ({ test }: Bench) =>
  describe("commit refuses", () => {
    test(
      "all owners of one revision but one (K27)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { ids } = yield* request()
        yield* perform(ids[0]!)
        const snapshot = yield* load()
        const exits = yield* atOnce(10, (owner) =>
          Effect.exit(complete(snapshot, { output: owner, memory: { owner }, emitted: [`by ${owner}`] })))
        const landed = exits.flatMap((exit, owner) =>
          Exit.isSuccess(exit) ? [owner] : []
        )
        assert.lengthOf(landed, 1)
        assert.deepInclude(yield* store.key(alone), { revision: 2, memory: { owner: landed[0]! } })
        const outputs = yield* store.outputs({ agent: "agent", after: 0, limit: 10 })
        assert.deepStrictEqual(outputs.map(({ output }) => output), [`by ${landed[0]}`, landed[0]!])
        const conflict = yield* Effect.flip(complete(snapshot))
        assert.instanceOf(conflict, AgentStore.CommitConflict)
        assert.deepInclude(conflict, { ...alone, expected: 1, actual: 2 })
      })
    )

    test(
      "who read the event before another owner suspended it",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        const snapshot = yield* load()
        const intents = [draft(snapshot, 0)]
        const suspending = () => Effect.exit(suspend(snapshot, waitingFor(...intents), { intents, emitted: ["once"] }))
        const exits = yield* atOnce(10, suspending)
        assert.lengthOf(exits.filter(Exit.isSuccess), 1)
        assert.instanceOf(yield* Effect.flip(complete(snapshot)), AgentStore.CommitConflict)
        assert.deepInclude(yield* store.event(offset), { state: "Suspended", seq: 0 })
        assert.deepInclude(yield* store.key(alone), { revision: 1, seq: 1 })
        assert.lengthOf(yield* store.outputs({ agent: "agent", after: 0, limit: 10 }), 1)
      })
    )

    test(
      "a revision that is over: nothing of it lands",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send()
        const stale = yield* load()
        yield* complete(stale)
        yield* send()
        const before = yield* store.key(alone)
        const left = { intents: [draft(stale, 5)], memory: { stale: true }, emitted: ["stale"] }
        assert.instanceOf(yield* Effect.flip(complete(stale, left)), AgentStore.CommitConflict)
        assert.instanceOf(yield* Effect.flip(suspend(stale, [], left)), AgentStore.CommitConflict)
        assert.deepStrictEqual(yield* store.key(alone), before)
        assert.deepStrictEqual(yield* states, [])
        assert.lengthOf(yield* store.outputs({ agent: "agent", after: 0, limit: 10 }), 1)
      })
    )

    test(
      "an event that ended in the meantime, although no commit raised the revision",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        yield* send({ event: "first" })
        yield* send({ event: "second" })
        const snapshot = yield* load()
        yield* fail(snapshot, undefined)
        assert.instanceOf(yield* Effect.flip(complete(snapshot)), AgentStore.CommitConflict)
        assert.strictEqual((yield* store.event(snapshot.offset))!.state, "DeadLetter")
        assert.strictEqual((yield* load()).event, "second")
      })
    )

    test(
      "an intent that conflicts with one that is there: nothing of the commit lands (K66)",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const next = { ...alone, seq: 1 }
        const [fits, conflicts] = [draft(next, 0), draft(next, 1)]
        yield* stage([{ ...conflicts, argumentsDigest: "another digest" }])
        yield* send()
        const snapshot = yield* load()
        const left = { intents: [fits, conflicts], memory: { lost: true }, emitted: ["lost"] }
        const tries = [complete(snapshot, left), suspend(snapshot, waitingFor(conflicts), left)]
        for (const attempt of tries) {
          const refusal = yield* Effect.flip(attempt)
          assert.instanceOf(refusal, Intent.IntentConflict)
          assert.deepInclude(refusal, { id: conflicts.id, stagedDigest: "another digest" })
        }
        assert.deepInclude(yield* store.key(alone), { revision: 1, seq: 1, memory: {}, inbox: 1 })
        assert.deepStrictEqual(yield* states, ["Staged"])
        assert.lengthOf(yield* store.outputs({ agent: "agent", after: 0, limit: 10 }), 1)
        yield* complete(yield* load(), { intents: [fits] })
      })
    )
  })
