/**
 * The segments of an activation: a run is a row of them, each ended by a suspension and committed with it.
 *
 * Guarantees: what a suspension commits is fixed before the agent's fiber is interrupted. Refuses a segment that did other
 * things than the committed one (`NonDeterminism`), and a memory that is too large or does not fit.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Activation from "./Activation.ts"
import { abort, type State, stop } from "./ActivationState.ts"
import type * as Journal from "./Journal.ts"
import type * as Memory from "./Memory.ts"

/**
 * Why a segment cannot end.
 *
 * @since 0.1.0
 * @category errors
 */
export type SegmentError = Memory.MemoryLimitExceeded | Memory.MemoryMisfit | Journal.NonDeterminism

/**
 * Ends the segment: its memory is fixed, and what it did is checked against the journal where the segment is committed.
 *
 * @since 0.1.0
 * @category segments
 */
export const end = (state: State): Result.Result<void, SegmentError> =>
  Result.flatMap(state.memory.end(), (ended): Result.Result<void, SegmentError> => {
    if (state.segment === state.live) state.changed = ended?.stored
    return state.journal.end(state.segment, state.emissions, ended?.digest)
  })

/**
 * Begins a segment: its time is the recorded one, or now.
 *
 * @since 0.1.0
 * @category segments
 */
export const begin = (state: State): void => {
  state.emissions = 0
  state.now = state.journal.time(state.segment, state.input.now)
  const wakes = [...state.whenNext]
  state.whenNext.clear()
  for (const wake of wakes) wake()
}

/**
 * What is to be committed.
 *
 * @since 0.1.0
 * @category segments
 */
export const activated = (state: State, outcome: Activation.Activated["outcome"]): Activation.Activated => ({
  outcome,
  intents: state.intents,
  emitted: state.emitted,
  remembered: [],
  memory: state.changed,
  journal: state.journal.pending(),
  trace: state.trace,
  replay: { base: state.base, segments: state.segment + 1 }
})

/**
 * How the run goes on from the end of this segment. Reads that are under way are recorded as such.
 *
 * @since 0.1.0
 * @category segments
 */
export const suspended = (
  state: State,
  waiting: ReadonlyArray<Activation.Waiting>,
  base: (rows: number) => Activation.Continuation["base"] = () => state.base
): Activation.Activated["outcome"] => {
  for (const read of state.inFlight) state.journal.write({ ...read, outcome: { _tag: "Suspended" } })
  state.trace.push({ type: "Suspended", segment: state.segment })
  const { from, rows } = state.journal.pending()
  return {
    _tag: "Suspended",
    continuation: {
      version: state.definition.version,
      segment: state.segment + 1,
      rows: from + rows.length,
      waiting,
      base: base(from + rows.length)
    }
  }
}

/**
 * Suspends: the content of the commit is fixed here and now.
 *
 * @since 0.1.0
 * @category segments
 */
export const suspend = (state: State, waiting: ReadonlyArray<Activation.Waiting>): Effect.Effect<never> => {
  const ended = end(state)
  if (Result.isFailure(ended)) return Effect.orDie(abort(state, ended.failure))
  const outcome = suspended(state, waiting)
  return stop(state, Effect.succeed(activated(state, outcome)))
}

/**
 * Waits at a step: for its answer if it has one, else by suspending for what `waiting` gives.
 *
 * @since 0.1.0
 * @category segments
 */
export const awaitAnswer = (
  state: State,
  step: number,
  waiting: () => Activation.Waiting
): Effect.Effect<Journal.Answer> => {
  const recorded = state.journal.answerAt(step)
  return recorded === undefined ? suspend(state, [waiting()]) : Effect.as(next(state), recorded.row.answer)
}

/**
 * Goes on from a suspension that is already committed.
 *
 * @since 0.1.0
 * @category segments
 */
export const next = (state: State): Effect.Effect<void> => {
  const ended = end(state)
  if (Result.isFailure(ended)) return Effect.orDie(abort(state, ended.failure))
  state.segment++
  begin(state)
  return Effect.void
}
