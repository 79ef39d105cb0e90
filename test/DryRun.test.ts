import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { AgentEngine, AgentStore, Effector, type Intent } from "../src/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { chargeWith, desk, sendEmail } from "./fixtures/desk.ts"

const { charge } = Desk

const dryRun = (answer?: Parameters<typeof Effector.dryRun>[0], tool = charge) =>
  AgentEngine.layer(Desk.deskWith(tool)).pipe(
    Layer.provide(Effector.dryRun(answer)(tool, sendEmail)),
    Layer.provideMerge(AgentStore.layerMemory)
  )

const run = (...orders: ReadonlyArray<typeof Desk.Order.Type>) =>
  Effect.gen(function*() {
    const { drain, intents, send } = yield* AgentEngine.AgentEngine
    const { event } = yield* AgentStore.AgentStore
    const { offset } = yield* send(desk, { key: "c1", event: orders })
    yield* drain
    return { status: yield* event(offset), entries: yield* intents() }
  })

describe("a dry run", () => {
  it.effect("performs nothing and leaves what was asked for in the ledger; who waits stays suspended", () =>
    Effect.gen(function*() {
      const { entries, status } = yield* run({ do: "act", cents: 5 }, { do: "request", mail: "paid" })
      assert.deepInclude(status, { state: "Suspended", output: undefined })
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged", "sendEmail Staged"])
      assert.deepStrictEqual(entries.map(({ attempt, claim, intent }) => [attempt, claim, intent.arguments]), [
        [0, undefined, "{\"amountCents\":5,\"customerId\":\"c1\"}"],
        [0, undefined, "{\"body\":\"paid\",\"to\":\"c1\"}"]
      ])
    }).pipe(Effect.provide(dryRun())))

  it.effect("is answered by the function it was given, which sees the arguments decoded", () => {
    const asked: Array<unknown> = []
    const answer = (request: { readonly intent: Intent.Intent; readonly arguments: unknown }): Intent.Result => {
      asked.push([request.intent.tool, request.arguments])
      return { _tag: "Success", value: `would be ${request.intent.tool}` }
    }
    return Effect.gen(function*() {
      const { status } = yield* run({ do: "request", cents: 5 }, { do: "request", mail: "paid" })
      assert.deepStrictEqual(status?.output, ["would be charge", "would be sendEmail"])
      assert.deepStrictEqual(asked, [
        ["charge", { customerId: "c1", amountCents: 5 }],
        ["sendEmail", { to: "c1", body: "paid" }]
      ])
      assert.deepStrictEqual(yield* Desk.states, ["charge Performed", "sendEmail Performed"])
    }).pipe(Effect.provide(dryRun(answer)))
  })

  const results: ReadonlyArray<readonly [Intent.Result, string]> = [
    [{ _tag: "Failure", error: { _tag: "ToolArgumentError", reason: "funds" } }, "declined: funds"],
    [{ _tag: "NotPerformed", reason: "Expired", message: "" }, "not performed: Expired"],
    [{ _tag: "OutcomeUnknown", reason: "Crashed", message: "" }, "unknown: Crashed"],
    [{ _tag: "Unavailable", message: "" }, "unavailable"]
  ]
  it.effect.each(results)("answers with every kind of result: %o", ([result, told]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* run({ do: "request", cents: 5 })).status?.output, [told])
    }).pipe(Effect.provide(dryRun(() => result))))

  it.effect("what is given no answer holds nothing up that comes after it", () =>
    Effect.gen(function*() {
      const { status } = yield* run({ do: "act", cents: 5 }, { do: "request", mail: "paid" })
      assert.deepStrictEqual(status?.output, ["acted", "sent"])
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged", "sendEmail Performed"])
    }).pipe(Effect.provide(
      dryRun(({ intent }) => intent.tool === "charge" ? undefined : { _tag: "Success", value: "sent" })
    )))

  it.effect("an answer that dies is logged, asked for once, and stops nothing else", () => {
    const lines: Array<string> = []
    let asked = 0
    const answer = ({ intent }: { readonly intent: Intent.Intent }): Intent.Result => {
      if (intent.tool === "sendEmail") return { _tag: "Success", value: "sent" }
      asked++
      throw new Error("no idea")
    }
    return Effect.gen(function*() {
      yield* run({ do: "act", cents: 5 }, { do: "act", mail: "paid" })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* Desk.states, ["charge Staged", "sendEmail Performed"])
      assert.strictEqual(asked, 1)
      assert.lengthOf(lines, 1)
      assert.include(lines[0], "no idea")
    }).pipe(Effect.provide(Layer.provideMerge(dryRun(answer), Desk.logged(lines))))
  })

  it.effect("asks for nothing that waits for a person, before it is approved", () => {
    const gated = chargeWith({ approval: "required" })
    let asked = 0
    const answer = (): Intent.Result => ({ _tag: "Success", value: `receipt ${++asked}` })
    return Effect.gen(function*() {
      const { decide, drain } = yield* AgentEngine.AgentEngine
      const { entries } = yield* run({ do: "request", cents: 5 })
      assert.strictEqual(asked, 0)
      yield* decide({ id: entries[0]!.intent.id, approved: true, by: "maria" })
      yield* drain
      assert.strictEqual(asked, 1)
    }).pipe(Effect.provide(dryRun(answer, gated)))
  })
})
