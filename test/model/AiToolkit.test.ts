import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as McpTest from "effect/ai/McpTest"
import type * as Response from "effect/ai/Response"
import * as EffectTool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Agent, Tool, Toolkit } from "../../src/index.ts"
import { AiToolkit } from "../../src/model/index.ts"
import { admitted } from "../fixtures/jsonValues.ts"
import { holds } from "../fixtures/property.ts"

class Unknown extends Schema.TaggedError<Unknown>()("Unknown", { id: Schema.String }) {}

const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String, since: Schema.optionalKey(Schema.Date) },
  success: Schema.Struct({ name: Schema.String, born: Schema.Date }),
  failure: Unknown,
  handler: ({ id }) =>
    id === "0" ? Effect.fail(new Unknown({ id })) : Effect.succeed({ name: `n${id}`, born: new Date(0) })
})

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

const payOnce = Tool.sideEffect("pay_once", { description: "Pay.", parameters: { id: Schema.Int }, idempotent: true })

const kit = Toolkit.make(lookup, charge, payOnce)

const handle = <Name extends "lookup" | "charge" | "pay_once">(name: Name, input: unknown) =>
  AiToolkit.fromToolkit(kit, "fake").pipe(
    Effect.flatMap((tools) => tools),
    Effect.flatMap((tools) => tools.handle(name, input as never)),
    Stream.unwrap,
    Stream.runLast,
    Effect.map((last) => last._tag === "Some" ? last.value : assert.fail("no result")),
    Effect.provide(AiToolkit.layer(kit))
  )

const usage = {
  inputTokens: { uncached: undefined, total: 1, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: undefined, reasoning: undefined }
}

/** A model that makes one call, and the requests it was sent. */
const fakeModel = (name: string, params: unknown) => {
  const requests: Array<LanguageModel.ProviderOptions> = []
  const reply: Array<Response.PartEncoded> = [
    { type: "tool-call", id: "1", name, params },
    { type: "finish", reason: "tool-calls", usage, response: undefined }
  ]
  const layer = Layer.effect(
    LanguageModel.LanguageModel,
    LanguageModel.make({
      generateText: (options) => Effect.sync(() => (requests.push(options), reply)),
      streamText: () => Stream.empty
    })
  )
  return { layer, requests }
}

