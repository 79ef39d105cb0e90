import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Option, Schema } from "effect"
import { Agent, Tool } from "../src/index.ts"
import {
  aCharge,
  agent,
  anEmail,
  type Ctx,
  LookupFailed,
  reasonOf,
  resume,
  rowsOf,
  run,
  runToEnd,
  world
} from "./fixtures/activations.ts"

const all = { concurrency: "unbounded" } as const

const outputOf = (activated: Effect.Success<ReturnType<typeof run>>) =>
  activated.outcome._tag === "Complete" ? activated.outcome.output : activated.outcome._tag

describe("reads side by side", () => {
  it.effect("K19 one of three fails: the others are interrupted, and the agent sees its typed error", () =>
    Effect.gen(function*() {
      const { answers, lookup } = world()
      const finalized: Array<string> = []
      const slow = (id: string) =>
        answers.set(
          id,
          Effect.onInterrupt(Effect.delay(Effect.succeed(id), "1 second"), () => Effect.sync(() => finalized.push(id)))
        )
      slow("1")
      slow("3")
      answers.set("2", Effect.delay(Effect.fail(new LookupFailed({ id: "2" })), "10 millis"))
      const subject = agent((ctx) =>
        Effect.all([1, 2, 3].map((id) => ctx.runTool(lookup({ id: String(id) }))), all).pipe(
          Effect.as(Agent.complete("no")),
          Effect.catchTag("LookupFailed", ({ id }) => Effect.succeed(Agent.complete(`${id} failed`)))
        )
      )
      const activated = yield* run(subject)
      assert.strictEqual(outputOf(activated), "2 failed")
      assert.deepStrictEqual(finalized, ["1", "3"])
      assert.sameMembers(rowsOf(activated), [
        "0 time",
        "0 read lookup Failure",
        "0 read lookup Interrupted",
        "0 read lookup Interrupted"
      ])
    }))

  it.effect("K29 are answered from the journal in their places after a resume; nothing hangs", () =>
    Effect.gen(function*() {
      const { asked, later, lookup } = world()
      for (const [id, millis] of [["a", 300], ["b", 200], ["c", 100]] as const) later(id, millis)
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const found = yield* Effect.all(["a", "b", "c"].map((id) => ctx.runTool(lookup({ id }))), all)
          return Agent.complete(`${found} ${yield* ctx.request(aCharge())}`)
        })
      )
      const [first, second] = yield* runToEnd(subject)
      assert.strictEqual(first!.outcome._tag, "Suspended")
      assert.strictEqual(outputOf(second!), "a!,b!,c! done")
      assert.deepStrictEqual(asked, ["a", "b", "c"])
    }))

  it.effect("come in the order of the first run again, for code that looks at the order", () =>
    Effect.gen(function*() {
      const { asked, later, lookup } = world()
      const ids = Array.from({ length: 50 }, (_, index) => `${index}`)
      for (const id of ids) later(id, 100 * ((Number(id) * 37) % 50))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const order: Array<string> = []
          yield* Effect.forEach(ids, (id) =>
            Effect.andThen(ctx.runTool(lookup({ id })), () => {
              order.push(id)
              return ctx.emit(id)
            }), all)
          yield* ctx.request(anEmail(order.join(",")))
          return Agent.complete(order.join(","))
        })
      )
      const [first, second] = yield* runToEnd(subject)
      const order = ids.toSorted((a, b) => (Number(a) * 37) % 50 - (Number(b) * 37) % 50)
      assert.deepStrictEqual(first!.emitted, order)
      assert.strictEqual(outputOf(second!), order.join(","))
      assert.lengthOf(asked, 50)
    }))

  it.effect("let a step that was taken before them be taken before them again", () =>
    Effect.gen(function*() {
      const { answers, later, lookup } = world()
      later("a", 500)
      answers.set("never", Effect.never)
      const noted = (ctx: Ctx) => Effect.andThen(ctx.act(aCharge()), ctx.runTool(lookup({ id: "never" })))
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const found = yield* Effect.race(ctx.runTool(lookup({ id: "a" })), noted(ctx))
          yield* ctx.request(anEmail(found))
          return Agent.complete(found)
        })
      )
      const [first, second] = yield* runToEnd(subject)
      assert.deepStrictEqual(first!.intents.map(({ step, tool }) => [step, tool]), [[0, "charge"], [1, "sendEmail"]])
      assert.strictEqual(outputOf(second!), "a!")
    }))

  it.effect("do not wait for what the agent asks no more", () =>
    Effect.gen(function*() {
      const { lookup } = world()
      const subject = (...ids: ReadonlyArray<string>) =>
        agent((ctx) =>
          Effect.gen(function*() {
            const found = yield* Effect.all(ids.map((id) => ctx.runTool(lookup({ id }))), all)
            yield* ctx.request(aCharge())
            return Agent.complete(found.join())
          })
        )
      const first = yield* run(subject("a", "b", "c"))
      assert.strictEqual(outputOf(yield* resume(subject("c", "b"), first)), "c!,b!")
    }))
})

