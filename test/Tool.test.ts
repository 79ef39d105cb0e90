import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Tool, Toolkit } from "../src/index.ts"

const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String },
  success: Schema.String,
  handler: ({ id }) => Effect.succeed(`name of ${id}`)
})

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

const order = { customerId: "c1", amountCents: 500 }

/** The handler of `charge`, and how often it ran. */
const register = () => {
  const charged: Array<unknown> = []
  const layer = charge.toLayer((input) => Effect.sync(() => `receipt ${charged.push(input)}`))
  return { charged, layer }
}

/** Arguments that must not be looked at. */
const untouchable: any = new Proxy({}, {
  get: () => assert.fail("looked at"),
  has: () => assert.fail("looked at"),
  ownKeys: () => assert.fail("looked at")
})

/** What the compiler would refuse. */
const escaped = (effect: unknown) => effect as Effect.Effect<any, unknown>

const escape = (effect: unknown): Effect.Effect<unknown> => Effect.orDie(Effect.flip(escaped(effect)))

const refused = (error: unknown) => {
  assert.instanceOf(error, Tool.SideEffectToolError)
  assert.strictEqual(error.tool, "charge")
  assert.match(error.message, /^'charge' is a SideEffect tool .*ctx\.act/)
}

const schemas = { event: Schema.String, output: Schema.String }

describe("a SideEffect call fails wherever it is run (K01)", () => {
  it.effect("yielded, mapped, in parallel, with its handler at hand", () =>
    Effect.gen(function*() {
      const { charged, layer } = register()
      const call = charge(order)
      const ways: ReadonlyArray<Effect.Effect<unknown, unknown, any>> = [
        call,
        Effect.gen(function*() {
          return yield* call
        }),
        Effect.map(call, () => "mapped"),
        Effect.all([lookup({ id: "1" }), call], { concurrency: "unbounded" }),
        Effect.uninterruptible(call)
      ]
      for (const way of ways) refused(yield* escape(Effect.provide(way, layer)))
      assert.deepStrictEqual(charged, [])
    }))

  it("in Effect.runPromise, as JavaScript runs it", async () => {
    const failed = await Effect.runPromise(charge(order) as any).then(() => assert.fail("it ran"), (error) => error)
    refused(failed)
  })

  it.effect("before its arguments are looked at", () =>
    Effect.gen(function*() {
      refused(yield* escape(charge(untouchable)))
      refused(yield* escape((charge as any)("not even an object")))
    }))

  it.effect("with a look-alike of the effector's scope under the same key", () =>
    Effect.gen(function*() {
      const { charged, layer } = register()
      const call = charge(order)
      const lookAlike = Context.Service<any, any>("effect-intents/EffectorScope")
      for (const scope of [{ call, take: () => true }, { used: false, call, take: () => true }, true]) {
        refused(yield* escape(call.pipe(Effect.provideService(lookAlike, scope), Effect.provide(layer))))
      }
      assert.deepStrictEqual(charged, [])
    }))

  it.effect("handed to ctx.runTool or Tool.read past the types, and is not traced as a call", () =>
    Effect.gen(function*() {
      const agent = Agent.make(
        "agent",
        schemas,
        Effect.fnUntraced(function*(ctx) {
          refused(yield* escape(ctx.runTool(charge(untouchable) as any)))
          refused(yield* escape(charge(untouchable)))
          return Agent.complete("refused")
        })
      )
      const { intents, trace } = yield* Agent.activate(agent, { key: "k", event: "go" })
      assert.deepStrictEqual(intents, [])
      assert.deepStrictEqual(trace, [{ type: "Completed" }])
      refused(yield* escape(Tool.read(charge(untouchable) as any)))
    }))

  it.effect("and fails the activation of an agent that yields it, with nothing staged", () =>
    Effect.gen(function*() {
      const agent = Agent.make("agent", schemas, () => Effect.as(escaped(charge(order)), Agent.complete("charged")))
      const error = yield* Effect.flip(Agent.activate(agent, { key: "k", event: "go" }))
      assert.strictEqual(error._tag === "ActivationFailed" && error.reason.tag, "SideEffectToolError")
    }))
})

