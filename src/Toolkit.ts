/**
 * Tools by name. A toolkit decodes a call that arrives as a name and unknown arguments (from a model, a queue, JavaScript)
 * into a typed call, and turns a record of handlers into a layer.
 *
 * Guarantees: one tool per name. Refuses: duplicate names, in types and when built; names that only a prototype has.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Tool from "./Tool.ts"
import { isComplete } from "./ToolCall.ts"
import { nameOf } from "./ToolError.ts"

/**
 * A set of tools by name.
 *
 * @since 0.1.0
 * @category models
 */
export interface Toolkit<in out Tools extends Tool.Any> {
  /** The tools by name: an object without a prototype. */
  readonly tools: { readonly [Name in Tools["name"]]: Extract<Tools, { readonly name: Name }> }
  /**
   * A call that arrived by name, checked and typed; switch on `name` to narrow it. Fails with `ToolNotFoundError` or
   * `ToolArgumentError`.
   */
  decode(name: string, input: unknown): Effect.Effect<Call<Tools>, Tool.ToolNotFoundError | Tool.ToolArgumentError>
  /**
   * As `decode`, for a call that is to run at once: a SideEffect tool fails with `SideEffectToolError`.
   */
  read(
    name: string,
    input: unknown
  ): Effect.Effect<ReadOnlyCalls<Tools>, Tool.ToolNotFoundError | Tool.ToolArgumentError | Tool.SideEffectToolError>
  /**
   * The handlers of the tools that have none in place, as one layer. Throws `MissingHandlerError`, and for a handler of no
   * tool `ToolNotFoundError`. A tool declared with `verify` takes it in its own `toLayer`: `pick` the others.
   */
  toLayer<H extends Handlers<Tools>>(
    handlers: Complete<Tools, H>
  ): Layer.Layer<HandlerIds<Tools>, never, HandlerServices<Tools, H>>
  /**
   * This toolkit and another. Throws `DuplicateToolError` when two different tools share a name.
   */
  merge<Others extends Tool.Any>(other: Toolkit<Others> & Distinct<Tools, Others>): Toolkit<Tools | Others>
  /**
   * The tools of the given names. Throws `ToolNotFoundError` for a name that is none of them.
   */
  pick<const Names extends ReadonlyArray<Tools["name"]>>(
    ...names: Names
  ): Toolkit<Extract<Tools, { readonly name: Names[number] }>>
}

/**
 * The calls a toolkit decodes to: a union that narrows by `name` and by `kind`.
 *
 * @since 0.1.0
 * @category models
 */
export type Call<T extends Tool.Any> = T extends { readonly kind: "ReadOnly" } ? {
    readonly kind: "ReadOnly"
    readonly name: T["name"]
    readonly arguments: T["Types"]["Input"]
    readonly call: Tool.ReadOnlyCall<
      T["name"],
      T["Types"]["A"],
      T["Types"]["E"] | Tool.ToolArgumentError,
      T["Types"]["R"]
    >
  }
  : {
    readonly kind: "SideEffect"
    readonly name: T["name"]
    readonly arguments: T["Types"]["Input"]
    readonly call: Tool.SideEffectCall<T["name"], T["Types"]["A"], T["Types"]["E"]>
  }

/**
 * The ReadOnly calls of a toolkit.
 *
 * @since 0.1.0
 * @category models
 */
export type ReadOnlyCalls<T> = T extends Tool.ReadOnly<infer Name, any, infer A, infer E, infer R>
  ? Tool.ReadOnlyCall<Name, A, E | Tool.ToolArgumentError, R>
  : never

/**
 * The handlers a record may hold.
 *
 * @since 0.1.0
 * @category models
 */
export type Handlers<T extends Tool.Any> = {
  readonly [Open in T as OpenName<Open>]?: (
    input: Open["Types"]["Input"]
  ) => Effect.Effect<Open["Types"]["A"], Open["Types"]["E"], any>
}

/**
 * A set of tools. Throws `DuplicateToolError` when two different tools share a name.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <const Tools extends ReadonlyArray<Tool.Any>>(
  ...tools: Tools & Unique<Tools>
): Toolkit<Tools[number]> => fromTools(tools)

/**
 * Two different tools share a name. The last one never wins.
 *
 * @since 0.1.0
 * @category errors
 */
export class DuplicateToolError extends Schema.TaggedError<DuplicateToolError>()("DuplicateToolError", {
  tool: Schema.String
}) {
  override get message() {
    return `duplicate tool name '${this.tool}'; rename one of them`
  }
}

/**
 * A record of handlers lacks one.
 *
 * @since 0.1.0
 * @category errors
 */
