/**
 * Whether an intent may be believed: who signed it and the decision about it, and whether its arguments are those that were
 * staged.
 *
 * Guarantees: nothing is decided here by what the intent says of itself alone.
 *
 * @since 0.1.0
 */
import * as Metric from "effect/Metric"
import * as Result from "effect/Result"
import * as CanonicalJson from "./CanonicalJson.ts"
import * as Intent from "./Intent.ts"
import type * as Ledger from "./Ledger.ts"
import * as Signing from "./Signing.ts"

/**
 * Counts intents and decisions without a signature that were let through (`permissive`).
 *
 * @since 0.1.0
 * @category metrics
 */
export const unsigned = Metric.counter("effect_intents_unsigned", {
  description: "intents and decisions without a signature that were let through",
  incremental: true
})

/**
 * Why an intent is not believed, if it is not: its own signature, or the one of the decision that let it through.
 *
 * @since 0.1.0
 * @category guards
 */
export const refusal = (
  signing: Signing.Signing | undefined,
  { decision, intent }: Ledger.Entry
): Signing.SignatureRefused | undefined => {
  if (signing === undefined) return undefined
  const own = Signing.check(signing, Signing.ofIntent(intent), intent.signature)
  if (Result.isFailure(own) || decision === undefined) return Result.isFailure(own) ? own.failure : undefined
  const decided = Signing.check(signing, Signing.ofDecision(intent, decision), decision.signature)
  return Result.isFailure(decided) ? decided.failure : undefined
}

/**
 * Whether an intent, or the decision about it, is let through without a signature.
 *
 * @since 0.1.0
 * @category guards
 */
export const isUnsigned = (signing: Signing.Signing | undefined, { decision, intent }: Ledger.Entry): boolean =>
  signing?.mode === "permissive"
  && (intent.signature === undefined || (decision !== undefined && decision.signature === undefined))

/**
 * Whether the arguments are those that were staged, or those a person put in their place.
 *
 * @since 0.1.0
 * @category guards
 */
export const isIntact = (signing: Signing.Signing | undefined, { decision, intent }: Ledger.Entry): boolean => {
  const edited = decision?.edited
  if (edited !== undefined && CanonicalJson.digest(edited.arguments) !== edited.argumentsDigest) return false
  const text = intent.sealed === undefined ? intent.arguments : Intent.Sealed.reveal(intent.sealed)
  // What cannot be opened cannot be judged; nobody can read it either.
  if (text === undefined) return true
  if (signing !== undefined) {
    return Result.getOrElse(Signing.matches(signing.ring, intent.argumentsDigest, text), () => true)
  }
  return intent.argumentsDigest.includes(":") || CanonicalJson.digest(text) === intent.argumentsDigest
}