describe("what is no call of the right kind is refused at the line that takes it", () => {
  const staged = (call: unknown) =>
    Effect.map(
      Agent.activate(
        Agent.make("agent", schemas, (ctx) => Effect.as(escaped(ctx.act(call as any)), Agent.complete("staged"))),
        { key: "k", event: "go" }
      ).pipe(Effect.flip),
      (error) => error._tag === "ActivationFailed" ? error.reason : assert.fail(error._tag)
    )

  it.effect("a ReadOnly call is never staged (K01)", () =>
    Effect.gen(function*() {
      const { message, tag } = yield* staged(lookup({ id: "1" }))
      assert.strictEqual(tag, "ReadOnlyToolError")
      assert.match(message, /'lookup'.*ctx\.runTool/)
    }))

  it.effect("a name and a text are no call (K02)", () =>
    Effect.gen(function*() {
      const agent = Agent.make("agent", schemas, (ctx) =>
        Effect.as(escaped((ctx.act as any)("no_such_tool", "not json")), Agent.complete("staged")))
      const error = yield* Effect.flip(Agent.activate(agent, { key: "k", event: "go" }))
      if (error._tag !== "ActivationFailed") {
        return assert.fail(error._tag)
      }
      assert.strictEqual(error.reason.tag, "ToolNotFoundError")
      assert.include(error.reason.message, "'no_such_tool'")
    }))

  it.effect("nor is anything that only looks like one", () =>
    Effect.gen(function*() {
      const call = charge(order)
      const lookAlikes = [
        { ...call },
        { kind: "SideEffect", name: "charge", tool: charge, arguments: order },
        charge,
        null
      ]
      for (const lookAlike of [...lookAlikes, undefined, 5, Symbol("charge"), Effect.void]) {
        assert.strictEqual((yield* staged(lookAlike)).tag, "ToolNotFoundError")
      }
    }))
})

describe("Tool.unwrap", () => {
  it.effect("starts the handler with the arguments, and a start is good for one run", () =>
    Effect.gen(function*() {
      const { charged, layer } = register()
      const { start } = yield* Effect.provide(Tool.unwrap(charge), layer)
      const started = start(order)
      assert.strictEqual(yield* started, "receipt 1")
      refused(yield* escape(started))
      refused(yield* escape(Effect.retry(started, { times: 3 })))
      assert.deepStrictEqual(charged, [order])
      assert.strictEqual(yield* start(order), "receipt 2")
    }))

  it.effect("gives the handler no permission to run a SideEffect call itself", () =>
    Effect.gen(function*() {
      const errors: Array<unknown> = []
      const greedy = charge.toLayer(() =>
        Effect.gen(function*() {
          const context = yield* Effect.context<never>()
          const found = [...context.mapUnsafe.keys()].filter((key) => key.includes("EffectorScope"))
          assert.deepStrictEqual(found, [])
          errors.push(yield* escape(charge(order)))
          return "receipt"
        })
      )
      const { start } = yield* Effect.provide(Tool.unwrap(charge), greedy)
      assert.strictEqual(yield* start(order), "receipt")
      assert.strictEqual(errors.length, 1)
      refused(errors[0])
    }))

  it.effect("refuses a handler that was made for another tool of the name", () =>
    Effect.gen(function*() {
      const other = Tool.sideEffect("charge", { description: "Another.", parameters: { euros: Schema.Int } })
      const exit = yield* Effect.exit(Effect.provide(Tool.unwrap(charge), other.toLayer(() => Effect.void)))
      assert.include(String(Exit.isFailure(exit) && exit.cause), "made for another tool")
    }))
})

