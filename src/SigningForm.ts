/**
 * What is signed: the canonical form of an intent or of a decision, as bytes. It is the wire format of protocol buffers, so
 * that another program can make the same bytes; `docs/signing.md` lists the fields.
 *
 * Guarantees: no two intents, no two decisions, and no intent and decision share a form: every value stands behind its
 * number and its length.
 *
 * @since 0.1.0
 */
import type * as Intent from "./Intent.ts"

/**
 * What is signed, and what it is about.
 *
 * @since 0.1.0
 * @category models
 */
export interface Form {
  readonly of: "intent" | "decision"
  /** The id of the intent. */
  readonly id: string
  readonly bytes: Uint8Array
}

/**
 * A number of 1 or more, and the value that stands behind it; `undefined` is left out.
 *
 * @since 0.1.0
 * @category models
 */
export type Field = readonly [number: number, value: string | number | Uint8Array | undefined]

/**
 * The form of an intent: what decides what is performed, and is settled when it is staged. Times, the attempt and all else the
 * store writes later are not in it: whoever signs does not know them yet.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ofIntent = (intent: Intent.Draft): Form => ({
  of: "intent",
  id: intent.id,
  bytes: write([
    [1, intent.id],
    [2, intent.key],
    [3, unlessZero(intent.seq)],
    [4, unlessZero(intent.step)],
    [5, intent.tool],
    // The arguments stand beside their digest: nobody has to hash them before believing them.
    [6, intent.arguments],
    ...traceId(intent.traceId),
    [16, intent.agent],
    [17, intent.kind],
    [18, intent.contract],
    [19, intent.argumentsDigest],
    [20, intent.approval],
    [21, intent.approvalTimeout],
    ...intent.escalation.map((channel): Field => [22, channel]),
    [23, unlessZero(intent.ttl)],
    [24, flag(intent.idempotent)],
    [25, flag(intent.verify)],
    [26, flag(intent.transactional)]
  ])
})

/**
 * What a person decided about an intent. `edited` are the arguments it is to be performed with instead.
 *
 * @since 0.1.0
 * @category models
 */
export interface Decision {
  readonly approved: boolean
  readonly by: string
  readonly edited: { readonly arguments: string; readonly argumentsDigest: string } | undefined
}

/**
 * The form of a decision about an intent: about this intent only, and only with the arguments that were asked for.
 *
 * @since 0.1.0
 * @category constructors
 */
export const ofDecision = (
  intent: Pick<Intent.Intent, "id" | "argumentsDigest">,
  { approved, by, edited }: Decision
): Form => ({
  of: "decision",
  id: intent.id,
  bytes: write([
    [1, intent.id],
    // No intent has this field, so that the signature of one is never good for the other.
    [15, "decision"],
    [19, intent.argumentsDigest],
    [32, flag(approved)],
    [33, by],
    [34, edited?.arguments],
    [35, edited?.argumentsDigest]
  ])
})

/**
 * Fields as bytes, in the order given. Text is UTF-8 and a whole number a varint; what has neither form (a lone surrogate, a
 * negative number, a fraction) is written as text under its number + 64.
 *
 * @since 0.1.0
 * @category encoding
 */
export const write = (fields: ReadonlyArray<Field>): Uint8Array => {
  let size = 0
  // A number of three bytes and a length of eight, or a number alone as text; a UTF-16 unit takes at most three bytes.
  for (const [, value] of fields) size += 40 + (typeof value === "object" ? value.length : String(value).length * 3)
  const out = Buffer.allocUnsafe(size)
  let at = 0
  for (const [number, value] of fields) {
    if (value === undefined) continue
    if (typeof value === "number") {
      if (Number.isSafeInteger(value) && value >= 0) {
        at = varint(out, varint(out, at, number * 8), value)
        continue
      }
      at = bytes(out, at, number + 64, Buffer.from(String(value)))
    } else if (typeof value === "string") {
      at = value.isWellFormed()
        ? text(out, at, number, value)
        : bytes(out, at, number + 64, Buffer.from(value, "utf16le"))
    } else {
      at = bytes(out, at, number, value)
    }
  }
  return out.subarray(0, at)
}

// internal

// As protocol buffers do with a plain scalar.
const unlessZero = (value: number): number | undefined => value === 0 ? undefined : value

const flag = (value: boolean): number | undefined => value ? 1 : undefined

const traceId = (id: string): ReadonlyArray<Field> => // Anything else would lose something on its way through `Buffer.from`.
[/^[0-9a-f]{32}$/.test(id) ? [11, Buffer.from(id, "hex")] : [11 + 64, id]]

const varint = (out: Buffer, at: number, value: number): number => {
  let rest = value
  while (rest >= 128) {
    out[at++] = rest % 128 + 128
    rest = Math.floor(rest / 128)
  }
  out[at++] = rest
  return at
}

const text = (out: Buffer, at: number, number: number, value: string): number => {
  const start = varint(out, varint(out, at, number * 8 + 2), Buffer.byteLength(value))
  return start + out.write(value, start)
}

const bytes = (out: Buffer, at: number, number: number, value: Uint8Array): number => {
  const start = varint(out, varint(out, at, number * 8 + 2), value.length)
  out.set(value, start)
  return start + value.length
}
