/**
 * Canonical JSON: the one text of a JSON value. Equal values have equal texts, and equal texts have equal digests.
 *
 * Guarantees: keys sorted by Unicode code point, no spaces, numbers as ECMAScript writes them with `-0` as `0`, an own
 * `__proto__` kept as data. Refuses: what is not plain JSON, ill-formed Unicode, cycles, and more nesting or more values
 * than the limits; an error says where and why and never repeats the input.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"

/**
 * A JSON value.
 *
 * @since 0.1.0
 * @category models
 */
export type Json = Schema.Json

/**
 * How much a value may hold: containers inside each other, values in all (each container counts as one), and UTF-16 code
 * units in a key.
 *
 * @since 0.1.0
 * @category models
 */
export interface Limits {
  readonly depth: number
  readonly values: number
  readonly keyLength: number
}

/**
 * The limits that hold where none are given. They keep the process alive; what a caller wants to store is smaller.
 *
 * @since 0.1.0
 * @category models
 */
export const defaultLimits: Limits = { depth: 512, values: 2 ** 22, keyLength: Infinity }

/**
 * The canonical text of a value, or why it has none. Only plain objects (prototype `Object.prototype` or `null`) and plain
 * arrays are JSON; a class instance is refused, `toJSON` or not.
 *
 * @since 0.1.0
 * @category encoding
 */
export const encode = (value: unknown, limits: Limits = defaultLimits): Result.Result<string, CanonicalJsonError> => {
  const walk: Walk = { limits, values: 0, path: [], reason: "" }
  const text = write(walk, value, 1)
  return text === undefined
    ? Result.fail(new CanonicalJsonError({ path: formatPath(walk.path.reverse()), reason: walk.reason }))
    : Result.succeed(text)
}

/**
 * The value of a JSON text, canonical or not. Succeeds only with values that `encode` accepts under the same limits: a number
 * beyond the range of doubles and an escaped lone surrogate are refused.
 *
 * @since 0.1.0
 * @category decoding
 */
export const parse = (text: string, limits: Limits = defaultLimits): Result.Result<Json, CanonicalJsonError> =>
  Result.flatMap(
    Result.try({
      try: (): Json => JSON.parse(text),
      // The engine's own message quotes the text.
      catch: () => new CanonicalJsonError({ path: "", reason: "not a JSON text" })
    }),
    (value) => Result.map(encode(value, limits), () => value)
  )

/**
 * SHA-256 of a text in UTF-8, as 64 lowercase hex digits. The text must be well-formed Unicode, as everything from `encode`
 * is: lone surrogates would all count as U+FFFD.
 *
 * @since 0.1.0
 * @category hashing
 */
export const digest = (text: string): string => hash("sha256", text)

/**
 * The digest of a value's canonical text.
 *
 * @since 0.1.0
 * @category hashing
 */
export const digestOf = (value: unknown): Result.Result<string, CanonicalJsonError> => Result.map(encode(value), digest)

/**
 * How a place inside a value is written: `orders[0].amountCents`, and `""` for the value itself. At most about 200
 * characters, whatever the keys are.
 *
 * @since 0.1.0
 * @category formatting
 */
export const formatPath = (path: ReadonlyArray<PropertyKey>): string => {
  let out = ""
  for (const segment of path) {
    if (out.length > 128) return `${out}…`
    if (typeof segment === "number") {
      out += `[${segment}]`
      continue
    }
    const name = String(segment)
    const short = name.length <= 48 ? name : `${name.slice(0, 47).toWellFormed()}…`
    out += /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name === short ? name : "")
      ? (out === "" ? name : `.${name}`)
      : `[${JSON.stringify(short)}]`
  }
  return out
}

/**
 * A value or a text that canonical JSON has no place for. `path` is written as `formatPath` does.
 *
 * @since 0.1.0
 * @category errors
 */
export class CanonicalJsonError extends Schema.TaggedError<CanonicalJsonError>()("CanonicalJsonError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return this.path === "" ? this.reason : `${this.path}: ${this.reason}`
  }
}

// internal

// `path` is filled from the inside out while a refusal unwinds, so that accepted values pay nothing for it.
interface Walk {
  readonly limits: Limits
  readonly path: Array<string | number>
  values: number
  reason: string
}

const refuse = (walk: Walk, reason: string): undefined => {
  walk.reason = reason
  return undefined
}

const loneSurrogate = "ill-formed Unicode (a lone surrogate)"

const write = (walk: Walk, value: unknown, depth: number): string | undefined => {
  if (++walk.values > walk.limits.values) return refuse(walk, `more than ${walk.limits.values} values`)
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? JSON.stringify(value) : refuse(walk, loneSurrogate)
    case "number":
      return Number.isFinite(value) ? String(value) : refuse(walk, "a number that is not finite")
    case "boolean":
      return value ? "true" : "false"
    case "object":
      if (value === null) return "null"
      if (depth > walk.limits.depth) return refuse(walk, `a cycle, or more than ${walk.limits.depth} levels`)
      return Array.isArray(value) ? writeArray(walk, value, depth) : writeObject(walk, value, depth)
    default:
      return refuse(walk, `${typeof value} is not JSON`)
  }
}

const writeArray = (walk: Walk, array: ReadonlyArray<unknown>, depth: number): string | undefined => {
  if (Object.getPrototypeOf(array) !== Array.prototype) return refuse(walk, "an array of a class of its own")
  let out = "["
  // By index: iterators and `map` would pass over the holes, which read as `undefined` and are refused as such.
  for (let index = 0; index < array.length; index++) {
    const text = write(walk, array[index], depth + 1)
    if (text === undefined) {
      walk.path.push(index)
      return undefined
    }
    out += index === 0 ? text : `,${text}`
  }
  return `${out}]`
}

const writeObject = (walk: Walk, object: object, depth: number): string | undefined => {
  const prototype = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) return refuse(walk, "an instance of a class is not JSON")
  if (Object.getOwnPropertySymbols(object).length > 0) return refuse(walk, "a symbol as a key is not JSON")
  const keys = Object.keys(object).sort(byCodePoint)
  let out = "{"
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!
    if (key.length > walk.limits.keyLength) {
      return refuse(walk, `a key of more than ${walk.limits.keyLength} characters`)
    }
    if (!key.isWellFormed()) return refuse(walk, `a key with ${loneSurrogate}`)
    const text = write(walk, (object as Record<string, unknown>)[key], depth + 1)
    if (text === undefined) {
      walk.path.push(key)
      return undefined
    }
    out += index === 0 ? `${JSON.stringify(key)}:${text}` : `,${JSON.stringify(key)}:${text}`
  }
  return `${out}}`
}

// `<` compares UTF-16 code units, where the surrogates of U+10000 and above stand below U+E000..U+FFFF.
const byCodePoint = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length)
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index)
    const y = b.charCodeAt(index)
    if (x !== y) return rank(x) - rank(y)
  }
  return a.length - b.length
}

const rank = (unit: number): number => unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