describe("a name", () => {
  const define = (name: any) => () => Tool.readOnly(name, { description: "Named.", handler: () => Effect.void })

  it("that a provider would refuse is refused when it is declared (K09)", () => {
    for (const name of ["x".repeat(65), "send email", "é", "a.b", "", "a\n", "\ud800"]) {
      const error = thrown(define(name))
      assert.strictEqual(error.tool, name.toWellFormed())
      assert.include(error.message, "[A-Za-z0-9_-]{1,64}")
      assert.throws(() => Tool.sideEffect(name, { description: "Named." }))
    }
    for (const name of ["x".repeat(64), "a", "A-1_b", "__proto__", "constructor"]) {
      assert.strictEqual(define(name)().name, name)
    }
  })

  it("that is no text is refused, whatever it is", () => {
    const hostile = { toString: () => assert.fail("converted") }
    for (const name of [undefined, null, 5, {}, Object.create(null), hostile, Symbol("a")]) {
      assert.include(thrown(define(name)).message, "[A-Za-z0-9_-]{1,64}")
    }
  })
})

describe("an option that could only be wrong is refused when it is declared", () => {
  const approval = "required" as const
  const wrong: ReadonlyArray<readonly [option: string, definition: Record<string, unknown>]> = [
    ...["0 seconds", -1, "Infinity", Duration.infinity, Number.NaN, "soon", null, {}, 0.5].flatMap((value) =>
      ["ttl", "timeout", "approvalTimeout"].map((option) => [option, { approval, [option]: value }] as const)
    ),
    ...["yes", 1, null].flatMap((value) =>
      ["idempotent", "verify"].map((option) => [option, { [option]: value }] as const)
    ),
    ...[true, "sometimes", null, {}].map((value) => ["approval", { approval: value }] as const),
    ...[0, -1, 1.5, Infinity, "3"].map((value) => ["concurrency", { concurrency: value }] as const),
    ...[3, "exponential", null].map((value) => ["retry", { idempotent: true, retry: value }] as const),
    ["retry", { retry: Schedule.recurs(3) }],
    ["retry", { retry: Schedule.recurs(3), idempotent: false }],
    ["approvalTimeout", { approvalTimeout: "1 hour" }],
    ["description", { description: undefined }],
    ["description", { description: "\ud800" }],
    ["handler", { handler: () => Effect.void }]
  ]

  it("of a SideEffect tool, naming tool and option", () => {
    for (const [option, definition] of wrong) {
      const error = thrown(() => Tool.sideEffect("pay", { description: "Pay.", ...definition }))
      assert.strictEqual(error.tool, "pay", option)
      assert.include(error.message, option, JSON.stringify(definition))
    }
  })

  it("and its neighbours are taken", () => {
    const taken: ReadonlyArray<Partial<Tool.Options>> = [
      { ttl: 1 },
      { ttl: "1 millis", timeout: "1 minute", concurrency: 1 },
      { approval, approvalTimeout: Duration.days(30) },
      { approval: () => Effect.succeed(true), approvalTimeout: 5_000 },
      { idempotent: true, retry: Schedule.recurs(3), verify: true },
      { idempotent: false, verify: false },
      {}
    ]
    for (const options of taken) {
      assert.deepStrictEqual(Tool.sideEffect("pay", { description: "", ...options }).options, options)
    }
  })

  it("of a ReadOnly tool, where it would have no effect", () => {
    for (
      const [option, value] of Object.entries({ approval, ttl: 1, idempotent: true, concurrency: 1, verify: true })
    ) {
      const definition: any = { description: "Read.", handler: () => Effect.void, [option]: value }
      assert.include(
        thrown(() => Tool.readOnly("read", definition)).message,
        `'${option}' is only for SideEffect tools`
      )
    }
  })

  it("'verify' is given where it was declared", () => {
    const tool = Tool.sideEffect("pay", { description: "Pay.", verify: true })
    assert.include(thrown(() => tool.toLayer(() => Effect.void)).message, "give 'verify' to toLayer")
    const verify = () => Effect.succeed({ _tag: "NotPerformed" as const })
    tool.toLayer(() => Effect.void, { verify })
    const undeclared = Tool.sideEffect("pay", { description: "Pay." })
    undeclared.toLayer(() => Effect.void)
    const message = "declare the tool with 'verify: true'"
    assert.include(thrown(() => undeclared.toLayer(() => Effect.void, { verify })).message, message)
  })
})

