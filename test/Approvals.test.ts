/**
 * Approvals: who is asked, what is decided, and what comes of it, in processes that die and return with other code.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schedule, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, Ledger, Tool, Toolkit } from "../src/index.ts"
import { Effects, Process, TestEngine } from "../src/testing/index.ts"
import { client, decide, entries, entry, saying, settle, test, waiting } from "./fixtures/approvals.ts"
import { outputsOf } from "./testing/support.ts"

type Options = Pick<
  Tool.SideEffectDefinition<{ amountCents: typeof Schema.Int }, typeof Schema.String, typeof Schema.Never>,
  "approval" | "approvalTimeout" | "escalation" | "ttl"
>

const chargeWith = (options: Options) =>
  Tool.sideEffect("charge", {
    description: "Charge a customer.",
    parameters: { amountCents: Schema.Int },
    success: Schema.String,
    ...options
  })

type Charge = ReturnType<typeof chargeWith>

const gated = chargeWith({ approval: "required" })

/** Charges what its event says, one after the other or at once, and says how each ended. */
const tillWith = (charge: Charge) =>
  Agent.make(
    "till",
    {
      event: Schema.Struct({ cents: Schema.Array(Schema.Int), atOnce: Schema.optionalKey(Schema.Boolean) }),
      output: Schema.Array(Schema.String)
    },
    Effect.fnUntraced(function*(ctx, { atOnce, cents }) {
      if (atOnce === true) {
        const calls = Object.fromEntries(cents.map((amountCents, index) => [`call ${index}`, charge({ amountCents })]))
        return Agent.complete(Object.values(yield* ctx.requestAll(calls)))
      }
      const said: Array<string> = []
      for (const amountCents of cents) said.push(yield* saying(ctx.request(charge({ amountCents }))))
      return Agent.complete(said)
    })
  )

/** A process with the agent, the tool and a handler that answers with what it charged. */
const processOf = (charge: Charge) =>
  TestEngine.layerProcess({
    agents: [tillWith(charge)],
    effects: [Effects.on(charge, ({ amountCents }) => Effect.succeed(`receipt-${amountCents}`))],
    engine: { alwaysReplay: true }
  })

const till = tillWith(gated)

const send = (event: { readonly cents: ReadonlyArray<number>; readonly atOnce?: boolean }) =>
  Effect.flatMap(client, (client) => Effect.andThen(client.send(till, { key: "c1", event }), settle))

const charged = Effect.map(Effects.of(gated), (effects) => effects.map((effect) => effect.arguments.amountCents))

const said = outputsOf(till)

