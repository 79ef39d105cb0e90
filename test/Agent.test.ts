import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Exit, Schema } from "effect"
import { Agent, Memory } from "../src/index.ts"
import { aCharge, agent, rowsOf, run, success, world } from "./fixtures/activations.ts"

const complete = () => Effect.succeed(Agent.complete("done"))
const strings = { event: Schema.String, output: Schema.String }

describe("an agent is refused when it is made, naming it and the reason,", () => {
  const refused: ReadonlyArray<readonly [what: string, name: any, schemas: Partial<Agent.Schemas>, reason: string]> = [
    ["with an empty name", "", {}, "a name matches"],
    ["with a name of 65 letters", "a".repeat(65), {}, "a name matches"],
    ["with a name with a space", "a b", {}, "a name matches"],
    ["with a name with a lone surrogate", "\ud800", {}, "a name matches"],
    ["with a name that is none", 7, {}, "a name matches"],
    ["with an empty version", "a", { version: "" }, "'version' is empty"],
    ["without time to run", "a", { timeout: 0 }, "'timeout' is not positive"],
    ["without room for memory", "a", { memoryBytes: 0 }, "'memoryBytes' and 'maxBytes' are positive"],
    ["without room for events", "a", { maxBytes: Number.NaN }, "'memoryBytes' and 'maxBytes' are positive"],
    [
      "with a list that holds nothing",
      "a",
      { memory: { log: Memory.list(Schema.String, { maxItems: 0 }) } },
      "'maxItems' of the list 'log'"
    ],
    [
      "with a list of half an item",
      "a",
      { memory: { log: Memory.list(Schema.String, { maxItems: 1.5 }) } },
      "'maxItems' of the list 'log'"
    ]
  ]
  it.each(refused)("%s", (_, name, schemas, reason) => {
    const make = () => Agent.make(name, { ...strings, ...schemas }, complete)
    assert.throws(make, Agent.AgentDefinitionError)
    assert.throws(make, `agent '${String(name).slice(0, 80)}': ${reason}`)
  })

  it("and not where everything is at its limit", () => {
    const made = Agent.make("a".repeat(64), { ...strings, timeout: 1, memoryBytes: 1, maxBytes: 1 }, complete)
    assert.strictEqual(made.name.length, 64)
  })
})

describe("what is not said is", () => {
  it("version 1, five minutes, 256 KiB of memory, 1 MiB, no retry", () => {
    const { definition, retry } = agent(complete)
    const { maxBytes, memoryBytes, timeout, version } = definition
    assert.deepStrictEqual(
      { version, timeout: Duration.toMinutes(timeout), memoryBytes, maxBytes, retry },
      { version: "1", timeout: 5, memoryBytes: 262_144, maxBytes: 1_048_576, retry: undefined }
    )
  })
})

describe("Agent.activate", () => {
  it.effect("gives outcome, intents, trace, memory and journal, and needs no effector", () =>
    Effect.gen(function*() {
      const { lookup } = world()
      const subject = Agent.make(
        "agent",
        { ...strings, memory: { count: Memory.entry(Schema.Int, () => 0) } },
        Effect.fnUntraced(function*(ctx, event) {
          yield* ctx.memory.update("count", (count) => count + 1)
          yield* ctx.act(aCharge())
          yield* ctx.emit("between")
          return Agent.complete(yield* ctx.runTool(lookup({ id: event })))
        })
      )
      const activated = yield* run(subject, { memory: { count: 4 } })
      assert.deepStrictEqual(activated.outcome, { _tag: "Complete", output: "e!" })
      assert.deepStrictEqual(activated.intents.map(({ arguments: given }) => given), [
        `{"amountCents":500,"customerId":"c1"}`
      ])
      assert.deepStrictEqual(activated.trace.map(({ type }) => type), ["IntentStaged", "ToolCall", "Completed"])
      assert.deepStrictEqual(activated.memory, { count: 5 })
      assert.deepStrictEqual(activated.emitted, ["between"])
      assert.deepStrictEqual(rowsOf(activated), ["0 time", "0 act 0", "0 emit 0", "0 read lookup Success", "0 memory"])
    }))

  it.effect("gives the same for the same, and changes nothing it was given", () =>
    Effect.gen(function*() {
      const memory = Object.freeze({ log: Object.freeze(["a"]) })
      const subject = Agent.make(
        "agent",
        { ...strings, memory: { log: Memory.list(Schema.String, { maxItems: 5 }) } },
        (ctx) => Effect.as(Effect.andThen(ctx.memory.append("log", "b"), ctx.act(aCharge())), Agent.complete("done"))
      )
      const first = yield* run(subject, { memory })
      assert.deepStrictEqual(yield* run(subject, { memory }), first)
      assert.deepStrictEqual(memory, { log: ["a"] })
    }))

  it.effect("dies for a resume that does not fit what is resumed", () =>
    Effect.gen(function*() {
      const subject = agent((ctx) => Effect.map(ctx.request(aCharge()), Agent.complete))
      const waiting = yield* run(subject)
      const done = yield* run(agent(complete))
      const resumes = [
        [{ from: done, answers: {} }, "'agent' did not suspend"],
        [{ from: waiting, answers: { 3: success("x") } }, "'agent' does not wait at step 3"]
      ] as const
      for (const [resume, message] of resumes) {
        const exit = yield* Effect.exit(run(subject, { resume }))
        assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", message)
      }
    }))
})
