/**
 * Testing an agent. `Agent.activate` is the pure step: state, event and clock in, everything the agent did out, as data. It
 * needs the handlers of reads and no effector, so a test cannot charge anybody. `effect-intents/testing` runs the whole thing
 * in virtual time and writes down what would have happened outside.
 */
import { Effect, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, Tool } from "effect-intents"
import { Effects, TestEngine } from "effect-intents/testing"
import { TestClock } from "effect/testing"
import { deepStrictEqual, strictEqual } from "node:assert"

const balance = Tool.readOnly("balance", {
  description: "Look up a balance.",
  parameters: { account: Schema.String },
  success: Schema.Struct({ cents: Schema.Int })
})

const remind = Tool.sideEffect("remind", {
  description: "Send a payment reminder.",
  parameters: { account: Schema.String, cents: Schema.Int },
  success: Schema.String
})

const dunning = Agent.make(
  "dunning",
  { event: Schema.Struct({ account: Schema.String }), output: Schema.String },
  Effect.fnUntraced(function*(ctx, { account }) {
    const before = yield* ctx.runTool(balance({ account }))
    if (before.cents >= 0) return Agent.complete("nothing owed")
    const letter = yield* ctx.request(remind({ account, cents: -before.cents }))
    yield* ctx.sleep("14 days")
    const after = yield* ctx.runTool(balance({ account }))
    return Agent.complete(after.cents < 0 ? `still owed after ${letter}` : `paid after ${letter}`)
  })
)

// A read is given by the test, like any other service.
const balanceOf = (cents: number) => balance.toLayer(() => Effect.succeed({ cents }))

const given = { key: "a-1", event: { account: "a-1" } }

const stepByStep = Effect.gen(function*() {
  const paid = yield* Agent.activate(dunning, given).pipe(Effect.provide(balanceOf(0)))
  deepStrictEqual(paid.outcome, { _tag: "Complete", output: "nothing owed" })
  deepStrictEqual(paid.intents, [])

  const owing = Agent.activate(dunning, given).pipe(Effect.provide(balanceOf(-500)))
  const asked = yield* owing
  strictEqual(asked.outcome._tag, "Suspended")
  deepStrictEqual(asked.intents.map(({ arguments: given, tool }) => [tool, given]), [
    ["remind", `{"account":"a-1","cents":500}`]
  ])
  // The same event gives the same intent ids on every machine: they name the place, not the run.
  deepStrictEqual((yield* owing).intents, asked.intents)

  // The test answers step 0 in the place of an effector, then step 1, the sleep, in the place of a clock.
  const sleeping = yield* Agent.activate(dunning, {
    ...given,
    resume: { from: asked, answers: { 0: { _tag: "Success", value: "letter-1" } } }
  }).pipe(Effect.provide(balanceOf(-500)))
  const ended = yield* Agent.activate(dunning, {
    ...given,
    resume: { from: sleeping, answers: { 1: { type: "slept" } } }
  }).pipe(Effect.provide(balanceOf(0)))
  deepStrictEqual(ended.outcome, { _tag: "Complete", output: "paid after letter-1" })

  // What earlier segments read is not read again: the first balance came from the journal.
  deepStrictEqual(ended.trace.map(({ type }) => type), ["ToolCall", "Completed"])
})

const wholeThing = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* engine.send(dunning, given)
  yield* engine.drain
  yield* TestClock.adjust("14 days")

  const outputs = yield* Stream.runCollect(Stream.take(engine.outputs(dunning), 1))
  deepStrictEqual(outputs.map(({ output }) => output), ["still owed after letter-1"])
  const letters = yield* Effects.of(remind)
  deepStrictEqual(letters.map((effect) => effect.arguments.cents), [500])
})

const Test = TestEngine.layer({
  agents: [dunning],
  effects: [Effects.on(remind, () => Effect.succeed("letter-1"))]
}).pipe(
  Layer.provide(balanceOf(-500)),
  Layer.provideMerge(TestClock.layer())
)

await Effect.runPromise(stepByStep)
await Effect.runPromise(Effect.provide(wholeThing, Test))
console.log("all assertions hold, and nobody was reminded")