describe("a converted tool", () => {
  it("says of itself what its kind says, in all four hints", () => {
    const hints = (tool: Tool.Any) => {
      const { annotations } = AiToolkit.fromTool(tool)
      return [EffectTool.Readonly, EffectTool.Destructive, EffectTool.Idempotent, EffectTool.OpenWorld].map((hint) =>
        Context.get(annotations, hint)
      )
    }
    assert.deepStrictEqual(hints(lookup), [true, false, true, true])
    assert.deepStrictEqual(hints(charge), [false, true, false, true])
    assert.deepStrictEqual(hints(payOnce), [false, true, true, true])
  })

  it.effect("is listed so over MCP, with the schema it accepts", () =>
    Effect.gen(function*() {
      const tools = yield* AiToolkit.fromToolkit(kit, "mcp")
      const client = yield* McpTest.makeClient(
        McpServer.toolkit(tools).pipe(Layer.provide(AiToolkit.layer(kit))),
        { protocols: [McpProtocol.v2025_11_25] }
      )
      const listed = yield* client.listTools()
      assert.deepStrictEqual(
        listed.tools.map(({ annotations, name }) => [name, annotations?.readOnlyHint, annotations?.destructiveHint]),
        [["lookup", true, false], ["charge", false, true], ["pay_once", false, true]]
      )
      assert.deepStrictEqual(
        listed.tools.map(({ inputSchema }): unknown => inputSchema),
        Object.values(kit.tools).map((tool): unknown => tool.parameters.jsonSchema("draft-2020-12"))
      )
      const read = yield* client.callTool({ name: "lookup", arguments: { id: "7" } })
      assert.deepStrictEqual(read.structuredContent, { name: "n7", born: "1970-01-01T00:00:00.000Z" })
    }))

  it.effect("is shown as it is accepted, both ways (K12)", () =>
    Effect.gen(function*() {
      interface Category {
        readonly name: string
        readonly parts: ReadonlyArray<Category>
      }
      const Category: Schema.Codec<Category> = Schema.Struct({
        name: Schema.String,
        parts: Schema.Array(Schema.suspend((): Schema.Codec<Category> => Category))
      })
      const tool = Tool.readOnly("any", {
        description: "Takes what the platform shows in one way and reads in another.",
        parameters: {
          note: Schema.optional(Schema.NullOr(Schema.String)),
          at: Schema.Date,
          big: Schema.BigInt,
          size: Schema.ReadonlyMap(Schema.String, Schema.Int),
          tree: Schema.optionalKey(Category),
          exact: Schema.Number
        },
        handler: () => Effect.void
      })
      const converted = AiToolkit.fromTool(tool)
      const shown = EffectTool.getJsonSchema(converted)
      assert.deepStrictEqual(shown, tool.parameters.jsonSchema("draft-2020-12"))
      const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(shown)
      const decode = Schema.decodeUnknownResult(converted.parametersSchema)
      const encode = Schema.encodeUnknownResult(converted.parametersSchema)
      yield* holds("shown decodes, and its encoding is valid", admitted(shown), (json) => {
        const decoded = decode(json)
        if (Result.isFailure(decoded)) return `refused: ${decoded.failure.message}`
        const encoded = encode(decoded.success)
        if (Result.isFailure(encoded)) return `not encoded: ${encoded.failure.message}`
        return validate(encoded.success) ? undefined : JSON.stringify(validate.errors)
      })
    }))

  it("goes out strict where its parameters allow it, and the others stay strict (K11)", () => {
    const label = Tool.sideEffect("label", {
      description: "Label.",
      parameters: { labels: Schema.Record(Schema.String, Schema.Number) }
    })
    const tools = Toolkit.make(label, charge, payOnce)
    const strict = (tool: Tool.Any) => EffectTool.getStrictMode(AiToolkit.fromTool(tool))
    assert.deepStrictEqual(Object.values(tools.tools).map(strict), [false, true, true])
    const { parametersSchema } = AiToolkit.fromTool(label)
    const value = Schema.decodeUnknownSync(parametersSchema)({ labels: { a: 1 } })
    assert.deepStrictEqual(Schema.encodeSync(parametersSchema)(value), { labels: { a: 1 } })
  })
})

describe("a tool no provider takes", () => {
  interface Tree {
    readonly kids: ReadonlyArray<Tree>
  }
  const Tree: Schema.Codec<Tree> = Schema.Struct({ kids: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree)) })
  const shapes: { readonly [name: string]: Schema.Codec<any, any> } = {
    union: Schema.Union([Schema.Struct({ a: Schema.Int }), Schema.Struct({ b: Schema.Int })]),
    record: Schema.Record(Schema.String, Schema.Int),
    recursive: Tree
  }

  for (const [name, parameters] of Object.entries(shapes)) {
    it.effect(`is refused before a request is sent: a root ${name} (K10)`, () =>
      Effect.gen(function*() {
        const model = fakeModel(name, {})
        const tool = Tool.readOnly(name, { description: "Odd.", parameters, handler: () => Effect.void })
        const error = yield* AiToolkit.fromToolkit(Toolkit.make(tool), "acme").pipe(
          Effect.flatMap((toolkit) =>
            LanguageModel.generateText({ prompt: "Hello", toolkit, disableToolCallResolution: true })
          ),
          Effect.provide(model.layer),
          Effect.flip
        )
        assert.instanceOf(error, AiToolkit.UnsupportedToolError)
        assert.include(error.message, `'${name}'`)
        assert.include(error.message, "'acme'")
        assert.strictEqual(model.requests.length, 0)
      }))
  }

  it.effect("is not one without parameters (K10)", () =>
    Effect.gen(function*() {
      const model = fakeModel("ping", {})
      const tool = Tool.readOnly("ping", {
        description: "Ping.",
        success: Schema.String,
        handler: () => Effect.succeed("pong")
      })
      const kit = Toolkit.make(tool)
      const toolkit = yield* AiToolkit.fromToolkit(kit, "acme")
      const reply = yield* LanguageModel.generateText({ prompt: "Hello", toolkit }).pipe(
        Effect.provide([model.layer, AiToolkit.layer(kit)])
      )
      const [sent] = model.requests[0]!.tools
      const shown = { type: "object", properties: {}, additionalProperties: false }
      assert.deepStrictEqual(EffectTool.getJsonSchema(sent!), shown)
      assert.strictEqual(reply.toolResults[0]?.result, "pong")
    }))
})

