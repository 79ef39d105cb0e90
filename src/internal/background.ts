/**
 * Long-running work of a layer, and when failed work is tried again.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/**
 * Forks a loop into the scope of a layer. Where it fails for good, the fiber that built the layer is interrupted: a process
 * without its worker must not sit there alive and idle.
 */
export const forkWorker = <E, R>(
  name: string,
  loop: Effect.Effect<never, E, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.withFiber((builder) =>
    loop.pipe(
      Effect.tapCause((cause) => Effect.logFatal(`${name} stopped`, cause)),
      Effect.catch(() => Effect.sync(() => builder.interruptUnsafe())),
      Effect.forkScoped({ startImmediately: true }),
      Effect.asVoid
    )
  )

/** How often a failing store is asked again before its worker gives up: about half a minute. */
export const storeRetries = Schedule.max([Schedule.exponential("50 millis", 2), Schedule.recurs(9)])

/** Waits for a signal, at most until `nextAt`. */
export const awaitChange = (
  changes: Queue.Dequeue<void>,
  swept: { readonly nextAt: number | undefined; readonly now: number }
): Effect.Effect<unknown> =>
  swept.nextAt === undefined
    ? Queue.take(changes)
    : Effect.timeoutOption(Queue.take(changes), Math.max(1, swept.nextAt - swept.now))

/**
 * The delay before attempt `failures + 1`, in milliseconds; `undefined` when the schedule is over. The schedule starts anew
 * each time and is stepped `failures` times, so that only the count has to be durable.
 */
export const retryDelay = (
  schedule: Schedule.Schedule<unknown, unknown>,
  failures: number,
  now: number
): Effect.Effect<number | undefined> =>
  Effect.gen(function*() {
    const step = yield* Schedule.toStep(schedule)
    let delay: number | undefined
    for (let failure = 0; failure < failures; failure++) {
      const exit = yield* Effect.exit(step(now, undefined))
      if (Exit.isFailure(exit)) return undefined
      delay = Duration.toMillis(exit.value[1])
    }
    return delay
  })
