/**
 * Secrets at rest: arguments sealed with AES-256-GCM, and digests that only who has the key can make.
 *
 * Guarantees: a sealed text opens only unchanged, with the key it names, and for the intent it was sealed for. Refuses
 * everything else without telling what is inside (`SealBroken`).
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import * as CanonicalJson from "./CanonicalJson.ts"
import { isKeyId, KeyRing, shorten, UnknownKeyError } from "./SigningKeys.ts"

/**
 * A text sealed with the current key: `keyId.iv.ciphertext`, the last two in base64url. `aad` is what it is for, the id of its
 * intent, and is needed to open it. The iv is random, so a key is good for 2^32 texts.
 *
 * @since 0.1.0
 * @category sealing
 */
export const seal = (ring: KeyRing, plaintext: string, aad: string): string => {
  const iv = randomBytes(ivLength)
  const cipher = createCipheriv(algorithm, KeyRing.subkeys(ring, ring.current)!.sealing, iv, {
    authTagLength: tagLength
  })
  cipher.setAAD(Buffer.from(aad))
  const sealed = Buffer.concat([cipher.update(plaintext, "utf8"), cipher.final(), cipher.getAuthTag()])
  return `${ring.current}.${iv.toString("base64url")}.${sealed.toString("base64url")}`
}

/**
 * The text that was sealed, or why it cannot be had.
 *
 * @since 0.1.0
 * @category sealing
 */
export const open = (ring: KeyRing, sealed: string, aad: string): Result.Result<string, SealBroken> => {
  const parts = partsOf(sealed)
  if (parts === undefined) return Result.fail(new SealBroken({ keyId: "", reason: "malformed" }))
  const { body, iv, keyId } = parts
  const keys = KeyRing.subkeys(ring, keyId)
  if (keys === undefined) return Result.fail(new SealBroken({ keyId, reason: "unknown key" }))
  return Result.try({
    try: () => {
      const decipher = createDecipheriv(algorithm, keys.sealing, iv, { authTagLength: tagLength })
      decipher.setAAD(Buffer.from(aad))
      decipher.setAuthTag(body.subarray(-tagLength))
      return Buffer.concat([decipher.update(body.subarray(0, -tagLength)), decipher.final()]).toString()
    },
    catch: () => new SealBroken({ keyId, reason: "wrong" })
  })
}

/**
 * The digest of a text by the current key, `keyId:hex`: a plain SHA-256 of a short secret can be guessed.
 *
 * @since 0.1.0
 * @category hashing
 */
export const digest = (ring: KeyRing, text: string): string => digestBy(ring, ring.current, text)!

/**
 * Whether a recorded digest is that of a text, by the key it names; one that names none is a plain SHA-256. A replay after a
 * rotation compares with this, because the digest it makes itself is by another key.
 *
 * @since 0.1.0
 * @category hashing
 */
export const matches = (ring: KeyRing, recorded: string, text: string): Result.Result<boolean, UnknownKeyError> => {
  const end = recorded.lastIndexOf(":")
  if (end === -1) return Result.succeed(isSame(recorded, CanonicalJson.digest(text)))
  const keyId = recorded.slice(0, end)
  const expected = digestBy(ring, keyId, text)
  return expected === undefined
    ? Result.fail(new UnknownKeyError({ keyId: shorten(keyId), ids: ring.ids }))
    : Result.succeed(isSame(recorded, expected))
}

/**
 * Whether two texts are the same, in a time that does not tell where they differ.
 *
 * @since 0.1.0
 * @category guards
 */
export const isSame = (a: string, b: string): boolean => {
  const x = Buffer.from(a)
  const y = Buffer.from(b)
  return x.length === y.length && timingSafeEqual(x, y)
}

/**
 * A sealed text that does not open. `malformed`: it is none; `wrong`: it was changed, was sealed for another intent, or with
 * another key of that id.
 *
 * @since 0.1.0
 * @category errors
 */
export class SealBroken extends Schema.TaggedError<SealBroken>()("SealBroken", {
  keyId: Schema.String,
  reason: Schema.Literals(["malformed", "unknown key", "wrong"])
}) {
  override get message() {
    return this.reason === "malformed"
      ? "this is not a sealed text"
      : this.reason === "unknown key"
      ? `a text was sealed with the key '${this.keyId}', which is not in the ring`
      : `a text sealed with the key '${this.keyId}' was changed, or moved here from another place`
  }
}

// internal

const algorithm = "aes-256-gcm"
const ivLength = 12
const tagLength = 16

const digestBy = (ring: KeyRing, keyId: string, text: string): string | undefined => {
  const keys = KeyRing.subkeys(ring, keyId)
  return keys && `${keyId}:${createHmac("sha256", keys.digesting).update(text).digest("hex")}`
}

/** A text that is not sealed might be the secret: it is taken for a key id only when all of it looks right. */
const partsOf = (sealed: string) => {
  // From the right, because a key id may hold dots.
  const end = sealed.lastIndexOf(".")
  const middle = sealed.lastIndexOf(".", end - 1)
  if (end < 2 || middle < 1) return undefined
  const keyId = sealed.slice(0, middle)
  const iv = bytesOf(sealed.slice(middle + 1, end))
  const body = bytesOf(sealed.slice(end + 1))
  return isKeyId(keyId) && iv?.length === ivLength && body !== undefined && body.length >= tagLength
    ? { keyId, iv, body }
    : undefined
}

/** Exactly the text that was written: `Buffer.from` alone passes over what it does not know. */
const bytesOf = (base64url: string): Buffer | undefined => {
  const bytes = Buffer.from(base64url, "base64url")
  return bytes.toString("base64url") === base64url ? bytes : undefined
}
