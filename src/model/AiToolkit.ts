/**
 * Tools for a model of `effect/ai`: the same name, description and JSON Schema, and annotations that tell the truth about the
 * kind.
 *
 * Guarantees: what a model is shown is what is accepted, and a SideEffect tool runs nothing here: its handler fails with
 * `SideEffectToolError`. Refuses, before a request is sent, tools that no provider takes (`UnsupportedToolError`).
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import * as EffectTool from "effect/ai/Tool"
import * as EffectToolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Tool from "../Tool.ts"
import type * as Toolkit from "../Toolkit.ts"
import * as ToolSchema from "../ToolSchema.ts"

/**
 * A tool as `effect/ai` sees it. A ReadOnly tool's failure is a result that the model is told; running a SideEffect tool is
 * an error of the program.
 *
 * @since 0.1.0
 * @category models
 */
export type From<T extends Tool.Any> = T extends { readonly kind: "ReadOnly" } ? EffectTool.Tool<
    T["name"],
    {
      readonly parameters: Schema.Codec<T["Types"]["Input"], unknown>
      readonly success: Schema.Codec<T["Types"]["A"], unknown>
      readonly failure: Schema.Codec<T["Types"]["E"], unknown>
      readonly failureMode: "return"
    }
  >
  : EffectTool.Tool<
    T["name"],
    {
      readonly parameters: Schema.Codec<T["Types"]["Input"], unknown>
      readonly success: Schema.Codec<T["Types"]["A"], unknown>
      readonly failure: typeof Tool.SideEffectToolError
      readonly failureMode: "error"
    }
  >

/**
 * The tools of a toolkit as `effect/ai` sees them, by name.
 *
 * @since 0.1.0
 * @category models
 */
export type FromAll<Tools extends Tool.Any> = { readonly [T in Tools as T["name"]]: From<T> }

/**
 * One tool, converted. Strict is set where the parameters allow it, tool by tool.
 *
 * @since 0.1.0
 * @category conversions
 */
export const fromTool = <T extends Tool.Any>(tool: T): From<T> => {
  const readOnly = tool.kind === "ReadOnly"
  return EffectTool.make(tool.name, {
    description: tool.description,
    parameters: codec(tool.parameters, tool.parameters.decodeArguments),
    success: codec(tool.success, tool.success.decode),
    failure: readOnly ? codec(tool.failure, tool.failure.decode) : Tool.SideEffectToolError,
    failureMode: readOnly ? "return" : "error"
  })
    .annotate(EffectTool.Readonly, readOnly)
    .annotate(EffectTool.Destructive, !readOnly)
    .annotate(EffectTool.Idempotent, readOnly || tool.options.idempotent === true)
    // Nothing in a tool says that it reaches a closed world only.
    .annotate(EffectTool.OpenWorld, true)
    .annotate(EffectTool.Strict, ToolSchema.strictIssue(shownOf(tool.parameters)) === undefined) as any
}

/**
 * A toolkit, converted for a provider, whose name is for the error only. Fails for a tool that no provider takes.
 *
 * @since 0.1.0
 * @category conversions
 */
export const fromToolkit = <Tools extends Tool.Any>(
  kit: Toolkit.Toolkit<Tools>,
  provider: string
): Effect.Effect<EffectToolkit.Toolkit<FromAll<Tools>>, UnsupportedToolError> =>
  Effect.gen(function*() {
    const tools = Object.values<Tools>(kit.tools)
    for (const tool of tools) {
      const reason = ToolSchema.rootIssue(shownOf(tool.parameters))
      if (reason !== undefined) return yield* new UnsupportedToolError({ tool: tool.name, provider, reason })
    }
    return EffectToolkit.make(...tools.map(fromTool)) as any
  })

/**
 * The handlers of a converted toolkit: a ReadOnly tool is read, in an activation through its journal; a SideEffect tool fails
 * with `SideEffectToolError`. Note that `effect/ai` itself writes the arguments of every call it handles to a span, secrets
 * among them.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <Tools extends Tool.Any>(
  kit: Toolkit.Toolkit<Tools>
): Layer.Layer<EffectTool.HandlersFor<FromAll<Tools>>, never, ReadOnlyHandlers<Tools>> => {
  const tools = Object.values<any>(kit.tools)
  // A SideEffect call refuses to run by itself.
  const handlers = tools.map((tool) => [tool.name, (input: unknown) => Effect.mapError(tool(input), told)] as const)
  return EffectToolkit.make(...tools.map(fromTool)).toLayer(Object.fromEntries(handlers) as any) as any
}

/**
 * The handlers that the ReadOnly tools of a toolkit still need.
 *
 * @since 0.1.0
 * @category models
 */
export type ReadOnlyHandlers<T extends Tool.Any> = T extends { readonly kind: "ReadOnly" } ? T["Types"]["R"] : never

/**
 * No provider takes the tool, because of the shape of its parameters. Nothing was sent.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnsupportedToolError extends Schema.TaggedError<UnsupportedToolError>()("UnsupportedToolError", {
  tool: Schema.String,
  provider: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `tool '${this.tool}' cannot be sent to '${this.provider}': ${this.reason}`
  }
}

// internal

const shownOf = (schema: ToolSchema.ToolSchema<any>): ToolSchema.Shown => schema.jsonSchema("draft-2020-12")

/** Arguments that do not fit are told to the model in the words of `effect/ai`; a tool's own failure as it is. */
const told = (error: unknown): unknown =>
  error instanceof Tool.ToolArgumentError
    ? new AiError.ToolParameterValidationError({ toolName: error.tool, description: error.message })
    : error

/**
 * A ToolSchema as a codec. `effect/ai` derives the JSON Schema it sends from the encoded side of a codec, so that is one that
 * takes everything and is shown as the ToolSchema is; what is refused is refused by the ToolSchema.
 */
const codec = <A>(
  schema: ToolSchema.ToolSchema<A>,
  decode: (input: unknown) => Result.Result<A, ReadonlyArray<ToolSchema.Issue>>
): Schema.Codec<A, unknown> => {
  const shown = Schema.Json.check(Schema.makeFilter(() => true, { toJsonSchema: () => shownOf(schema) }))
  const anything = Schema.declare((_): _ is unknown => true, {
    toCodecJson: () =>
      Schema.link<unknown>()(shown, {
        decode: SchemaGetter.passthrough<unknown, Schema.Json>({ strict: false }),
        encode: SchemaGetter.passthrough<Schema.Json, unknown>({ strict: false })
      })
  })
  return anything.pipe(Schema.decodeTo(Schema.Unknown, {
    decode: SchemaGetter.transformEffect((input) => answer(decode(input))),
    encode: SchemaGetter.transformEffect((value) => answer(schema.encode(value as A)))
  })) as any
}

const answer = <A>(result: Result.Result<A, ReadonlyArray<ToolSchema.Issue>>): Effect.Effect<A, SchemaIssue.Issue> =>
  Effect.fromResult(Result.mapError(result, (issues) =>
    new SchemaIssue.InvalidValue({
      message: issues.map(({ message, path }) => path === "" ? message : `${path}: ${message}`).join("; ")
    })))
