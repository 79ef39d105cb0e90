/**
 * The context an agent is handed, made of the moves of `ActivationState` and the reads of `ActivationReads`.
 *
 * Guarantees: a SideEffect call is staged as data, never run. Refuses: ReadOnly calls as intents, tools nobody performs, and
 * arguments that do not fit, before anything is staged.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import { needsApproval, runTool } from "./ActivationReads.ts"
import * as State from "./ActivationState.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Tool from "./Tool.ts"
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
    memory: state.memory.memory,
    resume: state.base.state === undefined ? undefined : resumeOf(state, state.base.state),
    runTool: (call: Tool.ReadOnlyCall<string, any, any, any>) => runTool(state, call),
    act: (call: Activation.AnySideEffectCall, options?: Activation.ActOptions) =>
      Effect.map(stage(state, "act", call, options), ({ id }) => id),
    request: (call: Activation.AnySideEffectCall, options?: Activation.ActOptions) => request(state, call, options),
    requestAll: (calls: Calls, options?: Activation.ActOptions) => requestAll(state, calls, options),
    requestApproval: (question: Question) => requestApproval(state, question),
    sleep: (duration: Duration.Input) => sleep(state, duration),
    receive: (schema: AnyCodec, options?: { readonly timeout?: Duration.Input }) => receive(state, schema, options),
    emit: (output: unknown) => emit(state, output),
    callModel: (call: Activation.ModelCall<any, any>) => callModel(state, call)
  }
  return context
}

// internal

type AnyCodec = Schema.Codec<any, any, never, never>

type Calls = Readonly<Record<string, Activation.AnySideEffectCall>>

type Question = Parameters<Activation.Context<any, any, any>["requestApproval"]>[0]

interface Staged {
  readonly id: Intent.Id
  readonly step: number
  readonly tool: Tool.Any
}

/** Stages a call and gives its place; in a committed segment only the place. */
const stage = (
  state: State.State,
  kind: "act" | "request",
  call: Activation.AnySideEffectCall,
  given: Activation.ActOptions | undefined
): Effect.Effect<Staged, any> =>
  State.whenOpen(state, kind, () =>
    Effect.gen(function*() {
      const refusal = Tool.refuse(call, "SideEffect") ?? state.options.refuse?.(call.tool)
      if (refusal !== undefined) return yield* Effect.fail(refusal)
      const tool = call.tool
      const args = yield* Effect.fromResult(Tool.encodeArguments(call))
      const text = yield* Effect.fromResult(Tool.argumentsText(tool, args))
      const bytes = Buffer.byteLength(text)
      const { maxBytes } = state.definition
      if (bytes > maxBytes) {
        const what = `the arguments of '${tool.name}'`
        return yield* State.abort(state, new Activation.TooLarge({ what, key: state.input.key, bytes, maxBytes }))
      }
      const digest = CanonicalJson.digest(text)
      const step = yield* State.takeStep(state, kind, tool.name, digest)
      const staged = { id: idOf(state, step), step, tool }
      if (kind === "act") state.open.push({ id: staged.id, step, tool: tool.name })
      if (state.segment < state.live) return staged
      const ttl = State.millisOf(given?.ttl ?? tool.options.ttl ?? "24 hours")
      if (!(ttl > 0)) return yield* Effect.die(new RangeError(`the ttl of '${tool.name}' must be positive`))
      const gated = yield* needsApproval(state, tool, call.arguments, digest)
      draft(state, {
        id: staged.id,
        step,
        kind: "tool",
        tool: tool.name,
        contract: tool.contract,
        arguments: Tool.publicArguments(tool, args, text),
        argumentsDigest: digest,
        sealed: tool.parameters.redacted.length === 0 ? undefined : new Intent.Sealed(text),
        ttl,
        approval: gated ? "required" : "none",
        approvalTimeout: gated ? State.millisOf(tool.options.approvalTimeout ?? "24 hours") : undefined,
        idempotent: tool.options.idempotent === true,
        verify: tool.options.verify === true
      })
      return staged
    }))

const idOf = ({ definition, input }: State.State, step: number): Intent.Id =>
  Intent.makeId(definition.name, input.key, input.seq, step)

const draft = (state: State.State, intent: Omit<Intent.Draft, "agent" | "key" | "seq" | "traceId">): void => {
  const { definition: { name: agent }, input: { key, seq } } = state
  state.intents.push({ ...intent, agent, key, seq, traceId: Intent.traceId(agent, key, seq) })
  state.trace.push({ type: "IntentStaged", step: intent.step, tool: intent.tool, id: intent.id })
}