describe("a schema that no model can be shown is refused when it is declared, with its path", () => {
  const define = (definition: any) => () => Tool.sideEffect("odd", { description: "Odd.", ...definition })
  const cases: ReadonlyArray<readonly [definition: Record<string, unknown>, path: string]> = [
    [{ parameters: { a: Schema.Struct({ b: Schema.Symbol }) } }, "parameters at a.b"],
    [{ parameters: Schema.Symbol }, "parameters:"],
    [{ parameters: { list: Schema.Array(Schema.instanceOf(Map)) } }, "parameters at list[\"*\"]"],
    [{ parameters: { never: Schema.Never } }, "parameters at never"],
    [{ success: Schema.Struct({ by: Schema.Symbol }) }, "success at by"],
    [{ failure: Schema.Struct({ by: Schema.Symbol }) }, "failure at by"]
  ]
  for (const [definition, path] of cases) {
    it(path, () => assert.include(thrown(define(definition)).message, `tool 'odd': ${path}`))
  }
})

describe("a wrapper (K03)", () => {
  it("makes a tool of the kind, the name and the fields it was given", () => {
    const priced = <const Name extends string, P extends Tool.Fields>(name: Name, parameters: P) =>
      Tool.sideEffect(name, { description: name, parameters: { ...parameters, priceCents: Schema.Int } })
    const tool = priced("charge", { customerId: Schema.String })
    assert.strictEqual(tool.kind, "SideEffect")
    assert.strictEqual(tool.name, "charge")
    const shown = tool.parameters.jsonSchema("draft-2020-12")
    assert.deepStrictEqual(Object.keys(shown["properties"] as {}), ["customerId", "priceCents"])
  })
})

describe("a read", () => {
  it.effect("checks its arguments before its handler sees them", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(lookup({ id: 5 as any }))
      assert.instanceOf(error, Tool.ToolArgumentError)
      assert.match(error.message, /^arguments of 'lookup': id: /)
      assert.strictEqual(yield* lookup({ id: "7" }), "name of 7")
    }))

  it.effect("finds the handler of its layer, with the services that needs", () =>
    Effect.gen(function*() {
      class Names extends Context.Service<Names, { readonly of: (id: string) => string }>()("Names") {}
      const open = Tool.readOnly("open", {
        description: "Open.",
        parameters: { id: Schema.String },
        success: Schema.String
      })
      const layer = open.toLayer(({ id }) => Names.useSync((names) => names.of(id))).pipe(
        Layer.provide(Layer.succeed(Names, { of: (id) => `layer's ${id}` }))
      )
      assert.strictEqual(yield* Effect.provide(open({ id: "7" }), layer), "layer's 7")
    }))

  it("has one handler: a layer for a tool with one in place is refused", () => {
    assert.include(thrown(() => lookup.toLayer(() => Effect.succeed(""))).message, "a second handler")
  })
})

describe("a contract", () => {
  const contract = (name: string, success: Schema.Codec<any, any>, description = "A.") =>
    Tool.sideEffect(name, { description, success }).contract

  it("is the same for the same name, kind and schemas, and for nothing else", () => {
    assert.strictEqual(contract("a", Schema.String), contract("a", Schema.String, "Described otherwise."))
    assert.notStrictEqual(contract("a", Schema.String), contract("b", Schema.String))
    assert.notStrictEqual(contract("a", Schema.String), contract("a", Schema.NonEmptyString))
    const read = Tool.readOnly("a", { description: "A.", success: Schema.String })
    assert.notStrictEqual(contract("a", Schema.String), read.contract)
  })
})

