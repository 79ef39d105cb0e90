/**
 * `send`, `message` and `refuseMessage`: what comes in is kept once, in order, and refused loudly.
 *
 * @since 0.1.0
 */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AgentStore from "../../AgentStore.ts"
import type * as CanonicalJson from "../../CanonicalJson.ts"
import type { Bench } from "./Fixture.ts"
import { alone, atOnce, complete, isReady, keyOf, load, send, suspend } from "./Fixture.ts"

/**
 * @since 0.1.0
 * @category testing
 */
export const inboxes = ({ inboxLimit, test }: Bench): void => {
  describe("send", () => {
    test(
      "gives each event an offset of its own, in the order of arrival",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const first = yield* send({ event: "first" })
        const second = yield* send({ event: "second", key: "other" })
        assert.isFalse(first.duplicate)
        assert.isBelow(first.offset, second.offset)
        assert.deepStrictEqual(yield* store.event(first.offset), {
          ...alone,
          offset: first.offset,
          eventId: undefined,
          seq: undefined,
          state: "Waiting",
          event: "first",
          failures: 0,
          output: undefined,
          reason: undefined
        })
        assert.isUndefined(yield* store.event(second.offset + 1))
      })
    )

    test(
      "keeps an event as it was sent",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        for (const event of awkward) {
          const { offset } = yield* send({ event })
          assert.strictEqual(JSON.stringify((yield* store.event(offset))!.event), JSON.stringify(event))
        }
      })
    )

    test(
      "takes the same event id with the same content once, also after the event has ended",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send({ eventId: "e1", event: { a: 1, b: 2 } })
        assert.deepStrictEqual(yield* send({ eventId: "e1", event: { b: 2, a: 1 } }), { offset, duplicate: true })
        assert.strictEqual((yield* store.key(alone)).inbox, 1)
        yield* complete(yield* load())
        assert.deepStrictEqual(yield* send({ eventId: "e1", event: { a: 1, b: 2 } }), { offset, duplicate: true })
        assert.isFalse(yield* isReady())
      })
    )

    test(
      "refuses another content under the same event id, and keeps the first",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send({ eventId: "e1", event: { cents: 1 } })
        const conflict = yield* Effect.flip(send({ eventId: "e1", event: { cents: 2 } }))
        assert.instanceOf(conflict, AgentStore.EventConflict)
        assert.deepInclude(conflict, { ...alone, eventId: "e1" })
        assert.deepStrictEqual((yield* store.event(offset))!.event, { cents: 1 })
        assert.strictEqual((yield* store.key(alone)).inbox, 1)
      })
    )

    test(
      "knows event ids per key of an agent, and takes events without one as often as they come",
      Effect.gen(function*() {
        const sent = [
          { agent: "a|1", key: "2", eventId: "e1" },
          { agent: "a", key: "1|2", eventId: "e1" },
          { agent: "a", key: "1", eventId: "2|e1" },
          { agent: "a", key: "1", eventId: undefined },
          { agent: "a", key: "1", eventId: undefined }
        ]
        const receipts = yield* Effect.forEach(sent, send)
        assert.isTrue(receipts.every(({ duplicate }) => !duplicate))
        assert.strictEqual(new Set(receipts.map(({ offset }) => offset)).size, sent.length)
      })
    )

    test(
      "refuses an event for a full inbox, and for no other",
      Effect.gen(function*() {
        for (let event = 0; event < inboxLimit; event++) yield* send({ eventId: `e${event}` })
        const full = yield* Effect.flip(send({ eventId: "one too many" }))
        assert.instanceOf(full, AgentStore.InboxFull)
        assert.deepInclude(full, { ...alone, limit: inboxLimit })
        assert.isTrue((yield* send({ eventId: "e0" })).duplicate, "a duplicate takes no place")
        assert.isFalse((yield* send({ key: "other" })).duplicate)
        yield* complete(yield* load())
        assert.isFalse((yield* send({ eventId: "one too many" })).duplicate)
      })
    )

    test(
      "takes one of many that are sent at once under one event id, and all of those without",
      Effect.gen(function*() {
        const same = yield* atOnce(10, () => send({ eventId: "e1" }))
        assert.lengthOf(same.filter(({ duplicate }) => !duplicate), 1)
        assert.strictEqual(new Set(same.map(({ offset }) => offset)).size, 1)
        const others = yield* atOnce(10, (key) => send({ key: `${key}` }))
        assert.strictEqual(new Set(others.map(({ offset }) => offset)).size, 10)
      })
    )
  })

  describe("ready", () => {
    test(
      "gives a key that waits its turn before one that had it, however many events that has left",
      Effect.gen(function*() {
        const [busy, waiting] = [keyOf("busy"), keyOf("waiting")]
        for (let event = 0; event < 3; event++) yield* send({ ...busy, event })
        yield* send(waiting)
        const first = AgentStore.AgentStore.use((store) =>
          store.ready({ agents: [busy.agent], limit: 1, busy: (_, key) => key !== busy.key && key !== waiting.key })
        )
        const [turn] = yield* first
        assert.strictEqual(turn?.key, busy.key)
        yield* complete(turn!)
        assert.strictEqual((yield* first)[0]?.key, waiting.key)
      })
    )
  })

  describe("message", () => {
    test(
      "wakes the key that waits for one, which gets messages in order, one at a time",
      Effect.gen(function*() {
        yield* send()
        yield* suspend(yield* load(), [receive(0)])
        assert.isFalse(yield* isReady())
        yield* message("first")
        yield* message("second")
        const woken = yield* load()
        assert.deepInclude(woken.answers[0]!.answer, { type: "message", message: "first" })
        yield* suspend(woken, [receive(1)], { rows: [used(woken)] })
        const again = yield* load()
        assert.deepInclude(again.answers[0]!.answer, { type: "message", message: "second" })
        yield* suspend(again, [receive(2)], { rows: [used(again)] })
        assert.isFalse(yield* isReady())
      })
    )

    test(
      "is kept until a key waits for it, and by a commit that did not use it",
      Effect.gen(function*() {
        yield* message({ early: true })
        for (let time = 0; time < 2; time++) {
          yield* send()
          yield* suspend(yield* load(), [receive(0)])
          const woken = yield* load()
          assert.deepInclude(woken.answers[0]!.answer, { type: "message", message: { early: true } })
          yield* complete(woken)
        }
      })
    )

    test(
      "wakes no other key, and no key that waits for something else",
      Effect.gen(function*() {
        yield* send()
        yield* suspend(yield* load(), [receive(0)])
        yield* message("for another", keyOf("other"))
        yield* message("for another", { ...alone, agent: "other" })
        assert.isFalse(yield* isReady())
        yield* send({ key: "sleeping" })
        yield* suspend(yield* load(keyOf("sleeping")), [{ type: "timer", step: 0, millis: 24 * 60 * 60 * 1000 }])
        yield* message("too early", keyOf("sleeping"))
        assert.isFalse(yield* isReady(keyOf("sleeping")))
      })
    )
  })

  describe("refuseMessage", () => {
    test(
      "makes the message a dead letter, once, while the key keeps waiting for the next",
      Effect.gen(function*() {
        const store = yield* AgentStore.AgentStore
        const { offset } = yield* send()
        yield* suspend(yield* load(), [receive(0)])
        const misfit = yield* message("misfit")
        const refused = { ...alone, offset: misfit.offset, detail: "not a Reply" }
        yield* store.refuseMessage(refused)
        yield* store.refuseMessage(refused)
        assert.isFalse(yield* isReady())
        assert.strictEqual((yield* store.event(offset))!.state, "Suspended")
        const letters = yield* store.deadLetters
        assert.lengthOf(letters, 1)
        assert.deepInclude(letters[0], { ...alone, kind: "Message", content: "misfit", offset: misfit.offset })
        assert.include(letters[0]!.reason.message, "not a Reply")
        yield* message("fit")
        assert.deepInclude((yield* load()).answers[0]!.answer, { type: "message", message: "fit" })
        const refusal = yield* Effect.flip(store.redrive({ id: letters[0]!.id, by: "maria", fresh: false }))
        assert.instanceOf(refusal, AgentStore.DeadLetterNotFound)
      })
    )
  })
}

// internal

const awkward: ReadonlyArray<CanonicalJson.Json> = [
  null,
  "",
  0,
  -1.5e300,
  [],
  {},
  "\u0001\n\u2028\ud83d\ude00",
  { "": [{ a: [null, true, "1"] }] },
  JSON.parse(`{"__proto__":{"polluted":true}}`)
]

const receive = (step: number) => ({ type: "message" as const, step, millis: undefined, schema: undefined })

const message = (content: CanonicalJson.Json, target: AgentStore.Target = alone) =>
  AgentStore.AgentStore.use((store) => store.message({ ...target, message: content }))

/** The journal row of a segment that used the message it was woken with. */
const used = ({ answers, continuation }: AgentStore.Snapshot) => ({
  type: "answer" as const,
  segment: continuation!.segment,
  ...answers[0]!
})