const request = (state: State.State, call: Activation.AnySideEffectCall, options?: Activation.ActOptions) =>
  Effect.gen(function*() {
    const { id, step, tool } = yield* stage(state, "request", call, options)
    const answer = yield* State.awaitAnswer(state, { type: "intent", step, id })
    return yield* handOver(tool, state.input.key, id, resultOf(answer))
  })

const requestAll = (state: State.State, calls: Calls, options?: Activation.ActOptions) =>
  Effect.gen(function*() {
    const staged: Array<readonly [name: string, place: Staged]> = []
    for (const [name, call] of Object.entries(calls)) {
      staged.push([name, yield* stage(state, "request", call, options)])
    }
    if (staged.length === 0) return {}
    const waiting = staged.filter(([_, { step }]) => state.journal.answer(step) === undefined)
    if (waiting.length > 0) {
      return yield* State.suspend(state, waiting.map(([_, { id, step }]) => ({ type: "intent", id, step })))
    }
    yield* State.nextSegment(state)
    const results: Array<readonly [name: string, value: unknown]> = []
    for (const [name, { id, step, tool }] of staged) {
      results.push([name, yield* handOver(tool, state.input.key, id, resultOf(state.journal.answer(step)))])
    }
    return Object.fromEntries(results)
  })

const requestApproval = (state: State.State, question: Question) =>
  State.whenOpen(state, "requestApproval", () =>
    Effect.gen(function*() {
      const text = Result.getOrThrow(
        CanonicalJson.encode({ title: question.title, details: question.details ?? null })
      )
      const digest = CanonicalJson.digest(text)
      const step = yield* State.takeStep(state, "approval", question.title, digest)
      const id = idOf(state, step)
      if (state.segment === state.live) {
        const timeout = State.millisOf(question.timeout ?? "24 hours")
        draft(state, {
          id,
          step,
          kind: "approval",
          tool: "approval",
          contract: "approval",
          arguments: text,
          argumentsDigest: digest,
          sealed: undefined,
          ttl: timeout,
          approval: "required",
          approvalTimeout: timeout,
          idempotent: false,
          verify: false
        })
      }
      const answer = yield* State.awaitAnswer(state, { type: "intent", step, id })
      if (answer.type === "decision") return { approved: answer.approved, by: answer.by }
      return { approved: false, by: `policy:${reasonOf(answer).toLowerCase()}` }
    }))

const sleep = (state: State.State, duration: Duration.Input) =>
  State.whenOpen(state, "sleep", () => {
    const millis = State.millisOf(duration)
    return Effect.flatMap(
      State.takeStep(state, "sleep", "sleep", String(millis)),
      (step) => Effect.asVoid(State.awaitAnswer(state, { type: "timer", step, millis }))
    )
  })

const receive = (state: State.State, schema: AnyCodec, options?: { readonly timeout?: Duration.Input }) =>
  State.whenOpen(state, "receive", () =>
    Effect.gen(function*() {
      const { definition: { name: agent }, input: { key } } = state
      const millis = options?.timeout === undefined ? undefined : State.millisOf(options.timeout)
      const step = yield* State.takeStep(state, "receive", "message", String(millis))
      const answer = yield* State.awaitAnswer(state, { type: "message", step, millis, schema: shownTo(schema) })
      if (answer.type !== "message") return yield* new Activation.MessageTimeout({ agent, key })
      const decoded = Activation.codec(schema).decode(answer.message)
      if (Result.isSuccess(decoded)) return decoded.success
      // What its sender could not be told: a check that JSON Schema cannot say. The key keeps waiting.
      state.closed = true
      const refused = new Activation.MessageRefused({ agent, key, offset: answer.offset, detail: decoded.failure })
      state.end(Effect.fail(refused))
      return yield* Effect.never
    }))

const emit = (state: State.State, output: unknown): Effect.Effect<void, Activation.StepError> =>
  State.whenOpen(state, "emit", (): Effect.Effect<void, Activation.StepError> => {
    const encoded = State.encode(state, state.definition.output, output, "an output")
    if (Result.isFailure(encoded)) return State.abort(state, encoded.failure)
    const matched = state.journal.emit(state.segment, state.emissions++, State.digestOf(encoded.success))
    if (Result.isFailure(matched)) return State.abort(state, matched.failure)
    if (state.segment === state.live) state.emitted.push(encoded.success)
    return Effect.void
  })