describe("secrets", () => {
  const secret = Schema.RedactedFromValue(Schema.String)
  const tool = Tool.sideEffect("login", {
    description: "Log in.",
    parameters: {
      user: Schema.String,
      password: secret,
      others: Schema.optionalKey(Schema.Array(Schema.Struct({ site: Schema.String, token: secret }))),
      keys: Schema.optionalKey(Schema.Record(Schema.String, secret)),
      pin: Schema.optionalKey(Schema.NullOr(secret))
    }
  })
  const hidden = (text: string) => Redacted.make(text)
  const listed = (call: { readonly tool: Tool.Any; readonly arguments: unknown }) => {
    const json = Result.getOrThrow(Tool.encodeArguments(call))
    const text = Result.getOrThrow(Tool.argumentsText(call.tool, json))
    return { text, shown: JSON.parse(Tool.publicArguments(call.tool, json, text)) }
  }

  it("are in the text of the arguments and never in what is listed", () => {
    const { shown, text } = listed(tool({
      user: "ann",
      password: hidden("hunter2"),
      others: [{ site: "a", token: hidden("hunter3") }, { site: "b", token: hidden("hunter4") }],
      keys: { one: hidden("hunter5"), constructor: hidden("hunter6") },
      pin: hidden("hunter7")
    }))
    for (const word of ["hunter2", "hunter3", "hunter4", "hunter5", "hunter6", "hunter7"]) assert.include(text, word)
    assert.deepStrictEqual(shown, {
      user: "ann",
      password: "<redacted>",
      others: [{ site: "a", token: "<redacted>" }, { site: "b", token: "<redacted>" }],
      keys: { one: "<redacted>", constructor: "<redacted>" },
      pin: "<redacted>"
    })
  })

  it("that are absent stay absent", () => {
    const { shown } = listed(tool({ user: "ann", password: hidden("hunter2") }))
    assert.deepStrictEqual(shown, { user: "ann", password: "<redacted>" })
  })

  it("are in no message about arguments that do not fit", () => {
    const wrong = tool({ user: 5 as any, password: hidden("hunter2"), pin: "hunter7" as any })
    const failed = Tool.encodeArguments(wrong)
    assert.isTrue(Result.isFailure(failed))
    if (Result.isFailure(failed)) {
      assert.include(failed.failure.message, "user")
      assert.notMatch(failed.failure.message, /hunter/)
    }
  })

  it("do not keep text without a canonical form from being refused", () => {
    const broken = Tool.argumentsText(tool, { user: "\ud800", password: "x" })
    assert.isTrue(Result.isFailure(broken) && broken.failure instanceof Tool.ToolArgumentError)
  })
})

