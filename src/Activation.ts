/**
 * An activation: one run of an agent for one event (or one resume) of one key. This module is what the agent is handed, what
 * goes in and what comes out; `ActivationRun.ts` runs it.
 *
 * Guarantees: state, event and clock in, one commit out, nothing performed. Refuses: SideEffect calls as reads and the
 * reverse, steps taken side by side, and every call after the activation has ended.
 *
 * @since 0.1.0
 */
import * as Context_ from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import type * as Memory from "./Memory.ts"
import type * as Tool from "./Tool.ts"

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
  /** Runs a ReadOnly call now. Its answer is journaled: a replay gives it again and calls no handler. */
  runTool<Call extends Tool.ReadOnlyCall<any, any, any, any>>(
    call: Call
  ): Effect.Effect<Effect.Success<Call>, Effect.Error<Call>, Effect.Services<Call>>
  /** Stages a SideEffect call and goes on: nobody waits for its result. Gives the id of the intent. */
  act<Call extends AnySideEffectCall>(
    call: Call,
    options?: ActOptions
  ): Effect.Effect<Intent.Id, Tool.ToolArgumentError | StepError, IntentsOf<Call>>
  /** Stages a SideEffect call and waits, durably, for its result. */
  request<Call extends AnySideEffectCall>(
    call: Call,
    options?: ActOptions
  ): Effect.Effect<Effect.Success<Call>, Effect.Error<Call> | RequestError, IntentsOf<Call>>
  /** Stages several SideEffect calls in the order of the record and waits, once, for all their results. */
  requestAll<const Calls extends { readonly [name: string]: AnySideEffectCall }>(
    calls: Calls,
    options?: ActOptions
  ): Effect.Effect<
    { readonly [Name in keyof Calls]: Effect.Success<Calls[Name]> },
    Effect.Error<Calls[keyof Calls]> | RequestError,
    IntentsOf<Calls[keyof Calls]>
  >
  /** Asks a person and waits for the decision. Undecided after `timeout` (default 24 hours) is a no by `policy:timeout`. */
  requestApproval(
    question: { readonly title: string; readonly details?: CanonicalJson.Json; readonly timeout?: Duration.Input }
  ): Effect.Effect<Decision, StepError>
  /** Waits, durably. */
  sleep(duration: Duration.Input): Effect.Effect<void, StepError>
  /** Waits, durably, for a message to this key. Without `timeout` it waits as long as it takes. */
  receive<S extends Schema.Codec<any, any, never, never>>(
    schema: S,
    options?: { readonly timeout?: Duration.Input }
  ): Effect.Effect<S["Type"], MessageTimeout | StepError>
  /** Adds an output before the one of `complete`. */
  emit(output: Output): Effect.Effect<void, StepError>
  /**
   * Asks a model. The reply is appended to the journal before the activation goes on, so that a crash, a retry or a resume
   * never asks again.
   */
  callModel<S extends Schema.Codec<any, any, never, never>, E>(
    options: ModelCall<S, E>
  ): Effect.Effect<S["Type"], E | StepError>
}

/**
 * A question to a model: the same `model` and `request` at the same step are the same question.
 *
 * @since 0.1.0
 * @category models
 */
export interface ModelCall<S extends Schema.Constraint, E> {
  readonly model: string
  readonly request: CanonicalJson.Json
  readonly reply: S
  readonly call: Effect.Effect<S["Type"], E>
}

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
 * How an intent is staged. `ttl` is how long it may wait to be started; it overrides the tool's.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActOptions {
  readonly ttl?: Duration.Input
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
 * How an agent goes on after `Suspend`: the state it left, and how the intents it waited for ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Resume<State> {
  readonly state: State
  readonly results: ReadonlyArray<{ readonly id: Intent.Id; readonly tool: string; readonly result: Intent.Result }>
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
 * What every step may fail with. The activation fails with it even where the agent catches it.
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
  readonly decode: (json: unknown) => Result.Result<any, string>
}

/**
 * The JSON codec of a schema.
 *
 * @since 0.1.0
 * @category constructors
 */
