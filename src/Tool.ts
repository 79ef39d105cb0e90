/**
 * A tool: a name, a description, schemas and a kind. `ReadOnly` tools look and never change anything outside; `SideEffect`
 * tools change something. A tool applied to arguments is a call, an Effect that carries the kind in its type.
 *
 * Guarantees: a SideEffect call runs only inside the effector, once per start. Refuses: names no provider accepts, schemas
 * no model can be shown, and every other way to run a SideEffect call (`SideEffectToolError`).
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as ToolCall from "./ToolCall.ts"
import type { Any, Handler, Kind, ReadOnlyCall, ReadOnlyHandler, SideEffectCall, Verdict } from "./ToolCall.ts"
import type { Definition, InputOf, Parameters, SideEffectDefinition } from "./ToolDefinition.ts"
import { optionsOf } from "./ToolDefinition.ts"
import { ToolArgumentError, ToolDefinitionError } from "./ToolError.ts"
import * as ToolSchema from "./ToolSchema.ts"

export type {
  Any,
  EffectorScope,
  Handler,
  Kind,
  ReadOnlyCall,
  ReadOnlyHandler,
  SideEffectCall,
  Unwrapped,
  Verdict
} from "./ToolCall.ts"
export { encodeArguments, read, Reader, refuse, unwrap } from "./ToolCall.ts"
export type { Definition, Fields, InputOf, Options, Parameters, SideEffectDefinition } from "./ToolDefinition.ts"
export {
  ReadOnlyToolError,
  SideEffectToolError,
  ToolArgumentError,
  ToolDefinitionError,
  ToolNotFoundError
} from "./ToolError.ts"

/**
 * The row of intents an agent may stage: who performs `Name` must be settled before the agent runs.
 *
 * @since 0.1.0
 * @category services
 */
export interface Intents<in out Name extends string> {
  readonly Intents: (name: Name) => Name
}

/**
 * Identifies `Intent.Current`, which only a running SideEffect handler may ask for.
 *
 * @since 0.1.0
 * @category services
 */
export interface CurrentIntent {
  readonly CurrentIntent: unique symbol
}

/**
 * A tool that looks and changes nothing. Call it with its arguments to get a `ReadOnlyCall`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadOnly<Name extends string, Input, A, E, R> extends Any {
  (...input: Arguments<Input>): ReadOnlyCall<Name, A, E | ToolArgumentError, R>
  readonly kind: "ReadOnly"
  readonly name: Name
  readonly Types: { readonly Input: Input; readonly A: A; readonly E: E; readonly R: R }
  readonly parameters: ToolSchema.ToolSchema<Input>
  /**
   * The handler as a layer; services it needs become requirements of the layer, never of an agent.
   */
  toLayer<R2>(handler: (input: Input) => Effect.Effect<A, E, R2>): Layer.Layer<ReadOnlyHandler<Name>, never, R2>
}

/**
 * A tool that changes something outside. Call it with its arguments to get a `SideEffectCall`.
 *
 * @since 0.1.0
 * @category models
 */
export interface SideEffect<Name extends string, Input, A, E> extends Any {
  (...input: Arguments<Input>): SideEffectCall<Name, A, E>
  readonly kind: "SideEffect"
  readonly name: Name
  readonly Types: { readonly Input: Input; readonly A: A; readonly E: E; readonly R: Handler<Name> }
  readonly parameters: ToolSchema.ToolSchema<Input>
  /**
   * The handler as a layer. The handler finds the intent it performs in `Intent.Current`. A tool declared with
   * `verify: true` must be given `verify`, the question to the outside whether an intent with an unknown end happened.
   */
  toLayer<R2, R3 = never>(
    handler: (input: Input) => Effect.Effect<A, E, R2>,
    options?: { readonly verify: (input: Input) => Effect.Effect<Verdict<A, E>, never, R3> }
  ): Layer.Layer<Handler<Name>, never, Exclude<R2 | R3, CurrentIntent>>
}

/**
 * The arguments of a call: optional where all of them are.
 *
 * @since 0.1.0
 * @category models
 */
export type Arguments<Input> = {} extends Input ? [input?: Input] : [input: Input]

/**
 * A tool that looks and changes nothing. With `handler` it is complete; without, `toLayer` supplies the handler.
 * Throws `ToolDefinitionError` for a name or a schema no model can be shown.
 *
 * @since 0.1.0
 * @category constructors
 */
