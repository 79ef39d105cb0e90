/**
 * Random programs, events, answers and deaths over the real engine, effector and store: whatever happens, the promises hold.
 * `PROPERTY_RUNS` says how many cases, `PROPERTY_SEED` which.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Layer, References } from "effect"
import { TestClock } from "effect/testing"
import { Crash, TestEngine } from "../src/testing/index.ts"
import { seed } from "./fixtures/property.ts"
import { violations } from "./testing/model/Invariants.ts"
import { Case, type Outcome, run } from "./testing/model/Run.ts"

const runs = Number(process.env["PROPERTY_RUNS"] ?? 200)

const outcomeOf = (given: Case, options?: { readonly alwaysReplay: boolean }) =>
  run(given, options).pipe(
    Effect.provide(Layer.merge(TestEngine.outside, TestClock.layer())),
    Effect.provideService(References.MinimumLogLevel, "None"),
    Effect.scoped
  )

/** Checks random cases, and fails with the smallest that is wrong, and how to get it again. */
const holds = Effect.fnUntraced(function*(
  runs: number,
  wrongOf: (given: Case) => Effect.Effect<ReadonlyArray<string>, unknown>
) {
  const result = yield* Arbitrary.checkEffect(
    Arbitrary.schema(Case),
    (given) =>
      Effect.flatMap(
        wrongOf(given),
        (wrong) => wrong.length === 0 ? Effect.succeed(true) : Effect.fail(wrong.join("\n"))
      ),
    { runs, seed }
  )
  const failure = Arbitrary.formatCheckFailure(result)
  if (failure !== undefined) assert.fail(`${failure}\nPROPERTY_SEED=${seed}`)
})

describe("Engine, effector and store", () => {
  it.effect(
    "keep every promise, wherever processes die",
    () => holds(runs, (given) => Effect.map(outcomeOf(given), violations)),
    600_000
  )

  it.effect(
    "keep every promise while each activation is replayed before its commit",
    () => holds(runs / 2, (given) => Effect.map(outcomeOf(given, { alwaysReplay: true }), violations)),
    600_000
  )

  it.effect(
    "come to the same outcome whether or not each activation is replayed before its commit",
    () =>
      holds(runs / 4, (given) =>
        Effect.gen(function*() {
          const calm = inPeace(given)
          const once = comparable(yield* outcomeOf(calm))
          const replayed = comparable(yield* outcomeOf(calm, { alwaysReplay: true }))
          return once === replayed ? [] : [once, replayed]
        })),
    600_000
  )

  it.effect(
    "keep every promise when the process dies at any of the steps of a run, and each step is one of them",
    () =>
      Effect.gen(function*() {
        const steps = new Set<string>()
        for (let nth = 1;; nth++) {
          const outcome = yield* outcomeOf({ ...everything, crashes: [{ step: "any", nth }] })
          assert.deepStrictEqual(violations(outcome), [], `killed at step ${nth}`)
          for (const { step } of outcome.places) steps.add(step)
          if (outcome.places.length === 0) break
        }
        assert.deepStrictEqual([...steps].sort(), [...Crash.steps].sort())
      }),
    600_000
  )
})

/** One event with everything in it. */
const everything: Case = {
  commands: [{
    do: "send",
    agent: "a",
    key: "k1",
    script: [
      { op: "increment" },
      { op: "read" },
      { op: "act", call: { tool: "idempotent", how: "die", verdict: "yes" } },
      { op: "model" },
      { op: "emit" },
      { op: "request", call: { tool: "gated", how: "succeed", verdict: "yes" } },
      { op: "failOnce" },
      { op: "increment" },
      {
        op: "requestAll",
        calls: [
          { tool: "plain", how: "slow", verdict: "yes" },
          { tool: "verified", how: "hang", verdict: "yes" },
          { tool: "plain", how: "fail", verdict: "yes" }
        ]
      },
      { op: "receive", seconds: 3 },
      { op: "emit" },
      { op: "broken" }
    ],
    twice: true,
    seconds: 0
  }],
  crashes: [],
  processes: 1,
  downtime: 3
}

/** The case with one process that nobody kills. */
const inPeace = (given: Case): Case => ({
  ...given,
  commands: given.commands.filter((command) => command.do !== "kill" && command.do !== "stop"),
  crashes: [],
  processes: 1
})

/** Everything that is to be seen, without what is random by itself. */
const comparable = (outcome: Outcome): string =>
  JSON.stringify(outcome, (name, value) => name === "token" || name === "lastToken" ? undefined : value, 1)
