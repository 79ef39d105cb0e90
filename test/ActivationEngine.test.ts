/**
 * Activations as the engine runs them: what is committed, what waits, and what is driven again.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, References, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEngine, AgentStore, Effector, type Journal, Memory, Tool } from "../src/index.ts"
import { Effects, TestEngine } from "../src/testing/index.ts"
import { aCharge, anEmail, charge, type Ctx, LookupFailed, sendEmail, world } from "./fixtures/activations.ts"

const gatedEmail = Tool.sideEffect("gatedEmail", {
  description: "Send an email, if somebody approves.",
  parameters: { body: Schema.String },
  success: Schema.String,
  approval: "required"
})

const paid = Effects.on(charge, ({ amountCents }) => Effect.succeed(`paid ${amountCents}`))
const slowlyPaid = Effects.on(
  charge,
  ({ amountCents }) => Effect.delay(Effect.succeed(`paid ${amountCents}`), "2 minutes")
)
const sent = Effects.on(sendEmail, () => Effect.succeed("sent"))
const sentIfApproved = Effects.on(gatedEmail, () => Effect.succeed("sent"))

const strings = { event: Schema.String, output: Schema.String }

const engine = AgentEngine.AgentEngine

const outputsOf = (agent: Agent.Agent<any, any, any, any>) =>
  AgentStore.AgentStore.use((store) => store.outputs({ agent: agent.name, after: 0, limit: 100 })).pipe(
    Effect.map((outputs) => outputs.map(({ output }) => output))
  )

/** Lets things happen that are due within a duration. */
const pass = (duration: "1 minute" | "10 minutes" | "50 minutes" | "3 minutes" | "25 hours") =>
  Effect.andThen(TestClock.adjust(duration), engine.use(({ drain }) => drain))

describe("K17 all or nothing", () => {
  const ends = [
    ["a failure", () => Effect.fail(new LookupFailed({ id: "1" })), "Failure", "LookupFailed"],
    ["a defect", () => Effect.die(new Error("no")), "Defect", "Error"],
    ["a timeout", () => Effect.never, "TimedOut", "TimeoutError"],
    ["an interruption", () => Effect.interrupt, "Interrupted", "Interrupted"]
  ] as const
  it.effect.each(ends)(
    "after two acts, a memory write and %s: a dead letter, and nothing else",
    ([_, end, kind, tag]) => {
      const subject = Agent.make(
        "agent",
        { ...strings, memory: { count: Memory.entry(Schema.Int, () => 0) }, timeout: "1 minute" },
        Effect.fnUntraced(function*(ctx, event) {
          if (event === "good") return Agent.complete("good")
          yield* ctx.act(aCharge())
          yield* ctx.memory.set("count", 1)
          yield* ctx.emit("no")
          yield* ctx.act(anEmail())
          yield* end() as Effect.Effect<void, unknown>
          return Agent.complete("no")
        })
      )
      return Effect.gen(function*() {
        const client = yield* engine
        yield* client.send(subject, { key: "k", event: "bad" })
        yield* pass("1 minute")
        const { inbox, memory, revision, seq } = yield* client.status(subject, "k")
        assert.deepStrictEqual({ inbox, memory, revision, seq }, { inbox: 0, memory: {}, revision: 0, seq: 0 })
        assert.deepStrictEqual([yield* client.intents(), yield* outputsOf(subject)], [[], []])
        const [letter] = yield* client.deadLetters
        assert.deepInclude(letter, { kind: "Event", content: "bad" })
        assert.deepInclude(letter!.reason, { kind, tag })
        // The next event takes the seq that was not taken.
        assert.strictEqual(yield* client.call(subject, { key: "k", event: "good" }), "good")
        assert.strictEqual((yield* client.status(subject, "k")).seq, 1)
        assert.deepStrictEqual(yield* Effects.Effects.use(({ all }) => all), [])
      }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid, sent] })))
    }
  )
})

