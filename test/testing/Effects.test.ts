import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, Tool } from "../../src/index.ts"
import { Effects, TestEngine } from "../../src/testing/index.ts"

const how = Schema.Literals(["succeed", "fail", "die", "hang"])

const flaky = Tool.sideEffect("flaky", {
  description: "Does what it is told, and ends as it is told.",
  parameters: { how },
  success: Schema.String,
  failure: Schema.String,
  timeout: "1 minute",
  idempotent: true,
  verify: true
})

const ask = Agent.make(
  "ask",
  { event: how, output: Schema.String },
  Effect.fnUntraced(function*(ctx, how) {
    return Agent.complete(yield* Effect.catch(ctx.request(flaky({ how })), (error) => Effect.succeed(String(error))))
  })
)

const answer = (how: typeof flaky.Types.Input["how"], attempt: number): Effect.Effect<string, string> => {
  if (attempt > 1) return Effect.succeed(`attempt ${attempt}`)
  switch (how) {
    case "succeed":
      return Effect.delay(Effect.succeed("done"), "1 second")
    case "fail":
      return Effect.fail("no")
    case "die":
      return Effect.die(new Error("boom"))
    case "hang":
      return Effect.never
  }
}

describe("Effects", () => {
  const cases = [
    { event: "succeed", output: "done", starts: 1 },
    { event: "fail", output: "no", starts: 1 },
    { event: "die", output: "attempt 2", starts: 2 },
    { event: "hang", output: "attempt 2", starts: 2 }
  ] as const
  for (const { event, output, starts } of cases) {
    it.effect(`are written down once per start, however the handler goes on: ${event}`, () =>
      Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        const call = yield* Effect.forkChild(engine.call(ask, { key: "k", event }))
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(yield* Fiber.join(call), output)
        const effects = yield* Effects.of(flaky)
        assert.deepStrictEqual(effects.map(({ attempt }) => attempt), [1, 2].slice(0, starts))
        assert.deepStrictEqual(new Set(effects.map((effect) => effect.arguments.how)), new Set([event]))
        assert.strictEqual(new Set(effects.map(({ id }) => id)).size, 1)
      }).pipe(Effect.provide(
        TestEngine.layer({
          agents: [ask],
          effects: [
            Effects.on(flaky, ({ how }, { attempt }) => answer(how, attempt), {
              verify: () => Effect.succeed({ _tag: "Unknown" })
            })
          ]
        })
      )))
  }

  it.effect("do not happen where the handler fails before, and `verify` is told what happened", () =>
    Effect.gen(function*() {
      const engine = yield* AgentEngine.AgentEngine
      const failed = yield* Effect.forkChild(engine.call(ask, { key: "a", event: "fail" }))
      const hanging = yield* Effect.forkChild(engine.call(ask, { key: "b", event: "hang" }))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* Fiber.join(failed), "refused")
      assert.strictEqual(yield* Fiber.join(hanging), "seen 4 times")
      assert.deepStrictEqual((yield* Effects.of(flaky)).map(({ key }) => key), ["b", "b", "b", "b"])
    }).pipe(Effect.provide(
      TestEngine.layer({
        agents: [ask],
        effects: [
          Effects.on(flaky, () => Effect.never, {
            before: ({ how }) => how === "fail" ? Effect.fail("refused") : Effect.void,
            verify: (_, happened) => Effect.succeed({ _tag: "Performed", value: `seen ${happened.length} times` })
          })
        ]
      })
    )))
})