describe("handled by effect/ai", () => {
  it.effect("a ReadOnly tool gets its decoded arguments, and its result is encoded", () =>
    Effect.gen(function*() {
      const result = yield* handle("lookup", { id: "7", since: "2026-01-31T09:30:00Z" })
      assert.isFalse(result.isFailure)
      assert.deepStrictEqual(result.encodedResult, { name: "n7", born: "1970-01-01T00:00:00.000Z" })
    }))

  it.effect("its own failure is a result the model is told", () =>
    Effect.gen(function*() {
      const result = yield* handle("lookup", { id: "0" })
      assert.isTrue(result.isFailure)
      assert.deepStrictEqual(result.encodedResult, { _tag: "Unknown", id: "0" })
    }))

  it.effect("arguments that do not fit are a result that names the field", () =>
    Effect.gen(function*() {
      const result = yield* handle("lookup", { since: "yesterday" })
      assert.isTrue(result.isFailure)
      assert.instanceOf(result.result, AiError.AiError)
      assert.match(String((result.result as AiError.AiError).message), /id: Missing key/)
      assert.notMatch(String((result.result as AiError.AiError).message), /yesterday/)
    }))

  it.effect("a ReadOnly tool is read through the journal of the activation it runs in", () =>
    Effect.gen(function*() {
      const agent = Agent.make("asker", { event: Schema.String, output: Schema.String }, (_, id) =>
        Effect.as(Effect.orDie(handle("lookup", { id })), Agent.complete("done")))
      const { trace } = yield* Agent.activate(agent, { key: "k", event: "7" })
      assert.deepStrictEqual(
        trace.map((entry) =>
          "tool" in entry ? entry.tool : entry.type
        ),
        ["lookup", "Completed"]
      )
    }))

  it.effect("a SideEffect tool never runs its side effect, even where its handler is at hand", () =>
    Effect.gen(function*() {
      let charged = 0
      const real = charge.toLayer(() => Effect.sync(() => `charged ${++charged}`))
      const error = yield* handle("charge", { customerId: "c", amountCents: 1 }).pipe(Effect.provide(real), Effect.flip)
      assert.instanceOf(error, Tool.SideEffectToolError)
      assert.match(error.message, /'charge'.*ctx\.act/)
      assert.strictEqual(charged, 0)
    }))

  it.effect("a model that asks for one ends the program that resolves calls by itself", () =>
    Effect.gen(function*() {
      let charged = 0
      const real = charge.toLayer(() => Effect.sync(() => `charged ${++charged}`))
      const model = fakeModel("charge", { customerId: "c", amountCents: 1 })
      const toolkit = yield* AiToolkit.fromToolkit(kit, "acme")
      const error = yield* LanguageModel.generateText({ prompt: "Charge them", toolkit }).pipe(
        Effect.provide([model.layer, AiToolkit.layer(kit), real]),
        Effect.flip
      )
      assert.instanceOf(error, Tool.SideEffectToolError)
      assert.strictEqual(charged, 0)
    }))

  it.effect("calls that are left to the program come as they were made, for 'Toolkit.decode'", () =>
    Effect.gen(function*() {
      const model = fakeModel("charge", { customerId: "c" })
      const toolkit = yield* AiToolkit.fromToolkit(kit, "acme")
      const reply = yield* LanguageModel.generateText({
        prompt: "Charge them",
        toolkit,
        disableToolCallResolution: true
      })
        .pipe(Effect.provide(model.layer))
      const [call] = reply.toolCalls
      const error = yield* Effect.flip(kit.decode(call!.name, call!.params))
      assert.match(error.message, /'charge': amountCents: Missing key/)
    }))
})