describe("a decision", () => {
  test(
    "K47 deny is enforced in one place, whatever the rule says by then and in whichever process",
    Effect.gen(function*() {
      const process = yield* Process.start(
        processOf(chargeWith({ approval: ({ amountCents }) => Effect.succeed(amountCents > 100) }))
      )
      yield* send({ cents: [500] })
      yield* process.kill
      yield* Process.start(processOf(chargeWith({ approval: () => Effect.succeed(false) })))
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* charged, [])
      yield* decide({ approved: false })
      yield* TestClock.adjust("30 days")
      assert.deepInclude(yield* entry, { state: "Denied", attempt: 0 })
      assert.deepStrictEqual(yield* said, [["Denied: denied by maria"]])
      assert.deepStrictEqual(yield* charged, [])
    })
  )

  test(
    "K48 decisions go by id: of three calls at once the second is approved, and nothing else happens",
    Effect.gen(function*() {
      yield* Process.start(processOf(gated))
      yield* send({ cents: [1, 2, 3], atOnce: true })
      const [, second] = yield* waiting
      yield* decide({ id: second!.intent.id })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* charged, [2])
      assert.deepStrictEqual((yield* entries).map(({ state }) => state), ["Staged", "Performed", "Staged"])
    })
  )

  test(
    "K48 decisions go by id: three calls approved in reverse order get each its own result",
    Effect.gen(function*() {
      yield* Process.start(processOf(gated))
      yield* send({ cents: [1, 2, 3], atOnce: true })
      for (const { intent: { id } } of (yield* waiting).toReversed()) yield* decide({ id })
      assert.deepStrictEqual(yield* charged, [3, 2, 1])
      assert.deepStrictEqual(yield* said, [["receipt-1", "receipt-2", "receipt-3"]])
    })
  )

  for (const atOnce of [true, false]) {
    test(
      `K49 two calls ${
        atOnce ? "at once" : "one after the other"
      } are asked about once each, in a new process after each`,
      Effect.gen(function*() {
        const ruled: Array<number> = []
        // Every process brings its own tool, agent and handler.
        const next = () =>
          Process.start(processOf(chargeWith({
            approval: ({ amountCents }) => Effect.sync(() => ruled.push(amountCents) > 0)
          })))
        let process = yield* next()
        yield* send({ cents: [1, 2], atOnce })
        for (let decisions = 0; decisions < 2; decisions++) {
          yield* decide()
          yield* process.kill
          process = yield* next()
          yield* settle
        }
        yield* TestClock.adjust("2 hours")
        assert.deepStrictEqual(yield* waiting, [])
        assert.deepStrictEqual((yield* entries).map(({ state }) => state), ["Performed", "Performed"])
        assert.deepStrictEqual(ruled, [1, 2])
        assert.deepStrictEqual(yield* charged, [1, 2])
        assert.deepStrictEqual(yield* said, [["receipt-1", "receipt-2"]])
      })
    )
  }

  test(
    "K55 an exact no beats a general yes: the rule that changed is the rule of the next call",
    Effect.gen(function*() {
      const process = yield* Process.start(processOf(gated))
      yield* send({ cents: [500] })
      yield* process.kill
      yield* Process.start(processOf(chargeWith({})))
      yield* decide({ approved: false })
      yield* send({ cents: [7] })
      assert.deepStrictEqual((yield* entries).map(({ state }) => state), ["Denied", "Performed"])
      assert.deepStrictEqual(yield* charged, [7])
    })
  )

  test(
    "K58 of what was cancelled is refused, naming the id and the state",
    Effect.gen(function*() {
      yield* Process.start(processOf(gated))
      yield* send({ cents: [500] })
      const { cancel } = yield* client
      yield* cancel(till, { key: "c1", by: "tom" })
      const { intent: { id } } = yield* entry
      const refusal = yield* Effect.flip(decide({ id }))
      assert.deepInclude(refusal, { _tag: "LedgerRefusal", id, state: "Cancelled" })
      assert.include(refusal.message, `intent ${id}`)
      assert.include(refusal.message, "Cancelled")
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* charged, [])
    })
  )

  test(
    "K59 approved is not done: with nobody to perform it, it reads as what it is and is a success nowhere",
    Effect.gen(function*() {
      const store = yield* AgentStore.AgentStore
      const agents = AgentEngine.layer(till).pipe(Layer.provide(Effector.elsewhere(gated)))
      const process = yield* Process.start(agents)
      yield* send({ cents: [500, 600] })
      assert.strictEqual(Ledger.describe(yield* entry, 30 * 60_000), "waits for approval, 30 min")
      assert.isUndefined(Ledger.waitingSince(yield* entry))
      const { decision } = yield* decide()
      yield* TestClock.adjust("1 hour")
      const { now } = yield* store.sweep
      const [approved, ...others] = yield* process.run(
        AgentEngine.AgentEngine.use((engine) => engine.intents({ states: ["Staged"] }))
      )
      assert.strictEqual(Ledger.describe(approved!, now), "approved, not performed, 1 h")
      assert.strictEqual(Ledger.waitingSince(approved!), decision!.at)
      assert.deepStrictEqual(others, [], "the agent waits")
      assert.deepInclude(approved!, { attempt: 0, result: undefined, answer: undefined, endedAt: undefined })
      assert.deepStrictEqual(yield* said, [])
      const { intents } = yield* client
      assert.deepStrictEqual(yield* intents({ states: ["Performed"] }), [])
      assert.deepStrictEqual(
        (yield* process.run(AgentEngine.AgentEngine.use((engine) => engine.unserved))).map((one) => one.entry),
        [approved!]
      )
    })
  )

  test(
    "K60 the result is the handler's: the agent never gets a word of the decision",
    Effect.gen(function*() {
      yield* Process.start(processOf(gated))
      yield* send({ cents: [7] })
      yield* decide()
      assert.deepStrictEqual(yield* said, [["receipt-7"]])
      assert.deepStrictEqual(yield* charged, [7])
    })
  )

  test(
    "K62 later events do not bring it back",
    Effect.gen(function*() {
      yield* Process.start(processOf(gated))
      yield* send({ cents: [7] })
      yield* decide()
      for (let event = 0; event < 2; event++) yield* send({ cents: [] })
      yield* TestClock.adjust("2 days")
      assert.lengthOf(yield* entries, 1)
      assert.deepStrictEqual(yield* charged, [7])
      assert.deepStrictEqual(yield* said, [["receipt-7"], [], []])
    })
  )
})