describe("K18 a guard beside the activation", () => {
  it.effect("fails after 50 ms: the charge staged at 0 ms is left nowhere", () => {
    const subject = Agent.make("agent", strings, (ctx) => {
      const guard = Effect.delay(Effect.fail(new LookupFailed({ id: "guard" })), "50 millis")
      return Effect.as(
        Effect.all([guard, Effect.andThen(ctx.act(aCharge()), Effect.sleep("1 second"))], { concurrency: "unbounded" }),
        Agent.complete("no")
      )
    })
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* pass("1 minute")
      assert.strictEqual((yield* client.deadLetters)[0]?.reason.tag, "LookupFailed")
      assert.lengthOf(yield* Effects.of(charge), 0)
      assert.deepStrictEqual(yield* client.intents(), [])
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid] })))
  })
})

describe("K21 a failed activation can be driven again", () => {
  it.effect("the same event, byte for byte, runs as a new activation; its intents are staged once", () => {
    const { answers, asked, lookup } = world()
    answers.set("1", Effect.fail(new LookupFailed({ id: "1" })))
    const events: Array<unknown> = []
    const subject = Agent.make(
      "agent",
      { event: Schema.Struct({ id: Schema.String, at: Schema.Date }), output: Schema.String },
      Effect.fnUntraced(function*(ctx, event) {
        events.push(event)
        yield* ctx.act(aCharge())
        return Agent.complete(yield* ctx.runTool(lookup({ id: event.id })))
      })
    )
    return Effect.gen(function*() {
      const client = yield* engine
      const event = { id: "1", at: new Date(7) }
      yield* client.send(subject, { key: "k", event })
      yield* client.drain
      const [letter] = yield* client.deadLetters
      assert.deepStrictEqual(letter!.content, { id: "1", at: "1970-01-01T00:00:00.007Z" })
      answers.delete("1")
      yield* client.redrive(letter!.id, { by: "maria" })
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(subject), ["1!"])
      assert.deepStrictEqual(events, [event, event])
      assert.deepStrictEqual(asked, ["1", "1"])
      assert.lengthOf(yield* Effects.of(charge), 1)
      assert.strictEqual((yield* client.deadLetters)[0]?.driven?.by, "maria")
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid] })))
  })
})

describe("K22 two requests, answered one at a time", () => {
  const both = Agent.make("agent", strings, (ctx) =>
    Effect.map(
      ctx.requestAll({ a: aCharge(1), b: gatedEmail({ body: "b" }) }, { ttl: "1 hour" }),
      ({ a, b }) => Agent.complete(`${a} ${b}`)
    ))

  it.effect("the key waits for the other, still due when it was, and goes on once with both", () => {
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(both, { key: "k", event: "e" })
      yield* pass("10 minutes")
      const [a, b] = yield* client.intents()
      assert.deepStrictEqual([a!.state, b!.state], ["Performed", "Staged"])
      assert.lengthOf((yield* client.status(both, "k")).waiting, 2)
      assert.strictEqual((yield* client.status(both, "k")).revision, 1)
      yield* client.decide({ id: b!.intent.id, approved: true, by: "maria" })
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(both), ["paid 1 sent"])
      assert.strictEqual((yield* client.status(both, "k")).revision, 2)
    }).pipe(Effect.provide(TestEngine.layer({ agents: [both], effects: [paid, sentIfApproved] })))
  })

  it.effect("in the other order of arrival the same", () => {
    const other = Agent.make("agent", strings, (ctx) =>
      Effect.map(
        ctx.requestAll({ a: gatedEmail({ body: "b" }), b: aCharge(1) }),
        ({ a, b }) => Agent.complete(`${a} ${b}`)
      ))
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(other, { key: "k", event: "e" })
      yield* pass("10 minutes")
      const [a, b] = yield* client.intents()
      assert.deepStrictEqual([a!.state, b!.state], ["Staged", "Performed"])
      yield* client.decide({ id: a!.intent.id, approved: true, by: "maria" })
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(other), ["sent paid 1"])
    }).pipe(Effect.provide(TestEngine.layer({ agents: [other], effects: [paid, sentIfApproved] })))
  })

  it.effect("the one nobody performs is due an hour after it was staged, not after the other was answered", () => {
    const late = Agent.make(
      "agent",
      strings,
      (ctx) =>
        ctx.requestAll({ a: aCharge(1), b: anEmail() }, { ttl: "1 hour" }).pipe(
          Effect.as(Agent.complete("no")),
          Effect.catchTag(
            "IntentNotPerformed",
            ({ reason, tool }) => Effect.succeed(Agent.complete(`${tool} ${reason}`))
          )
        )
    )
    const slow = Effects.on(charge, () => Effect.succeed("paid"), { before: () => Effect.sleep("4 minutes") })
    const live = AgentEngine.layer(late).pipe(
      Layer.provide([Effector.layer(charge), Effector.elsewhere(sendEmail)]),
      Layer.provide(slow.layer),
      Layer.provideMerge(TestEngine.outside)
    )
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(late, { key: "k", event: "e" })
      yield* pass("10 minutes")
      assert.deepStrictEqual((yield* client.intents()).map(({ state }) => state), ["Performed", "Staged"])
      yield* TestClock.adjust("49 minutes")
      assert.deepStrictEqual(yield* outputsOf(late), [])
      yield* TestClock.adjust("1 minute")
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(late), ["sendEmail Expired"])
    }).pipe(Effect.provide(live))
  })
})

