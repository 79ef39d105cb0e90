/**
 * What an activation already knows. The run of an event is a row of segments, each ended by a suspension and committed with
 * it; when the agent's function is run again from its start, the journal answers for every committed segment.
 *
 * Guarantees: in committed segments the journal is law. Refuses: a step or emission that differs from the recorded one
 * (`NonDeterminism`, showing both sides) and rows that are doubled, missing or swapped (`JournalDamaged`).
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
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
  | { readonly type: "intent"; readonly result: Intent.Result }
  | { readonly type: "decision"; readonly approved: boolean; readonly by: string }
  | { readonly type: "slept" }
  | { readonly type: "message"; readonly message: CanonicalJson.Json; readonly offset: number }
  | { readonly type: "timeout" }
  | { readonly type: "reply"; readonly reply: CanonicalJson.Json }

/**
 * How a read ended.
 *
 * @since 0.1.0
 * @category models
 */
export type ReadOutcome =
  | { readonly _tag: "Success"; readonly value: CanonicalJson.Json }
  | { readonly _tag: "Failure"; readonly error: CanonicalJson.Json }
  | { readonly _tag: "Defect"; readonly message: string }
  /** It was interrupted by the agent, a lost race for instance: on replay it waits to be interrupted again. */
  | { readonly _tag: "Interrupted" }
  /** It was under way when the activation suspended: on replay it is asked again in the segment that is new. */
  | { readonly _tag: "Suspended" }

/**
 * One thing an activation knows.
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
    readonly outcome: ReadOutcome
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
 * A row as it is stored: its place, and a check that covers it and every row before it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Stored {
  readonly position: number
  readonly check: string
  readonly row: Row
}

/**
 * A journal being replayed and written.
 *
 * @since 0.1.0
 * @category models
 */
export interface Journal {
  /** The time of a segment: recorded, or `now` for one that starts. */
  readonly time: (segment: number, now: number) => number
  /** The place of a read, and how it ended if that is known. */
  readonly read: (segment: number, tool: string, digest: string) => ReadPlace
  readonly step: (step: StepPlace) => Result.Result<void, NonDeterminism>
  readonly answer: (step: number) => Answer | undefined
  readonly emit: (segment: number, index: number, digest: string) => Result.Result<void, NonDeterminism>
  /** The digest of the memory at the end of a segment, or "unchanged". */
  readonly memory: (segment: number, digest: string) => Result.Result<void, NonDeterminism>
  readonly write: (row: Row) => void
  /** Fails when a committed step was not taken again by the time the activation leaves the committed segments. */
  readonly finish: () => Result.Result<void, NonDeterminism>
  /** Where the rows of the uncommitted segment start, and those rows. */
  readonly pending: () => { readonly from: number; readonly rows: ReadonlyArray<Stored> }
  /** Takes over the rows a store already held for the uncommitted segment. */
  readonly adopt: (rows: ReadonlyArray<Stored>) => Result.Result<void, JournalDamaged>
  /** The rows of an uncommitted segment that did not match and were dropped. */
  readonly dropped: () => number
}

/**
 * The place of a read: not its start order, so that concurrent reads find theirs again.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReadPlace {
  readonly occurrence: number
  readonly outcome: ReadOutcome | undefined
}

/**
 * The place of a step, with what is done there.
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
 * What it takes to open a journal.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly agent: string
  readonly key: string
  readonly rows: ReadonlyArray<Stored>
  /** So many rows are committed and law; the rest is a cache. */
  readonly committed: number
  /** The rows before this position belong to states an explicit `Suspend` left behind: checked, and not replayed. */
  readonly since: number
  /** The segment that is being run: those before it are committed. */
  readonly segment: number
}

/**
 * Opens a journal. Fails where its rows are damaged.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open = (options: Options): Result.Result<Journal, JournalDamaged> => {
  const damage = findDamage(options.rows, options.committed)
  return damage === undefined
    ? Result.succeed(make(options))
    : Result.fail(new JournalDamaged({ agent: options.agent, key: options.key, ...damage }))
}

/**
 * The activation took another way than the one recorded. Nothing was committed.
 *
 * @since 0.1.0
 * @category errors
 */
export class NonDeterminism extends Schema.TaggedError<NonDeterminism>()("NonDeterminism", {
  agent: Schema.String,
  key: Schema.String,
  place: Schema.String,
  recorded: Schema.String,
  asked: Schema.String
}) {
  override get message() {
    return `'${this.agent}' for key '${this.key}' took another way at ${this.place}: recorded ${this.recorded}, now ${this.asked}`
  }
}

/**
 * The stored journal is not the one that was written. Nothing was run.
 *
 * @since 0.1.0
 * @category errors
 */
export class JournalDamaged extends Schema.TaggedError<JournalDamaged>()("JournalDamaged", {
  agent: Schema.String,
  key: Schema.String,
  position: Schema.Number,
  reason: Schema.String
}) {
  override get message() {
    return `the journal of '${this.agent}' for key '${this.key}' is damaged at position ${this.position}: ${this.reason}`
  }
}

// internal

const seal = (previous: string, position: number, row: Row): Stored => ({
  position,
  // Half a digest: this guards against mix-ups, not against forgery.
  check: CanonicalJson.digest(`${previous}${position}${JSON.stringify(row)}`).slice(0, 32),
  row
})

