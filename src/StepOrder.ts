/**
 * Which fiber may take the next step of an activation. Steps are numbered, so their order must not depend on scheduling: the
 * activation's own fiber takes them, or one fiber it has been waiting for since that fiber began (a branch of `race`, the body
 * of `timeout`, one member of `Effect.all`), never two side by side.
 *
 * Guarantees: where it cannot tell, it refuses. It knows fibers by effect's `Scheduler` alone, which is asked before every
 * operation of every fiber that runs on it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type * as Scheduler from "effect/Scheduler"

/**
 * The order of one activation's steps.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepOrder {
  /** What the fibers of the activation have to run on. */
  readonly scheduler: Scheduler.Scheduler
  /** Names the activation's own fiber. */
  readonly begin: (main: Fiber.Fiber<any, any>) => void
  /** Whether the running fiber may take a step now. */
  readonly enter: Effect.Effect<boolean>
  /** Lets fibers that were forked and have not begun yet show what they are up to. */
  readonly settle: Effect.Effect<void>
  /** Whether another fiber is about to take a step. */
  readonly contested: () => boolean
}

/**
 * The order of the steps of an activation whose fibers run on `real`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (real: Scheduler.Scheduler): StepOrder => {
  const lives = new WeakMap<Fiber.Fiber<any, any>, Life>()
  // From the fiber that takes steps and waits, down to the one it waits for in the end.
  const chain: Array<Life> = []
  let main: Fiber.Fiber<any, any> | undefined
  let running: Fiber.Fiber<any, any> | undefined
  let turn = 0
  let scheduled = 0
  let entering = 0

  const observe = (fiber: Fiber.Fiber<any, any>): void => {
    if (fiber === running) return
    turn++
    const life = lives.get(fiber)
    if (life !== undefined) life.last = turn
    else lives.set(fiber, { fiber, born: turn, last: turn, startedByFiber: running !== undefined, branch: 0 })
    running = fiber
  }

  const top = (): Life | undefined => {
    const ended = chain.findIndex(({ fiber }) => fiber.pollUnsafe() !== undefined)
    if (ended >= 0) chain.length = ended
    return chain.at(-1)
  }

  const admit = (life: Life): boolean => {
    const above = top() ?? (main && lives.get(main))
    // It has done nothing since this fiber began, so it waits; and no other branch of what it waits for took a step.
    if (above === undefined || above.last > life.born || above.branch === above.last) return false
    above.branch = above.last
    chain.push(life)
    return true
  }

  const settle = Effect.suspend(() => scheduled > 0 ? Effect.yieldNow : Effect.void)

  const isAlone = (fiber: Fiber.Fiber<any, any>): boolean => {
    const last = top()
    return entering === 0 && fiber === (last === undefined ? main : last.fiber)
  }

  return {
    scheduler: {
      executionMode: real.executionMode,
      shouldYield: (fiber) => {
        observe(fiber)
        return real.shouldYield(fiber)
      },
      makeDispatcher: () => {
        const dispatcher = real.makeDispatcher()
        return {
          // A fiber that begins here was started by nobody who runs, so nobody is known to wait for it.
          scheduleTask: (task, priority) => {
            scheduled++
            dispatcher.scheduleTask(() => {
              scheduled--
              running = undefined
              task()
            }, priority)
          },
          flush: () => dispatcher.flush()
        }
      }
    },
    begin: (fiber) => {
      main = fiber
    },
    settle,
    contested: () => entering > 0,
    enter: Effect.withFiber((fiber) => {
      if (fiber === main || fiber === top()?.fiber) return Effect.map(settle, () => isAlone(fiber))
      const life = lives.get(fiber)
      if (life === undefined || !life.startedByFiber || entering > 0) return Effect.succeed(false)
      entering++
      // Whether the fiber that began this one goes on or waits, and whether another branch takes a step too, shows by then.
      return Effect.yieldNow.pipe(
        Effect.andThen(Effect.sync(() => admit(life))),
        Effect.ensuring(Effect.sync(() => {
          entering--
        }))
      )
    })
  }
}

// internal

/** What was seen of a fiber, in turns: a turn ends when another fiber runs. */
interface Life {
  readonly fiber: Fiber.Fiber<any, any>
  readonly born: number
  readonly startedByFiber: boolean
  last: number
  /** The turn after which it waited for a branch that took a step. */
  branch: number
}