describe("K23 an ordinary event while suspended", () => {
  type Waits = Tool.Intents<"charge"> | Tool.Intents<"gatedEmail">
  const approve = Effect.gen(function*() {
    const client = yield* engine
    for (const { intent } of yield* client.intents({ states: ["Staged"] })) {
      yield* client.decide({ id: intent.id, approved: true, by: "maria" })
    }
  })
  const waits: ReadonlyArray<
    readonly [what: string, wait: (ctx: Ctx) => Effect.Effect<string, unknown, Waits>, result: string]
  > = [
    ["a result", (ctx) => ctx.request(aCharge(7)), "paid 7"],
    ["an approval", (ctx) => ctx.request(gatedEmail({ body: "b" })), "sent"]
  ]
  it.effect.each(waits)("waits in the inbox for %s, and runs after it", ([_, wait, result]) => {
    const subject = Agent.make(
      "agent",
      strings,
      (ctx, event) => event === "hello" ? Effect.succeed(Agent.complete(event)) : Effect.map(wait(ctx), Agent.complete)
    )
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "first" })
      yield* client.send(subject, { key: "k", event: "hello" })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* outputsOf(subject), [])
      assert.deepInclude(yield* client.status(subject, "k"), { inbox: 1, seq: 1 })
      yield* Effect.ignore(approve)
      yield* pass("10 minutes")
      assert.deepStrictEqual(yield* outputsOf(subject), [result, "hello"])
      assert.deepInclude(yield* client.status(subject, "k"), { inbox: 0, seq: 2, waiting: [] })
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [slowlyPaid, sentIfApproved] })))
  })
})

describe("K24 a message while suspended", () => {
  const Reply = Schema.Struct({ satisfied: Schema.Boolean })
  const subject = Agent.make(
    "agent",
    strings,
    (ctx, event) =>
      event === "hello" ? Effect.succeed(Agent.complete("hello")) : ctx.receive(Reply, { timeout: "3 days" }).pipe(
        Effect.map(({ satisfied }) => Agent.complete(String(satisfied))),
        Effect.catchTag("MessageTimeout", () => Effect.succeed(Agent.complete("silence")))
      )
  )
  const live = TestEngine.layer({ agents: [subject], effects: [] })

  it.effect("goes on with it; an ordinary event sent meanwhile runs after it", () =>
    Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "ask" })
      yield* pass("1 minute")
      yield* client.send(subject, { key: "k", event: "hello" })
      yield* client.message(subject, { key: "k", message: { satisfied: true } })
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(subject), ["true", "hello"])
    }).pipe(Effect.provide(live)))

  it.effect("one that does not fit is refused to its sender, and the key keeps waiting", () =>
    Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "ask" })
      yield* client.drain
      const refused = yield* Effect.flip(client.message(subject, { key: "k", message: { satisfied: "very" } }))
      assert.strictEqual(refused._tag, "MessageMisfit")
      assert.lengthOf((yield* client.status(subject, "k")).waiting, 1)
      yield* client.message(subject, { key: "k", message: { satisfied: false } })
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(subject), ["false"])
    }).pipe(Effect.provide(live)))

  it.effect("and when none comes, the wait ends after three days", () =>
    Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "ask" })
      yield* client.drain
      yield* TestClock.adjust("71 hours")
      assert.deepStrictEqual(yield* outputsOf(subject), [])
      yield* TestClock.adjust("1 hour")
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(subject), ["silence"])
    }).pipe(Effect.provide(live)))
})