const findDamage = (rows: ReadonlyArray<Stored>, committed: number) => {
  let previous = ""
  for (let position = 0; position < rows.length; position++) {
    const stored = rows[position]!
    if (stored.position !== position) return { position, reason: `found row ${stored.position}` }
    if (seal(previous, position, stored.row).check !== stored.check) {
      return { position, reason: "the row is not the one that was written" }
    }
    previous = stored.check
  }
  return rows.length < committed ? { position: rows.length, reason: `${committed} rows were committed` } : undefined
}

/** What a segment that wrote no memory is recorded with. */
const unchanged = "unchanged"

const readKey = (segment: number, tool: string, digest: string) => `${segment}|${tool}|${digest}`

const show = (place: StepPlace) => `${place.kind} '${place.name}' (arguments ${place.digest}, segment ${place.segment})`

const make = (options: Options): Journal => {
  const { agent, committed, key } = options
  const times = new Map<number, number>()
  const reads = new Map<string, ReadOutcome>()
  const steps = new Map<number, StepPlace & { readonly position: number }>()
  const answers = new Map<number, Answer>()
  const emits = new Map<string, string>()
  const memories = new Map<number, string>()
  const occurrences = new Map<string, number>()
  const taken = new Set<string>()
  let rows: Array<Stored> = []
  let dropped = 0

  const keep = (stored: Stored): void => {
    rows.push(stored)
    if (stored.position < options.since) return
    const row = stored.row
    switch (row.type) {
      case "time":
        times.set(row.segment, row.at)
        return
      case "read":
        reads.set(`${readKey(row.segment, row.tool, row.digest)}|${row.occurrence}`, row.outcome)
        return
      case "step":
        steps.set(row.step, { ...row, position: stored.position })
        return
      case "answer":
        answers.set(row.step, row.answer)
        return
      case "emit":
        emits.set(`${row.segment}|${row.index}`, row.digest)
        return
      case "memory":
        memories.set(row.segment, row.digest)
    }
  }

  // A cached row that no longer fits takes everything after it along: those rows were obtained on another way.
  const dropFrom = (position: number): void => {
    const kept = rows.slice(0, position)
    dropped += rows.length - kept.length
    rows = []
    for (const map of [times, reads, steps, answers, emits, memories]) map.clear()
    for (const stored of kept) keep(stored)
  }

  const write = (row: Row): void => keep(seal(rows.length === 0 ? "" : rows[rows.length - 1]!.check, rows.length, row))

  const differs = (place: string, recorded: string, asked: string) =>
    Result.fail(new NonDeterminism({ agent, key, place, recorded, asked }))

  const isLaw = (segment: number) => segment < options.segment

  for (const stored of options.rows) keep(stored)

  return {
    time: (segment, now) => {
      const at = times.get(segment)
      if (at !== undefined) return at
      write({ type: "time", segment, at: now })
      return now
    },
    read: (segment, tool, digest) => {
      const place = readKey(segment, tool, digest)
      const occurrence = occurrences.get(place) ?? 0
      occurrences.set(place, occurrence + 1)
      return { occurrence, outcome: reads.get(`${place}|${occurrence}`) }
    },
    step: (place) => {
      taken.add(`step ${place.step}`)
      const recorded = steps.get(place.step)
      if (recorded !== undefined) {
        const same = recorded.kind === place.kind && recorded.name === place.name && recorded.digest === place.digest
          && recorded.segment === place.segment
        if (same) return Result.void
        if (recorded.position < committed) return differs(`step ${place.step}`, show(recorded), show(place))
        dropFrom(recorded.position)
      } else if (isLaw(place.segment)) {
        return differs(`step ${place.step}`, "nothing", show(place))
      }
      write({ type: "step", ...place })
      return Result.void
    },
    answer: (step) => answers.get(step),
    emit: (segment, index, digest) => {
      const place = `emission ${index} of segment ${segment}`
      taken.add(place)
      const recorded = emits.get(`${segment}|${index}`)
      if (isLaw(segment)) return recorded === digest ? Result.void : differs(place, recorded ?? "nothing", digest)
      if (recorded !== digest) write({ type: "emit", segment, index, digest })
      return Result.void
    },
    memory: (segment, digest) => {
      const recorded = memories.get(segment) ?? unchanged
      if (isLaw(segment)) {
        return recorded === digest ? Result.void : differs(`the memory of segment ${segment}`, recorded, digest)
      }
      if (recorded !== digest) write({ type: "memory", segment, digest })
      return Result.void
    },
    write,
    finish: () => {
      for (const { position, row } of rows) {
        if (position < options.since || position >= committed) continue
        if (row.type === "step" && !taken.has(`step ${row.step}`)) {
          return differs(`step ${row.step}`, show(row), "nothing")
        }
        if (row.type === "emit" && !taken.has(`emission ${row.index} of segment ${row.segment}`)) {
          return differs(`emission ${row.index} of segment ${row.segment}`, row.digest, "nothing")
        }
      }
      return Result.void
    },
    pending: () => ({ from: committed, rows: rows.slice(committed) }),
    adopt: (stored) => {
      const damage = findDamage([...rows.slice(0, committed), ...stored], committed)
      if (damage !== undefined) return Result.fail(new JournalDamaged({ agent, key, ...damage }))
      dropFrom(committed)
      for (const row of stored) keep(row)
      return Result.void
    },
    dropped: () => dropped
  }
}