export const codec = (schema: Schema.Codec<any, any, never, never>): Codec => {
  const json = Schema.toCodecJson(schema)
  const encode = Schema.encodeUnknownResult(json)
  const decode = Schema.decodeUnknownResult(json)
  return {
    // `undefined` is what an untyped schema encodes to where JSON has no word for a value.
    encode: (value) =>
      Result.flatMap(
        Result.mapError(encode(value), String),
        (json) => json === undefined ? Result.fail("it is no JSON") : Result.succeed(json as CanonicalJson.Json)
      ),
    decode: (value) => Result.mapError(decode(value), String)
  }
}

/**
 * What one activation is run with. Times are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Input {
  readonly key: string
  readonly seq: number
  /** Where the event stands in the inbox: with the key it seeds the randomness. */
  readonly offset: number
  readonly event: CanonicalJson.Json
  readonly now: number
  /** The memory as committed before this event. */
  readonly memory: Memory.Stored
  readonly continuation: Continuation | undefined
  readonly rows: ReadonlyArray<Journal.Stored>
  /** What the steps it waits for were answered. */
  readonly answers: ReadonlyArray<StepAnswer>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface StepAnswer {
  readonly step: number
  readonly answer: Journal.Answer
}

/**
 * Where an activation goes on: committed with the suspension.
 *
 * @since 0.1.0
 * @category models
 */