describe("K25 another wake does not start it again", () => {
  it.effect("an approval that arrives while a slow charge runs: n(charge) = 1", () => {
    const subject = Agent.make("agent", strings, (ctx) =>
      Effect.map(
        ctx.requestAll({ a: aCharge(1), b: gatedEmail({ body: "b" }) }),
        ({ a, b }) => Agent.complete(`${a} ${b}`)
      ))
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* TestClock.adjust("1 minute")
      const [running, gated] = yield* client.intents()
      assert.strictEqual(running!.state, "Claimed")
      yield* client.decide({ id: gated!.intent.id, approved: true, by: "maria" })
      yield* TestClock.adjust("3 minutes")
      yield* client.drain
      assert.deepStrictEqual(yield* outputsOf(subject), ["paid 1 sent"])
      assert.lengthOf(yield* Effects.of(charge), 1)
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [slowlyPaid, sentIfApproved] })))
  })
})

describe("K26 a result outlives its activation", () => {
  it.effect("resumed code that throws before its first new step is driven again with the recorded result", () => {
    let broken = true
    const subject = Agent.make(
      "agent",
      strings,
      (ctx) =>
        Effect.flatMap(
          ctx.request(aCharge(3)),
          (receipt) => broken ? Effect.die(new Error("broken")) : Effect.succeed(Agent.complete(receipt))
        )
    )
    return Effect.gen(function*() {
      const client = yield* engine
      const { offset } = yield* client.send(subject, { key: "k", event: "e" })
      yield* client.send(subject, { key: "k", event: "later" })
      yield* pass("1 minute")
      const store = yield* AgentStore.AgentStore
      assert.strictEqual((yield* store.event(offset))?.state, "Blocked")
      assert.deepInclude(yield* client.status(subject, "k"), { inbox: 1, current: offset })
      broken = false
      const [letter] = yield* client.deadLetters
      assert.strictEqual(letter!.kind, "Resume")
      yield* client.redrive(letter!.id, { by: "maria" })
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* outputsOf(subject), ["paid 3", "paid 3"])
      assert.lengthOf(yield* Effects.of(charge), 2)
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid] })))
  })
})

describe("K27 two processes resume one key", () => {
  it.effect("exactly one commit lands; the other throws its work away, and no failure reaches anybody", () => {
    const runs: Array<string> = []
    const logged: Array<string> = []
    const subject = Agent.make(
      "agent",
      strings,
      Effect.fnUntraced(function*(ctx, event) {
        const receipt = yield* ctx.request(aCharge(1))
        runs.push(event)
        // Time for the other engine to pick the key up as well.
        yield* Effect.sleep("1 second")
        yield* ctx.act(anEmail(receipt))
        return Agent.complete(receipt)
      })
    )
    const two = Layer.mergeAll(
      Layer.fresh(TestEngine.layerProcess({ agents: [subject], effects: [paid, sent] })),
      Layer.effectDiscard(
        Layer.build(Layer.fresh(TestEngine.layerProcess({ agents: [subject], effects: [paid, sent] })))
      )
    ).pipe(Layer.provideMerge(TestEngine.outside))
    const logger = Logger.make(({ logLevel, message }) => logged.push(`${logLevel} ${message}`))
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* pass("1 minute")
      assert.deepStrictEqual(runs, ["e", "e"])
      assert.deepStrictEqual(yield* outputsOf(subject), ["paid 1"])
      assert.deepStrictEqual((yield* client.status(subject, "k")).revision, 2)
      assert.deepStrictEqual(yield* client.deadLetters, [])
      assert.deepStrictEqual([(yield* Effects.of(charge)).length, (yield* Effects.of(sendEmail)).length], [1, 1])
      assert.deepStrictEqual(logged.filter((line) => !line.startsWith("Debug")), [])
      assert.lengthOf(logged.filter((line) => line.includes("is at revision 2, the commit read 1")), 1)
    }).pipe(
      Effect.provide(Layer.provideMerge(two, Logger.layer([logger]))),
      Effect.provideService(References.MinimumLogLevel, "Debug")
    )
  })
})

