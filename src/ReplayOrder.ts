/**
 * The order of a replay. What was answered one after the other is given out one after the other again, so that code which
 * reads side by side sees its answers in the order in which it saw them first.
 *
 * Guarantees: nobody waits for ever. Where the agent does not ask for what came before, and nothing moves any more, the next
 * one is let through.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Journal from "./Journal.ts"

/**
 * The order in which the rows of a journal are given out.
 *
 * @since 0.1.0
 * @category models
 */
export interface ReplayOrder {
  /** Waits until everything that was recorded before a row, in its segment, was given out. */
  readonly turn: (stored: Journal.Stored) => Effect.Effect<void>
}

/**
 * The order of a journal, kept on the scheduler of `context`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  journal: Pick<Journal.Journal, "isNext" | "passed">,
  context: Context.Context<never>
): ReplayOrder => {
  const waiting = new Map<Journal.Stored, () => void>()
  let releasing = false

  const wake = (stored: Journal.Stored): void => {
    const resume = waiting.get(stored)
    waiting.delete(stored)
    resume?.()
  }

  // Whoever is woken runs on, here and now, up to where it waits again: only then it is the next one's turn.
  const release = (): void => {
    for (;;) {
      const next = [...waiting.keys()].find(journal.isNext)
      if (next === undefined) return
      wake(next)
    }
  }

  const releaseAll = Effect.gen(function*() {
    let idle = 0
    while (waiting.size > 0) {
      const passed = journal.passed()
      yield* Effect.yieldNow
      release()
      idle = journal.passed() === passed ? idle + 1 : 0
      if (idle >= patience && waiting.size > 0) {
        wake([...waiting.keys()].reduce((first, other) => other.position < first.position ? other : first))
      }
    }
    releasing = false
  })

  return {
    turn: (stored) =>
      Effect.suspend(() =>
        journal.isNext(stored)
          ? Effect.void
          : Effect.callback<void>((resume) => {
            waiting.set(stored, () => resume(Effect.void))
            if (!releasing) {
              releasing = true
              Effect.runForkWith(context)(releaseAll)
            }
            return Effect.sync(() => {
              waiting.delete(stored)
            })
          })
      )
  }
}

// internal

/** In turns of the scheduler. A step of a fiber that just began takes one. */
const patience = 8
