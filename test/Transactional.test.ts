/**
 * Transactional tools: the effect and its record are one write, over a store with a database as small as can be.
 */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schedule, Scope } from "effect"
import { TestClock } from "effect/testing"
import { AgentEngine, AgentStore, Effector, type Intent, Ledger } from "../src/index.ts"
import { Crash, Process } from "../src/testing/index.ts"
import * as Desk from "./fixtures/desk.ts"
import { chargeWith, desk } from "./fixtures/desk.ts"

/** What a transaction has written and not committed: a handler finds it where a real one finds its connection. */
const Transaction = Context.Reference<Array<string> | undefined>("test/Transaction", { defaultValue: () => undefined })

const insert = (row: string) =>
  Effect.map(Transaction, (transaction) => {
    assert.isDefined(transaction, "outside a transaction")
    transaction!.push(row)
  })

/** A store in memory with one table. What fails before the commit leaves no row. */
const database = (
  rows: Array<string>,
  commit: (entry: Ledger.Entry) => Effect.Effect<void, AgentStore.StoreError> = () => Effect.void
) =>
  Desk.storeWith((store) => ({
    transact: ({ id, token }, handler) =>
      Effect.gen(function*() {
        const entry = yield* store.move(id, (entry) => ({
          next: undefined,
          refusal: entry.claim?.token === token
            ? undefined
            : new Ledger.StaleClaim({ id, tool: entry.intent.tool, key: entry.intent.key, state: entry.state })
        }))
        const written: Array<string> = []
        const { keep, result } = yield* Effect.provideService(handler, Transaction, written)
        yield* commit(entry)
        if (keep) rows.push(...written)
        return yield* store.move(id, Ledger.complete(token, result))
      })
  }))

const booking = (options: Parameters<typeof chargeWith>[0] = {}) =>
  chargeWith({ transactional: true, timeout: "10 seconds", ...options })

const order = { do: "request", cents: 5 } as const

const send = Effect.flatMap(AgentEngine.client, (client) => client.send(desk, { key: "c1", event: [order] }))

/** Lets time pass, second by second. */
const pass = (seconds: number) => Effect.repeat(TestClock.adjust("1 second"), { times: seconds - 1 })

const theEntry = AgentStore.AgentStore.use((store) => Effect.map(store.entries({}), ([entry]) => entry!))

const outputs = AgentStore.AgentStore.use((store) =>
  Effect.map(
    store.outputs({ agent: "desk", after: 0, limit: 10 }),
    (outputs) => outputs.flatMap(({ output }) => output)
  )
)

/** Writes a row and goes on as the script says. */
const booked = (script: Desk.Script = () => Effect.succeed("receipt")): Desk.Script => (intent) =>
  Effect.andThen(insert(`attempt ${intent.attempt}`), script(intent))

const process = (tool: ReturnType<typeof booking>, script?: Desk.Script, effector: Effector.Options = {}) =>
  Desk.process(Desk.outside([], { charge: booked(script) }, tool), { charge: tool, effector })

