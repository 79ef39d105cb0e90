import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { Scheduler } from "effect/Scheduler"
import * as Scheduling from "effect/Scheduler"
import { Agent } from "../src/index.ts"
import * as StepOrder from "../src/StepOrder.ts"
import { aCharge, agent, anEmail, type Ctx, reasonOf, run, world } from "./fixtures/activations.ts"

const { answers, lookup } = world()
answers.set("slow", Effect.delay(Effect.succeed("slow!"), "20 millis"))
answers.set("never", Effect.never)

const read = (ctx: Ctx, id: string) => Effect.orDie(ctx.runTool(lookup({ id })))
const slow = (ctx: Ctx) => read(ctx, "slow")
const never = (ctx: Ctx) => read(ctx, "never")
const act = (ctx: Ctx) => Effect.orDie(ctx.act(aCharge()))
const request = (ctx: Ctx) => Effect.orDie(ctx.request(aCharge()))
const now = { startImmediately: true }

type Program = (ctx: Ctx) => Effect.Effect<unknown, unknown, any>

// One step after the other, each in the activation's fiber or in one it waits for: the steps that are staged, and whether the
// activation then waits.
const accepted: ReadonlyArray<
  readonly [name: string, program: Program, steps: number, outcome: "Complete" | "Suspended"]
> = [
  ["race", (ctx) => Effect.race(request(ctx), never(ctx)), 1, "Suspended"],
  ["race, the other way round", (ctx) => Effect.race(never(ctx), request(ctx)), 1, "Suspended"],
  ["raceFirst", (ctx) => Effect.raceFirst(slow(ctx), request(ctx)), 1, "Suspended"],
  ["raceAll", (ctx) => Effect.raceAll([never(ctx), Effect.andThen(slow(ctx), act(ctx)), never(ctx)]), 1, "Complete"],
  ["timeout", (ctx) => Effect.timeout(request(ctx), "1 second"), 1, "Suspended"],
  ["timeoutOption", (ctx) => Effect.timeoutOption(request(ctx), "1 second"), 1, "Suspended"],
  [
    "race in timeout in raceFirst in timeoutOption",
    (ctx) => {
      const inner = Effect.timeout(Effect.raceFirst(Effect.timeoutOption(request(ctx), "1 hour"), never(ctx)), "1 hour")
      return Effect.race(inner, never(ctx))
    },
    1,
    "Suspended"
  ],
  ["repeat around race", (ctx) => Effect.repeat(Effect.race(act(ctx), never(ctx)), { times: 2 }), 3, "Complete"],
  [
    "retry around timeout",
    (ctx) =>
      Effect.ignore(Effect.retry(Effect.timeout(Effect.andThen(act(ctx), Effect.fail("no")), "1 hour"), { times: 2 })),
    3,
    "Complete"
  ],
  ["all, one at a time", (ctx) => Effect.all([act(ctx), act(ctx)], { concurrency: 1 }), 2, "Complete"],
  ["one request beside reads", (ctx) => Effect.all([request(ctx), slow(ctx), slow(ctx)], all), 1, "Suspended"],
  [
    "steps of one branch beside a read",
    (ctx) => Effect.all([Effect.andThen(act(ctx), act(ctx)), slow(ctx)], all),
    2,
    "Complete"
  ],
  ["a step after two reads, two at a time", (ctx) => Effect.all([slow(ctx), slow(ctx), act(ctx)], two), 1, "Complete"],
  [
    "a step in a losing branch",
    (ctx) => Effect.andThen(Effect.race(slow(ctx), Effect.andThen(act(ctx), never(ctx))), act(ctx)),
    2,
    "Complete"
  ],
  [
    "a step beside a forked read",
    (ctx) => Effect.flatMap(Effect.forkChild(slow(ctx)), (fiber) => Effect.andThen(act(ctx), Fiber.join(fiber))),
    1,
    "Complete"
  ],
  ["a step in a finalizer", (ctx) => Effect.ensuring(slow(ctx), act(ctx)), 1, "Complete"],
  [
    "a step in the finalizer of a branch that lost",
    (ctx) => {
      const locked = Effect.acquireUseRelease(act(ctx), () => never(ctx), () => act(ctx))
      return Effect.andThen(Effect.timeoutOption(locked, "1 second"), act(ctx))
    },
    3,
    "Complete"
  ],
  ["an uninterruptible request", (ctx) => Effect.uninterruptible(request(ctx)), 1, "Suspended"],
  ["an uninterruptible race", (ctx) => Effect.uninterruptible(Effect.race(request(ctx), slow(ctx))), 1, "Suspended"],
  [
    "uninterruptible branches",
    (ctx) => Effect.uninterruptible(Effect.all([request(ctx), slow(ctx)], all)),
    1,
    "Suspended"
  ],
  ["a branch that loses before its step", (ctx) => Effect.race(act(ctx), Effect.succeed(1)), 0, "Complete"]
]