describe("rows appended ahead of the commit", () => {
  const subject = Agent.make("agent", strings, (ctx, event) =>
    Effect.map(
      ctx.callModel({ model: "m", request: event, reply: Schema.String, call: Effect.succeed("reply") }),
      Agent.complete
    ))

  it.effect("replace what the store holds only for the run that read it; another one is told what is there", () =>
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const store = yield* AgentStore.AgentStore
      yield* client.send(subject, { key: "k", event: "e" })
      const [snapshot] = yield* store.ready({ agents: ["agent"], limit: 1, busy: () => false })
      const { journal } = yield* Agent.activate(subject, { key: "k", event: "e" })
      const { agent, key, offset, revision } = snapshot!
      const append = (rows: ReadonlyArray<Journal.Stored>, known: string | undefined) =>
        store.append({ agent, key, offset, revision, from: 0, rows, known })
      const first = journal.rows.slice(0, 2)
      assert.deepStrictEqual(yield* append(first, undefined), first)
      assert.deepStrictEqual(yield* append(journal.rows, undefined), first)
      assert.deepStrictEqual(yield* append(journal.rows, first[0]!.check), first)
      assert.deepStrictEqual(yield* append(journal.rows, first[1]!.check), journal.rows)
      assert.deepStrictEqual(yield* append(first, journal.rows.at(-1)!.check), first)
      const [again] = yield* store.ready({ agents: ["agent"], limit: 1, busy: () => false })
      assert.deepStrictEqual(again!.rows, first)
    }).pipe(Effect.provide(AgentStore.layerMemory)))
})

describe("K78 a damaged journal", () => {
  it.effect("parks its key with a typed reason, performs nothing, and leaves other keys alone", () => {
    const subject = Agent.make("agent", strings, (ctx) =>
      Effect.gen(function*() {
        yield* ctx.act(anEmail())
        const receipt = yield* ctx.request(aCharge(1))
        yield* ctx.act(anEmail(receipt))
        return Agent.complete(receipt)
      }))
    // The store of a disk gone bad: it hands out one row twice, for one key, as long as it is broken.
    let broken = true
    const damaged = Layer.effect(
      AgentStore.AgentStore,
      Effect.map(AgentStore.AgentStore, (store) => ({
        ...store,
        ready: (query) =>
          Effect.map(
            store.ready(query),
            (snapshots) =>
              snapshots.map((snapshot) =>
                broken && snapshot.key === "bad" && snapshot.rows.length > 1
                  ? { ...snapshot, rows: [...snapshot.rows.slice(0, 2), ...snapshot.rows.slice(1)] }
                  : snapshot
              )
          )
      }))
    ).pipe(Layer.provide(AgentStore.layerMemory))
    const live = TestEngine.layerProcess({ agents: [subject], effects: [paid, sent] }).pipe(
      Layer.provideMerge(Layer.merge(damaged, Effects.layer))
    )
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "bad", event: "e" })
      yield* client.send(subject, { key: "good", event: "e" })
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* outputsOf(subject), ["paid 1"])
      const [letter] = yield* client.deadLetters
      assert.deepInclude(letter, { kind: "Resume", key: "bad" })
      assert.deepInclude(letter!.reason, { kind: "Failure", tag: "JournalDamaged" })
      assert.include(letter!.reason.message, "for key 'bad' is damaged at position 2")
      assert.lengthOf((yield* Effects.of(sendEmail)).filter(({ key }) => key === "bad"), 1)
      broken = false
      yield* client.redrive(letter!.id, { by: "maria" })
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* outputsOf(subject), ["paid 1", "paid 1"])
      assert.lengthOf((yield* Effects.of(sendEmail)).filter(({ key }) => key === "bad"), 2)
      assert.lengthOf(yield* Effects.of(charge), 2)
    }).pipe(Effect.provide(live))
  })
})