describe("a read under way when the activation suspends", () => {
  // The slow read goes on beside two requests; how long it takes decides in which segment it is answered.
  const subject = (lookup: ReturnType<typeof world>["lookup"], millis: number) =>
    agent((ctx) =>
      Effect.gen(function*() {
        const requests = Effect.gen(function*() {
          yield* ctx.request(aCharge(1))
          yield* ctx.runTool(lookup({ id: "pause" }))
          yield* ctx.request(aCharge(2))
          return "requested"
        })
        const [found, requested] = yield* Effect.all([ctx.runTool(lookup({ id: `slow ${millis}` })), requests], all)
        return Agent.complete(`${found} ${requested}`)
      })
    )

  const cases = [
    { millis: 500, asked: ["slow 500", "pause", "slow 500"], name: "answered in the second is not asked in the third" },
    {
      millis: 5000,
      asked: ["slow 5000", "pause", "slow 5000", "slow 5000"],
      name: "answered in no other is asked in the last"
    }
  ]
  it.effect.each(cases)("of three segments, $name", ({ asked: expected, millis }) =>
    Effect.gen(function*() {
      const { asked, later, lookup } = world()
      later(`slow ${millis}`, millis)
      later("pause", 1000)
      const segments = yield* runToEnd(subject(lookup, millis))
      assert.strictEqual(outputOf(segments[2]!), `slow ${millis}! requested`)
      assert.deepStrictEqual(asked, expected)
      assert.deepStrictEqual(rowsOf(segments[0]!), ["0 time", "0 request 0", "0 read lookup Suspended"])
    }))

  it.effect("does not overtake the request it raced with", () =>
    Effect.gen(function*() {
      const { asked, later, lookup } = world()
      later("a", 1000)
      const subject = agent((ctx) =>
        Effect.map(Effect.race(ctx.runTool(lookup({ id: "a" })), ctx.request(aCharge())), Agent.complete)
      )
      const first = yield* run(subject)
      later("a", 0)
      const second = yield* resume(subject, first)
      assert.strictEqual(outputOf(second), "done")
      assert.deepStrictEqual(rowsOf(second).slice(3), ["1 answer 0 intent", "1 time", "1 read lookup Interrupted"])
      assert.deepStrictEqual(asked, ["a"])
    }))
})