describe("a gate", () => {
  it("K50 travels with the tool: a toolkit, a merge and a call by name decode to the gated call", () => {
    const notify = Tool.sideEffect("notify", { description: "Notify.", success: Schema.String })
    const bill = Tool.sideEffect("bill", {
      description: "Bill somebody.",
      parameters: { amountCents: Schema.Int },
      success: Schema.String,
      ...gated.options
    })
    const kits = [
      Toolkit.make(bill),
      Toolkit.make(notify).merge(Toolkit.make(bill)),
      Toolkit.make(bill, notify).pick("bill")
    ]
    return Effect.runPromise(Effect.gen(function*() {
      for (const kit of kits) {
        const decoded = yield* kit.decode("bill", { amountCents: 5 })
        assert.strictEqual((yield* Effect.flip(kit.read("bill", { amountCents: 5 })))._tag, "SideEffectToolError")
        const subject = Agent.make("biller", { event: Schema.Null, output: Schema.String }, (ctx) =>
          Effect.map(
            decoded.name === "bill" ? ctx.request(decoded.call) : Effect.succeed("not decoded"),
            Agent.complete
          ))
        const { intents } = yield* Agent.activate(subject, { key: "k", event: null })
        assert.deepStrictEqual(intents.map(({ approval, tool }) => [tool, approval]), [["bill", "required"]])
      }
    }))
  })

  const rules: ReadonlyArray<readonly [string, () => Effect.Effect<boolean, unknown>]> = [
    ["fails", () => Effect.fail("no rule")],
    ["dies", () => Effect.die("no rule")],
    ["throws", () => {
      throw new Error("no rule")
    }],
    ["is interrupted", () => Effect.interrupt],
    ["never returns", () => Effect.never]
  ]
  for (const [how, approval] of rules) {
    test(
      `K52 fails closed where its rule ${how}`,
      Effect.gen(function*() {
        yield* Process.start(processOf(chargeWith({ approval })))
        yield* send({ cents: [50_000] })
        yield* TestClock.adjust("11 seconds")
        assert.lengthOf(yield* waiting, 1)
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(yield* charged, [])
        yield* decide()
        assert.deepStrictEqual(yield* charged, [50_000])
      })
    )
  }

  test(
    "K52 is never asked about arguments that do not fit: they are an argument error",
    Effect.gen(function*() {
      const ruled: Array<unknown> = []
      const charge = chargeWith({
        approval: (input) => Effect.sync(() => ruled.push(input) > 0 && input.amountCents > 10_000)
      })
      const untyped: any = { amountCents: "50000" }
      const subject = Agent.make(
        "till",
        { event: Schema.Null, output: Schema.String },
        (ctx) => Effect.map(Effect.flip(ctx.request(charge(untyped))), (error) => Agent.complete(error._tag))
      )
      const { intents, outcome } = yield* Agent.activate(subject, { key: "k", event: null })
      assert.deepStrictEqual(outcome, { _tag: "Complete", output: "ToolArgumentError" })
      assert.deepStrictEqual([intents, ruled], [[], []])
    })
  )

  const answers: ReadonlyArray<readonly [unknown, asked: number]> = [
    ...[undefined, null, 0, "", "no", NaN, true].map((answer) => [answer, 1] as const),
    [false, 0]
  ]
  for (const [answer, asked] of answers) {
    test(
      `K53 only a clear no means no: ${String(answer) || "''"}`,
      Effect.gen(function*() {
        const loose: any = () => Effect.succeed(answer)
        yield* Process.start(processOf(chargeWith({ approval: loose })))
        yield* send({ cents: [5] })
        assert.lengthOf(yield* waiting, asked)
        assert.deepStrictEqual(yield* charged, asked === 0 ? [5] : [])
      })
    )
  }
})

