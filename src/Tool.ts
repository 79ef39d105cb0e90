/**
 * A tool: a name, a description, schemas and a kind. `ReadOnly` tools look and never change anything outside; `SideEffect`
 * tools change something. A tool applied to arguments is a call, an Effect that carries the kind in its type.
 *
 * Guarantees: a SideEffect call runs only inside the effector, once per start. Refuses: names no provider accepts, schemas
 * no model can be shown, and every other way to run a SideEffect call (`SideEffectToolError`).
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as ToolSchema from "./ToolSchema.ts"

/**
 * The side of the line a tool stands on.
 *
 * @since 0.1.0
 * @category models
 */
export type Kind = "ReadOnly" | "SideEffect"

/**
 * A ReadOnly tool applied to arguments. Yielded inside an activation it is the same as `ctx.runTool(call)`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadOnlyCall<Name extends string, A, E, R> extends Effect.Effect<A, E, R> {
  readonly kind: "ReadOnly"
  readonly name: Name
  readonly arguments: unknown
  readonly tool: Any
}

/**
 * A SideEffect tool applied to arguments: something to stage with `ctx.act` or `ctx.request`. Its requirement
 * `EffectorScope` is provided by the effector only.
 *
 * @since 0.1.0
 * @category models
 */
export interface SideEffectCall<Name extends string, A, E> extends Effect.Effect<A, E, EffectorScope> {
  readonly kind: "SideEffect"
  readonly name: Name
  readonly arguments: unknown
  readonly tool: Any
}

/**
 * The permission to start one SideEffect handler for one intent. Only the type is exported.
 *
 * @since 0.1.0
 * @category services
 */
export interface EffectorScope {
  readonly EffectorScope: unique symbol
}

/**
 * Identifies the handler of the ReadOnly tool `Name` in the requirements of an Effect.
 *
 * @since 0.1.0
 * @category services
 */
export interface ReadOnlyHandler<in out Name extends string> {
  readonly ReadOnlyHandler: (name: Name) => Name
}

/**
 * Identifies the handler of the SideEffect tool `Name` in the requirements of an effector.
 *
 * @since 0.1.0
 * @category services
 */
export interface Handler<in out Name extends string> {
  readonly Handler: (name: Name) => Name
}

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
 * What every tool has, whatever its kind and types.
 *
 * @since 0.1.0
 * @category models
 */
export interface Any {
  readonly kind: Kind
  readonly name: string
  readonly description: string
  readonly parameters: ToolSchema.ToolSchema<any>
  readonly Types: { readonly Input: any; readonly A: any; readonly E: any; readonly R: any }
  readonly success: ToolSchema.ToolSchema<any>
  readonly failure: ToolSchema.ToolSchema<any>
  /** SHA-256 over name, kind and the JSON Schemas: two tools with one digest accept and answer the same. */
  readonly contract: string
  readonly options: Options
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
 * The answer of a tool's `verify`.
 *
 * @since 0.1.0
 * @category models
 */
export type Verdict<A, E> =
  | { readonly _tag: "Performed"; readonly value: A }
  | { readonly _tag: "Failed"; readonly error: E }
  | { readonly _tag: "NotPerformed" }
  | { readonly _tag: "Unknown" }

/**
 * The arguments of a call: optional where all of them are.
 *
 * @since 0.1.0
 * @category models
 */
export type Arguments<Input> = {} extends Input ? [input?: Input] : [input: Input]

/**
 * The fields of a parameter schema: any schemas that need no services.
 *
 * @since 0.1.0
 * @category models
 */
export type Fields = { readonly [name: string]: Schema.Codec<any, any, never, never> }

/**
 * What `parameters` may be: the fields of a struct, or a schema.
 *
 * @since 0.1.0
 * @category models
 */
export type Parameters = Fields | Schema.Codec<any, any, never, never>

/**
 * The decoded type of `parameters`.
 *
 * @since 0.1.0
 * @category models
 */
export type InputOf<P> = P extends Schema.Constraint ? P["Type"] : P extends Fields ? Schema.Struct.Type<P> : {}

/**
 * The declarations that decide how an intent of a tool lives. Durations are positive; see `docs/guarantees.md`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The handler passes the idempotency key on, so an intent whose end is unknown may be performed again. */
  readonly idempotent?: boolean
  /** `"required"`, or a rule over the arguments: only an explicit `false` lets a call through unasked. */
  readonly approval?: "required" | ((input: any) => Effect.Effect<boolean, unknown>)
  /** How long somebody may take to decide. Default 24 hours. */
  readonly approvalTimeout?: Duration.Input
  /** How long the handler may run. Default 5 minutes. */
  readonly timeout?: Duration.Input
  /** How long an intent may wait to be started. Default 24 hours. */
  readonly ttl?: Duration.Input
  /** When an idempotent intent whose end is unknown is performed again. Default: at once, three times. */
  readonly retry?: Schedule.Schedule<unknown, unknown, never, never>
  /** The handler's layer brings a `verify`; it is asked before a waiting agent is told that the outcome is unknown. */
  readonly verify?: boolean
  /** How many handlers of this tool one effector runs at a time. Default: as many as the effector. */
  readonly concurrency?: number
}

