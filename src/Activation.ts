/**
 * An activation: one run of an agent for one event (or one resume) of one key. This module is what the agent is handed;
 * `ActivationError.ts` is what it may meet, `ActivationData.ts` what goes in and comes out, and `ActivationRun.ts` runs it.
 *
 * Guarantees: state, event and clock in, one commit out, nothing performed. Refuses: SideEffect calls as reads and the
 * reverse, steps taken side by side, and every call after the activation has ended.
 *
 * @since 0.1.0
 */
import { Reference } from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ActivationClosed, ConcurrentStepError, MessageTimeout, Misfit, TooLarge } from "./ActivationError.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Memory from "./Memory.ts"
import type * as Tool from "./Tool.ts"

export * from "./ActivationData.ts"
export * from "./ActivationError.ts"

/**
 * What an agent is handed. `Entries` are the entries of its memory, `State` is what it may suspend with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Context<Output, Entries, State> {
  readonly agent: string
  readonly key: string
  /** The number this event has, or takes if it commits. */
  readonly seq: number
  /** The working memory of the key. */
  readonly memory: Memory.Memory<Entries>
  /** Set when the agent goes on after `Suspend`. */
  readonly resume: Resume<State> | undefined
  /**
   * Runs a ReadOnly call now. Its answer is journaled: a replay gives it again and calls no handler. A defect of the handler
   * arrives as an `Error` with its name and message.
   */
  runTool<Call extends Tool.ReadOnlyCall<any, any, any, any>>(
    call: Call
  ): Effect.Effect<Effect.Success<Call>, Effect.Error<Call>, Effect.Services<Call>>
  /** Stages a SideEffect call and goes on: nobody waits for its result. Gives the id of the intent. */
  act<Call extends AnySideEffectCall>(
    call: Call,
    options?: ActOptions
  ): Effect.Effect<Intent.Id, Tool.ToolArgumentError | StepError, IntentsOf<Call>>
  /**
   * Stages a SideEffect call and waits, durably, for its result. While it waits nothing runs: the fiber was interrupted, its
   * finalizers ran, and no error or value was seen, but for an interruption inside an uninterruptible region.
   */
  request<Call extends AnySideEffectCall>(
    call: Call,
    options?: ActOptions
  ): Effect.Effect<Effect.Success<Call>, Effect.Error<Call> | RequestError, IntentsOf<Call>>
  /**
   * Stages several SideEffect calls, all or none, in the order of the record and waits, once, for all their results. Fails
   * with the first failure in that order.
   */
  requestAll<const Calls extends { readonly [name: string]: AnySideEffectCall }>(
    calls: Calls,
    options?: ActOptions
  ): Effect.Effect<
    { readonly [Name in keyof Calls]: Effect.Success<Calls[Name]> },
    Effect.Error<Calls[keyof Calls]> | RequestError,
    IntentsOf<Calls[keyof Calls]>
  >
  /** Asks a person and waits for the decision. What nobody decides in time is a no by `policy:timeout`. */
  requestApproval(question: Question): Effect.Effect<Decision, StepError>
  /**
   * What people changed in the calls that were answered since the event, or its last `Suspend`, in step order. A result is
   * that of the changed call: look here before you, or a model, take it for what was asked.
   */
  readonly edits: Effect.Effect<ReadonlyArray<Edit>>
  /** Waits, durably. `Effect.sleep` waits inside the activation, and again on every replay. */
  sleep(duration: Duration.Input): Effect.Effect<void, StepError>
  /** Waits, durably, for a message to this key. Without `timeout` it waits as long as it takes. */
  receive<S extends AnyCodec>(
    schema: S,
    options?: { readonly timeout?: Duration.Input }
  ): Effect.Effect<S["Type"], MessageTimeout | StepError>
  /** Adds an output before the one of `complete`. */
  emit(output: Output): Effect.Effect<void, StepError>
  /**
   * Asks a model. The reply is appended to the journal before the activation goes on, so that a crash, a retry or a resume
   * never asks again. Only a crash between the provider's answer and that row asks twice.
   */
  callModel<Reply extends AnyCodec, Failure extends AnyCodec = typeof Schema.Never>(
    question: ModelCall<Reply, Failure>
  ): Effect.Effect<Reply["Type"], Failure["Type"] | StepError>
}

/**
 * A question to a model: the same `model` and `request` at the same step of the same event are the same question. A failure is
 * journaled as a reply is, so that code which asks another model instead takes the same way on replay.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelCall<Reply extends AnyCodec, Failure extends AnyCodec> {
  readonly model: string
  readonly request: CanonicalJson.Json
  readonly reply: Reply
  /** Default: it never fails. */
  readonly failure?: Failure
  readonly call: Effect.Effect<NoInfer<Reply["Type"]>, NoInfer<Failure["Type"]>>
}

/**
 * A schema that needs no services.
 *
 * @since 0.1.0
 * @category models
 */
export type AnyCodec = Schema.Codec<any, any, never, never>

/**
 * @since 0.1.0
 * @category models
 */
export type AnySideEffectCall = Tool.SideEffectCall<any, any, any>

/**
 * The intents a call may become: a union of calls gives a union of rows.
 *
 * @since 0.1.0
 * @category models
 */
export type IntentsOf<Call> = Call extends { readonly kind: "SideEffect"; readonly name: infer Name extends string }
  ? Tool.Intents<Name>
  : never

/**
 * How an intent is staged. `ttl` is how long it may wait to be started, positive and finite; it overrides the tool's.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActOptions {
  readonly ttl?: Duration.Input
}

/**
 * What a person is asked.
 *
 * @since 0.1.0
 * @category models
 */