describe("K87 steps in parallel", () => {
  it.effect("are refused: a dead letter that points at requestAll, and n = 0", () => {
    const subject = Agent.make("agent", strings, (ctx, event) =>
      Effect.as(
        event === "all"
          ? Effect.asVoid(Effect.all([ctx.request(aCharge()), ctx.request(anEmail())], { concurrency: "unbounded" }))
          : Effect.andThen(Effect.forkChild(ctx.act(aCharge())), Effect.sleep("1 second")),
        Agent.complete("no")
      ))
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "all" })
      yield* client.send(subject, { key: "k", event: "fork" })
      yield* pass("1 minute")
      const letters = yield* client.deadLetters
      assert.deepStrictEqual(letters.map(({ reason }) => reason.tag), ["ConcurrentStepError", "ConcurrentStepError"])
      for (const { reason } of letters) assert.include(reason.message, "ctx.requestAll")
      assert.deepStrictEqual([yield* client.intents(), yield* Effects.Effects.use(({ all }) => all)], [[], []])
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid, sent] })))
  })
})

describe("K88 two agents, one key", () => {
  it.effect("two ids, n(charge) = 2; neither sees the other's memory, order or suspension", () => {
    const counting = <Name extends string>(name: Name, waits: boolean) =>
      Agent.make(
        name,
        { ...strings, memory: { count: Memory.entry(Schema.Int, () => 0) } },
        Effect.fnUntraced(function*(ctx) {
          yield* ctx.memory.update("count", (count) => count + 1)
          if (waits) yield* ctx.receive(Schema.String)
          yield* ctx.act(aCharge())
          return Agent.complete(`${name} ${yield* ctx.memory.get("count")}`)
        })
      )
    const assess = counting("assess", true)
    const refunds = counting("refunds", false)
    return Effect.gen(function*() {
      const client = yield* engine
      for (const agent of [assess, refunds, refunds]) yield* client.send(agent, { key: "c-9", event: "e" })
      yield* pass("1 minute")
      assert.deepStrictEqual([yield* outputsOf(assess), yield* outputsOf(refunds)], [[], ["refunds 1", "refunds 2"]])
      yield* client.message(assess, { key: "c-9", message: "go on" })
      yield* pass("1 minute")
      assert.deepStrictEqual(yield* outputsOf(assess), ["assess 1"])
      const charges = yield* Effects.of(charge)
      assert.deepStrictEqual(charges.map(({ agent, seq, step }) => `${agent} ${seq} ${step}`).sort(), [
        "assess 0 1",
        "refunds 0 0",
        "refunds 1 0"
      ])
      assert.lengthOf(new Set(charges.map(({ id }) => id)), 3)
      assert.deepStrictEqual((yield* client.status(assess, "c-9")).memory, { count: 1 })
      assert.deepStrictEqual((yield* client.status(refunds, "c-9")).memory, { count: 2 })
    }).pipe(Effect.provide(TestEngine.layer({ agents: [assess, refunds], effects: [paid] })))
  })
})

describe("K91 a read yielded directly", () => {
  it.effect("gives its first answer after a resume, and is traced as one call", () => {
    const { answers, asked, lookup } = world()
    const subject = Agent.make("agent", strings, (ctx) =>
      Effect.gen(function*() {
        const found = yield* lookup({ id: "1" })
        yield* ctx.request(aCharge())
        return Agent.complete(found)
      }))
    return Effect.gen(function*() {
      const client = yield* engine
      const { offset } = yield* client.send(subject, { key: "k", event: "e" })
      yield* TestClock.adjust("1 minute")
      answers.set("1", Effect.succeed("changed"))
      yield* pass("10 minutes")
      assert.deepStrictEqual(yield* outputsOf(subject), ["1!"])
      assert.deepStrictEqual(asked, ["1"])
      const trace = yield* AgentStore.AgentStore.use((store) => store.trace(offset))
      assert.deepStrictEqual(trace.map(({ type }) => type), [
        "ToolCall",
        "IntentStaged",
        "Suspended",
        "IntentEnded",
        "Completed"
      ])
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [slowlyPaid] })))
  })
})