const refused: ReadonlyArray<readonly [name: string, program: Program]> = [
  ["two requests side by side", (ctx) => Effect.all([request(ctx), request(ctx)], all)],
  ["two acts side by side", (ctx) => Effect.all([act(ctx), act(ctx)], all)],
  ["two of three acts at a time", (ctx) => Effect.all([act(ctx), act(ctx), act(ctx)], two)],
  ["an act, and another in a later branch", (ctx) => Effect.all([act(ctx), slow(ctx), act(ctx)], two)],
  ["an act, and another after a read", (ctx) => Effect.all([act(ctx), Effect.andThen(slow(ctx), act(ctx))], all)],
  ["an act beside a timeout around one", (ctx) => Effect.all([Effect.timeout(act(ctx), "1 hour"), act(ctx)], all)],
  [
    "an act beside one that yields first",
    (ctx) => Effect.all([Effect.andThen(Effect.yieldNow, act(ctx)), act(ctx)], all)
  ],
  ["both branches of a race", (ctx) => Effect.race(act(ctx), act(ctx))],
  ["forkChild and join", (ctx) => Effect.flatMap(Effect.forkChild(act(ctx)), Fiber.join)],
  ["forkChild at once, and join", (ctx) => Effect.flatMap(Effect.forkChild(act(ctx), now), Fiber.join)],
  ["forkChild, and nobody waits", (ctx) => Effect.forkChild(act(ctx))],
  ["forkChild at once, and nobody waits", (ctx) => Effect.forkChild(act(ctx), now)],
  ["forkChild beside a read", (ctx) => Effect.andThen(Effect.forkChild(act(ctx)), slow(ctx))],
  ["forkChild beside a request", (ctx) => Effect.andThen(Effect.forkChild(act(ctx)), request(ctx))],
  ["forkChild at once, beside a request", (ctx) => Effect.andThen(Effect.forkChild(act(ctx), now), request(ctx))],
  ["forkDetach", (ctx) => Effect.forkDetach(act(ctx))],
  ["forkDetach at once", (ctx) => Effect.forkDetach(act(ctx), now)],
  ["forkDetach at once, and join", (ctx) => Effect.flatMap(Effect.forkDetach(act(ctx), now), Fiber.join)],
  [
    "forkDetach at once, a step after a read",
    (ctx) => Effect.andThen(Effect.forkDetach(Effect.andThen(slow(ctx), act(ctx)), now), Effect.sleep("1 second"))
  ],
  ["forkScoped", (ctx) => Effect.scoped(Effect.andThen(Effect.forkScoped(act(ctx)), slow(ctx)))],
  ["forkScoped at once", (ctx) => Effect.scoped(Effect.andThen(Effect.forkScoped(act(ctx), now), slow(ctx)))],
  [
    "forkScoped at once, a step after a read",
    (ctx) =>
      Effect.scoped(
        Effect.andThen(Effect.forkScoped(Effect.andThen(slow(ctx), act(ctx)), now), Effect.sleep("1 second"))
      )
  ],
  [
    "a fiber of another runtime",
    (ctx) => Effect.andThen(Effect.sync(() => Effect.runFork(act(ctx) as Effect.Effect<any>)), slow(ctx))
  ]
]

const all = { concurrency: "unbounded" } as const
const two = { concurrency: 2 } as const

const activate = (program: Program, caught = false) => {
  const steps = (ctx: Ctx) => caught ? Effect.catchCause(program(ctx), () => Effect.void) : program(ctx)
  // The reads have their handlers in place, and `Agent.activate` needs nobody who performs the intents.
  return run(agent((ctx) => Effect.as(steps(ctx) as Effect.Effect<unknown>, Agent.complete("done"))))
}

describe("a step may be taken in", () => {
  it.effect.each(accepted)("%s", ([_, program, steps, outcome]) =>
    Effect.gen(function*() {
      const activated = yield* activate(program)
      assert.strictEqual(activated.outcome._tag, outcome)
      assert.deepStrictEqual(
        activated.intents.map(({ step }) => step),
        Array.from({ length: steps }, (_, step) => step)
      )
    }))
})

describe("K87 a step is refused, caught or not, and nothing is staged:", () => {
  it.effect.each(refused)("%s", ([_, program]) =>
    Effect.gen(function*() {
      assert.strictEqual((yield* reasonOf(activate(program))).tag, "ConcurrentStepError")
      assert.strictEqual((yield* reasonOf(activate(program, true))).tag, "ConcurrentStepError")
    }))

  it.effect("the refusal names agent, key and step, and points at requestAll", () =>
    Effect.gen(function*() {
      const { message } = yield* reasonOf(
        activate((ctx) => Effect.all([request(ctx), Effect.orDie(ctx.request(anEmail()))], all))
      )
      assert.include(message, "'agent' for key 'k'")
      assert.include(message, "'request 'sendEmail''")
      assert.include(message, "ctx.requestAll")
    }))
})

describe("where it cannot tell, it refuses:", () => {
  const enterIn = (order: StepOrder.StepOrder, main: Effect.Effect<boolean>) =>
    Effect.withFiber((fiber) => {
      order.begin(fiber)
      return main
    }).pipe(Effect.provideService(Scheduler, order.scheduler))

  const make = Effect.withFiber((fiber) => Effect.succeed(StepOrder.make(fiber.getRef(Scheduler))))

  it.effect("fibers that do not ask the scheduler", () =>
    Effect.gen(function*() {
      const order = yield* make
      const unseen = Effect.provideService(order.enter, Scheduling.PreventSchedulerYield, true)
      const raced = Effect.race(unseen, Effect.never)
      const seen = yield* enterIn(order, Effect.race(order.enter, Effect.never))
      const blind = yield* Effect.provideService(
        enterIn(yield* make, raced),
        Scheduling.PreventSchedulerYield,
        true
      )
      assert.deepStrictEqual([seen, blind], [true, false])
    }))

  it.effect("fibers on another scheduler", () =>
    Effect.gen(function*() {
      const order = yield* make
      const elsewhere = Effect.provideService(
        Effect.race(Effect.suspend(() => order.enter), Effect.never),
        Scheduler,
        new Scheduling.MixedScheduler()
      )
      assert.isFalse(yield* enterIn(order, elsewhere))
    }))

  it.effect("an activation whose own fiber is not known", () =>
    Effect.gen(function*() {
      const order = yield* make
      assert.isFalse(yield* Effect.provideService(Effect.race(order.enter, Effect.never), Scheduler, order.scheduler))
    }))
})