export interface Continuation {
  readonly version: string
  /** The segment that comes next. */
  readonly segment: number
  /** How many journal rows are committed. */
  readonly rows: number
  readonly waiting: ReadonlyArray<Waiting>
  /** Where a replay starts: the event's start, or the last explicit `Suspend`. */
  readonly base: {
    readonly segment: number
    readonly step: number
    readonly rows: number
    readonly memory: Memory.Stored
    readonly state: CanonicalJson.Json | undefined
    /** The intents `Suspend` waited for: their results are what the agent is resumed with. */
    readonly awaited: ReadonlyArray<Awaited>
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Awaited {
  readonly id: Intent.Id
  readonly step: number
  readonly tool: string
}

/**
 * What a suspended activation waits for. Durations are milliseconds from the commit.
 *
 * @since 0.1.0
 * @category models
 */
export type Waiting =
  | { readonly type: "intent"; readonly step: number; readonly id: Intent.Id }
  | { readonly type: "timer"; readonly step: number; readonly millis: number }
  | {
    readonly type: "message"
    readonly step: number
    readonly millis: number | undefined
    /** JSON Schema of the message, where the schema has one. */
    readonly schema: { readonly [key: string]: unknown } | undefined
  }

/**
 * What an activation leaves to be committed, all or nothing.
 *
 * @since 0.1.0
 * @category models
 */
export interface Activated {
  readonly outcome:
    | { readonly _tag: "Complete"; readonly output: CanonicalJson.Json }
    | { readonly _tag: "Suspended"; readonly continuation: Continuation }
  readonly intents: ReadonlyArray<Intent.Draft>
  /** The emitted outputs; the one of `Complete` is not among them. */
  readonly emitted: ReadonlyArray<CanonicalJson.Json>
  /** The memory after this segment, or `undefined` where it did not change. */
  readonly memory: Memory.Stored | undefined
  readonly journal: { readonly from: number; readonly rows: ReadonlyArray<Journal.Stored> }
  readonly trace: ReadonlyArray<Trace>
  /** What a replay of the whole run starts from. */
  readonly replay: Replay
}

/**
 * What a replay starts from, and how many segments it has to go through.
 *
 * @since 0.1.0
 * @category models
 */
export interface Replay {
  readonly base: Continuation["base"]
  readonly segments: number
}

/**
 * What an activation did, in order; what a replay repeats is not among it.
 *
 * @since 0.1.0
 * @category models
 */
export type Trace =
  | {
    readonly type: "ToolCall"
    readonly tool: string
    readonly argumentsDigest: string
    readonly outcome: Journal.ReadOutcome["_tag"]
  }
  | { readonly type: "ModelCall"; readonly step: number; readonly model: string }
  | { readonly type: "IntentStaged"; readonly step: number; readonly tool: string; readonly id: Intent.Id }
  | { readonly type: "Suspended"; readonly segment: number }
  | { readonly type: "Completed" }

/**
 * Why an activation failed, as data that outlives the process.
 *
 * @since 0.1.0
 * @category models
 */
export const Reason = Schema.Struct({
  kind: Schema.Literals(["Failure", "Defect", "TimedOut", "Interrupted"]),
  /** The `_tag` of the error, or its name. */
  tag: Schema.String,
  message: Schema.String
})

/**
 * @since 0.1.0
 * @category models
 */
export type Reason = typeof Reason.Type

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
export const Checkpoint = Context_.Reference<((step: string, id: string) => Effect.Effect<void>) | undefined>(
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

/**
 * A step was taken beside another one, so that its number would depend on scheduling.
 *
 * @since 0.1.0
 * @category errors
 */
export class ConcurrentStepError extends Schema.TaggedError<ConcurrentStepError>()("ConcurrentStepError", {
  agent: Schema.String,
  key: Schema.String,
  step: Schema.String
}) {
  override get message() {
    return `'${this.agent}' for key '${this.key}' took the step '${this.step}' in a concurrent fiber; take steps one after the `
      + `other, or several requests with ctx.requestAll`
  }
}

/**
 * The context was used after its activation had ended or suspended.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActivationClosed extends Schema.TaggedError<ActivationClosed>()("ActivationClosed", {
  agent: Schema.String,
  key: Schema.String,
  step: Schema.String
}) {
  override get message() {
    return `'${this.step}' was called after the activation of '${this.agent}' for key '${this.key}' had ended`
  }
}

/**
 * `Suspend` without a staged intent whose end is open: nothing would ever wake the agent.
 *
 * @since 0.1.0
 * @category errors
 */
export class NothingPending extends Schema.TaggedError<NothingPending>()("NothingPending", {
  agent: Schema.String,
  key: Schema.String
}) {
  override get message() {
    return `'${this.agent}' suspended for key '${this.key}' with nothing pending; stage an intent with ctx.act first`
  }
}

/**
 * No message came in time.
 *
 * @since 0.1.0
 * @category errors
 */
export class MessageTimeout extends Schema.TaggedError<MessageTimeout>()("MessageTimeout", {
  agent: Schema.String,
  key: Schema.String
}) {
  override get message() {
    return `no message came for key '${this.key}' of '${this.agent}' in time`
  }
}

/**
 * An event, output, state, argument or result is larger than the limit. Its content is not repeated.
 *
 * @since 0.1.0
 * @category errors
 */
export class TooLarge extends Schema.TaggedError<TooLarge>()("TooLarge", {
  what: Schema.String,
  key: Schema.String,
  bytes: Schema.Number,
  maxBytes: Schema.Number
}) {
  override get message() {
    return `${this.what} of key '${this.key}' has ${this.bytes} bytes, the limit is ${this.maxBytes}`
  }
}

/**
 * A value does not fit the agent's schema for it. The value is not repeated.
 *
 * @since 0.1.0
 * @category errors
 */
export class Misfit extends Schema.TaggedError<Misfit>()("Misfit", {
  what: Schema.String,
  key: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `${this.what} of key '${this.key}' does not fit its schema: ${this.detail}`
  }
}

/**
 * The activation failed; nothing of it lands.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActivationFailed extends Schema.TaggedError<ActivationFailed>()("ActivationFailed", {
  agent: Schema.String,
  key: Schema.String,
  reason: Reason,
  /** A failure that running again cannot change. */
  final: Schema.Boolean
}) {
  override get message() {
    return `'${this.agent}' failed for key '${this.key}' (${this.reason.tag}): ${this.reason.message}`
  }
}

/**
 * The message a waiting key was woken with does not fit what it waits for; the key keeps waiting.
 *
 * @since 0.1.0
 * @category errors
 */
export class MessageRefused extends Schema.TaggedError<MessageRefused>()("MessageRefused", {
  agent: Schema.String,
  key: Schema.String,
  offset: Schema.Number,
  detail: Schema.String
}) {
  override get message() {
    return `a message to key '${this.key}' of '${this.agent}' does not fit what it waits for: ${this.detail}`
  }
}
