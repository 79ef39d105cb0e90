import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Agent, AgentEngine, AgentStore, Effector, Tool, Toolkit } from "../src/index.ts"

const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String },
  success: Schema.String,
  handler: ({ id }) => Effect.succeed(`name of ${id}`)
})

const search = Tool.readOnly("search", {
  description: "Search.",
  parameters: { text: Schema.optionalKey(Schema.String), page: Schema.optionalKey(Schema.Int) },
  success: Schema.String
})

const asked: Array<unknown> = []

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String,
  approval: (input) => Effect.sync(() => asked.push(input) > 0)
})

const sendEmail = Tool.sideEffect("sendEmail", {
  description: "Send an email.",
  parameters: { to: Schema.String, body: Schema.String }
})

const kit = Toolkit.make(lookup, search, charge)

const untouchable: any = new Proxy({}, { get: () => assert.fail("looked at"), ownKeys: () => assert.fail("looked at") })

describe("two tools with one name (K08)", () => {
  const other = Tool.sideEffect("sendEmail", { description: "Another." })
  const duplicate = (f: () => unknown) => {
    const error = thrown(f)
    assert.instanceOf(error, Toolkit.DuplicateToolError)
    assert.strictEqual(error.tool, "sendEmail")
    assert.strictEqual(error.message, "duplicate tool name 'sendEmail'; rename one of them")
  }

  it("are refused where they are put together", () => {
    duplicate(() => (Toolkit.make as any)(sendEmail, other))
    duplicate(() => (Toolkit.make as any)(lookup, other, charge, sendEmail))
  })

  it("are refused where toolkits that hold them are merged", () => {
    duplicate(() => Toolkit.make(lookup, sendEmail).merge(Toolkit.make(charge, other) as any))
    // Alike is not the same.
    const twin = Tool.sideEffect("sendEmail", {
      description: "Send an email.",
      parameters: { to: Schema.String, body: Schema.String }
    })
    duplicate(() => Toolkit.make(sendEmail).merge(Toolkit.make(twin) as any))
  })

  it("are no conflict where they are one tool", () => {
    const merged = (Toolkit.make(lookup, sendEmail).merge as any)(Toolkit.make(sendEmail, charge))
    assert.deepStrictEqual(Object.keys(merged.tools), ["lookup", "sendEmail", "charge"])
  })
})

