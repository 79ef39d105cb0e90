/**
 * Who vouches for an intent or a decision: HMAC-SHA256 over its canonical form, by a key of a ring. The same ring seals
 * secrets at rest.
 *
 * Guarantees: under `require` nothing runs that was changed, or lost its signature; under `permissive` nothing that was
 * changed under its signature. Refuses with `SignatureRefused`. All of it is synchronous over `node:crypto`: it runs inside a
 * commit, where the asynchronous `effect/crypto` would cost a turn of the event loop for each intent.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { createHmac } from "node:crypto"
import type * as Intent from "./Intent.ts"
import type { Form } from "./SigningForm.ts"
import { isKeyId, KeyRing, keyRing, type KeyRingError, type Keys, parseKeyRing } from "./SigningKeys.ts"
import { isSame } from "./SigningSeal.ts"

export { type Decision, type Form, ofDecision, ofIntent } from "./SigningForm.ts"
export { type KeyRing, keyRing, KeyRingError, type Keys, UnknownKeyError } from "./SigningKeys.ts"
export { digest, matches, open, seal, SealBroken } from "./SigningSeal.ts"

/**
 * `off`: nothing is signed and nothing checked. `permissive`: what has no signature passes, to be counted. `require`: it does
 * not.
 *
 * @since 0.1.0
 * @category models
 */
export type Mode = "off" | "permissive" | "require"

/**
 * The keys of this process, and what it does about signatures.
 *
 * @since 0.1.0
 * @category models
 */
export interface Signing {
  readonly ring: KeyRing
  readonly mode: Mode
}

/**
 * The keys that engine, effector and client find when their layers are built; without them nothing is signed or sealed.
 *
 * @since 0.1.0
 * @category services
 */
export const Signing: Context.Reference<Signing | undefined> = Context.Reference<Signing | undefined>(
  "effect-intents/Signing",
  { defaultValue: () => undefined }
)

/**
 * Keys given by the program, and the mode.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = ({ mode, ...keys }: Keys & { readonly mode: Mode }): Layer.Layer<never, KeyRingError> =>
  Layer.effect(Signing, Effect.map(Effect.fromResult(keyRing(keys)), (ring) => ({ ring, mode })))

/**
 * Keys from `EFFECT_INTENTS_KEYS` (`id:base64,id:base64`, the current one first) and the mode from `EFFECT_INTENTS_SIGNING`.
 * Both must be there.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig: Layer.Layer<never, KeyRingError | Config.ConfigError> = Layer.effect(
  Signing,
  Effect.gen(function*() {
    const keys = yield* Config.Redacted("EFFECT_INTENTS_KEYS")
    const mode = yield* Config.Literals(["off", "permissive", "require"], "EFFECT_INTENTS_SIGNING")
    return { ring: yield* Effect.fromResult(parseKeyRing(Redacted.value(keys))), mode }
  })
)

/**
 * The signature of a form by the current key.
 *
 * @since 0.1.0
 * @category signing
 */
export const sign = (ring: KeyRing, form: Form): Intent.Signature => ({
  keyId: ring.current,
  mac: macBy(ring, ring.current, form)!
})

/**
 * Whether a form is signed by a key of the ring. A signature that is there is checked in `permissive` too. `off` takes
 * everything for `unsigned`.
 *
 * @since 0.1.0
 * @category signing
 */
export const check = (
  { mode, ring }: Signing,
  form: Form,
  signature: Intent.Signature | undefined
): Result.Result<"signed" | "unsigned", SignatureRefused> => {
  if (mode === "off") return Result.succeed("unsigned")
  const refuse = (reason: SignatureRefused["reason"], keyId: string) =>
    Result.fail(new SignatureRefused({ of: form.of, id: form.id, reason, keyId }))
  if (signature === undefined) {
    return mode === "permissive" ? Result.succeed("unsigned") : refuse("missing", "")
  }
  const { keyId, mac } = signature
  const expected = macBy(ring, keyId, form)
  if (expected === undefined) return refuse("unknown key", isKeyId(keyId) ? keyId : "")
  return isSame(mac, expected) ? Result.succeed("signed") : refuse("wrong", keyId)
}

/**
 * Nobody vouches for this intent or decision: it is not acted upon.
 *
 * @since 0.1.0
 * @category errors
 */
export class SignatureRefused extends Schema.TaggedError<SignatureRefused>()("SignatureRefused", {
  of: Schema.Literals(["intent", "decision"]),
  /** The id of the intent. */
  id: Schema.String,
  reason: Schema.Literals(["missing", "wrong", "unknown key"]),
  /** The key the signature names; empty where there is none. */
  keyId: Schema.String
}) {
  override get message() {
    const what = this.of === "intent" ? `intent ${this.id}` : `the decision about intent ${this.id}`
    return this.reason === "missing"
      ? `${what} has no signature, and this process requires one`
      : this.reason === "wrong"
      ? `the signature of ${what} by the key '${this.keyId}' is wrong; it was changed after it was signed`
      : `${what} is signed by the key '${this.keyId}', which is not in the ring`
  }
}

// internal

const macBy = (ring: KeyRing, keyId: string, form: Form): string | undefined => {
  const keys = KeyRing.subkeys(ring, keyId)
  return keys && createHmac("sha256", keys.signing).update(form.bytes).digest("hex")
}
