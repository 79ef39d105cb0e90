/**
 * The intents of an activation: staging SideEffect calls, and handing over what became of them.
 *
 * Guarantees: a SideEffect call becomes data, never runs. Refuses: ReadOnly calls, tools nobody performs, and arguments that do
 * not fit, before anything is staged.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Activation from "./Activation.ts"
import { needsApproval } from "./ActivationReads.ts"
import * as Segment from "./ActivationSegment.ts"
import * as State from "./ActivationState.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Journal from "./Journal.ts"
import * as Signing from "./Signing.ts"
import * as Tool from "./Tool.ts"
import { isEscalation } from "./ToolDefinition.ts"

/**
 * `ctx.act`.
 *
 * @since 0.1.0
 * @category intents
 */
export const act = (
  state: State.State,
  call: Activation.AnySideEffectCall,
  options?: Activation.ActOptions
): Effect.Effect<Intent.Id, any> =>
  Effect.gen(function*() {
    const { id, step, tool } = yield* stage(state, "act", yield* prepare(state, call, options))
    state.open.push({ id, step, tool: tool.name })
    return id
  })

/**
 * `ctx.request`.
 *
 * @since 0.1.0
 * @category intents
 */
export const request = (
  state: State.State,
  call: Activation.AnySideEffectCall,
  options?: Activation.ActOptions
): Effect.Effect<any, any> =>
  Effect.gen(function*() {
    const { id, step, tool } = yield* stage(state, "request", yield* prepare(state, call, options))
    const answer = yield* Segment.awaitAnswer(state, step, () => ({ type: "intent", step, id }))
    return yield* handOver(state, tool, id, resultOf(answer))
  })

/**
 * `ctx.requestAll`.
 *
 * @since 0.1.0
 * @category intents
 */
export const requestAll = (
  state: State.State,
  calls: { readonly [name: string]: Activation.AnySideEffectCall },
  options?: Activation.ActOptions
): Effect.Effect<{ readonly [name: string]: any }, any> =>
  Effect.gen(function*() {
    // All are checked before the first is staged.
    const prepared: Array<readonly [name: string, call: Prepared]> = []
    for (const [name, call] of Object.entries(calls)) {
      prepared.push([name, yield* prepare(state, call, options, prepared.length)])
    }
    if (prepared.length === 0) return {}
    const staged: Array<readonly [name: string, place: Staged]> = []
    for (const [name, call] of prepared) staged.push([name, yield* stage(state, "request", call)])
    const answers = staged.map(([_, { step }]) => state.journal.answerAt(step))
    if (answers.includes(undefined)) {
      return yield* Segment.suspend(state, staged.map(([_, { id, step }]) => ({ type: "intent", id, step })))
    }
    yield* Segment.next(state)
    const results: Array<readonly [name: string, value: unknown]> = []
    for (const [index, [name, { id, tool }]] of staged.entries()) {
      results.push([name, yield* handOver(state, tool, id, resultOf(answers[index]?.row.answer))])
    }
    return Object.fromEntries(results)
  })

/**
 * `ctx.requestApproval`.
 *
 * @since 0.1.0
 * @category intents
 */
export const requestApproval = (
  state: State.State,
  question: Activation.Question
): Effect.Effect<Activation.Decision, Activation.StepError> =>
  Effect.gen(function*() {
    const { details = null, escalation = [], title } = question
    const text = yield* State.canonical(state, { title, details }, "a question to approve")
    const timeout = yield* positive(question.timeout ?? "24 hours", "the timeout of an approval")
    if (!isEscalation(escalation)) {
      return yield* Effect.die(new RangeError("the escalation of an approval is not a list of at most 10 names"))
    }
    const digest = CanonicalJson.digest(text)
    const { id, step } = yield* State.takeStep(state, { kind: "approval", name: title, digest }, (step) =>
      draft(state, step, {
        kind: "approval",
        tool: "approval",
        contract: "approval",
        arguments: text,
        argumentsDigest: digest,
        sealed: undefined,
        ttl: timeout,
        approval: "required",
        approvalTimeout: timeout,
        escalation,
        idempotent: false,
        verify: false,
        transactional: false,
        signature: undefined
      }))
    const answer = yield* Segment.awaitAnswer(state, step, () => ({ type: "intent", step, id }))
    if (answer.type === "decision") {
      return { approved: answer.approved, by: answer.by }
    }
    const result = resultOf(answer)
    const policy = result._tag === "NotPerformed" ? result.reason : result._tag
    return { approved: false, by: `policy:${policy.toLowerCase()}` }
  })