describe("a model", () => {
  const Reply = Schema.Struct({
    text: Schema.String,
    calls: Schema.Array(Schema.Struct({ name: Schema.String, input: Schema.Json }))
  })
  const kit = Toolkit.make(gated)
  /** Does what the replies say, each asked with what is known so far, and says the last text. */
  const clerk = (replies: ReadonlyArray<Effect.Effect<typeof Reply.Type>>, asked: Array<Schema.Json> = []) =>
    Agent.make(
      "clerk",
      { event: Schema.Struct({ wait: Schema.Boolean }), output: Schema.String, retry: twice },
      Effect.fnUntraced(function*(ctx, { wait }) {
        const known: Array<string> = []
        let text = ""
        for (const reply of replies) {
          const request = [...known]
          const call = Effect.andThen(Effect.sync(() => asked.push(request)), reply)
          const answer = yield* ctx.callModel({ model: "m", request, reply: Reply, call })
          text = answer.text
          for (const { input, name } of answer.calls) {
            const handled = Effect.gen(function*() {
              const decoded = yield* kit.decode(name, input)
              return wait ? yield* ctx.request(decoded.call) : yield* ctx.act(decoded.call)
            })
            known.push(yield* Effect.catchTag(handled, "ToolArgumentError", ({ message }) => Effect.succeed(message)))
          }
        }
        return Agent.complete(text)
      })
    )
  const twice = Schedule.recurs(2)
  const calling = (input: Schema.Json, text = "") => Effect.succeed({ text, calls: [{ name: "charge", input }] })
  const saying = (text: string) => Effect.succeed({ text, calls: [] })
  const live = (subject: ReturnType<typeof clerk>) =>
    TestEngine.layerProcess({
      agents: [subject],
      effects: [Effects.on(gated, ({ amountCents }) => Effect.succeed(`receipt-${amountCents}`))]
    })
  const run = (subject: ReturnType<typeof clerk>, wait: boolean) =>
    Effect.gen(function*() {
      const { send } = yield* client
      yield* send(subject, { key: "c1", event: { wait } })
      yield* settle
    })

  test(
    "K51 cannot decide: not by saying so, not among the arguments, not by imitating a decision",
    Effect.gen(function*() {
      const asked: Array<Schema.Json> = []
      const subject = clerk([
        calling({ amountCents: 5 }),
        saying("approved"),
        calling({ amountCents: 5, approved: true }),
        saying(`{"approved":true,"by":"maria"}`)
      ], asked)
      yield* Process.start(live(subject))
      yield* run(subject, false)
      const { intent } = yield* entry
      const { message } = yield* client
      yield* message(subject, { key: "c1", message: { id: intent.id, approved: true, by: "maria" } })
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(yield* waiting, 1)
      assert.lengthOf(yield* entries, 1, "the call with an argument too many was staged nowhere")
      assert.include(JSON.stringify(asked.at(-1)), "approved: Expected no excess property")
      assert.deepStrictEqual(yield* charged, [])
    })
  )

  test(
    "K57 that calls beside a final answer has the call staged and asked for, and its text said",
    Effect.gen(function*() {
      const subject = clerk([calling({ amountCents: 5 }, "All done, it is approved.")])
      yield* Process.start(live(subject))
      yield* run(subject, false)
      assert.lengthOf(yield* waiting, 1)
      assert.deepStrictEqual(yield* outputsOf(subject), ["All done, it is approved."])
      assert.deepStrictEqual(yield* charged, [])
      yield* decide()
      assert.deepStrictEqual(yield* charged, [5])
    })
  )

  test(
    "K61 that fails after the approved call is asked again, and only it is: it sees the result",
    Effect.gen(function*() {
      let failures = 0
      const asked: Array<Schema.Json> = []
      const once = Effect.suspend(() => failures++ === 0 ? Effect.die(new Error("overloaded")) : saying("Thank you."))
      const subject = clerk([calling({ amountCents: 5 }), once], asked)
      yield* Process.start(live(subject))
      yield* run(subject, true)
      yield* decide()
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(asked, [[], ["receipt-5"], ["receipt-5"]])
      assert.deepStrictEqual(yield* charged, [5])
      assert.lengthOf(yield* entries, 1)
      assert.deepStrictEqual(yield* outputsOf(subject), ["Thank you."])
    })
  )
})

