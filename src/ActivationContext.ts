/**
 * The context an agent is handed, made of the moves of `ActivationState`, the reads and the intents.
 *
 * Guarantees: a context knows one activation, and does nothing after its end. Refuses every call then (`ActivationClosed`).
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import { act, editedOf, edits, handOver, request, requestAll, requestApproval, resultOf } from "./ActivationIntents.ts"
import { ask, give, runTool } from "./ActivationReads.ts"
import * as Segment from "./ActivationSegment.ts"
import * as State from "./ActivationState.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import * as Journal from "./Journal.ts"
import type * as Memory from "./Memory.ts"
import type * as Tool from "./Tool.ts"
import * as ToolSchema from "./ToolSchema.ts"

/**
 * The context of a running activation. Its types were checked where the agent was defined; here they are erased.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (state: State.State): Activation.Context<any, any, any> => {
  const context: { readonly [Name in keyof Activation.Context<any, any, any>]: any } = {
    agent: state.definition.name,
    key: state.input.key,
    seq: state.input.seq,
    memory: memoryOf(state),
    resume: state.base.state === undefined ? undefined : resumeOf(state, state.base.state),
    runTool: (call: Tool.ReadOnlyCall<string, any, any, any>) => runTool(state, call),
    act: (call: Activation.AnySideEffectCall, options?: Activation.ActOptions) =>
      State.whenOpen(state, "act", () => act(state, call, options)),
    request: (call: Activation.AnySideEffectCall, options?: Activation.ActOptions) =>
      State.whenOpen(state, "request", () => request(state, call, options)),
    requestAll: (
      calls: { readonly [name: string]: Activation.AnySideEffectCall },
      options?: Activation.ActOptions
    ) => State.whenOpen(state, "requestAll", () => requestAll(state, calls, options)),
    requestApproval: (question: Activation.Question) =>
      State.whenOpen(state, "requestApproval", () => requestApproval(state, question)),
    edits: Effect.orDie(State.whenOpen(state, "edits", () => Effect.sync(() => edits(state)))),
    sleep: (duration: Duration.Input) => State.whenOpen(state, "sleep", () => sleep(state, duration)),
    receive: (schema: Activation.AnyCodec, options?: { readonly timeout?: Duration.Input }) =>
      State.whenOpen(state, "receive", () => receive(state, schema, options)),
    emit: (output: unknown) => State.whenOpen(state, "emit", () => emit(state, output)),
    callModel: (question: Activation.ModelCall<any, any>) =>
      State.whenOpen(state, "callModel", () => callModel(state, question))
  }
  return context
}

// internal

/** The working memory, for as long as the activation runs. */
const memoryOf = (state: State.State): Memory.Memory<any> => {
  const { memory } = state.memory
  const open = <A>(effect: Effect.Effect<A>): Effect.Effect<A> =>
    Effect.orDie(State.whenOpen(state, "memory", () => effect))
  return {
    get: (name) => open(memory.get(name)),
    set: (name, value) => open(memory.set(name, value)),
    update: (name, f) => open(memory.update(name, f)),
    append: (name, item) => open(memory.append(name, item))
  }
}

const sleep = (state: State.State, duration: Duration.Input) =>
  Effect.gen(function*() {
    const millis = yield* State.millisOf(duration, "a sleep")
    const step = yield* State.takeStep(state, { kind: "sleep", name: "sleep", digest: String(millis) }, identity)
    yield* Segment.awaitAnswer(state, step, () => ({ type: "timer", step, millis }))
  })

const receive = (
  state: State.State,
  schema: Activation.AnyCodec,
  options?: { readonly timeout?: Duration.Input }
) =>
  Effect.gen(function*() {
    const { definition: { name: agent }, input: { key } } = state
    const millis = options?.timeout === undefined ? undefined : yield* State.millisOf(options.timeout, "a timeout")
    const place = { kind: "receive" as const, name: "message", digest: String(millis) }
    const step = yield* State.takeStep(state, place, identity)
    const waiting = () => ({ type: "message" as const, step, millis, schema: shownTo(schema) })
    const answer = yield* Segment.awaitAnswer(state, step, waiting)
    if (answer.type !== "message") return yield* new Activation.MessageTimeout({ agent, key })
    const decoded = Activation.codec(schema).decode(answer.message)
    if (Result.isSuccess(decoded)) return decoded.success
    // What its sender could not be told: a check that JSON Schema cannot say. The key keeps waiting.
    const { offset } = answer
    const refused = new Activation.MessageRefused({ agent, key, offset, detail: decoded.failure })
    return yield* State.stop(state, Effect.fail(refused))
  })