describe("what a read gives", () => {
  const endings = [
    ["a failure", Effect.fail(new LookupFailed({ id: "x" })), "Failure", "LookupFailed"],
    ["a defect", Effect.die(new TypeError("no")), "Defect", "TypeError: no"],
    ["a defect that is no error", Effect.die("no"), "Defect", "Error: no"],
    ["an interruption of its own", Effect.interrupt, "Defect", "Error: 'lookup' interrupted itself"],
    [
      "a result that does not fit",
      Effect.succeed(1 as any),
      "Defect",
      "Error: the result of 'lookup' does not fit its schema"
    ]
  ] as const
  it.effect.each(endings)(
    "%s is journaled, and the same on replay",
    ([_, answer, tag, seen]) =>
      Effect.gen(function*() {
        const { answers, asked, lookup } = world()
        answers.set("x", answer)
        const subject = agent((ctx) =>
          Effect.gen(function*() {
            const exit = yield* Effect.exit(ctx.runTool(lookup({ id: "x" })))
            const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : exit.value
            const text = error instanceof LookupFailed ? error._tag : String(error)
            yield* ctx.request(anEmail(text))
            return Agent.complete(text)
          })
        )
        const [first, second] = yield* runToEnd(subject)
        assert.deepStrictEqual(rowsOf(first!).slice(0, 2), ["0 time", `0 read lookup ${tag}`])
        assert.strictEqual(outputOf(second!), seen)
        assert.deepStrictEqual(asked, ["x"])
      })
  )

  it.effect("is what the journal can keep: the agent sees no more the first time than on replay", () =>
    Effect.gen(function*() {
      const profile = Tool.readOnly("profile", {
        description: "A profile.",
        success: Schema.Struct({ name: Schema.String }),
        handler: () => Effect.succeed({ name: "Ada", secret: 1 })
      })
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const keys = Object.keys(yield* ctx.runTool(profile())).join()
          yield* ctx.request(anEmail(keys))
          return Agent.complete(keys)
        })
      )
      assert.strictEqual(outputOf((yield* runToEnd(subject))[1]!), "name")
    }))

  it.effect("a defect still shows where it came from", () =>
    Effect.gen(function*() {
      const { answers, lookup } = world()
      const defect = new TypeError("no")
      answers.set("x", Effect.die(defect))
      let seen: unknown
      const subject = agent((ctx) =>
        ctx.runTool(lookup({ id: "x" })).pipe(
          Effect.catchDefect((error) => Effect.sync(() => (seen = (error as Error).cause))),
          Effect.as(Agent.complete("done"))
        )
      )
      yield* run(subject)
      assert.strictEqual(seen, defect)
    }))

  it.effect("an interrupted read calls no handler on replay and is interrupted again", () =>
    Effect.gen(function*() {
      const { asked, later, lookup } = world()
      later("a", 5000)
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const found = yield* Effect.timeoutOption(ctx.runTool(lookup({ id: "a" })), "1 second")
          yield* ctx.request(aCharge())
          return Agent.complete(Option.isNone(found) ? "too slow" : found.value)
        })
      )
      const [first, second] = yield* runToEnd(subject)
      assert.deepStrictEqual(rowsOf(first!), ["0 time", "0 read lookup Interrupted", "0 request 0"])
      assert.strictEqual(outputOf(second!), "too slow")
      assert.deepStrictEqual(asked, ["a"])
    }))

  it.effect("a handler that heeds no interruption has lost its race for ever", () =>
    Effect.gen(function*() {
      const { answers, asked, later, lookup } = world()
      answers.set("stubborn", Effect.uninterruptible(Effect.delay(Effect.succeed("stubborn!"), "2 seconds")))
      later("quick", 1000)
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const both = Effect.raceFirst(ctx.runTool(lookup({ id: "stubborn" })), ctx.runTool(lookup({ id: "quick" })))
          const found = yield* both
          yield* ctx.request(aCharge())
          return Agent.complete(found)
        })
      )
      const [_, second] = yield* runToEnd(subject)
      assert.strictEqual(outputOf(second!), "quick!")
      assert.deepStrictEqual(asked, ["stubborn", "quick"])
    }))

  it.effect("a read that cannot be interrupted keeps its place behind what was answered before it", () =>
    Effect.gen(function*() {
      const { later, lookup } = world()
      later("late", 2000)
      later("quick", 1000)
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const late = Effect.uninterruptible(ctx.runTool(lookup({ id: "late" })))
          const found = yield* Effect.raceFirst(late, ctx.runTool(lookup({ id: "quick" })))
          yield* ctx.request(aCharge())
          return Agent.complete(found)
        })
      )
      const [_, second] = yield* runToEnd(subject)
      assert.strictEqual(outputOf(second!), "quick!")
    }))

  it.effect("larger than the limit is TooLarge, whatever the agent catches", () =>
    Effect.gen(function*() {
      const { answers, lookup } = world()
      answers.set("x", Effect.succeed("x".repeat(100)))
      const subject = Agent.make(
        "agent",
        { event: Schema.String, output: Schema.String, maxBytes: 100 },
        (ctx) =>
          Effect.catchCause(ctx.runTool(lookup({ id: "x" })), () => Effect.succeed("")).pipe(
            Effect.as(Agent.complete("done"))
          )
      )
      const reason = yield* reasonOf(run(subject))
      assert.strictEqual(reason.tag, "TooLarge")
      assert.include(reason.message, "the result of 'lookup' of key 'k' has 102 bytes, the limit is 100")
    }))
})