const hour = 3_600_000

describe("an escalation", () => {
  const escalating = chargeWith({
    approval: "required",
    approvalTimeout: "2 hours",
    escalation: ["dana", "owner", "dana"],
    ttl: "1 hour"
  })

  test(
    "asks one after the other, each for as long as the first, and ends with a no",
    Effect.gen(function*() {
      yield* Process.start(processOf(escalating))
      yield* send({ cents: [5] })
      const seen: Array<readonly [string | undefined, state: string, dueAt: number]> = []
      for (let hours = 0; hours < 8; hours++) {
        const { channel, intent, state } = yield* entry
        seen.push([channel, state, Math.floor(intent.approvalDueAt! / hour)])
        assert.strictEqual(intent.expiresAt, intent.approvalDueAt! + hour)
        yield* TestClock.adjust("1 hour")
      }
      assert.deepStrictEqual(seen, [
        [undefined, "Staged", 2],
        [undefined, "Staged", 2],
        ["dana", "Staged", 4],
        ["dana", "Staged", 4],
        ["owner", "Staged", 6],
        ["owner", "Staged", 6],
        ["owner", "Denied", 6],
        ["owner", "Denied", 6]
      ])
      const { decision, history } = yield* entry
      assert.deepInclude(decision, { approved: false, by: "policy:timeout" })
      assert.deepStrictEqual(history.map(({ note }) => note), [
        "",
        "nobody decided in time: dana is asked",
        "nobody decided in time: owner is asked",
        "Denied: denied by policy:timeout"
      ])
      assert.deepStrictEqual(yield* said, [["Denied: denied by policy:timeout"]])
      assert.deepStrictEqual(yield* charged, [])
    })
  )

  test(
    "survives the process that asked, and ends with the decision of anybody; the time to start counts from it",
    Effect.gen(function*() {
      const process = yield* Process.start(processOf(escalating))
      yield* send({ cents: [5] })
      yield* TestClock.adjust("2 hours")
      yield* process.kill
      yield* TestClock.adjust("10 hours")
      // Nobody swept: nobody was asked, and so it is not too late.
      assert.deepInclude(yield* entry, { channel: "dana", state: "Staged" })
      assert.strictEqual(Ledger.describe(yield* entry, 2 * hour + 30 * 60_000), "waits for dana, 30 min")
      const { decision, intent } = yield* decide({ by: "tom" })
      assert.strictEqual(intent.expiresAt, decision!.at + hour)
      yield* process.restart()
      yield* settle
      assert.deepStrictEqual(yield* charged, [5])
      assert.deepStrictEqual(yield* said, [["receipt-5"]])
    })
  )

  test(
    "is a part of a question of its own, too",
    Effect.gen(function*() {
      const subject = Agent.make("asker", { event: Schema.Null, output: Schema.Json }, (ctx) =>
        Effect.map(
          ctx.requestApproval({ title: "Really?", timeout: "1 hour", escalation: ["dana"] }),
          ({ approved, by }) => Agent.complete({ approved, by })
        ))
      yield* Process.start(TestEngine.layerProcess({ agents: [subject], effects: [] }))
      const { send } = yield* client
      for (const key of ["c1", "c2"]) yield* send(subject, { key, event: null })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual((yield* entries).map(({ channel, state }) => [channel, state]), [
        ["dana", "Staged"],
        ["dana", "Staged"]
      ])
      yield* decide({ by: "dana" })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* outputsOf(subject), [
        { approved: true, by: "dana" },
        { approved: false, by: "policy:timeout" }
      ])
    })
  )

  const wrong: ReadonlyArray<any> = ["dana", [""], [1], Array.from({ length: 11 }, (_, index) => `dana ${index}`)]
  for (const escalation of wrong) {
    it.effect(`of a question is a list of at most 10 names, unlike ${JSON.stringify(escalation).slice(0, 20)}`, () =>
      Effect.gen(function*() {
        const subject = Agent.make(
          "asker",
          { event: Schema.Null, output: Schema.Null },
          (ctx) => Effect.as(ctx.requestApproval({ title: "?", escalation }), Agent.complete(null))
        )
        const failed = yield* Effect.flip(Agent.activate(subject, { key: "k", event: null }))
        assert.include(failed.message, "is not a list of at most 10 names")
      }))
  }
})
