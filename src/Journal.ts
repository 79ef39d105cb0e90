/**
 * What an activation already knows. The run of an event is a row of segments, each ended by a suspension and committed with
 * it; when the agent's function is run again from its start, the journal answers for every committed segment.
 *
 * Guarantees: in committed segments the journal is law. Refuses: a step, emission or memory that differs from the recorded one
 * (`NonDeterminism`, showing both sides) and rows that are doubled, missing or swapped (`JournalDamaged`).
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { findDamage, isFollowed, type Row, seal, type StepPlace, type Stored, type StoredOf } from "./JournalRow.ts"

export * from "./JournalRow.ts"

/**
 * A journal being replayed and written.
 *
 * @since 0.1.0
 * @category models
 */
export interface Journal {
  /** The time of a segment: recorded, or `now` for one that starts. */
  readonly time: (segment: number, now: number) => number
  /**
   * The next place of a read, and the row that stands there. Not its start order, so that concurrent reads find theirs again.
   */
  readonly read: (segment: number, tool: string, digest: string) => {
    readonly occurrence: number
    readonly recorded: StoredOf<"read"> | undefined
  }
  /** The row of a step, if there is one. */
  readonly stepAt: (step: number) => StoredOf<"step"> | undefined
  /** Takes a step. */
  readonly step: (place: StepPlace) => Result.Result<void, NonDeterminism>
  /** The answer of a step, if there is one. */
  readonly answerAt: (step: number) => StoredOf<"answer"> | undefined
  readonly emit: (segment: number, index: number, digest: string) => Result.Result<void, NonDeterminism>
  /** Ends a segment, with the number of its emissions and the digest of the memory it wrote. */
  readonly end: (segment: number, emissions: number, memory: string | undefined) => Result.Result<void, NonDeterminism>
  readonly write: (row: Row) => void
  /** Whether everything its segment knows from before a row was given out again. */
  readonly isNext: (stored: Stored) => boolean
  /** Notes that a row was given out again. */
  readonly pass: (stored: Stored) => void
  /** How many rows were given out or written. */
  readonly passed: () => number
  /** Where the rows of the uncommitted segment start, and those rows. */
  readonly pending: () => { readonly from: number; readonly rows: ReadonlyArray<Stored> }
  /** Why rows of an uncommitted segment were dropped: it was a cache, and the activation took another way this time. */
  readonly dropped: () => ReadonlyArray<string>
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
  /** The rows before this position belong to states an explicit `Suspend` left behind, and are not replayed. */
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
  const damage = findDamage(options.rows, options)
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

interface Segment {
  at: number | undefined
  memory: string | undefined
  readonly reads: Map<string, Array<StoredOf<"read">>>
  readonly emits: Array<StoredOf<"emit">>
  /** What is given out in the order in which it was written. */
  readonly order: Array<Stored>
  next: number
}

const show = (place: StepPlace) => `${place.kind} '${place.name}' (arguments ${place.digest}, segment ${place.segment})`

const make = (options: Options): Journal => {
  const { agent, committed, key } = options
  const rows: Array<Stored> = []
  const segments = new Map<number, Segment>()
  const steps = new Map<number, StoredOf<"step">>()
  const answers = new Map<number, StoredOf<"answer">>()
  const occurrences = new Map<string, number>()
  // By row, not by place: a row that is kept when others are dropped moves up.
  const asked = new Set<Row>()
  const passed = new Set<Row>()
  const drops: Array<string> = []

  const segmentOf = (number: number): Segment => {
    const known = segments.get(number)
    if (known !== undefined) return known
    const segment = { at: undefined, memory: undefined, reads: new Map(), emits: [], order: [], next: 0 }
    segments.set(number, segment)
    return segment
  }

  const keep = (stored: Stored): void => {
    rows.push(stored)
    if (stored.position < options.since) return
    const { row } = stored
    const segment = segmentOf(row.segment)
    if (isFollowed(row)) segment.order.push(stored)
    switch (row.type) {
      case "time":
        segment.at = row.at
        return
      case "read": {
        const place = `${row.tool}|${row.digest}`
        const places = segment.reads.get(place) ?? []
        places[row.occurrence] = stored as StoredOf<"read">
        segment.reads.set(place, places)
        return
      }
      case "step":
        steps.set(row.step, stored as StoredOf<"step">)
        return
      case "answer":
        answers.set(row.step, stored as StoredOf<"answer">)
        return
      case "emit":
        segment.emits[row.index] = stored as StoredOf<"emit">
        return
      case "memory":
        segment.memory = row.digest
    }
  }

  const add = (row: Row): void => keep(seal(rows.at(-1)?.check ?? "", rows.length, row))

  const write = (row: Row): void => {
    asked.add(row)
    passed.add(row)
    add(row)
  }

  const isLaw = (segment: number): boolean => segment < options.segment

  const differs = (place: string, recorded: string, now: string) =>
    Result.fail(new NonDeterminism({ agent, key, place, recorded, asked: now }))

  const replaceFrom = (position: number, after: ReadonlyArray<Row>): void => {
    const before = rows.slice(0, position)
    rows.length = 0
    for (const index of [segments, steps, answers]) index.clear()
    for (const stored of before) keep(stored)
    for (const row of after) add(row)
  }

  // A cached row that no longer fits takes what follows it along: it was obtained on another way. What this run has asked for
  // already stays.
  const dropFrom = (position: number, reason: string): void => {
    const gone = rows.slice(position).map(({ row }) => row)
    const kept = gone.filter((row) => asked.has(row))
    drops.push(`${gone.length - kept.length} rows from ${reason}`)
    replaceFrom(position, kept)
  }

  const nextOf = (number: number): Stored | undefined => {
    const segment = segmentOf(number)
    while (segment.next < segment.order.length && passed.has(segment.order[segment.next]!.row)) segment.next++
    return segment.order[segment.next]
  }

  const pass = ({ row }: Stored): void => {
    const next = nextOf(row.segment)
    // What is committed has to stand in the order in which it was given out.
    if (next !== undefined && next.row !== row && !isLaw(row.segment)) {
      const later = rows.slice(next.position).map((stored) => stored.row)
      replaceFrom(next.position, [row, ...later.filter((other) => other !== row)])
    }
    asked.add(row)
    passed.add(row)
  }

  for (const stored of options.rows) keep(stored)

  return {
    time: (number, now) => {
      const { at } = segmentOf(number)
      if (at !== undefined) return at
      write({ type: "time", segment: number, at: now })
      return now
    },

    read: (segment, tool, digest) => {
      const place = `${tool}|${digest}`
      const counter = `${segment}|${place}`
      const occurrence = occurrences.get(counter) ?? 0
      occurrences.set(counter, occurrence + 1)
      const recorded = segmentOf(segment).reads.get(place)?.[occurrence]
      if (recorded !== undefined) asked.add(recorded.row)
      return { occurrence, recorded }
    },

    stepAt: (step) => steps.get(step),

    step: (place) => {
      const recorded = steps.get(place.step)
      if (recorded !== undefined) {
        const { position, row } = recorded
        const isSame = row.kind === place.kind && row.name === place.name && row.digest === place.digest
          && row.segment === place.segment
        if (isSame) {
          pass(recorded)
          return Result.void
        }
        if (isLaw(row.segment)) return differs(`step ${place.step}`, show(row), show(place))
        dropFrom(position, `step ${place.step}: recorded ${show(row)}, now ${show(place)}`)
      } else if (isLaw(place.segment)) {
        return differs(`step ${place.step}`, "nothing", show(place))
      }
      write({ type: "step", ...place })
      return Result.void
    },

    answerAt: (step) => {
      const recorded = answers.get(step)
      if (recorded !== undefined) asked.add(recorded.row)
      return recorded
    },

    emit: (segment, index, digest) => {
      const place = `emission ${index} of segment ${segment}`
      const recorded = segmentOf(segment).emits[index]
      if (recorded?.row.digest === digest) {
        pass(recorded)
        return Result.void
      }
      if (isLaw(segment)) return differs(place, recorded?.row.digest ?? "nothing", digest)
      if (recorded !== undefined) dropFrom(recorded.position, place)
      write({ type: "emit", segment, index, digest })
      return Result.void
    },

    end: (number, emissions, memory) => {
      const { emits, memory: recorded, order } = segmentOf(number)
      if (isLaw(number)) {
        const step = order.find((stored) => stored.row.type === "step" && !passed.has(stored.row)) as
          | StoredOf<"step">
          | undefined
        if (step !== undefined) return differs(`step ${step.row.step}`, show(step.row), "nothing")
        if (emits.length > emissions) {
          return differs(`emission ${emissions} of segment ${number}`, emits[emissions]!.row.digest, "nothing")
        }
        return recorded === memory
          ? Result.void
          : differs(`the memory of segment ${number}`, recorded ?? "unchanged", memory ?? "unchanged")
      }
      // What an earlier run knew and this one did not ask for is no part of what is committed.
      const unused = order.find(({ row }) => !asked.has(row))
      if (unused !== undefined) dropFrom(unused.position, `position ${unused.position}, which nobody asked for`)
      if (memory !== undefined) write({ type: "memory", segment: number, digest: memory })
      return Result.void
    },

    write,

    isNext: ({ row }) => {
      const next = nextOf(row.segment)
      return next === undefined || next.row === row
    },

    pass,
    passed: () => passed.size,
    pending: () => ({ from: committed, rows: rows.slice(committed) }),
    dropped: () => drops
  }
}