describe("a transactional tool", () => {
  const ends: ReadonlyArray<readonly [string, Desk.Script, ReadonlyArray<string>, string, Effector.Options]> = [
    ["succeeds: its effect is there with its record", () => Effect.succeed("receipt"), ["attempt 1"], "receipt", {}],
    [
      "fails by its own failure: the effect is undone and the failure recorded",
      () => Effect.fail(new Desk.Declined({ reason: "funds" })),
      [],
      "declined: funds",
      {}
    ],
    [
      "succeeds with more than can be recorded: its effect stays",
      () => Effect.succeed("x".repeat(2000)),
      ["attempt 1"],
      "unavailable",
      { maxBytes: 1000 }
    ],
    [
      "fails with more than can be recorded: its effect is undone",
      () => Effect.fail(new Desk.Declined({ reason: "x".repeat(2000) })),
      [],
      "unavailable",
      { maxBytes: 1000 }
    ]
  ]
  it.effect.each(ends)("%s", ([_, script, left, told, options]) => {
    const rows: Array<string> = []
    return Effect.gen(function*() {
      yield* Layer.build(process(booking(), script, options))
      yield* send
      yield* pass(2)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
      assert.deepStrictEqual(yield* outputs, [told])
      assert.deepStrictEqual(rows, left)
    }).pipe(Effect.provide(database(rows)))
  })

  it.effect("that dies is undone and started again as its schedule says", () => {
    const rows: Array<string> = []
    const retry = Schedule.max([Schedule.spaced("5 seconds"), Schedule.recurs(2)])
    const dies: Desk.Script = ({ attempt }) =>
      attempt < 3 ? Effect.die(new Error("deadlock")) : Effect.succeed(`receipt ${attempt}`)
    return Effect.gen(function*() {
      yield* Layer.build(process(booking({ retry }), dies))
      yield* send
      yield* pass(4)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 1, claim: undefined })
      yield* pass(10)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 3 })
      assert.deepStrictEqual(yield* outputs, ["receipt 3"])
      assert.deepStrictEqual(rows, ["attempt 3"])
    }).pipe(Effect.provide(database(rows)))
  })

  const deaths: ReadonlyArray<readonly [string, Desk.Script]> = [
    ["dies", () => Effect.die(new Error("deadlock"))],
    ["takes longer than it may", () => Effect.never],
    [
      "takes longer than it may and heeds no interruption",
      () => Effect.uninterruptible(Effect.delay(Effect.succeed("receipt"), "15 seconds"))
    ]
  ]
  it.effect.each(deaths)(
    "that %s each time has not happened, which is told, and never is its end unknown",
    ([_, dies]) => {
      const rows: Array<string> = []
      const seen: Array<string> = []
      const noted: Desk.Script = (intent) =>
        Effect.ensuring(
          Effect.suspend(() => {
            seen.push("starts")
            return dies(intent)
          }),
          Effect.sync(() => seen.push("ends"))
        )
      return Effect.gen(function*() {
        yield* Layer.build(process(booking({ retry: Schedule.recurs(1) }), noted))
        yield* send
        yield* pass(60)
        const { answer, attempt, history, result, state } = yield* theEntry
        assert.deepStrictEqual([state, attempt], ["Rejected", 2])
        assert.deepInclude(result, { _tag: "NotPerformed", reason: "Rejected" })
        assert.match((result as Extract<Intent.Result, { _tag: "NotPerformed" }>).message, /^rolled back: /)
        assert.deepStrictEqual(answer, { type: "intent", result: result! })
        assert.deepStrictEqual(history.map(({ state }) => state), [
          "Staged",
          "Claimed",
          "Staged",
          "Claimed",
          "Rejected"
        ])
        assert.deepStrictEqual(yield* outputs, ["not performed: Rejected"])
        assert.deepStrictEqual(rows, [])
        assert.deepStrictEqual(seen, ["starts", "ends", "starts", "ends"], "a transaction waits for what writes in it")
      }).pipe(Effect.provide(database(rows)))
    }
  )

  it.effect("whose transaction cannot be committed is started again", () => {
    const rows: Array<string> = []
    const broken = new AgentStore.StoreError({ operation: "transact", detail: "serialization failure" })
    const store = database(rows, ({ attempt }) => attempt === 1 ? Effect.fail(broken) : Effect.void)
    return Effect.gen(function*() {
      yield* Layer.build(process(booking()))
      yield* send
      yield* pass(2)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 2 })
      assert.deepStrictEqual(rows, ["attempt 2"])
    }).pipe(Effect.provide(store))
  })

  it.effect.each(Effector.steps.map((step) => [step] as const))(
    "killed at %s has happened exactly once when the next effector is done",
    ([step]) => {
      const rows: Array<string> = []
      return Effect.gen(function*() {
        yield* send
        const first = yield* Process.start(process(booking()), { crash: Crash.at(step) })
        yield* first.crashed
        assert.lengthOf(rows, step === "effector:answer" ? 1 : 0, "effect and record are there together, or not at all")
        yield* first.restart()
        yield* pass(60)
        const { answer, history, state } = yield* theEntry
        assert.strictEqual(state, "Performed")
        assert.isFalse(history.some(({ state }) => state === "Unknown"))
        assert.deepStrictEqual(answer, { type: "intent", result: { _tag: "Success", value: "receipt" } })
        assert.deepStrictEqual(yield* outputs, ["receipt"])
        assert.lengthOf(rows, 1)
      }).pipe(Effect.provide(database(rows)))
    }
  )

  it.effect("keeps its claim for as long as it may take, however short the lease of its effector is", () => {
    const rows: Array<string> = []
    let started = 0
    const tool = booking({ timeout: "50 seconds" })
    const slow: Desk.Script = () => {
      started++
      return Effect.delay(Effect.succeed("receipt"), "49 seconds")
    }
    return Effect.gen(function*() {
      yield* Layer.build(process(tool, slow, { owner: "first", lease: "1 second" }))
      yield* Layer.build(process(tool, slow, { owner: "second", lease: "1 second" }))
      yield* send
      yield* pass(60)
      assert.strictEqual(started, 1)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 1 })
      assert.deepStrictEqual(rows, ["attempt 1"])
    }).pipe(Effect.provide(database(rows)))
  })

  it.effect("whose effector closes is undone when the grace time is over, and performed by the next one", () => {
    const rows: Array<string> = []
    const slow: Desk.Script = ({ attempt }) => attempt === 1 ? Effect.never : Effect.succeed("receipt")
    return Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Layer.buildWithScope(process(booking({ timeout: "1 minute" }), slow, { grace: "5 seconds" }), scope)
      yield* send
      yield* pass(1)
      yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* pass(6)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 1, claim: undefined })
      assert.deepStrictEqual(rows, [])
      yield* Layer.build(process(booking({ timeout: "1 minute" }), slow))
      yield* pass(2)
      assert.deepInclude(yield* theEntry, { state: "Performed", attempt: 2 })
      assert.deepStrictEqual(rows, ["attempt 2"])
    }).pipe(Effect.provide(database(rows)))
  })

  it.effect("whose claim somebody else holds by now is not run", () => {
    const rows: Array<string> = []
    const lines: Array<string> = []
    const store = Desk.storeWith((memory) => ({
      // Its claim is over before its transaction begins.
      transact: ({ id, token }) =>
        Effect.flatMap(
          memory.move(id, Ledger.release(token)),
          () =>
            Effect.flatMap(memory.entry(id), ({ intent: { key, tool }, state }) =>
              Effect.fail(new Ledger.StaleClaim({ id, tool, key, state })))
        )
    }))
    return Effect.gen(function*() {
      yield* Effect.provide(Layer.build(process(booking({ rate: { limit: 1, every: "1 hour" } }))), Desk.logged(lines))
      yield* send
      yield* pass(1)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 0 })
      assert.deepStrictEqual(rows, [])
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /stale/)
    }).pipe(Effect.provide(store))
  })
})