export interface Question {
  readonly title: string
  readonly details?: CanonicalJson.Json
  /** How long each of those who are asked may take, positive and finite. Default 24 hours. */
  readonly timeout?: Duration.Input
  /** Who is asked next, in order, each for `timeout`. At most 10 names. */
  readonly escalation?: ReadonlyArray<string>
}

/**
 * What a person decided.
 *
 * @since 0.1.0
 * @category models
 */
export interface Decision {
  readonly approved: boolean
  readonly by: string
}

/**
 * The arguments a person put in the place of those that were asked for, as the tool's JSON. A type, not an interface, so that
 * it is JSON to outputs and models.
 *
 * @since 0.1.0
 * @category models
 */
export type Edited = { readonly by: string; readonly arguments: CanonicalJson.Json }

/**
 * What a person changed in a call.
 *
 * @since 0.1.0
 * @category models
 */
export type Edit = Edited & { readonly id: Intent.Id; readonly tool: string }

/**
 * How an agent goes on after `Suspend`: the state it left, and how the intents it waited for ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Resume<State> {
  readonly state: State
  readonly results: ReadonlyArray<{
    readonly id: Intent.Id
    readonly tool: string
    readonly result: Intent.Result
    readonly edited?: Edited
  }>
  /** The result of one of them as `ctx.request` would have given it. Fails with `IntentConflict` where `id` is another tool's. */
  result<Name extends string, Input, A, E>(
    tool: Tool.SideEffect<Name, Input, A, E>,
    id: Intent.Id
  ): Effect.Effect<A, E | Exclude<RequestError, Tool.ToolArgumentError | StepError> | Intent.IntentConflict>
}

/**
 * What waiting for an intent may fail with, beside the tool's own failure.
 *
 * @since 0.1.0
 * @category errors
 */
export type RequestError =
  | Intent.IntentNotPerformed
  | Intent.IntentOutcomeUnknown
  | Intent.ResultUnavailable
  | Tool.ToolArgumentError
  | StepError

/**
 * What every step may fail with. All but `ActivationClosed` fail the activation even where the agent catches them.
 *
 * @since 0.1.0
 * @category errors
 */
export type StepError = ConcurrentStepError | ActivationClosed | TooLarge | Misfit | Journal.NonDeterminism

/**
 * What an agent may require: handlers of ReadOnly tools, and the rows of intents it may stage.
 *
 * @since 0.1.0
 * @category models
 */
export type Capabilities = Tool.ReadOnlyHandler<any> | Tool.Intents<any>

/**
 * How an activation ends: with its output, or with a state to go on from when its intents have ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Outcome<Output, State> = Complete<Output> | Suspend<State>

/**
 * @since 0.1.0
 * @category models
 */
export interface Complete<out Output> {
  readonly _tag: "Complete"
  readonly output: Output
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Suspend<out State> {
  readonly _tag: "Suspend"
  readonly state: State
}

/**
 * What the runtime knows of an agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Definition {
  readonly name: string
  readonly version: string
  readonly event: Codec
  readonly output: Codec
  readonly state: Codec
  readonly entries: Memory.Entries
  readonly memoryBytes: number
  readonly compact: Memory.Compact | undefined
  readonly timeout: Duration.Duration
  readonly maxBytes: number
  readonly activate: (ctx: Context<any, any, any>, event: any) => Effect.Effect<Outcome<any, any>, any, any>
}

/**
 * A schema's JSON codec, compiled once. Issues never repeat the value.
 *
 * @since 0.1.0
 * @category models
 */
export interface Codec {
  readonly encode: (value: unknown) => Result.Result<CanonicalJson.Json, string>
  /** `encode`, with the canonical text of the JSON. */
  readonly write: (
    value: unknown
  ) => Result.Result<{ readonly json: CanonicalJson.Json; readonly text: string }, string>
  readonly decode: (json: unknown) => Result.Result<any, string>
}

/**
 * The JSON codec of a schema.
 *
 * @since 0.1.0
 * @category constructors
 */
export const codec = (schema: AnyCodec): Codec => {
  const known = codecs.get(schema)
  if (known !== undefined) return known
  const codec = Schema.toCodecJson(schema)
  const encode = Schema.encodeUnknownResult(codec)
  const decode = Schema.decodeUnknownResult(codec)
  // An untyped schema lets through what JSON has no word for: `undefined`, a lone surrogate.
  const write: Codec["write"] = (value) =>
    Result.flatMap(Result.mapError(encode(value), String), (json) =>
      Result.mapBoth(CanonicalJson.encode(json), {
        onSuccess: (text) => ({ json: json as CanonicalJson.Json, text }),
        onFailure: ({ message }) => message
      }))
  const made: Codec = {
    encode: (value) => Result.map(write(value), ({ json }) => json),
    write,
    decode: (value) => Result.mapError(decode(value), String)
  }
  codecs.set(schema, made)
  return made
}

/**
 * The named points at which a crash injector may stop an activation.
 *
 * @since 0.1.0
 * @category constants
 */
export const steps = ["activation:load", "activation:run", "activation:commit", "activation:committed"] as const

/**
 * Called at every named step of activations and effector with its name and the key or intent id: the hook of crash tests.
 *
 * @since 0.1.0
 * @category references
 */
export const Checkpoint = Reference<((step: string, id: string) => Effect.Effect<void>) | undefined>(
  "effect-intents/Checkpoint",
  { defaultValue: () => undefined }
)

/**
 * Runs the hook of `Checkpoint`, if there is one.
 *
 * @since 0.1.0
 * @category references
 */
export const checkpoint = (step: string, id: string): Effect.Effect<void> =>
  Effect.withFiber((fiber) => fiber.getRef(Checkpoint)?.(step, id) ?? Effect.void)

// internal

const codecs = new WeakMap<AnyCodec, Codec>()