export const readOnly: {
  <
    const Name extends string,
    P extends Parameters = {},
    S extends Schema.ConstraintCodec<any, any, never, never> = Schema.Void,
    F extends Schema.ConstraintCodec<any, any, never, never> = Schema.Never
  >(
    name: Name,
    definition: Definition<P, S, F> & { readonly handler?: never }
  ): ReadOnly<Name, InputOf<P>, S["Type"], F["Type"], ReadOnlyHandler<Name>>
  <
    const Name extends string,
    P extends Parameters = {},
    S extends Schema.ConstraintCodec<any, any, never, never> = Schema.Void,
    F extends Schema.ConstraintCodec<any, any, never, never> = Schema.Never
  >(
    name: Name,
    definition: Definition<P, S, F> & {
      readonly handler: (input: NoInfer<InputOf<P>>) => Effect.Effect<NoInfer<S["Type"]>, NoInfer<F["Type"]>>
    }
  ): ReadOnly<Name, InputOf<P>, S["Type"], F["Type"], never>
} = (name: string, definition: any): any => {
  const tool = define("ReadOnly", name, definition)
  return Object.assign(tool, {
    [ToolCall.inPlace]: definition.handler,
    toLayer: (handler: AnyHandler) => ToolCall.readOnlyLayer(tool, handler)
  })
}

/**
 * A tool that changes something outside. Its handler is never part of the tool: `toLayer` supplies it where the effector
 * runs, so that an agent's process needs no credentials. Throws `ToolDefinitionError`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const sideEffect = <
  const Name extends string,
  P extends Parameters = {},
  S extends Schema.ConstraintCodec<any, any, never, never> = Schema.Void,
  F extends Schema.ConstraintCodec<any, any, never, never> = Schema.Never
>(
  name: Name,
  definition: SideEffectDefinition<P, S, F>
): SideEffect<Name, InputOf<P>, S["Type"], F["Type"]> => {
  const tool = define("SideEffect", name, definition)
  const toLayer = (handler: AnyHandler, given?: { readonly verify: AnyHandler }) => {
    if ((tool.options.verify === true) !== (given !== undefined)) {
      const reason = given === undefined
        ? "declared with 'verify: true'; give 'verify' to toLayer"
        : "'verify' given to toLayer; declare the tool with 'verify: true', or nobody asks it after a crash"
      throw new ToolDefinitionError({ tool: name, reason })
    }
    return ToolCall.sideEffectLayer(tool, handler, given?.verify)
  }
  return Object.assign(tool, { toLayer }) as any
}

/**
 * The canonical text of encoded arguments: what is digested. Fails where JSON has no such text, a lone surrogate for one.
 *
 * @since 0.1.0
 * @category destructors
 */
export const argumentsText = (tool: Any, args: CanonicalJson.Json): Result.Result<string, ToolArgumentError> =>
  Result.mapError(
    CanonicalJson.encode(args),
    ({ path, reason }) => new ToolArgumentError({ tool: tool.name, issues: [{ path, message: reason }] })
  )

/**
 * The canonical text of encoded arguments with every redacted part replaced by `"<redacted>"`: what is listed.
 *
 * @since 0.1.0
 * @category destructors
 */
export const publicArguments = (tool: Any, args: CanonicalJson.Json, text: string): string =>
  tool.parameters.redacted.length === 0
    ? text
    : Result.getOrThrow(CanonicalJson.encode(tool.parameters.redacted.reduce(mask, args)))

/**
 * Whether a value is a tool.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTool = (u: unknown): u is Any => typeof u === "function" && TypeId in u

// internal

const TypeId = "~effect-intents/Tool"

const mask = (json: CanonicalJson.Json, path: ReadonlyArray<string>): CanonicalJson.Json => {
  const [head, ...rest] = path
  if (head === undefined) return "<redacted>"
  if (typeof json !== "object" || json === null) return json
  const masked: any = Array.isArray(json) ? [...json] : { ...json }
  for (const name of head === "*" ? Object.keys(masked) : [head]) {
    if (Object.hasOwn(masked, name)) masked[name] = mask(masked[name], rest)
  }
  return masked
}

// A handler is typed where it is given; from here on its types are erased.
type AnyHandler = (input: any) => Effect.Effect<any, any, any>

const define = (kind: Kind, name: string, definition: SideEffectDefinition<any, any, any>): Any => {
  const options = optionsOf(kind, name, definition)
  const part = (label: string, schema: Schema.ConstraintCodec<any, any, never, never>): ToolSchema.ToolSchema<any> =>
    Result.getOrThrowWith(
      ToolSchema.make(schema as Schema.Codec<any>),
      ({ path, reason }) =>
        new ToolDefinitionError({ tool: name, reason: `${label}${path === "" ? "" : ` at ${path}`}: ${reason}` })
    )
  const given = definition.parameters ?? {}
  const parameters = part("parameters", Schema.isSchema(given) ? given as any : Schema.Struct(given))
  const success = part("success", definition.success ?? Schema.Void)
  const failure = part("failure", definition.failure ?? Schema.Never)
  const shown = [parameters, success, failure].map((schema) => schema.jsonSchema("draft-2020-12"))
  const tool: any = (input: unknown = {}) => ToolCall.make(tool, input)
  // A function's own `name` is read-only, so it is defined, not assigned.
  Object.defineProperty(tool, "name", { value: name, enumerable: true })
  return Object.assign(tool, {
    [TypeId]: TypeId,
    kind,
    description: definition.description,
    parameters,
    success,
    failure,
    contract: Result.getOrThrow(CanonicalJson.digestOf([name, kind, ...shown])),
    options
  })
}
