/**
 * Arguments that somebody changes while approving: what is performed, what is told, and what is refused.
 */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Ledger, Tool } from "../src/index.ts"
import { Effects, Process, TestEngine } from "../src/testing/index.ts"
import { client, decide, entry, saying, settle, test, waiting } from "./fixtures/approvals.ts"
import { logged } from "./fixtures/desk.ts"
import { outputsOf } from "./testing/support.ts"

describe("arguments changed in a decision", () => {
  const even = Schema.Int.check(Schema.makeFilter((cents) => cents % 2 === 0 || "an odd amount"))
  const pay = Tool.sideEffect("pay", {
    description: "Pay somebody.",
    parameters: { amountCents: even, to: Schema.String },
    success: Schema.String,
    approval: "required"
  })
  const payOut = Tool.sideEffect("pay_out", {
    description: "Pay with a card.",
    parameters: { card: Schema.Redacted(Schema.String), cents: Schema.Int },
    success: Schema.String,
    approval: "required"
  })
  const ask = { amountCents: 500, to: "bob" }

  /** Pays twice and says what came of it and what was changed by then. */
  const payer = Agent.make(
    "payer",
    { event: Schema.Literals(["in turn", "at once"]), output: Schema.Json },
    Effect.fnUntraced(function*(ctx, how) {
      const changed = [yield* ctx.edits]
      const first = pay(ask)
      const second = pay({ amountCents: 700, to: "carol" })
      const results: Array<string> = how === "at once" ? Object.values(yield* ctx.requestAll({ first, second })) : []
      changed.push(yield* ctx.edits)
      if (how === "in turn") {
        for (const call of [first, second]) {
          results.push(yield* saying(ctx.request(call)))
          changed.push(yield* ctx.edits)
        }
      }
      yield* ctx.sleep("1 minute")
      changed.push(yield* ctx.edits)
      const told = changed.map((edits) =>
        edits.map((edit) => ({ ...edit, id: edit.id === firstId ? "first" : "second" }))
      )
      return Agent.complete({ results, told })
    })
  )
  const firstId = Intent.makeId("payer", "c1", 0, 0)

  const live = TestEngine.layerProcess({
    agents: [payer],
    effects: [Effects.on(pay, ({ amountCents, to }) => Effect.succeed(`${amountCents} to ${to}`))],
    engine: { alwaysReplay: true }
  })
  const start = (event: "in turn" | "at once") =>
    Effect.gen(function*() {
      const process = yield* Process.start(live)
      const { send } = yield* client
      yield* send(payer, { key: "c1", event })
      yield* settle
      return process
    })
  const paid = Effect.map(Effects.of(pay), (effects) => effects.map((effect) => effect.arguments))
  const edit = { tool: "pay", id: "first", by: "maria", arguments: { amountCents: 300, to: "bob" } }

  test(
    "are what is performed; what was asked for stays what the intent is",
    Effect.gen(function*() {
      yield* start("in turn")
      const { intent } = yield* entry
      yield* decide({ arguments: { to: "bob", amountCents: 300 }, argumentsDigest: intent.argumentsDigest })
      assert.deepStrictEqual(yield* paid, [{ amountCents: 300, to: "bob" }])
      const performed = yield* entry
      assert.strictEqual(performed.intent.arguments, intent.arguments)
      assert.strictEqual(performed.intent.argumentsDigest, intent.argumentsDigest)
      const text = `{"amountCents":300,"to":"bob"}`
      assert.strictEqual(performed.decision!.edited!.arguments, text)
      assert.match(performed.decision!.edited!.argumentsDigest, /^[0-9a-f]{64}$/)
      assert.notStrictEqual(performed.decision!.edited!.argumentsDigest, intent.argumentsDigest)
      assert.deepStrictEqual(performed.answer, {
        type: "intent",
        result: { _tag: "Success", value: "300 to bob" },
        edited: { by: "maria", arguments: text }
      })
      assert.strictEqual(performed.history[1]!.note, "approved by maria, with other arguments")
    })
  )

  test(
    "are told to the agent from the answer on, not before, in every replay and in the next process",
    Effect.gen(function*() {
      const process = yield* start("in turn")
      yield* decide({ arguments: { amountCents: 300, to: "bob" } })
      yield* decide()
      yield* process.kill
      yield* process.restart()
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* outputsOf(payer), [
        { results: ["300 to bob", "700 to carol"], told: [[], [], [edit], [edit], [edit]] }
      ])
      const { replay } = yield* client
      const { outcome } = yield* replay(payer, 1)
      assert.deepStrictEqual([outcome], [{ _tag: "Complete", output: (yield* outputsOf(payer))[0] }])
    })
  )

  test(
    "are told in the order of the steps, for calls that were asked for at once",
    Effect.gen(function*() {
      yield* start("at once")
      const [first, second] = yield* waiting
      const to = (to: string) => ({ amountCents: 300, to })
      yield* decide({ id: second!.intent.id, arguments: to("dana"), by: "tom" })
      yield* decide({ id: first!.intent.id, arguments: to("bob") })
      yield* TestClock.adjust("1 minute")
      const both = [edit, { tool: "pay", id: "second", by: "tom", arguments: to("dana") }]
      assert.deepStrictEqual(yield* outputsOf(payer), [
        { results: ["300 to bob", "300 to dana"], told: [[], both, both] }
      ])
    })
  )

  test(
    "are told with the results an agent goes on with after Suspend",
    Effect.gen(function*() {
      const machine = Agent.make(
        "machine",
        { event: Schema.Null, output: Schema.Json, state: Schema.Null },
        Effect.fnUntraced(function*(ctx) {
          if (ctx.resume === undefined) {
            yield* ctx.act(pay(ask))
            yield* ctx.act(pay(ask))
            return Agent.suspend(null)
          }
          yield* ctx.sleep("1 minute")
          const edits = yield* ctx.edits
          return Agent.complete({ edited: ctx.resume.results.map(({ edited }) => edited ?? null), edits: edits.length })
        })
      )
      yield* Process.start(TestEngine.layerProcess({
        agents: [machine],
        effects: [Effects.on(pay, () => Effect.succeed("paid"))],
        engine: { alwaysReplay: true }
      }))
      const { send } = yield* client
      yield* send(machine, { key: "c1", event: null })
      yield* settle
      yield* decide({ arguments: edit.arguments })
      yield* decide()
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* outputsOf(machine), [
        { edited: [{ by: "maria", arguments: edit.arguments }, null], edits: 1 }
      ])
    })
  )

  test(
    "that are those asked for are no change",
    Effect.gen(function*() {
      yield* start("in turn")
      const { decision } = yield* decide({ arguments: { to: "bob", amountCents: 500 } })
      assert.isUndefined(decision!.edited)
      assert.notProperty((yield* entry).answer, "edited")
    })
  )

  test(
    "are refused where they do not fit the contract, and the intent stays pending",
    Effect.gen(function*() {
      yield* start("in turn")
      const { intent: { id } } = yield* entry
      const misfits = [
        { amountCents: "300", to: "bob" },
        { amountCents: 300 },
        { amountCents: 300, to: "bob", approved: true },
        { amountCents: 3.5, to: "bob" },
        [300, "bob"],
        "300",
        null
      ]
      for (const misfit of misfits) {
        const refusal = yield* Effect.flip(decide({ arguments: misfit }))
        assert.deepInclude(refusal, { _tag: "EditRefused", id, tool: "pay", by: "maria" }, JSON.stringify(misfit))
      }
      const none = [{ arguments: undefined }, { arguments: NaN }, { arguments: ask, approved: false }]
      for (const decision of none) {
        assert.deepInclude(yield* Effect.flip(decide(decision)), { _tag: "InvalidDecision" })
      }
      const large = yield* Effect.flip(decide({ arguments: { amountCents: 300, to: "b".repeat(1024 * 1024) } }))
      assert.deepInclude(large, { _tag: "TooLarge", key: "c1", maxBytes: 1024 * 1024 })
      const other = yield* Effect.flip(decide({ arguments: edit.arguments, argumentsDigest: "0".repeat(64) }))
      assert.deepInclude(other, { _tag: "LedgerRefusal", reason: "the decision is about other arguments" })
      assert.deepInclude(yield* entry, { state: "Staged", decision: undefined })
      assert.deepStrictEqual(yield* paid, [])
    })
  )

  test(
    "that fit what is shown and not the tool are Rejected: the handler is not called, the agent is told",
    Effect.gen(function*() {
      yield* start("in turn")
      yield* decide({ arguments: { amountCents: 301, to: "bob" } })
      assert.deepInclude(yield* entry, { state: "Rejected", attempt: 0 })
      yield* decide()
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* paid, [{ amountCents: 700, to: "carol" }])
      const [output]: ReadonlyArray<any> = yield* outputsOf(payer)
      assert.strictEqual(output.results[0], "Rejected: its edited arguments do not fit 'pay'")
      assert.deepStrictEqual(output.told[2][0].arguments, { amountCents: 301, to: "bob" })
    })
  )

  interface Tree {
    readonly name: string
    readonly parts?: ReadonlyArray<Tree>
  }
  const Tree = Schema.Struct({
    name: Schema.String.check(Schema.isPattern(/^[a-z]+$/)),
    parts: Schema.optionalKey(Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree)))
  })
  const plant = Tool.sideEffect("plant", {
    description: "Plant a tree.",
    parameters: { tree: Tree, on: Schema.DateTimeUtc, note: Schema.NullOr(Schema.Literals(["soon", "late"])) },
    success: Schema.String,
    approval: "required"
  })
  const planted = { tree: { name: "oak", parts: [{ name: "leaf" }] }, on: "2030-01-01T00:00:00.000Z", note: "late" }

  test(
    "are held against all the contract says: patterns, parts of parts, literals",
    Effect.gen(function*() {
      const subject = Agent.make("planter", { event: Schema.Null, output: Schema.String }, (ctx) =>
        Effect.map(
          ctx.request(plant({ tree: { name: "elm" }, on: DateTime.makeUnsafe(0), note: null })),
          Agent.complete
        ))
      yield* Process.start(TestEngine.layerProcess({
        agents: [subject],
        effects: [
          Effects.on(plant, ({ note, on, tree }) => Effect.succeed(`${tree.name} ${DateTime.formatIso(on)} ${note}`))
        ]
      }))
      const { send } = yield* client
      yield* send(subject, { key: "c1", event: null })
      yield* settle
      const misfits = [
        { ...planted, note: "later" },
        { ...planted, tree: { name: "Oak" } },
        { ...planted, tree: { name: "oak", parts: [{ name: "leaf", parts: [{ name: 1 }] }] } },
        { ...planted, tree: { name: "oak", parts: [{ name: "leaf", more: 1 }] } },
        { ...planted, more: 1 },
        { ...planted, on: 1 }
      ]
      for (const misfit of misfits) {
        const refusal = yield* Effect.flip(decide({ arguments: misfit }))
        assert.deepInclude(refusal, { _tag: "EditRefused", tool: "plant" }, JSON.stringify(misfit))
      }
      yield* decide({ arguments: planted })
      assert.deepStrictEqual(yield* outputsOf(subject), ["oak 2030-01-01T00:00:00.000Z late"])
    })
  )

  test(
    "are refused where nobody has declared the contract, and taken once somebody has",
    Effect.gen(function*() {
      const store = yield* AgentStore.AgentStore
      const forgetful = { ...store, declare: () => Effect.void }
      const process = yield* Effect.provideService(start("in turn"), AgentStore.AgentStore, forgetful)
      const refusal = yield* Effect.flip(decide({ arguments: edit.arguments }))
      assert.deepInclude(refusal, { _tag: "EditRefused" })
      assert.include(refusal.message, "no engine or effector has declared")
      yield* process.kill
      yield* Process.start(live)
      yield* decide({ arguments: edit.arguments })
      assert.deepStrictEqual(yield* paid, [edit.arguments])
    })
  )

  test(
    "need nothing but the store and an effector elsewhere, whose contract the engine declares",
    Effect.gen(function*() {
      const subject = Agent.make(
        "payer",
        { event: Schema.Null, output: Schema.String },
        (ctx) => Effect.map(ctx.request(pay(ask)), Agent.complete)
      )
      yield* Process.start(AgentEngine.layer(subject).pipe(Layer.provide(Effector.elsewhere(pay))))
      const { send } = yield* client
      yield* send(subject, { key: "c1", event: null })
      yield* settle
      assert.deepInclude((yield* decide({ arguments: edit.arguments })).decision, { approved: true, by: "maria" })
    })
  )

  test(
    "are refused for a question, and for secrets nobody was shown",
    Effect.gen(function*() {
      const subject = Agent.make("payer", { event: Schema.Null, output: Schema.Null }, (ctx) =>
        Effect.as(
          Effect.andThen(
            ctx.act(payOut({ card: Redacted.make("4111"), cents: 5 })),
            ctx.requestApproval({ title: "?" })
          ),
          Agent.complete(null)
        ))
      yield* Process.start(TestEngine.layerProcess({
        agents: [subject],
        effects: [Effects.on(payOut, () => Effect.succeed("paid"))]
      }))
      const { send } = yield* client
      yield* send(subject, { key: "c1", event: null })
      yield* settle
      const [secret, question] = yield* waiting
      const store = yield* AgentStore.AgentStore
      const refusals: ReadonlyArray<readonly [Ledger.Entry, string]> = [
        [secret!, "its arguments are sealed: nobody was shown what would be changed"],
        [question!, "a question has no arguments that could be changed"]
      ]
      for (const [{ intent: { id } }, detail] of refusals) {
        const refused = yield* Effect.flip(decide({ id, arguments: { card: "4111", cents: 500 } }))
        assert.deepInclude(refused, { _tag: "EditRefused", detail })
        const edited = { arguments: "{}", argumentsDigest: "0".repeat(64) }
        const move = Ledger.decide({ approved: true, by: "maria", edited })
        assert.deepInclude(yield* Effect.flip(store.move(id, move)), { _tag: "LedgerRefusal", reason: detail })
      }
      assert.lengthOf(yield* waiting, 2)
    })
  )

  it.effect("that are refused are logged with who sent them", () => {
    const lines: Array<string> = []
    return Effect.gen(function*() {
      yield* start("in turn")
      yield* Effect.flip(decide({ by: "mallory", arguments: { to: "mallory" } }))
      assert.lengthOf(lines.filter((line) => line.startsWith("Warn") && line.includes("'mallory'")), 1, lines.join())
    }).pipe(Effect.provide([TestEngine.outside, logged(lines)]))
  })
})
