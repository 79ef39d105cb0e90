/**
 * What the end of a handler comes to, as it is recorded.
 *
 * Guarantees: a typed failure is a performed intent, whatever it is called; a defect, a timeout or an interruption says
 * nothing about what happened outside, so it is an unknown end. What a handler with secrets dies of is never repeated, and
 * what it answers is recorded without them.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type * as CanonicalJson from "./CanonicalJson.ts"
import { mask, maskText } from "./EffectorSecrets.ts"
import type * as Intent from "./Intent.ts"
import * as Ledger from "./Ledger.ts"
import type * as Tool from "./Tool.ts"
import type * as ToolSchema from "./ToolSchema.ts"

/**
 * How a handler, or a `verify`, came to its end.
 *
 * @since 0.1.0
 * @category models
 */
export interface Ending {
  /** `undefined` while it still runs. */
  readonly exit: Exit.Exit<unknown, unknown> | undefined
  /** The timeout that passed. */
  readonly timedOut: Duration.Duration | undefined
  readonly running: Fiber.Fiber<unknown, unknown> | undefined
}

/**
 * What must not be recorded of a result: more than `maxBytes` of JSON, and what the handler was told in confidence.
 *
 * @since 0.1.0
 * @category models
 */
export interface Bounds {
  readonly maxBytes: number
  readonly secrets: ReadonlyArray<string>
}

/**
 * Whether it was interrupted before it came to an end of its own.
 *
 * @since 0.1.0
 * @category guards
 */
export const isInterrupted = ({ exit }: Ending): boolean =>
  exit !== undefined && Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)

/**
 * The result of a handler.
 *
 * @since 0.1.0
 * @category destructors
 */
export const ofHandler = (tool: Tool.Any, entry: Ledger.Entry, ending: Ending, bounds: Bounds): Intent.Result => {
  const { exit, timedOut } = ending
  const what = describe(entry)
  if (exit === undefined || (timedOut !== undefined && isInterrupted(ending))) {
    return Ledger.unknown("TimedOut", `${what} did not end within ${Duration.format(timedOut ?? Duration.zero)}`)
  }
  if (Exit.isSuccess(exit)) return ofSuccess(tool, exit.value, bounds)
  const failure = exit.cause.reasons.find(Cause.isFailReason)
  if (failure !== undefined) return ofFailure(tool, failure.error, bounds)
  const defect = exit.cause.reasons.find(Cause.isDieReason)
  if (defect === undefined) return Ledger.unknown("Crashed", `${what} was interrupted while it ran`)
  return Ledger.unknown("Defect", `${what} died${isSecret(tool) ? "" : `: ${textOf(defect.defect)}`}`)
}

/**
 * What a `verify` says of an unknown end: the end, or that it stays unknown.
 *
 * @since 0.1.0
 * @category destructors
 */
export const ofVerify = (
  tool: Tool.Any,
  entry: Ledger.Entry,
  { exit }: Ending,
  bounds: Bounds
): Effect.Effect<Intent.Result> => {
  const unknown = entry.result ?? Ledger.unknown("Crashed", `${describe(entry)} left no record`)
  if (exit === undefined || Exit.isFailure(exit)) {
    const why = exit === undefined ? "did not end in time" : isSecret(tool) ? "failed" : Cause.pretty(exit.cause)
    return Effect.as(Effect.logWarning(`verify of ${describe(entry)}: ${why}`), unknown)
  }
  // A handler's layer takes a `verify` of this type only.
  const verdict = exit.value as Tool.Verdict<unknown, unknown>
  switch (verdict._tag) {
    case "Performed":
      return Effect.succeed(ofSuccess(tool, verdict.value, bounds))
    case "Failed":
      return Effect.succeed(ofFailure(tool, verdict.error, bounds))
    case "NotPerformed":
      return Effect.succeed(Ledger.notPerformed("Rejected", "verified: it did not happen"))
    case "Unknown":
      return Effect.succeed(unknown)
  }
}

/**
 * What is recorded in place of a result that the store does not take. The store's own words may quote it.
 *
 * @since 0.1.0
 * @category destructors
 */
export const unrecorded = (detail: string, { secrets }: Bounds): Intent.Result => ({
  _tag: "Unavailable",
  message: `the store did not take it: ${maskText(detail, secrets).slice(0, 500).toWellFormed()}`
})

/**
 * An intent by tool, key and id.
 *
 * @since 0.1.0
 * @category destructors
 */
export const describe = ({ intent }: Ledger.Entry): string =>
  `'${intent.tool}' for key '${intent.key}' (intent ${intent.id})`

// internal

const isSecret = (tool: Tool.Any): boolean => tool.parameters.redacted.length > 0

const ofSuccess = (tool: Tool.Any, value: unknown, bounds: Bounds): Intent.Result =>
  handed(tool.success, value, bounds, {
    fits: (value) => ({ _tag: "Success", value }),
    misfit: "it does not fit the tool's success schema"
  })

const ofFailure = (tool: Tool.Any, error: unknown, bounds: Bounds): Intent.Result =>
  handed(tool.failure, error, bounds, {
    fits: (error) => ({ _tag: "Failure", error }),
    misfit: "it failed with what its failure schema does not know"
  })

const handed = (
  schema: ToolSchema.ToolSchema<any>,
  value: unknown,
  { maxBytes, secrets }: Bounds,
  options: { readonly fits: (json: CanonicalJson.Json) => Intent.Result; readonly misfit: string }
): Intent.Result => {
  const encoded = schema.encode(value)
  if (Result.isFailure(encoded)) return { _tag: "Unavailable", message: options.misfit }
  const json = mask(encoded.success, secrets)
  const bytes = Buffer.byteLength(JSON.stringify(json) ?? "")
  return bytes <= maxBytes
    ? options.fits(json)
    : { _tag: "Unavailable", message: `it has ${bytes} bytes, the limit is ${maxBytes}` }
}

const textOf = (defect: unknown): string => {
  const text = defect instanceof Error ? defect.message || defect.name : typeof defect === "string" ? defect : ""
  return text === "" ? typeof defect : text.slice(0, 2000)
}