describe("K91 a read yielded directly", () => {
  it.effect("is ctx.runTool: journaled, traced once, the first answer ever after", () =>
    Effect.gen(function*() {
      const { answers, asked, lookup } = world()
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const direct = yield* lookup({ id: "1" })
          const again = yield* ctx.runTool(lookup({ id: "1" }))
          yield* ctx.request(aCharge())
          return Agent.complete(`${direct} ${again}`)
        })
      )
      const first = yield* run(subject)
      assert.deepStrictEqual(rowsOf(first), ["0 time", "0 read lookup Success", "0 read lookup Success", "0 request 0"])
      assert.deepStrictEqual(first.trace.map(({ type }) => type), ["ToolCall", "ToolCall", "IntentStaged", "Suspended"])
      answers.set("1", Effect.succeed("changed"))
      const second = yield* resume(subject, first)
      assert.strictEqual(outputOf(second), "1! 1!")
      assert.deepStrictEqual(second.trace.map(({ type }) => type), ["Completed"])
      assert.deepStrictEqual(asked, ["1", "1"])
    }))

  it.effect("a read made of reads is one read: its handler is outside the activation", () =>
    Effect.gen(function*() {
      const { asked, lookup } = world()
      const both = Tool.readOnly("both", {
        description: "Two at once.",
        success: Schema.String,
        handler: () =>
          Effect.orDie(Effect.map(Effect.all([lookup({ id: "a" }), lookup({ id: "b" })]), (found) => found.join()))
      })
      const activated = yield* run(agent((ctx) => Effect.map(ctx.runTool(both()), Agent.complete)))
      assert.strictEqual(outputOf(activated), "a!,b!")
      assert.deepStrictEqual(rowsOf(activated), ["0 time", "0 read both Success"])
      assert.deepStrictEqual(asked, ["a", "b"])
    }))
})

describe("a rule for approvals", () => {
  const rules = [
    ["false lets the call through", () => Effect.succeed(false), "none"],
    ["true asks", () => Effect.succeed(true), "required"],
    ["undefined asks", () => Effect.succeed(undefined as any), "required"],
    ["a failure asks", () => Effect.fail("no"), "required"],
    ["a defect asks", () => Effect.die("no"), "required"],
    ["a rule that throws asks", () => {
      throw new Error("no")
    }, "required"],
    ["a rule that takes too long asks", () => Effect.never, "required"]
  ] as const
  it.effect.each(rules)("%s", ([_, rule, approval]) =>
    Effect.gen(function*() {
      const gated = Tool.sideEffect("gated", { description: "Gated.", approval: rule })
      const activated = yield* run(agent((ctx) => Effect.as(ctx.act(gated()), Agent.complete("done"))))
      assert.deepStrictEqual(activated.intents.map((intent) => intent.approval), [approval])
    }))

  it.effect("is asked once, at staging; a replay and a changed rule ask nobody", () =>
    Effect.gen(function*() {
      let asked = 0
      const gated = (approval: "required" | (() => Effect.Effect<boolean>)) =>
        Tool.sideEffect("gated", { description: "Gated.", approval })
      const counted = () =>
        Effect.sync(() => {
          asked++
          return true
        })
      const subject = (tool: ReturnType<typeof gated>) =>
        agent((ctx) => Effect.as(Effect.andThen(ctx.act(tool()), ctx.request(aCharge())), Agent.complete("done")))
      const first = yield* run(subject(gated(counted)))
      assert.strictEqual(outputOf(yield* resume(subject(gated(counted)), first)), "done")
      assert.strictEqual(asked, 1)
      const before = yield* run(subject(gated("required")))
      assert.strictEqual(outputOf(yield* resume(subject(gated(counted)), before)), "done")
      assert.strictEqual(asked, 1)
    }))

  it.effect("that lost against a timeout has lost again on replay: the step was never taken", () =>
    Effect.gen(function*() {
      const gated = Tool.sideEffect("gated", {
        description: "Gated.",
        approval: () => Effect.delay(Effect.succeed(true), "5 seconds")
      })
      const subject = agent((ctx) =>
        Effect.gen(function*() {
          const staged = yield* Effect.timeoutOption(ctx.act(gated()), "1 second")
          yield* ctx.request(aCharge())
          return Agent.complete(staged._tag)
        })
      )
      const [first, second] = yield* runToEnd(subject)
      assert.deepStrictEqual(first!.intents.map(({ step, tool }) => [step, tool]), [[0, "charge"]])
      assert.strictEqual(outputOf(second!), "None")
    }))
})