const callModel = (state: State.State, { call, model, reply, request }: Activation.ModelCall<any, any>) =>
  State.whenOpen(state, "callModel", () =>
    Effect.gen(function*() {
      const codec = Activation.codec(reply)
      const digest = State.digestOf({ model, request, offset: state.input.offset })
      const step = yield* State.takeStep(state, "model", model, digest)
      if (state.journal.answer(step) === undefined) {
        const value = yield* Effect.provideContext(call, state.ambient)
        const encoded = State.encode(state, codec, value, `the reply of model '${model}'`)
        if (Result.isFailure(encoded)) return yield* State.abort(state, encoded.failure)
        const answer: Journal.Answer = { type: "reply", reply: encoded.success }
        state.journal.write({ type: "answer", segment: state.segment, step, answer })
        state.trace.push({ type: "ModelCall", step, model })
        yield* append(state)
      }
      const answer = state.journal.answer(step)
      return answer?.type === "reply"
        ? Result.getOrThrow(codec.decode(answer.reply))
        : yield* Effect.die(new Error(`the journal has no reply of model '${model}' at step ${step}`))
    }))

/** Makes what the activation knows so far durable, ahead of its commit; what the store already holds wins. */
const append = (state: State.State): Effect.Effect<void, unknown> => {
  if (state.options.append === undefined) return Effect.void
  const { from, rows } = state.journal.pending()
  return Effect.flatMap(
    Effect.catch(state.options.append(from, rows), (error) => State.abort(state, error)),
    (stored) => {
      const adopted = stored === rows ? Result.void : state.journal.adopt(stored)
      return Result.isFailure(adopted) ? State.abort(state, adopted.failure) : Effect.void
    }
  )
}

/** The JSON Schema a sender's message is held against, where the schema has one. */
const shownTo = (schema: AnyCodec): ToolSchema.Shown | undefined => {
  const made = ToolSchema.make(schema)
  return Result.isSuccess(made) ? made.success.jsonSchema("draft-2020-12") : undefined
}

const resultOf = (answer: Journal.Answer | undefined): Intent.Result =>
  answer?.type === "intent"
    ? answer.result
    : { _tag: "Unavailable", message: `the journal holds ${answer?.type ?? "nothing"} in its place` }

const reasonOf = (answer: Journal.Answer): string => {
  const result = resultOf(answer)
  return result._tag === "NotPerformed" ? result.reason : result._tag
}

/** A result as the agent sees it. */
const handOver = (tool: Tool.Any, key: string, id: Intent.Id, result: Intent.Result): Effect.Effect<any, any> => {
  const place = { id, tool: tool.name, key }
  const unavailable = (detail: string) => new Intent.ResultUnavailable({ ...place, detail })
  switch (result._tag) {
    case "Success":
      return Effect.mapError(
        Effect.fromResult(tool.success.decode(result.value)),
        () => unavailable("it does not fit the tool's success schema")
      )
    case "Failure": {
      const error = tool.failure.decode(result.error)
      const misfit = () => unavailable("it does not fit the tool's failure schema")
      return Effect.fail(Result.isSuccess(error) ? error.success : misfit())
    }
    case "Unavailable":
      return Effect.fail(unavailable(result.message))
    case "NotPerformed":
      return Effect.fail(new Intent.IntentNotPerformed({ ...place, reason: result.reason, detail: result.message }))
    case "OutcomeUnknown":
      return Effect.fail(new Intent.IntentOutcomeUnknown({ ...place, reason: result.reason, detail: result.message }))
  }
}

const resumeOf = (state: State.State, left: CanonicalJson.Json): Activation.Resume<any> => {
  const { base, definition: { name: agent, state: codec }, input: { key }, journal } = state
  const results = base.awaited.map(({ id, step, tool }) => ({ id, tool, result: resultOf(journal.answer(step)) }))
  return {
    state: Result.getOrThrow(codec.decode(left)),
    results,
    result: (tool, id) => {
      const found = results.find((result) => result.id === id)
      if (found?.tool === tool.name) return handOver(tool, key, id, found.result)
      const stagedTool = found?.tool ?? "nothing"
      return Effect.fail(
        new Intent.IntentConflict({
          id,
          agent,
          key,
          stagedTool,
          stagedDigest: "",
          askedTool: tool.name,
          askedDigest: ""
        })
      )
    }
  }
}