/**
 * The result an answer holds.
 *
 * @since 0.1.0
 * @category results
 */
export const resultOf = (answer: Journal.Answer | undefined): Intent.Result =>
  answer?.type === "intent"
    ? answer.result
    : { _tag: "Unavailable", message: `the journal holds ${answer?.type ?? "nothing"} in its place` }

/**
 * What a person changed in the call an answer is about, if so.
 *
 * @since 0.1.0
 * @category results
 */
export const editedOf = (answer: Journal.Answer | undefined): Activation.Edited | undefined => {
  const edited = answer?.type === "intent" ? answer.edited : undefined
  return edited && { by: edited.by, arguments: Result.getOrThrow(CanonicalJson.parse(edited.arguments)) }
}

/**
 * `ctx.edits`.
 *
 * @since 0.1.0
 * @category results
 */
export const edits = (state: State.State): ReadonlyArray<Activation.Edit> => {
  const { base, definition: { name: agent }, input: { key, seq }, journal } = state
  const edits: Array<Activation.Edit> = []
  for (let step = 0; step < state.step; step++) {
    // A replay holds later answers too, but whoever takes a step that has one is given it at once.
    const edited = editedOf(journal.answerAt(step)?.row.answer)
    if (edited === undefined) continue
    // The step of what `Suspend` waited for is not in the journal any more.
    const tool = journal.stepAt(step)?.row.name ?? base.awaited.find((awaited) => awaited.step === step)?.tool ?? "?"
    edits.push({ id: Intent.makeId(agent, key, seq, step), tool, ...edited })
  }
  return edits
}

/**
 * A result as the agent sees it.
 *
 * @since 0.1.0
 * @category results
 */
export const handOver = (
  { input: { key } }: State.State,
  tool: Tool.Any,
  id: Intent.Id,
  result: Intent.Result
): Effect.Effect<any, any> => {
  const place = { id, tool: tool.name, key }
  const unavailable = (detail: string) => Effect.fail(new Intent.ResultUnavailable({ ...place, detail }))
  switch (result._tag) {
    case "Success": {
      const value = tool.success.decode(result.value)
      return Result.isSuccess(value)
        ? Effect.succeed(value.success)
        : unavailable("it does not fit the tool's success schema")
    }
    case "Failure": {
      const error = tool.failure.decode(result.error)
      return Result.isSuccess(error)
        ? Effect.fail(error.success)
        : unavailable("it does not fit the tool's failure schema")
    }
    case "Unavailable":
      return unavailable(result.message)
    case "NotPerformed":
      return Effect.fail(new Intent.IntentNotPerformed({ ...place, reason: result.reason, detail: result.message }))
    case "OutcomeUnknown":
      return Effect.fail(new Intent.IntentOutcomeUnknown({ ...place, reason: result.reason, detail: result.message }))
  }
}

// internal

/** A call that was checked: nothing stands in the way of staging it. Times are milliseconds. */
interface Prepared {
  readonly tool: Tool.Any
  readonly args: CanonicalJson.Json
  readonly text: string
  readonly digest: string
  readonly ttl: number
  readonly approvalTimeout: number | undefined
}

interface Place {
  readonly id: Intent.Id
  readonly step: number
}