describe("a store without a database", () => {
  const handlers = Desk.outside([], {}, booking())
  const built = (layer: Layer.Layer<any, never, AgentStore.AgentStore>) =>
    Effect.catchDefect(Effect.as(Layer.build(layer), undefined), Effect.succeed)

  it.effect("is refused by an effector that serves a transactional tool, which is named", () =>
    Effect.gen(function*() {
      const defect = yield* built(Layer.provide(Effector.layer(Desk.sendEmail, booking()), handlers))
      assert.instanceOf(defect, Effector.TransactionalUnsupported)
      assert.strictEqual(defect.tool, "charge")
      assert.include(defect.message, "'charge'")
      const run = Effect.provide(Effector.run({})(booking()), handlers)
      assert.instanceOf(yield* Effect.flip(Effect.catchDefect(run, Effect.fail)), Effector.TransactionalUnsupported)
      assert.isUndefined(yield* built(Layer.provide(Effector.layer(Desk.sendEmail, chargeWith({})), handlers)))
    }).pipe(Effect.provide(AgentStore.layerMemory)))

  it.effect("is none to a dry run, or to agents whose effector is elsewhere: they perform nothing", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* built(Effector.dryRun()(booking())))
      assert.isUndefined(yield* built(Effector.elsewhere(booking())))
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("an intent that was staged as transactional", () => {
  it.effect("is left alone by an effector whose tool is not: what it does there could not be undone", () => {
    const happened: Array<Desk.Happened> = []
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const agents = AgentEngine.layer(Desk.deskWith(booking())).pipe(
        Layer.provide(Effector.elsewhere(booking(), Desk.sendEmail))
      )
      yield* Layer.build(agents)
      yield* send
      const plain = Layer.provide(Effector.layer(chargeWith({})), Desk.outside(happened))
      yield* Effect.provide(Layer.build(plain), Desk.logged(lines))
      yield* pass(10)
      assert.deepInclude(yield* theEntry, { state: "Staged", attempt: 0, claim: undefined })
      assert.deepStrictEqual(happened, [])
      assert.lengthOf(lines, 1)
      assert.match(lines[0]!, /in a transaction/)
    }).pipe(Effect.provide(AgentStore.layerMemory))
  })
})

describe("the ledger of a transactional intent", () => {
  it.effect("one that nobody starts again in time has not happened", () => {
    const rows: Array<string> = []
    const tool = booking({ retry: Schedule.spaced("1 second"), ttl: "1 minute" })
    return Effect.gen(function*() {
      yield* send
      const first = yield* Process.start(process(tool, () => Effect.die("broken")), {
        crash: Crash.at("effector:answer")
      })
      yield* first.crashed
      yield* Layer.build(
        AgentEngine.layer(Desk.deskWith(tool)).pipe(
          Layer.provide(Effector.elsewhere(tool, Desk.sendEmail))
        )
      )
      yield* pass(59)
      assert.strictEqual((yield* theEntry).state, "Staged")
      yield* pass(5)
      assert.deepInclude(yield* theEntry, { state: "Rejected", attempt: 1 })
      assert.deepStrictEqual(yield* outputs, ["not performed: Rejected"])
      assert.deepStrictEqual(rows, [])
    }).pipe(Effect.provide(database(rows)))
  })
})