describe("through the engine", () => {
  it.effect("typed arguments that fail a check end the event, and nothing is staged (K16)", () =>
    Effect.gen(function*() {
      const { charged, layer } = register()
      const agent = Agent.make(
        "payer",
        schemas,
        (ctx) => Effect.as(ctx.act(charge({ customerId: "c1", amountCents: 10.5 })), Agent.complete("asked"))
      )
      const engine = AgentEngine.layer(agent).pipe(
        Layer.provide(Effector.layer(charge)),
        Layer.provide(layer),
        Layer.provide(AgentStore.layerMemory)
      )
      yield* Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        yield* engine.send(agent, { key: "k", event: "go" })
        yield* engine.drain
        const [letter, ...others] = yield* engine.deadLetters
        assert.deepStrictEqual(others, [])
        assert.strictEqual(letter?.reason.tag, "ToolArgumentError")
        assert.match(letter?.reason.message ?? "", /'charge'.*amountCents/)
        assert.deepStrictEqual(yield* engine.intents(), [])
        assert.strictEqual((yield* engine.status(agent, "k")).seq, 0)
      }).pipe(Effect.provide(engine))
      assert.deepStrictEqual(charged, [])
    }))

  it.effect("arguments are decoded once on each side, to the declared types (K15)", () =>
    Effect.gen(function*() {
      class Money extends Schema.Class<Money>("Money")({ cents: Schema.Int }) {}
      // Each process has its own definition of the tool.
      const process = () => {
        let decoded = 0
        const counted = Schema.String.pipe(Schema.decodeTo(Schema.Finite, {
          decode: SchemaGetter.transform((text) => (decoded++, Number(text))),
          encode: SchemaGetter.transform(String)
        }))
        const pay = Tool.sideEffect("pay", {
          description: "Pay.",
          parameters: { count: counted, order: Schema.Struct({ total: Money }) }
        })
        return { pay, decoded: () => decoded }
      }
      const store = Layer.succeedContext(yield* Layer.build(AgentStore.layerMemory))

      const asking = process()
      const kit = Toolkit.make(asking.pay)
      const agent = Agent.make(
        "payer",
        schemas,
        Effect.fnUntraced(function*(ctx) {
          const decoded = yield* kit.decode("pay", { count: "5", order: { total: { cents: 7 } } })
          assert.strictEqual(decoded.arguments.count, 5)
          assert.instanceOf(decoded.arguments.order.total, Money)
          yield* ctx.act(decoded.call as ReturnType<typeof asking.pay>)
          return Agent.complete("asked")
        })
      )
      const engine = AgentEngine.layer(agent).pipe(Layer.provide(Effector.elsewhere(asking.pay)), Layer.provide(store))
      yield* Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        yield* engine.send(agent, { key: "k", event: "go" })
        yield* engine.drain
      }).pipe(Effect.provide(engine))

      const performing = process()
      const seen: Array<unknown> = []
      const handler = performing.pay.toLayer((input) => Effect.sync(() => void seen.push(input)))
      const idle = Agent.make("idle", schemas, () => Effect.succeed(Agent.complete("idle")))
      const effector = Effector.layer(performing.pay).pipe(Layer.provide(handler))
      const second = AgentEngine.layer(idle).pipe(Layer.provideMerge(effector), Layer.provide(store))
      yield* Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        yield* engine.drain
        assert.deepStrictEqual((yield* engine.intents()).map(({ state }) => state), ["Performed"])
      }).pipe(Effect.provide(second))

      const [input] = seen as ReadonlyArray<any>
      assert.strictEqual(input.count, 5)
      assert.instanceOf(input.order.total, Money)
      assert.deepStrictEqual([asking.decoded(), performing.decoded(), seen.length], [1, 1, 1])
    }))

  it.effect("the handler finds its intent, which no argument can set", () =>
    Effect.gen(function*() {
      const found: Array<string> = []
      const handler = charge.toLayer(() => Effect.map(Intent.Current, ({ id }) => (found.push(id), id)))
      const agent = Agent.make(
        "payer",
        schemas,
        (ctx) => Effect.map(ctx.act(charge(order)), (id) => Agent.complete(id))
      )
      const engine = AgentEngine.layer(agent).pipe(
        Layer.provide(Effector.layer(charge)),
        Layer.provide(handler),
        Layer.provide(AgentStore.layerMemory)
      )
      const staged = yield* Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        const id = yield* engine.call(agent, { key: "k", event: "go" })
        yield* engine.drain
        return id
      }).pipe(Effect.provide(engine))
      assert.deepStrictEqual(found, [staged])
      const { properties } = charge.parameters.jsonSchema("draft-2020-12")
      assert.deepStrictEqual(Object.keys(properties as {}), ["customerId", "amountCents"])
    }))
})

function thrown(f: () => unknown): Tool.ToolDefinitionError {
  const result = Result.try(f)
  if (Result.isSuccess(result)) return assert.fail("it was taken")
  const error: any = result.failure
  const cause = error instanceof Tool.ToolDefinitionError ? error : error.cause
  assert.instanceOf(cause, Tool.ToolDefinitionError)
  return cause
}
