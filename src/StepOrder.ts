/**
 * Which fiber may take the next step of an activation. Steps are numbered, so their order must not depend on scheduling:
 * the activation's own fiber takes them, or a fiber it waits for (`race`, `timeout`), never two side by side.
 *
 * Guarantees: where it cannot tell, it refuses.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/**
 * The order of one activation's steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepOrder {
  /** Whether the running fiber may take a step now. */
  readonly enter: Effect.Effect<boolean>
  /** Whether another fiber is about to take a step. */
  readonly contested: () => boolean
}

/**
 * The order of the steps of the activation that runs on `main`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (main: Fiber.Fiber<any, any>): StepOrder => {
  const chain: Array<Link> = []
  const entered = new WeakMap<object, Fiber.Fiber<any, any>>()
  const entering = new Set<{ contested: boolean }>()

  const settle = (): void => {
    while (chain.length > 0 && chain[chain.length - 1]!.fiber.pollUnsafe() !== undefined) chain.pop()
  }

  const admit = (fiber: Fiber.Fiber<any, any>): boolean => {
    settle()
    const top = chain[chain.length - 1]
    if (top?.fiber === fiber) {
      top.lastId = nextFiberId()
      return true
    }
    const parent = inside(top?.fiber ?? main)
    const wait = parent._yielded
    // The wait identifies one blocking operator of the parent: one fiber under it may take steps, and no other.
    if (typeof wait !== "function" || parent._running || isForked(fiber)) return false
    if (top !== undefined && fiber.id < top.lastId) return false
    const before = entered.get(wait)
    if (before !== undefined && before !== fiber) return false
    entered.set(wait, fiber)
    chain.push({ fiber, lastId: nextFiberId() })
    return true
  }

  return {
    contested: () => entering.size > 0,
    enter: Effect.withFiber((fiber) => {
      if (fiber === main) {
        settle()
        return Effect.succeed(chain.length === 0)
      }
      // A fiber that was just forked is observed by its parent, and its siblings reach their steps, only after this turn.
      const attempt = { contested: entering.size > 0 }
      for (const other of entering) other.contested = true
      entering.add(attempt)
      return Effect.yieldNow.pipe(
        Effect.andThen(Effect.yieldNow),
        Effect.andThen(Effect.sync(() => !attempt.contested && admit(fiber))),
        Effect.ensuring(Effect.sync(() => entering.delete(attempt)))
      )
    })
  }
}

// internal

interface Link {
  readonly fiber: Fiber.Fiber<any, any>
  lastId: number
}

/** The parts of a fiber effect 4.1 does not export; `undefined` where they are gone, which refuses the step. */
interface Inside {
  readonly _yielded: unknown
  readonly _running: boolean
  readonly _parent: unknown
  readonly _observers: ReadonlyArray<unknown> | undefined
}

const inside = (fiber: Fiber.Fiber<any, any>): Inside => fiber as unknown as Inside

/** `forkChild` registers with its parent, `race` and `timeout` do not; a fiber nobody waits for has no observer. */
const isForked = (fiber: Fiber.Fiber<any, any>): boolean => {
  const { _observers, _parent } = inside(fiber)
  return _parent !== undefined || _observers === undefined || _observers.length === 0
}

const nextFiberId = (): number => Effect.runFork(Effect.void).id
