/**
 * The reads of an activation: a ReadOnly call runs its handler once and is answered from the journal ever after.
 *
 * Guarantees: a replay calls no handler. Refuses: SideEffect calls, before their arguments are looked at, and reads that a
 * committed segment did not make.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as State from "./ActivationState.ts"
import type * as CanonicalJson from "./CanonicalJson.ts"
import * as Journal from "./Journal.ts"
import * as Tool from "./Tool.ts"
import * as ToolSchema from "./ToolSchema.ts"

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
    const args = Tool.encodeArguments(call)
    if (Result.isFailure(args)) return Effect.fail(args.failure)
    return journaled(state, {
      name: call.name,
      digest: State.digestOf(args.success),
      body: () => Tool.read(call),
      success: call.tool.success,
      failure: call.tool.failure
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
  return journaled(state, {
    name: `${tool.name}#approval`,
    digest,
    body: () => asked,
    success: booleans,
    failure: booleans
  }) as Effect.Effect<boolean>
}

/**
 * The reason a cause gives, and whether it was a failure, a defect or an interruption.
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

interface Read {
  readonly name: string
  readonly digest: string
  readonly body: () => Effect.Effect<any, any, any>
  readonly success: ToolSchema.ToolSchema<any>
  readonly failure: ToolSchema.ToolSchema<any>
}

const booleans = Result.getOrThrow(ToolSchema.make(Schema.Boolean))

const journaled = (state: State.State, read: Read): Effect.Effect<any, any, any> => {
  const { occurrence, outcome } = state.journal.read(state.segment, read.name, read.digest)
  if (outcome !== undefined) return recorded(state, read, outcome)
  if (state.segment < state.live) {
    return State.abort(
      state,
      new Journal.NonDeterminism({
        agent: state.definition.name,
        key: state.input.key,
        place: `a read of segment ${state.segment}`,
        recorded: "nothing",
        asked: `'${read.name}' (arguments ${read.digest})`
      })
    )
  }
  return ask(state, read, occurrence)
}

const recorded = (state: State.State, read: Read, outcome: Journal.ReadOutcome): Effect.Effect<any, any, any> => {
  switch (outcome._tag) {
    case "Success":
      return decode(read, read.success, outcome.value)
    case "Failure":
      return Effect.flip(decode(read, read.failure, outcome.error))
    case "Defect":
      return Effect.die(new Error(outcome.message))
    case "Interrupted":
      return Effect.never
    case "Suspended": {
      const reached = Effect.callback<void>((resume) => {
        state.whenLive.push(() => resume(Effect.void))
      })
      return Effect.flatMap(reached, () => journaled(state, read))
    }
  }
}

const ask = (state: State.State, read: Read, occurrence: number): Effect.Effect<any, any, any> => {
  const { digest, name } = read
  const row = {
    type: "read" as const,
    segment: state.segment,
    tool: name,
    digest,
    occurrence,
    outcome: { _tag: "Suspended" as const }
  }
  state.inFlight.add(row)
  return Effect.onExit(Effect.provideContext(read.body(), state.ambient), (exit) =>
    Effect.suspend(() => {
      state.inFlight.delete(row)
      if (state.closed) return Effect.void
      const outcome = outcomeOf(read, exit)
      if (Result.isFailure(outcome)) return Effect.die(new Error(outcome.failure))
      state.journal.write({ ...row, outcome: outcome.success })
      state.trace.push({ type: "ToolCall", tool: name, argumentsDigest: digest, outcome: outcome.success._tag })
      return Effect.void
    }))
}

const decode = (
  { name }: Read,
  schema: ToolSchema.ToolSchema<any>,
  json: CanonicalJson.Json
): Effect.Effect<any> => {
  const decoded = schema.decode(json)
  return Result.isFailure(decoded)
    ? Effect.die(new Error(`the journaled result of '${name}' no longer fits its schema`))
    : Effect.succeed(decoded.success)
}

const outcomeOf = (read: Read, exit: Exit.Exit<any, any>): Result.Result<Journal.ReadOutcome, string> => {
  const misfit = () => `the result of '${read.name}' does not fit its schema`
  if (Exit.isSuccess(exit)) {
    return Result.mapBoth(read.success.encode(exit.value), {
      onSuccess: (value) => ({ _tag: "Success", value }),
      onFailure: misfit
    })
  }
  const reason = firstReason(exit.cause)
  if (reason === undefined) return Result.succeed({ _tag: "Interrupted" })
  return reason.kind === "Defect"
    ? Result.succeed({ _tag: "Defect", message: String(reason.error) })
    : Result.mapBoth(read.failure.encode(reason.error), {
      onSuccess: (error) => ({ _tag: "Failure", error }),
      onFailure: misfit
    })
}