interface Staged extends Place {
  readonly tool: Tool.Any
}

const prepare = (
  state: State.State,
  call: Activation.AnySideEffectCall,
  given: Activation.ActOptions | undefined,
  /** How many calls are staged before it. */
  ahead = 0
): Effect.Effect<Prepared, any> =>
  Effect.gen(function*() {
    const refusal = Tool.refuse(call, "SideEffect") ?? state.options.refuse?.(call.tool)
    if (refusal !== undefined) return yield* Effect.fail(refusal)
    const tool = call.tool
    const { approvalTimeout = "24 hours", ttl = "24 hours" } = tool.options
    const args = yield* Effect.fromResult(Tool.encodeArguments(call))
    const text = yield* Effect.fromResult(Tool.argumentsText(tool, args))
    const tooLarge = State.sizeIssue(state, text, `the arguments of '${tool.name}'`)
    if (tooLarge !== undefined) return yield* State.abort(state, tooLarge)
    const digest = digestOf(state, tool, text, state.step + ahead)
    return {
      tool,
      args,
      text,
      digest,
      ttl: yield* positive(given?.ttl ?? ttl, `the ttl of '${tool.name}'`),
      approvalTimeout: (yield* needsApproval(state, tool, call.arguments, digest))
        ? yield* positive(approvalTimeout, `the approval timeout of '${tool.name}'`)
        : undefined
    }
  })

/**
 * The digest of arguments: by a key where they hold secrets, which could be guessed from a plain one. A replay gives the one
 * that was recorded, by whatever key, if it is that of these arguments.
 */
const digestOf = (
  { journal, options: { signing } }: State.State,
  tool: Tool.Any,
  text: string,
  step: number
): string => {
  if (signing === undefined || tool.parameters.redacted.length === 0) return CanonicalJson.digest(text)
  const recorded = journal.stepAt(step)?.row.digest
  const isSame = recorded !== undefined && Result.getOrElse(Signing.matches(signing.ring, recorded, text), () => false)
  return isSame ? recorded : Signing.digest(signing.ring, text)
}

const positive = (duration: Duration.Input, what: string): Effect.Effect<number> =>
  Effect.flatMap(
    State.millisOf(duration, what),
    (millis) => millis > 0 ? Effect.succeed(millis) : Effect.die(new RangeError(`${what} is not positive`))
  )

const stage = (
  state: State.State,
  kind: "act" | "request",
  { approvalTimeout, args, digest, text, tool, ttl }: Prepared
): Effect.Effect<Staged, Activation.StepError> =>
  State.takeStep(state, { kind, name: tool.name, digest }, (step) => ({
    ...draft(state, step, {
      kind: "tool",
      tool: tool.name,
      contract: tool.contract,
      arguments: Tool.publicArguments(tool, args, text),
      argumentsDigest: digest,
      sealed: tool.parameters.redacted.length === 0 ? undefined : new Intent.Sealed(text),
      ttl,
      approval: approvalTimeout === undefined ? "none" : "required",
      approvalTimeout,
      idempotent: tool.options.idempotent === true,
      verify: tool.options.verify === true,
      transactional: tool.options.transactional === true,
      escalation: tool.options.escalation ?? [],
      signature: undefined
    }),
    tool
  }))

/** Stages an intent, unless that is committed, and gives its place. */
const draft = (
  state: State.State,
  step: number,
  intent: Omit<Intent.Draft, "id" | "agent" | "key" | "seq" | "step" | "traceId">
): Place => {
  const { definition: { name: agent }, input: { key, seq } } = state
  const id = Intent.makeId(agent, key, seq, step)
  if (state.segment === state.live) {
    state.intents.push({ ...intent, id, agent, key, seq, step, traceId: Intent.traceId(agent, key, seq) })
    state.trace.push({ type: "IntentStaged", step, tool: intent.tool, id })
  }
  return { id, step }
}
