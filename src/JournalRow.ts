/**
 * The rows of a journal: what they say, and the check by which a damaged journal is found out.
 *
 * Guarantees: pure data. A row that is doubled, missing, swapped or changed does not fit the checks around it.
 *
 * @since 0.1.0
 */
import * as CanonicalJson from "./CanonicalJson.ts"
import type * as Intent from "./Intent.ts"

/**
 * The kinds of steps that move the cursor.
 *
 * @since 0.1.0
 * @category models
 */
export type StepKind = "act" | "request" | "approval" | "sleep" | "receive" | "model"

/**
 * What a step was answered.
 *
 * @since 0.1.0
 * @category models
 */
export type Answer =
  | {
    readonly type: "intent"
    readonly result: Intent.Result
    /** The arguments a person performed it with instead, as canonical JSON. */
    readonly edited?: { readonly by: string; readonly arguments: string }
  }
  | { readonly type: "decision"; readonly approved: boolean; readonly by: string }
  | { readonly type: "slept" }
  | { readonly type: "message"; readonly message: CanonicalJson.Json; readonly offset: number }
  | { readonly type: "timeout" }
  | { readonly type: "model"; readonly outcome: Outcome }

/**
 * How a read or a model call ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Outcome =
  | { readonly _tag: "Success"; readonly value: CanonicalJson.Json }
  | { readonly _tag: "Failure"; readonly error: CanonicalJson.Json }
  | { readonly _tag: "Defect"; readonly name: string; readonly message: string }
  /** It was interrupted by the agent, a lost race for instance: on replay it waits to be interrupted again. */
  | { readonly _tag: "Interrupted" }
  /** It was under way when the activation suspended: on replay it is looked up, or asked again, in the next segment. */
  | { readonly _tag: "Suspended" }

/**
 * One thing an activation knows. Times are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export type Row =
  | { readonly type: "time"; readonly segment: number; readonly at: number }
  | {
    readonly type: "read"
    readonly segment: number
    readonly tool: string
    readonly digest: string
    readonly occurrence: number
    readonly outcome: Outcome
  }
  | {
    readonly type: "step"
    readonly segment: number
    readonly step: number
    readonly kind: StepKind
    readonly name: string
    readonly digest: string
  }
  | { readonly type: "answer"; readonly segment: number; readonly step: number; readonly answer: Answer }
  | { readonly type: "emit"; readonly segment: number; readonly index: number; readonly digest: string }
  | { readonly type: "memory"; readonly segment: number; readonly digest: string }

/**
 * A row as it is stored: its place, and a check that covers its JSON text and every row before it. A store keeps that text's
 * order of keys (`json`, not `jsonb`).
 *
 * @since 0.1.0
 * @category models
 */
export interface Stored<out R extends Row = Row> {
  readonly position: number
  readonly check: string
  readonly row: R
}

/**
 * The stored rows of one type.
 *
 * @since 0.1.0
 * @category models
 */
export type StoredOf<Type extends Row["type"]> = Stored<Extract<Row, { readonly type: Type }>>

/**
 * The place of a step, with what is done there: its name and the digest of its arguments.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepPlace {
  readonly segment: number
  readonly step: number
  readonly kind: StepKind
  readonly name: string
  readonly digest: string
}

/**
 * A row at its place, sealed onto the row before it.
 *
 * @since 0.1.0
 * @category checks
 */
export const seal = (previous: string, position: number, row: Row): Stored => ({
  position,
  // Half a digest: this guards against mix-ups, not against forgery.
  check: CanonicalJson.digest(`${previous}${position}${JSON.stringify(row)}`).slice(0, 32),
  row
})

/**
 * Where rows are damaged, and how, if they are. Of those before `since` only the places are looked at; `committed` is how many
 * there have to be at least.
 *
 * @since 0.1.0
 * @category checks
 */
export const findDamage = (
  rows: ReadonlyArray<Stored>,
  { committed, since }: { readonly committed: number; readonly since: number }
): { readonly position: number; readonly reason: string } | undefined => {
  for (let position = 0; position < rows.length; position++) {
    const stored = rows[position]!
    if (stored.position !== position) return { position, reason: `found row ${stored.position}` }
    if (position < since) continue
    if (seal(rows[position - 1]?.check ?? "", position, stored.row).check !== stored.check) {
      return { position, reason: "the row is not the one that was written" }
    }
  }
  return rows.length < committed ? { position: rows.length, reason: `${committed} rows were committed` } : undefined
}

/**
 * Whether a replay gives a row out in the order in which it was written. The others are looked up, or nobody is answered.
 *
 * @since 0.1.0
 * @category guards
 */
export const isFollowed = (row: Row): boolean =>
  row.type === "step" || row.type === "emit"
  || (row.type === "read" && isAnswer(row.outcome))
  || (row.type === "answer" && row.answer.type === "model" && isAnswer(row.answer.outcome))

// internal

const isAnswer = ({ _tag }: Outcome): boolean => _tag !== "Interrupted" && _tag !== "Suspended"
