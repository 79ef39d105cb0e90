/**
 * A key ring: keys by id, one of them current. New records are made with the current key, old ones are checked with the key
 * they name, so that a key can be replaced while records of the old one are still about.
 *
 * Guarantees: a ring never prints a key, and holds copies that nobody can change from outside. Refuses: keys of fewer than 32
 * bytes, ids that do not fit into a record, and a current key that is not there (`KeyRingError`).
 *
 * @since 0.1.0
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { hkdfSync } from "node:crypto"

/**
 * What a ring is made of. A key id has 1 to 64 letters, digits, `.`, `_` and `-`; a key has at least 32 random bytes.
 *
 * @since 0.1.0
 * @category models
 */
export interface Keys {
  /** The id of the key that new records are made with. */
  readonly current: string
  readonly keys: { readonly [id: string]: Uint8Array | Redacted.Redacted<Uint8Array> }
}

/**
 * Keys by id, made by `keyRing`. Prints as the ids of its keys.
 *
 * @since 0.1.0
 * @category models
 */
export class KeyRing {
  readonly current: string
  readonly ids: ReadonlyArray<string>
  readonly #keys: ReadonlyMap<string, Subkeys>
  constructor(current: string, keys: ReadonlyMap<string, Subkeys>) {
    this.current = current
    this.ids = Array.from(keys.keys())
    this.#keys = keys
  }
  static subkeys(ring: KeyRing, id: string): Subkeys | undefined {
    return ring.#keys.get(id)
  }
  toJSON(): string {
    return this.toString()
  }
  toString(): string {
    return `<key ring ${this.ids.join(", ")}>`
  }
}

/**
 * One key of a ring for each of its uses, so that what is made for one use says nothing about another.
 *
 * @since 0.1.0
 * @category models
 */
export interface Subkeys {
  /** The key as it was given: signatures can be checked by whoever holds it, without this library. */
  readonly signing: Uint8Array
  /** 32 bytes derived from it with HKDF-SHA256. */
  readonly sealing: Uint8Array
  /** 32 bytes derived from it with HKDF-SHA256. */
  readonly digesting: Uint8Array
}

/**
 * A key ring of the given keys, or why they make none.
 *
 * @since 0.1.0
 * @category constructors
 */
export const keyRing = ({ current, keys }: Keys): Result.Result<KeyRing, KeyRingError> => {
  const ring = new Map<string, Subkeys>()
  for (const [id, given] of Object.entries(keys)) {
    const key = Redacted.isRedacted(given) ? Redacted.value(given) : given
    const reason = !isKeyId(id)
      ? "an id has 1 to 64 letters, digits, '.', '_' and '-'"
      : keyIssue(key)
    if (reason !== undefined) return Result.fail(new KeyRingError({ key: `key '${shorten(id)}'`, reason }))
    ring.set(id, subkeysOf(key))
  }
  return ring.has(current)
    ? Result.succeed(new KeyRing(current, ring))
    : Result.fail(new KeyRingError({ key: `key '${shorten(current)}'`, reason: "it is current, and not in the ring" }))
}

/**
 * The ring of a text like `k-2026-07:<base64>,k-2026-01:<base64>`, the current key first. What is wrong is named by its
 * position: where the parts are mixed up, the id is the secret.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parseKeyRing = (text: string): Result.Result<KeyRing, KeyRingError> => {
  const keys = new Map<string, Uint8Array>()
  for (const [index, entry] of text.split(",").entries()) {
    const [id = "", base64 = "", ...more] = entry.trim().split(":")
    const key = Buffer.from(base64, "base64")
    const reason = !isKeyId(id) || base64 === "" || more.length > 0
      ? "it has the form id:base64"
      : !/^[A-Za-z0-9+/_-]+={0,2}$/.test(base64)
      ? "its key is not base64"
      : keys.has(id)
      ? "its id stands there twice"
      : keyIssue(key)
    if (reason !== undefined) return Result.fail(new KeyRingError({ key: `key ${index + 1}`, reason }))
    keys.set(id, key)
  }
  const [current = ""] = keys.keys()
  return keyRing({ current, keys: Object.fromEntries(keys) })
}

/**
 * Whether a text can be the id of a key.
 *
 * @since 0.1.0
 * @category guards
 */
export const isKeyId = (id: string): boolean => /^[A-Za-z0-9._-]{1,64}$/.test(id)

/**
 * Keys that make no ring. `key` is the id of the culprit or its position, never the key.
 *
 * @since 0.1.0
 * @category errors
 */
export class KeyRingError extends Schema.TaggedError<KeyRingError>()("KeyRingError", {
  key: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `no key ring: ${this.key}: ${this.reason}`
  }
}

/**
 * A record names a key that is not in the ring: it was taken out too early, or never was there.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnknownKeyError extends Schema.TaggedError<UnknownKeyError>()("UnknownKeyError", {
  keyId: Schema.String,
  ids: Schema.Array(Schema.String)
}) {
  override get message() {
    return `unknown key id '${this.keyId}'; the ring has '${this.ids.join("', '")}'`
  }
}

/**
 * A key id from a record, fit to be shown: nobody checked it.
 *
 * @since 0.1.0
 * @category formatting
 */
export const shorten = (id: string): string => {
  const text = String(id)
  return text.length <= 64 ? text.toWellFormed() : `${text.slice(0, 64).toWellFormed()}…`
}

// internal

const keyIssue = (key: unknown): string | undefined =>
  !(key instanceof Uint8Array)
    ? "a key is bytes"
    : key.byteLength < 32
    ? `a key has at least 32 bytes, this one ${key.byteLength}`
    : undefined

const subkeysOf = (key: Uint8Array): Subkeys => {
  const derived = (use: string) => new Uint8Array(hkdfSync("sha256", key, "", `effect-intents/${use}`, 32))
  return { signing: new Uint8Array(key), sealing: derived("sealing"), digesting: derived("digesting") }
}