export class MissingHandlerError extends Schema.TaggedError<MissingHandlerError>()("MissingHandlerError", {
  tool: Schema.String
}) {
  override get message() {
    return `no handler for '${this.tool}'; add it to the record`
  }
}

// internal

type OpenName<T extends Tool.Any> = T extends unknown ? [T["Types"]["R"]] extends [never] ? never : T["name"] : never

type Complete<T extends Tool.Any, H> = [Exclude<OpenName<T>, keyof H>] extends [never]
  ? [Exclude<keyof H, OpenName<T>>] extends [never] ? H
  : `no tool '${Exclude<keyof H, OpenName<T>> & string}' needs a handler; remove it from the record`
  : `no handler for '${Exclude<OpenName<T>, keyof H>}'; add it to the record`

type HandlerIds<T extends Tool.Any> = T["Types"]["R"]

type Needs<H> = H extends (...input: any) => Effect.Effect<any, any, infer R> ? R : never

type HandlerServices<T extends Tool.Any, H> = T extends { readonly kind: "ReadOnly" } ? Needs<H[T["name"] & keyof H]>
  : Exclude<Needs<H[T["name"] & keyof H]>, Tool.CurrentIntent>

type Names<Tools extends ReadonlyArray<Tool.Any>> = { readonly [I in keyof Tools]: Tools[I]["name"] }
type Places<Names> = {
  readonly [I in Extract<keyof Names, `${number}`> as string extends Names[I] ? never : Names[I] & string]: I
}
type Several<I, All = I> = I extends unknown ? [All] extends [I] ? never : I : never
type Doubled<P> = { [Name in keyof P]: [Several<P[Name]>] extends [never] ? never : Name }[keyof P]
type Duplicate<Tools extends ReadonlyArray<Tool.Any>> = Extract<Doubled<Places<Names<Tools>>>, string>
type Unique<Tools extends ReadonlyArray<Tool.Any>> = [Duplicate<Tools>] extends [never] ? unknown
  : ReadonlyArray<`duplicate tool name '${Duplicate<Tools>}'; rename one of them`>

// Two tools of one type and name may still be different, so no name may be shared.
type Distinct<A extends Tool.Any, B extends Tool.Any> = [LiteralName<A> & LiteralName<B>] extends [never] ? unknown
  : `duplicate tool name '${LiteralName<A> & LiteralName<B>}'; rename one of them`

type LiteralName<T extends Tool.Any> = string extends T["name"] ? never : T["name"]

const fromTools = (list: ReadonlyArray<Tool.Any>): Toolkit<any> => {
  const tools: Record<string, any> = Object.create(null)
  for (const tool of list) {
    if (tools[tool.name] !== undefined && tools[tool.name] !== tool) throw new DuplicateToolError({ tool: tool.name })
    tools[tool.name] = tool
  }
  const find = (name: unknown): any => typeof name === "string" ? tools[name] : undefined
  const notFound = (name: unknown) => new Tool.ToolNotFoundError({ tool: nameOf(name), available: Object.keys(tools) })
  const named = (name: string): any => {
    const tool = find(name)
    if (tool === undefined) throw notFound(name)
    return tool
  }
  const decode: Toolkit<any>["decode"] = (name, input) => {
    const tool = find(name)
    if (tool === undefined) return Effect.fail(notFound(name))
    const decoded = tool.parameters.decodeArguments(input)
    return Result.isFailure(decoded)
      ? Effect.fail(new Tool.ToolArgumentError({ tool: tool.name, issues: decoded.failure as any }))
      : Effect.succeed({ kind: tool.kind, name: tool.name, arguments: decoded.success, call: tool(decoded.success) })
  }
  return {
    tools,
    decode,
    read: (name, input) =>
      find(name)?.kind === "SideEffect"
        ? Effect.fail(new Tool.SideEffectToolError({ tool: name }))
        : Effect.map(decode(name, input), (decoded) => decoded.call as Tool.ReadOnlyCall<any, any, any, any>),
    toLayer: (handlers: any) => {
      const missing = Object.values(tools).find((tool) => !isComplete(tool) && !Object.hasOwn(handlers, tool.name))
      if (missing !== undefined) throw new MissingHandlerError({ tool: missing.name })
      const layers = Object.keys(handlers).map((name): Layer.Layer<any> => named(name).toLayer(handlers[name]))
      return Layer.mergeAll(Layer.empty, ...layers) as any
    },
    merge: (other) => fromTools([...list, ...Object.values<Tool.Any>(other.tools)]),
    pick: (...names) => fromTools((names as ReadonlyArray<string>).map(named))
  }
}
