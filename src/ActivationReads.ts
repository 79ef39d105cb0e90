/**
 * The questions of an activation to the world, reads and model calls: each is asked once and answered from the journal ever
 * after, in the order in which the answers came.
 *
 * Guarantees: a replay calls no handler, and what the agent is given first is what a replay gives it. Refuses: SideEffect
 * calls, before their arguments are looked at, and reads that a committed segment did not make.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import * as State from "./ActivationState.ts"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Journal from "./Journal.ts"
import * as Tool from "./Tool.ts"

/**
 * `ctx.runTool`.
 *
 * @since 0.1.0
 * @category reads
 */
export const runTool = (
  state: State.State,
  call: Tool.ReadOnlyCall<string, any, any, any>
): Effect.Effect<any, any, any> =>
  State.whenOpen(state, "runTool", (): Effect.Effect<any, any, any> => {
    const refusal = Tool.refuse(call, "ReadOnly")
    if (refusal !== undefined) return Effect.fail(refusal)
    const { failure, success } = call.tool
    const text = Result.flatMap(Tool.encodeArguments(call), (args) => Tool.argumentsText(call.tool, args))
    return Result.isFailure(text) ? Effect.fail(text.failure) : read(state, {
      name: call.name,
      digest: CanonicalJson.digest(text.success),
      body: () => Tool.read(call),
      success,
      failure
    })
  })

/**
 * Whether somebody has to approve a call: the tool's rule is asked once and its answer journaled like a read. Only a clear
 * no means no: whatever else the rule answers, or fails to answer, somebody is asked.
 *
 * @since 0.1.0
 * @category reads
 */
export const needsApproval = (
  state: State.State,
  tool: Tool.Any,
  args: unknown,
  digest: string
): Effect.Effect<boolean> => {
  const rule = tool.options.approval
  if (typeof rule !== "function") return Effect.succeed(rule === "required")
  const asked = Effect.suspend(() => rule(args)).pipe(
    Effect.timeout("10 seconds"),
    Effect.map((needed) => needed !== false),
    Effect.catchCause(() => Effect.succeed(true))
  )
  return read(state, {
    name: `${tool.name}#approval`,
    digest,
    body: () => asked,
    success: booleans,
    failure: booleans,
    // The tool has this rule since its intent was staged: it is not asked about the past.
    otherwise: true
  }) as Effect.Effect<boolean>
}

/**
 * A question to the world.
 *
 * @since 0.1.0
 * @category models
 */
export interface Question {
  readonly name: string
  readonly body: () => Effect.Effect<any, any, any>
  readonly success: Codec
  readonly failure: Codec
}

/**
 * What a question needs of a codec.
 *
 * @since 0.1.0
 * @category models
 */
export interface Codec {
  readonly encode: (value: any) => Result.Result<CanonicalJson.Json, unknown>
  readonly decode: (json: any) => Result.Result<unknown, unknown>
}

/**
 * Asks a question now. `write` journals the answer, and what it gives is done before the answer is handed over.
 *
 * @since 0.1.0
 * @category questions
 */
export const ask = (
  state: State.State,
  question: Question,
  write: (outcome: Journal.Outcome) => Effect.Effect<void>
): Effect.Effect<any, any, any> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(restore(Effect.provideContext(question.body(), state.ambient)))
      const outcome = yield* outcomeOf(state, question, exit)
      if (!state.closed) yield* write(outcome)
      return yield* outcome._tag === "Interrupted" ? exit : handOver(question, outcome, exit)
    })
  )

/**
 * Gives a recorded answer when its turn has come; where the agent interrupted the question, it waits for that.
 *
 * @since 0.1.0
 * @category questions
 */
export const give = (
  state: State.State,
  question: Question,
  stored: Journal.Stored,
  outcome: Journal.Outcome
): Effect.Effect<any, any> =>
  outcome._tag === "Interrupted" ? Effect.never : Effect.flatMap(state.replay.turn(stored), () => {
    state.journal.pass(stored)
    return handOver(question, outcome)
  })

/**
 * The reason a cause gives, and whether it was a failure or a defect; `undefined` for an interruption.
 *
 * @since 0.1.0
 * @category causes
 */
export const firstReason = (
  cause: Cause.Cause<unknown>
): { readonly kind: "Failure" | "Defect"; readonly error: unknown } | undefined => {
  const failure = cause.reasons.find(Cause.isFailReason)
  if (failure !== undefined) return { kind: "Failure", error: failure.error }
  const defect = cause.reasons.find(Cause.isDieReason)
  return defect === undefined ? undefined : { kind: "Defect", error: defect.defect }
}

// internal

interface Read extends Question {
  readonly digest: string
  /** What is given where a committed segment did not make this read. */
  readonly otherwise?: unknown
}

const booleans = Activation.codec(Schema.Boolean)