const emit = (state: State.State, output: unknown): Effect.Effect<void, Activation.StepError> => {
  const encoded = State.encode(state, state.definition.output, output, "an output")
  if (Result.isFailure(encoded)) return State.abort(state, encoded.failure)
  const { json, text } = encoded.success
  const matched = state.journal.emit(state.segment, state.emissions++, CanonicalJson.digest(text))
  if (Result.isFailure(matched)) return State.abort(state, matched.failure)
  if (state.segment === state.live) state.emitted.push(json)
  return Effect.void
}

const callModel = (state: State.State, { call, failure, model, reply, request }: Activation.ModelCall<any, any>) =>
  Effect.gen(function*() {
    const asked = { model, request, offset: state.input.offset }
    const digest = CanonicalJson.digest(yield* State.canonical(state, asked, `the request to '${model}'`))
    const step = yield* State.takeStep(state, { kind: "model", name: model, digest }, identity)
    const question = {
      name: model,
      body: () => call,
      success: Activation.codec(reply),
      failure: Activation.codec(failure ?? Schema.Never as any)
    }
    const recorded = state.journal.answerAt(step)
    if (recorded?.row.answer.type === "model") {
      return yield* give(state, question, recorded, recorded.row.answer.outcome)
    }
    if (state.segment < state.live) {
      const { definition: { name: agent }, input: { key } } = state
      const asked = `a question to model '${model}'`
      return yield* State.abort(
        state,
        new Journal.NonDeterminism({ agent, key, place: `step ${step}`, recorded: "no answer", asked })
      )
    }
    return yield* ask(state, question, (outcome) => {
      state.journal.write({ type: "answer", segment: state.segment, step, answer: { type: "model", outcome } })
      state.trace.push({ type: "ModelCall", step, model })
      return outcome._tag === "Success" ? append(state) : Effect.void
    })
  })

const identity = (step: number): number => step

/**
 * Makes what the activation knows so far durable, ahead of its commit. Where somebody else was faster, theirs wins: this run
 * ends, and another goes on from what the store holds.
 */
const append = (state: State.State): Effect.Effect<void> => {
  const { append } = state.options
  if (append === undefined) return Effect.void
  const { from, rows } = state.journal.pending()
  const last = rows.at(-1)?.check
  return Effect.matchEffect(append(from, rows, state.known), {
    onSuccess: (stored) => {
      if (stored.at(-1)?.check !== last) return State.stop(state, state.again(stored))
      state.known = last
      return Effect.void
    },
    onFailure: (error) => State.stop(state, Effect.fail(error))
  })
}

/** The JSON Schema a sender's message is held against, where the schema has one. */
const shownTo = (schema: Activation.AnyCodec): ToolSchema.Shown | undefined => {
  const made = ToolSchema.make(schema)
  return Result.isSuccess(made) ? made.success.jsonSchema("draft-2020-12") : undefined
}

const resumeOf = (state: State.State, left: CanonicalJson.Json): Activation.Resume<any> => {
  const { base, definition: { name: agent, state: codec }, input: { key }, journal } = state
  const results = base.awaited.map(({ id, step, tool }) => {
    const answer = journal.answerAt(step)?.row.answer
    const edited = editedOf(answer)
    return { id, tool, result: resultOf(answer), ...(edited && { edited }) }
  })
  return {
    // It was looked at before the activation began.
    state: Result.getOrThrow(codec.decode(left)),
    results,
    result: (tool, id) => {
      const found = results.find((result) => result.id === id)
      if (found?.tool === tool.name) return handOver(state, tool, id, found.result)
      const conflict = {
        stagedTool: found?.tool ?? "nothing",
        stagedDigest: "?",
        askedTool: tool.name,
        askedDigest: "?"
      }
      return Effect.fail(new Intent.IntentConflict({ id, agent, key, ...conflict }))
    }
  }
}
