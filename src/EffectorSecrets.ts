/**
 * What a handler was told in confidence, and how it is taken out of what it answers. A secret is whatever stands at a redacted
 * place of the tool's parameters.
 *
 * Guarantees: no string of a masked result holds a secret, as it is or as it stands in a JSON text. A number counts from four
 * digits on: shorter ones would be found everywhere.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type * as CanonicalJson from "./CanonicalJson.ts"
import type * as Tool from "./Tool.ts"

/**
 * The secrets in the input of a handler, the longest first, so that none is left over in part.
 *
 * @since 0.1.0
 * @category destructors
 */
export const secretsOf = ({ parameters }: Tool.Any, input: unknown): ReadonlyArray<string> => {
  if (parameters.redacted.length === 0) return none
  // The input was decoded by the same schema: what it encodes to is what the handler knows, edited or not.
  const json = Result.getOrElse(parameters.encode(input), () => null)
  const found = new Set<string>()
  for (const path of parameters.redacted) collect(found, json, path)
  return Array.from(found).sort((a, b) => b.length - a.length)
}

/**
 * A text without the secrets.
 *
 * @since 0.1.0
 * @category combinators
 */
export const maskText = (text: string, secrets: ReadonlyArray<string>): string => {
  let between = [text]
  for (const secret of secrets) between = between.flatMap((part) => part.split(secret))
  return between.join("<redacted>")
}

/**
 * A JSON value without the secrets in its strings and in its keys.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mask = (json: CanonicalJson.Json, secrets: ReadonlyArray<string>): CanonicalJson.Json => {
  if (secrets.length === 0) return json
  if (typeof json === "string") return maskText(json, secrets)
  if (typeof json !== "object" || json === null) return json
  if (Array.isArray(json)) return json.map((item) => mask(item, secrets))
  return Object.fromEntries(Object.entries(json).map(([name, item]) => [maskText(name, secrets), mask(item, secrets)]))
}

// internal

const none: ReadonlyArray<string> = []

const collect = (found: Set<string>, json: CanonicalJson.Json, path: ReadonlyArray<string>): void => {
  const [head, ...rest] = path
  if (typeof json === "object" && json !== null) {
    const below = head === undefined || head === "*"
      ? Object.values(json)
      : Object.hasOwn(json, head)
      ? [(json as { readonly [name: string]: CanonicalJson.Json })[head]!]
      : []
    for (const item of below) collect(found, item, rest)
    return
  }
  if (head !== undefined) return
  const text = typeof json === "string" ? json : typeof json === "number" ? String(json) : ""
  if (text.length < (typeof json === "number" ? 4 : 1)) return
  found.add(text)
  found.add(JSON.stringify(text).slice(1, -1))
}
