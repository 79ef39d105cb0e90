/**
 * A tool applied to arguments: an Effect that carries the tool's kind in its type, and who may run it.
 *
 * Guarantees: a ReadOnly call runs its handler after its arguments were checked; the handler of a SideEffect call is started
 * by `unwrap` alone, once per start. Refuses every other way to run a SideEffect call (`SideEffectToolError`), before
 * anything is looked at.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Effectable from "effect/Effectable"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type { Options } from "./ToolDefinition.ts"
import {
  nameOf,
  ReadOnlyToolError,
  SideEffectToolError,
  ToolArgumentError,
  ToolDefinitionError,
  ToolNotFoundError
} from "./ToolError.ts"
import type * as ToolSchema from "./ToolSchema.ts"

/**
 * The side of the line a tool stands on.
 *
 * @since 0.1.0
 * @category models
 */
export type Kind = "ReadOnly" | "SideEffect"

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
 * A ReadOnly tool applied to arguments. Yielded inside an activation it is the same as `ctx.runTool(call)`.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadOnlyCall<Name extends string, A, E, R> extends Effect.Effect<A, E, R>, Made {
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
export interface SideEffectCall<Name extends string, A, E> extends Effect.Effect<A, E, EffectorScope>, Made {
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
 * A call of a tool. The types of its arguments and results are those of the tool's own signature.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (tool: Any, input: unknown): any => {
  const call = Object.create(tool.kind === "ReadOnly" ? readOnlyProto : sideEffectProto)
  call.kind = tool.kind
  call.name = tool.name
  call.arguments = input
  call.tool = tool
  return call
}

/**
 * The handler of a ReadOnly tool as a layer, with the services it needs. Throws `ToolDefinitionError` where the tool has one
 * in place.
 *
 * @since 0.1.0
 * @category layers
 */
export const readOnlyLayer = (tool: Any, handler: AnyHandler): Layer.Layer<any, never, any> => {
  if (isComplete(tool)) {
    throw new ToolDefinitionError({ tool: tool.name, reason: "a second handler beside the one in place" })
  }
  return Layer.effect(
    readOnlyHandler(tool.name),
    Effect.map(Effect.context<any>(), (context) => ({ tool, handler: withContext(handler, context) }))
  )
}

/**
 * The handler of a SideEffect tool as a layer, and its `verify`, with the services they need.
 *
 * @since 0.1.0
 * @category layers
 */
export const sideEffectLayer = (
  tool: Any,
  handler: AnyHandler,
  verify: AnyHandler | undefined
): Layer.Layer<any, never, any> =>
  Layer.effect(
    sideEffectHandler(tool.name),
    Effect.map(Effect.context<any>(), (context) => ({
      tool,
      handler: withContext(handler, context),
      verify: verify && withContext(verify, context)
    }))
  )

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
  const refusal = refuse(call, "ReadOnly")
  if (refusal !== undefined) return Effect.fail(refusal) as any
  const checked = encodeArguments(call)
  if (Result.isFailure(checked)) return Effect.fail(checked.failure) as any
  const handler = (call.tool as any)[inPlace] as AnyHandler | undefined
  return handler !== undefined
    ? handler(call.arguments)
    : Effect.flatMap(serviceOf(readOnlyHandler, call.tool), ({ handler }) => handler(call.arguments)) as any
}

/**
 * Whether a tool brings its own handler, so that no layer has to.
 *
 * @since 0.1.0
 * @category guards
 */
export const isComplete = (tool: Any): boolean => (tool as any)[inPlace] !== undefined

/**
 * Where a ReadOnly tool keeps the handler it was defined with.
 *
 * @since 0.1.0
 * @category symbols
 */
export const inPlace = Symbol("effect-intents/Tool/handler")

/**
 * The one way to the handler of a SideEffect tool: `start` makes an Effect that runs it for one intent, and only once. Used
 * by the effector and by nobody else.
 *
 * @since 0.1.0
 * @category destructors
 */
export const unwrap = <Name extends string, Input, A, E>(
  tool: Any & {
    readonly kind: "SideEffect"
    readonly name: Name
    readonly Types: { readonly Input: Input; readonly A: A; readonly E: E }
  }
): Effect.Effect<Unwrapped<Input, A, E>, never, Handler<Name>> =>
  Effect.map(serviceOf(sideEffectHandler<Name>, tool), (service): Unwrapped<Input, A, E> => ({
    start: (input) => {
      const call: SideEffectCall<Name, A, E> = make(tool, input)
      return Effect.provideContext(
        call,
        Context.make(Start, new OneStart()).pipe(Context.add(sideEffectHandler(tool.name), service))
      )
    },
    verify: service.verify as Unwrapped<Input, A, E>["verify"]
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
 * Why a value is not a call of the given kind, whatever its type says.
 *
 * @since 0.1.0
 * @category guards
 */
export const refuse = (
  value: unknown,
  kind: Kind
): SideEffectToolError | ReadOnlyToolError | ToolNotFoundError | undefined => {
  if (is(value, readOnlyProto)) {
    return kind === "ReadOnly"
      ? undefined
      : new ReadOnlyToolError({ tool: value.tool.name })
  }
  if (is(value, sideEffectProto)) {
    return kind === "SideEffect" ? undefined : new SideEffectToolError({ tool: value.tool.name })
  }
  return new ToolNotFoundError({ tool: nameOf(value), available: [] })
}

// internal

// Only a tool makes a call: a private member is not copied by a spread and not written by hand.
declare class Made {
  private readonly madeByTool: true
}

const is = (value: unknown, proto: object): value is { readonly tool: Any } =>
  typeof value === "object" && value !== null && Object.prototype.isPrototypeOf.call(proto, value)

// A handler is typed where it is given; from here on its types are erased.
type AnyHandler = (input: any) => Effect.Effect<any, any, any>

interface ReadOnlyService {
  readonly tool: Any
  readonly handler: AnyHandler
}

interface SideEffectService extends ReadOnlyService {
  readonly verify: AnyHandler | undefined
}

const readOnlyHandler = <Name extends string>(name: Name) =>
  Context.Service<ReadOnlyHandler<Name>, ReadOnlyService>(`effect-intents/ReadOnlyHandler/${name}`)

const sideEffectHandler = <Name extends string>(name: Name) =>
  Context.Service<Handler<Name>, SideEffectService>(`effect-intents/Handler/${name}`)

const serviceOf = <Name extends string, Id, Service extends ReadOnlyService>(
  key: (name: Name) => Context.Service<Id, Service>,
  tool: Any
): Effect.Effect<Service, never, Id> =>
  // Requirements know a handler by the tool's name only.
  Effect.flatMap(key(tool.name as Name), (service) =>
    service.tool.contract === tool.contract ? Effect.succeed(service) : Effect.die(
      new ToolDefinitionError({ tool: tool.name, reason: "its handler was made for another tool of that name" })
    ))

const withContext = (handler: AnyHandler, context: Context.Context<any>): AnyHandler => (input) =>
  Effect.updateContext(handler(input), (running: Context.Context<never>) => Context.merge(context, running))

class OneStart {
  private used = false
  take(): boolean {
    const free = !this.used
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
    return start instanceof OneStart && start.take()
      ? Effect.flatMap(sideEffectHandler(this.name), ({ handler }) =>
        // The handler does not inherit the permission it was started with.
        Effect.updateContext(handler(this.arguments), Context.omit(Start) as any))
      : Effect.fail(new SideEffectToolError({ tool: this.name })) as any
  }
})