describe("a call that arrives by name", () => {
  it.effect("is decoded to the tool's types and made a call of its kind", () =>
    Effect.gen(function*() {
      const call = yield* kit.decode("charge", { customerId: "c1", amountCents: 500 })
      assert.strictEqual(call.kind, "SideEffect")
      assert.deepStrictEqual(call.arguments, { customerId: "c1", amountCents: 500 })
      assert.isUndefined(Tool.refuse(call.call, "SideEffect"))
      assert.strictEqual(call.call.tool, charge)
    }))

  it.effect("with nothing given runs with nothing where nothing is needed (K13)", () =>
    Effect.gen(function*() {
      for (const nothing of [undefined, null, "", "{}", {}, " { } "]) {
        const call = yield* kit.decode("search", nothing)
        assert.deepStrictEqual(call.arguments, {}, String(nothing))
      }
      for (const something of [[], "x", "[]", 5, true, "null", "\"{}\""]) {
        const error = yield* Effect.flip(kit.decode("search", something))
        assert.instanceOf(error, Tool.ToolArgumentError, String(something))
      }
      for (const any of [undefined, null, "", "{}", [], "x"]) {
        const error = yield* Effect.flip(kit.decode("charge", any))
        assert.instanceOf(error, Tool.ToolArgumentError, String(any))
        assert.strictEqual(error.tool, "charge")
      }
    }))

  it.effect("that misses a field names it, asks nobody and stages nothing (K14)", () =>
    Effect.gen(function*() {
      let charged = 0
      const agent = Agent.make(
        "modelled",
        { event: Schema.Unknown, output: Schema.String },
        Effect.fnUntraced(function*(ctx, params) {
          const call = yield* Effect.result(Toolkit.make(charge).decode("charge", params))
          if (Result.isFailure(call)) return Agent.complete(call.failure.message)
          yield* ctx.act(call.success.call)
          return Agent.complete("asked")
        })
      )
      const engine = AgentEngine.layer(agent).pipe(
        Layer.provide(Effector.layer(charge)),
        Layer.provide(charge.toLayer(() => Effect.sync(() => `receipt ${++charged}`))),
        Layer.provide(AgentStore.layerMemory)
      )
      yield* Effect.gen(function*() {
        const engine = yield* AgentEngine.AgentEngine
        const missing = yield* engine.call(agent, { key: "k", event: { customerId: "c1" } })
        assert.strictEqual(missing, "arguments of 'charge': amountCents: Missing key")
        assert.deepStrictEqual([yield* engine.intents(), asked, charged], [[], [], 0])
        // The same call with the field: somebody is asked, and until then nothing is charged.
        assert.strictEqual(
          yield* engine.call(agent, { key: "k", event: { customerId: "c1", amountCents: 5 } }),
          "asked"
        )
        yield* engine.drain
        assert.deepStrictEqual((yield* engine.intents()).map(({ state }) => state), ["Staged"])
        assert.deepStrictEqual([asked.length, charged], [1, 0])
      }).pipe(Effect.provide(engine))
    }))

  it.effect("is read at once only if it is a read; a SideEffect tool fails before its arguments are looked at (K01)", () =>
    Effect.gen(function*() {
      const call = yield* kit.read("lookup", { id: "7" })
      const layer = search.toLayer(() => Effect.succeed("found"))
      assert.strictEqual(yield* Effect.provide(call, layer), "name of 7")
      const error = yield* Effect.flip(kit.read("charge", untouchable))
      assert.instanceOf(error, Tool.SideEffectToolError)
      assert.match(error.message, /^'charge' is a SideEffect tool .*ctx\.act/)
      assert.instanceOf(yield* Effect.flip(kit.read("nothing", untouchable)), Tool.ToolNotFoundError)
    }))

  it.effect("by a name that only a prototype has is not found", () =>
    Effect.gen(function*() {
      for (
        const name of ["__proto__", "constructor", "toString", "hasOwnProperty", "valueOf", "", "Charge", "charge "]
      ) {
        for (const arrive of [kit.decode, kit.read]) {
          const error = yield* Effect.flip(arrive(name, untouchable) as Effect.Effect<unknown, unknown>)
          assert.instanceOf(error, Tool.ToolNotFoundError, name)
          assert.strictEqual(error.tool, name)
          assert.deepStrictEqual(error.available, ["lookup", "search", "charge"])
        }
      }
    }))

  it.effect("by the name of a tool that is called like a prototype's member is found", () =>
    Effect.gen(function*() {
      const odd = (name: string) =>
        Tool.readOnly(name, { description: "Odd.", success: Schema.String, handler: () => Effect.succeed(name) })
      const names = ["__proto__", "constructor", "toString"]
      const odds = Toolkit.make(...names.map(odd))
      assert.deepStrictEqual(Object.keys(odds.tools), names)
      assert.isNull(Object.getPrototypeOf(odds.tools))
      for (const name of names) {
        const call = yield* odds.read(name, {})
        assert.strictEqual(yield* call, name)
      }
    }))

  it.effect("by something that is no name is not found, and is not converted to one", () =>
    Effect.gen(function*() {
      const hostile = { toString: () => assert.fail("converted"), [Symbol.toPrimitive]: () => assert.fail("converted") }
      for (
        const name of [hostile, ["charge"], Object("charge"), Symbol("charge"), undefined, null, 0, Object.create(null)]
      ) {
        for (const arrive of [kit.decode, kit.read]) {
          const error = yield* Effect.flip(arrive(name as any, {}) as Effect.Effect<unknown, unknown>)
          assert.instanceOf(error, Tool.ToolNotFoundError)
        }
      }
      const long = yield* Effect.flip(kit.decode(`${"x".repeat(1000)}\ud800`, {}))
      assert.isAtMost(long.message.length, 200)
    }))

  it.effect("with hostile arguments fails with a short typed error that repeats none of them", () =>
    Effect.gen(function*() {
      const cyclic: any = { customerId: "c1" }
      cyclic.amountCents = cyclic
      let deep: unknown = 1
      for (let level = 0; level < 100_000; level++) deep = [deep]
      const inputs: ReadonlyArray<unknown> = [
        { customerId: "s3cret", amountCents: "s3cret" },
        { customerId: "s3cret", amountCents: 1, extra: "s3cret" },
        JSON.parse(`{ "customerId": "s3cret", "amountCents": 1, "__proto__": { "admin": true } }`),
        { customerId: "c1", amountCents: Number.NaN },
        { customerId: "\ud800", amountCents: 1 },
        { customerId: "c1", amountCents: 1n },
        { customerId: () => "c1", amountCents: 1 },
        new Map([["customerId", "c1"]]),
        cyclic,
        { customerId: deep, amountCents: 1 },
        "[".repeat(100_000),
        "{\"customerId\": \"s3cret\", \"amountCents\":",
        { customerId: "x".repeat(10), amountCents: { toString: () => "s3cret" } }
      ]
      for (const input of inputs) {
        const error = yield* Effect.flip(kit.decode("charge", input))
        assert.instanceOf(error, Tool.ToolArgumentError)
        assert.notInclude(error.message, "s3cret")
        assert.isAtMost(error.message.length, 2_000)
      }
      assert.isUndefined(({} as any).admin)
    }))
})