describe("K92 two answers that must not be mixed up", () => {
  const subject = Agent.make("agent", strings, (ctx) =>
    ctx.request(aCharge(), { ttl: "1 hour" }).pipe(
      Effect.map(Agent.complete),
      Effect.catchTags({
        IntentNotPerformed: ({ reason }) => Effect.succeed(Agent.complete(`certainly not: ${reason}`)),
        IntentOutcomeUnknown: ({ reason }) => Effect.succeed(Agent.complete(`perhaps: ${reason}`))
      })
    ))

  it.effect("a charge that expired unstarted certainly did not happen", () =>
    Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* pass("25 hours")
      assert.deepStrictEqual(yield* outputsOf(subject), ["certainly not: Expired"])
    }).pipe(Effect.provide(
      AgentEngine.layer(subject).pipe(
        Layer.provide(Effector.elsewhere(charge)),
        Layer.provideMerge(AgentStore.layerMemory)
      )
    )))

  it.effect("a charge that timed out after its start may have happened", () =>
    Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* pass("10 minutes")
      assert.deepStrictEqual(yield* outputsOf(subject), ["perhaps: TimedOut"])
      assert.lengthOf(yield* Effects.of(charge), 1)
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [Effects.on(charge, () => Effect.never)] }))))
})

describe("K29 resume with parallel reads", () => {
  it.effect("keeps their order and hangs nowhere, however far the clock is moved at once", () => {
    const { asked, later, lookup } = world()
    const ids = Array.from({ length: 40 }, (_, index) => `${index}`)
    const order = ids.toSorted((a, b) => (Number(a) * 7) % 40 - (Number(b) * 7) % 40)
    for (const id of ids) later(id, 1 + (Number(id) * 7) % 40)
    const subject = Agent.make("agent", strings, (ctx) =>
      Effect.gen(function*() {
        const found: Array<string> = []
        yield* Effect.forEach(ids, (id) =>
          Effect.andThen(ctx.runTool(lookup({ id })), () => {
            found.push(id)
            return ctx.emit(id)
          }), { concurrency: "unbounded" })
        return Agent.complete(`${yield* ctx.request(aCharge(1))} ${found}`)
      }))
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "e" })
      yield* TestClock.adjust("25 hours")
      assert.deepStrictEqual(yield* outputsOf(subject), [...order, `paid 1 ${order}`])
      assert.deepStrictEqual(asked, ids)
    }).pipe(Effect.provide(TestEngine.layer({ agents: [subject], effects: [slowlyPaid] })))
  })
})

describe("emissions", () => {
  it.effect("come before the output of their event, each once, through resumes and alwaysReplay", () => {
    const subject = Agent.make(
      "agent",
      strings,
      Effect.fnUntraced(function*(ctx, event) {
        for (const index of [1, 2]) {
          yield* ctx.emit(`${event} ${index}`)
          yield* ctx.request(aCharge(index))
        }
        return Agent.complete(event)
      })
    )
    return Effect.gen(function*() {
      const client = yield* engine
      yield* client.send(subject, { key: "k", event: "a" })
      yield* client.send(subject, { key: "k", event: "b" })
      yield* pass("1 minute")
      const outputs = yield* client.outputs(subject).pipe(Stream.take(6), Stream.runCollect)
      assert.deepStrictEqual(outputs.map(({ output, seq }) => [seq, output]), [
        [0, "a 1"],
        [0, "a 2"],
        [0, "a"],
        [1, "b 1"],
        [1, "b 2"],
        [1, "b"]
      ])
    }).pipe(
      Effect.provide(TestEngine.layer({ agents: [subject], effects: [paid], engine: { alwaysReplay: true } }))
    )
  })
})