/** Finds the place of a read at once; waits for `pause` before anything is done there. */
const read = (
  state: State.State,
  question: Read,
  pause: Effect.Effect<void> = Effect.void
): Effect.Effect<any, any, any> => {
  const { digest, name } = question
  const { segment } = state
  const { occurrence, recorded } = state.journal.read(segment, name, digest)
  if (recorded !== undefined) return Effect.andThen(pause, replayed(state, question, recorded))
  if (segment < state.live) {
    if (question.otherwise !== undefined) return Effect.succeed(question.otherwise)
    return State.abort(
      state,
      new Journal.NonDeterminism({
        agent: state.definition.name,
        key: state.input.key,
        place: `read ${occurrence} of '${name}' in segment ${segment}`,
        recorded: "nothing",
        asked: `'${name}' (arguments ${digest})`
      })
    )
  }
  const row = (outcome: Journal.Outcome) => ({
    type: "read" as const,
    segment,
    tool: name,
    digest,
    occurrence,
    outcome
  })
  const underWay = row({ _tag: "Suspended" })
  state.inFlight.add(underWay)
  const paused = pause === Effect.void ? question : { ...question, body: () => Effect.andThen(pause, question.body()) }
  return ask(state, paused, (outcome) =>
    Effect.sync(() => {
      state.inFlight.delete(underWay)
      state.journal.write(row(outcome))
      state.trace.push({ type: "ToolCall", tool: name, argumentsDigest: digest, outcome: outcome._tag })
    }))
}

const replayed = (
  state: State.State,
  question: Read,
  stored: Journal.StoredOf<"read">
): Effect.Effect<any, any, any> => {
  const { outcome } = stored.row
  if (outcome._tag !== "Suspended") return give(state, question, stored, outcome)
  return Effect.callback((resume) => {
    // Whoever begins the next segment goes on first.
    const wake = () => resume(read(state, question, Effect.yieldNow))
    state.whenNext.add(wake)
    return Effect.sync(() => {
      state.whenNext.delete(wake)
    })
  })
}

const outcomeOf = (
  state: State.State,
  question: Question,
  exit: Exit.Exit<any, any>
): Effect.Effect<Journal.Outcome> => {
  if (Exit.isSuccess(exit)) {
    return encoded(state, question, question.success.encode(exit.value), (value) => ({ _tag: "Success", value }))
  }
  const reason = firstReason(exit.cause)
  if (reason?.kind === "Failure") {
    return encoded(state, question, question.failure.encode(reason.error), (error) => ({ _tag: "Failure", error }))
  }
  if (reason !== undefined) return Effect.succeed(defectOf(reason.error))
  // A body that interrupts itself is no interruption by the agent: nobody would interrupt it again on replay.
  return Effect.map(
    Effect.exit(Effect.interruptible(Effect.void)),
    (probe) =>
      Exit.isFailure(probe) ? { _tag: "Interrupted" } : defectOf(new Error(`'${question.name}' interrupted itself`))
  )
}

const encoded = (
  state: State.State,
  { name }: Question,
  json: Result.Result<CanonicalJson.Json, unknown>,
  outcome: (json: CanonicalJson.Json) => Journal.Outcome
): Effect.Effect<Journal.Outcome> => {
  if (Result.isFailure(json)) {
    return Effect.succeed(defectOf(new Error(`the result of '${name}' does not fit its schema`)))
  }
  const tooLarge = State.sizeIssue(state, JSON.stringify(json.success), `the result of '${name}'`)
  return tooLarge === undefined ? Effect.succeed(outcome(json.success)) : Effect.orDie(State.abort(state, tooLarge))
}

const defectOf = (defect: unknown): Journal.Outcome => {
  const { message, name } = defect instanceof Error ? defect : new Error(String(defect))
  return { _tag: "Defect", name, message: message.slice(0, 2000) }
}

/** The answer in the form in which it is journaled: what the agent sees now is what it sees on replay. */
const handOver = (
  question: Question,
  outcome: Journal.Outcome,
  exit?: Exit.Exit<any, any>
): Effect.Effect<any, any> => {
  switch (outcome._tag) {
    case "Success":
      return decode(question, question.success.decode(outcome.value))
    case "Failure":
      return Effect.flip(decode(question, question.failure.decode(outcome.error)))
    case "Defect": {
      const cause = exit !== undefined && Exit.isFailure(exit) ? { cause: Cause.squash(exit.cause) } : undefined
      return Effect.die(Object.assign(new Error(outcome.message, cause), { name: outcome.name }))
    }
    default:
      return Effect.never
  }
}

const decode = ({ name }: Question, decoded: Result.Result<unknown, unknown>): Effect.Effect<any> =>
  Result.isFailure(decoded)
    ? Effect.die(new Error(`the journaled answer of '${name}' no longer fits its schema`))
    : Effect.succeed(decoded.success)