/**
 * The options of `readOnly`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadOnlyDefinition<P extends Parameters, S extends Schema.Constraint, F extends Schema.Constraint> {
  readonly description: string
  readonly parameters?: P
  readonly success?: S
  readonly failure?: F
}

/**
 * The options of `sideEffect`.
 *
 * @since 0.1.0
 * @category models
 */
export interface SideEffectDefinition<P extends Parameters, S extends Schema.Constraint, F extends Schema.Constraint>
  extends Omit<Options, "approval">
{
  readonly description: string
  readonly parameters?: P
  readonly success?: S
  readonly failure?: F
  readonly approval?: "required" | ((input: NoInfer<InputOf<P>>) => Effect.Effect<boolean, unknown>)
}

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
    S extends Schema.Codec<any, any, never, never> = Schema.Void,
    F extends Schema.Codec<any, any, never, never> = Schema.Never
  >(
    name: Name,
    definition: ReadOnlyDefinition<P, S, F> & { readonly handler?: never }
  ): ReadOnly<Name, InputOf<P>, S["Type"], F["Type"], ReadOnlyHandler<Name>>
  <
    const Name extends string,
    P extends Parameters = {},
    S extends Schema.Codec<any, any, never, never> = Schema.Void,
    F extends Schema.Codec<any, any, never, never> = Schema.Never
  >(
    name: Name,
    definition: ReadOnlyDefinition<P, S, F> & {
      readonly handler: (input: NoInfer<InputOf<P>>) => Effect.Effect<NoInfer<S["Type"]>, NoInfer<F["Type"]>>
    }
  ): ReadOnly<Name, InputOf<P>, S["Type"], F["Type"], never>
} = (name: string, definition: any): any => {
  const tool = define("ReadOnly", name, definition, {})
  const key = readOnlyHandler(name)
  const handler = definition.handler as ReadOnlyService["handler"] | undefined
  return Object.assign(tool, {
    [inPlace]: handler,
    toLayer: (handler: (input: any) => Effect.Effect<any, any, any>) =>
      Layer.effect(
        key,
        Effect.map(Effect.context<any>(), (context) => ({ handler: withContext(handler, context) }))
      )
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
  S extends Schema.Codec<any, any, never, never> = Schema.Void,
  F extends Schema.Codec<any, any, never, never> = Schema.Never
>(
  name: Name,
  definition: SideEffectDefinition<P, S, F>
): SideEffect<Name, InputOf<P>, S["Type"], F["Type"]> => {
  const { description: _, failure: __, parameters: ___, success: ____, ...options } = definition
  const tool = define("SideEffect", name, definition, options)
  const key = sideEffectHandler(name)
  return Object.assign(tool, {
    toLayer(
      handler: (input: any) => Effect.Effect<any, any, any>,
      given?: { readonly verify: (input: any) => Effect.Effect<any, any, any> }
    ) {
      if (options.verify === true && given === undefined) {
        throw new ToolDefinitionError({ tool: name, reason: "declared with 'verify: true'; give 'verify' to toLayer" })
      }
      return Layer.effect(
        key,
        Effect.map(Effect.context<any>(), (context) => ({
          tool,
          handler: withContext(handler, context),
          verify: given && (withContext(given.verify, context) as SideEffectService["verify"])
        }))
      )
    }
  }) as any
}

/**
 * The one way to the handler of a SideEffect tool: a function that starts it once for one intent, and its `verify`. Used by
 * the effector and by nobody else.
 *
 * @since 0.1.0
 * @category destructors
 */
export const unwrap = <Name extends string, Input, A, E>(
  tool: SideEffect<Name, Input, A, E>
): Effect.Effect<Unwrapped<Input, A, E>, never, Handler<Name>> =>
  Effect.map(sideEffectHandler(tool.name), (service): Unwrapped<Input, A, E> => ({
    start: (input) =>
      Effect.suspend(() => {
        const call = makeCall(sideEffectProto, tool, input) as SideEffectCall<Name, A, E>
        return Effect.provideContext(
          call,
          Context.make(Start, new OneStart(call)).pipe(Context.add(sideEffectHandler(tool.name), service))
        )
      }),
    verify: service.verify
  }))

/**
 * What `unwrap` gives.
 *
 * @since 0.1.0
 * @category models
 */
export interface Unwrapped<Input, A, E> {
  readonly start: (input: Input) => Effect.Effect<A, E>
  readonly verify: ((input: Input) => Effect.Effect<Verdict<A, E>>) | undefined
}

/**
 * How a ReadOnly call is carried out: `undefined` runs its handler; an activation puts its journal in front.
 *
 * @since 0.1.0
 * @category references
 */
export const Reader = Context.Reference<
  ((call: ReadOnlyCall<string, any, any, any>) => Effect.Effect<any, any, any>) | undefined
>("effect-intents/Reader", { defaultValue: () => undefined })

/**
 * Runs the handler of a ReadOnly call, with no journal: arguments are checked against the schema first.
 *
 * @since 0.1.0
 * @category destructors
 */
export const read = <A, E, R>(call: ReadOnlyCall<string, A, E, R>): Effect.Effect<A, E, R> => {
  const handler = (call.tool as any)[inPlace] as ReadOnlyService["handler"] | undefined
  const checked = encodeArguments(call)
  if (Result.isFailure(checked)) return Effect.fail(checked.failure) as any
  return handler !== undefined
    ? handler(call.arguments)
    : Effect.flatMap(readOnlyHandler(call.name), (service) => service.handler(call.arguments)) as any
}

/**
 * The arguments of a call as JSON, checked against the tool's schema.
 *
 * @since 0.1.0
 * @category destructors
 */
export const encodeArguments = (
  call: { readonly tool: Any; readonly arguments: unknown }
): Result.Result<CanonicalJson.Json, ToolArgumentError> =>
  Result.mapError(
    call.tool.parameters.encode(call.arguments),
    (issues) => new ToolArgumentError({ tool: call.tool.name, issues })
  )

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

/**
 * Why a value is not a call of the given kind, whatever its type says.
 *
 * @since 0.1.0
 * @category guards
 */
export const refuse = (
  value: unknown,
  kind: Kind
): SideEffectToolError | ReadOnlyToolError | ToolNotFoundError | undefined => {
  const is = (proto: object) => typeof value === "object" && value !== null && proto.isPrototypeOf(value)
  if (is(readOnlyProto)) {
    return kind === "ReadOnly" ? undefined : new ReadOnlyToolError({ tool: (value as any).tool.name })
  }
  if (is(sideEffectProto)) {
    return kind === "SideEffect" ? undefined : new SideEffectToolError({ tool: (value as any).tool.name })
  }
  return new ToolNotFoundError({ tool: typeof value === "string" ? value.slice(0, 80) : typeof value, available: [] })
}

/**
 * A SideEffect call was run, or handed to `ctx.runTool`. Nothing happened outside.
 *
 * @since 0.1.0
 * @category errors
 */
export class SideEffectToolError extends Schema.TaggedError<SideEffectToolError>()("SideEffectToolError", {
  tool: Schema.String
}) {
  override get message() {
    return `'${this.tool}' is a SideEffect tool and never runs inside an agent; stage it with ctx.act or ctx.request`
  }
}

/**
 * The arguments do not fit the tool's schema. Messages never repeat the arguments.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolArgumentError extends Schema.TaggedError<ToolArgumentError>()("ToolArgumentError", {
  tool: Schema.String,
  issues: Schema.Array(Schema.Struct({ path: Schema.String, message: Schema.String }))
}) {
  override get message() {
    return `arguments of '${this.tool}': ${
      this.issues.map(({ message, path }) => path === "" ? message : `${path}: ${message}`).join("; ")
    }`
  }
}

/**
 * A tool cannot be defined as asked: its name, or the part of its schema at `path`, fits no model.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolDefinitionError extends Schema.TaggedError<ToolDefinitionError>()("ToolDefinitionError", {
  tool: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `tool '${this.tool}': ${this.reason}`
  }
}

/**
 * A ReadOnly call was handed to `ctx.act` or `ctx.request`. Nothing was staged.
 *
 * @since 0.1.0
 * @category errors
 */
export class ReadOnlyToolError extends Schema.TaggedError<ReadOnlyToolError>()("ReadOnlyToolError", {
  tool: Schema.String
}) {
  override get message() {
    return `'${this.tool}' is a ReadOnly tool and is never staged; run it with ctx.runTool`
  }
}

/**
 * No tool of that name.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolNotFoundError extends Schema.TaggedError<ToolNotFoundError>()("ToolNotFoundError", {
  tool: Schema.String,
  available: Schema.Array(Schema.String)
}) {
  override get message() {
    return `no tool '${this.tool}'; known: ${this.available.length === 0 ? "none" : this.available.join(", ")}`
  }
}

// internal

const TypeId = "~effect-intents/Tool"

const inPlace = Symbol("effect-intents/Tool/handler")

interface ReadOnlyService {
  readonly handler: (input: any) => Effect.Effect<any, any>
}

interface SideEffectService extends ReadOnlyService {
  readonly tool: Any
  readonly verify: ((input: any) => Effect.Effect<any>) | undefined
}

// The handlers and rules a tool is given are typed where they are given; from here on they are erased.
type AnyHandler = (input: any) => Effect.Effect<any, any, any>

const readOnlyHandler = <Name extends string>(name: Name) =>
  Context.Service<ReadOnlyHandler<Name>, ReadOnlyService>(`effect-intents/ReadOnlyHandler/${name}`)

const sideEffectHandler = <Name extends string>(name: Name) =>
  Context.Service<Handler<Name>, SideEffectService>(`effect-intents/Handler/${name}`)

const withContext = (handler: AnyHandler, context: Context.Context<any>) => (input: any): Effect.Effect<any, any> =>
  Effect.updateContext(handler(input), (running: Context.Context<never>) => Context.merge(context, running))

class OneStart {
  readonly call: unknown
  private used = false
  constructor(call: unknown) {
    this.call = call
  }
  take(call: unknown): boolean {
    const free = !this.used && this.call === call
    this.used = true
    return free
  }
}

const Start = Context.Service<EffectorScope, OneStart>("effect-intents/EffectorScope")

const readOnlyProto = Effectable.Prototype<ReadOnlyCall<string, any, any, any>>({
  label: "ReadOnlyCall",
  evaluate(fiber: Fiber.Fiber<any, any>) {
    const reader = fiber.getRef(Reader)
    return reader === undefined ? read(this) : reader(this)
  }
})

const sideEffectProto = Effectable.Prototype<SideEffectCall<string, any, any>>({
  label: "SideEffectCall",
  evaluate(fiber: Fiber.Fiber<any, any>) {
    const start = Context.getOrUndefined(fiber.context as Context.Context<EffectorScope>, Start)
    // The class check refuses a look-alike service made under the same key.
    return start instanceof OneStart && start.take(this)
      ? Effect.flatMap(sideEffectHandler(this.name), (service) => service.handler(this.arguments))
      : Effect.fail(new SideEffectToolError({ tool: this.name })) as any
  }
})

const makeCall = (proto: object, tool: Any, input: unknown): object => {
  const call = Object.create(proto)
  call.kind = tool.kind
  call.name = tool.name
  call.arguments = input
  call.tool = tool
  return call
}

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

const namePattern = /^[A-Za-z0-9_-]{1,64}$/

const define = (kind: Kind, name: string, definition: ReadOnlyDefinition<any, any, any>, options: Options): Any => {
  if (typeof name !== "string" || !namePattern.test(name)) {
    throw new ToolDefinitionError({ tool: String(name).slice(0, 80), reason: "a name matches [A-Za-z0-9_-]{1,64}" })
  }
  const part = (label: string, schema: Schema.Codec<any, any, never, never>): ToolSchema.ToolSchema<any> =>
    Result.getOrThrowWith(
      ToolSchema.make(schema),
      (error) =>
        new ToolDefinitionError({
          tool: name,
          reason: `${label}${error.path === "" ? "" : ` at ${error.path}`}: ${error.reason}`
        })
    )
  const given = definition.parameters ?? {}
  const parameters = part("parameters", Schema.isSchema(given) ? given as any : Schema.Struct(given))
  const success = part("success", definition.success ?? Schema.Void as any)
  const failure = part("failure", definition.failure ?? Schema.Never as any)
  const proto = kind === "ReadOnly" ? readOnlyProto : sideEffectProto
  const tool: any = (input: unknown = {}) => makeCall(proto, tool, input)
  const shown = [parameters, success, failure].map((schema) => schema.jsonSchema("draft-2020-12"))
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