describe("a part of a toolkit", () => {
  it("holds the picked tools, and only names of tools are picked", () => {
    const part = kit.pick("charge", "lookup")
    assert.deepStrictEqual(Object.keys(part.tools), ["charge", "lookup"])
    for (const name of ["sendEmail", "constructor", "__proto__", Symbol("charge"), ["charge"]]) {
      assert.instanceOf(thrown(() => kit.pick(name as any)), Tool.ToolNotFoundError)
    }
  })

  it("does not change the toolkit it was taken from, nor does a merge", () => {
    kit.pick("charge")
    kit.merge(Toolkit.make(sendEmail))
    assert.deepStrictEqual(Object.keys(kit.tools), ["lookup", "search", "charge"])
  })
})

describe("a record of handlers", () => {
  it.effect("becomes one layer, each handler under its tool's name", () =>
    Effect.gen(function*() {
      class Names extends Context.Service<Names, { readonly first: string }>()("Names") {}
      const layer = kit.toLayer({
        search: ({ text }) => Names.useSync((names) => `${names.first} for ${text}`),
        charge: ({ amountCents }) => Effect.succeed(`receipt over ${amountCents}`)
      }).pipe(Layer.provide(Layer.succeed(Names, { first: "first" })))
      assert.strictEqual(yield* Effect.provide(search({ text: "ann" }), layer), "first for ann")
      const { start } = yield* Effect.provide(Tool.unwrap(charge), layer)
      assert.strictEqual(yield* start({ customerId: "c1", amountCents: 5 }), "receipt over 5")
    }))

  const receipt = () => Effect.succeed("receipt")
  const found = () => Effect.succeed("found")

  it("that lacks one is refused with the words of the compiler", () => {
    const error = thrown(() => (kit.toLayer as any)({ search: found }))
    assert.instanceOf(error, Toolkit.MissingHandlerError)
    assert.strictEqual(error.message, "no handler for 'charge'; add it to the record")
    const inherited = Object.create({ charge: receipt })
    assert.instanceOf(
      thrown(() => kit.toLayer(Object.assign(inherited, { search: found }))),
      Toolkit.MissingHandlerError
    )
  })

  it("that holds one too many is refused", () => {
    const handlers = { search: found, charge: receipt }
    assert.instanceOf(
      thrown(() => (kit.toLayer as any)({ ...handlers, sendEmail: receipt })),
      Tool.ToolNotFoundError
    )
    assert.instanceOf(thrown(() => (kit.toLayer as any)({ ...handlers, lookup: found })), Tool.ToolDefinitionError)
  })

  it("has no place for 'verify', so a tool declared with it is refused here", () => {
    const verified = Tool.sideEffect("verified", { description: "Pay.", verify: true })
    assert.instanceOf(
      thrown(() => Toolkit.make(verified).toLayer({ verified: () => Effect.void })),
      Tool.ToolDefinitionError
    )
  })
})

function thrown(f: () => unknown): any {
  const result = Result.try(f)
  return Result.isSuccess(result) ? assert.fail("it was taken") : (result.failure as any).cause ?? result.failure
}
