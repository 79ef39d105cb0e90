/**
 * Workers of a layer: loops that take work from a store and run each piece in a fiber of its own, and when failed work is
 * tried again. A worker never sits there alive and idle: what failed is logged and taken again, or the worker stops loudly.
 */
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/**
 * What a worker has under way by name, and what it leaves alone for a while because it failed.
 */
export class Work {
  /** Queues that are told when a piece has ended: there is room again, which no change of the store tells. */
  readonly watchers = new Set<Queue.Queue<void>>()
  /** Open while nothing is under way. */
  private readonly idle = Latch.makeUnsafe(true)
  private readonly running = new Map<string, Fiber.Fiber<void> | undefined>()
  private readonly resting = new Map<string, number>()

  get size(): number {
    return this.running.size
  }

  /** Under way, or left alone. */
  isBusy(name: string): boolean {
    return this.running.has(name) || this.resting.has(name)
  }

  /** The names of what is under way or left alone. */
  names(): ReadonlyArray<string> {
    return [...this.running.keys(), ...this.resting.keys()]
  }

  /**
   * Runs a piece of work in a fiber of its own. Where that fails, `failed` tells why and the name is left alone for a second.
   */
  start<E, R>(
    name: string,
    piece: Effect.Effect<unknown, E, R>,
    failed: (cause: Cause.Cause<E>) => Effect.Effect<void>
  ): Effect.Effect<void, never, R> {
    return Effect.suspend(() => {
      this.running.set(name, undefined)
      this.idle.closeUnsafe()
      const guarded = piece.pipe(
        Effect.catchCause((cause) =>
          Effect.andThen(
            failed(cause),
            Effect.map(Clock.currentTimeMillis, (now) => void this.resting.set(name, now + 1000))
          )
        ),
        Effect.ensuring(Effect.sync(() => this.ended(name))),
        Effect.asVoid
      )
      return Effect.map(Effect.forkDetach(guarded, { startImmediately: true }), (fiber) => {
        if (this.running.has(name)) this.running.set(name, fiber)
      })
    })
  }

  /** Ends the rests that are over. Gives the milliseconds until the next one is. */
  wake(now: number): number {
    for (const [name, until] of this.resting) if (until <= now) this.resting.delete(name)
    return Math.min(...this.resting.values()) - now
  }

  /** Waits until nothing is under way. */
  get ends(): Effect.Effect<void> {
    return this.idle.await
  }

  /** Interrupts what is under way. */
  interrupt(): void {
    for (const fiber of this.running.values()) fiber?.interruptUnsafe()
  }

  private ended(name: string): void {
    this.running.delete(name)
    if (this.running.size === 0) this.idle.openUnsafe()
    for (const watcher of this.watchers) Queue.offerUnsafe(watcher, undefined)
  }
}

/**
 * The loop of a worker: lets time act, takes what can be started now, and waits for a change, for the next thing due, or for
 * the end of a rest. `take` gets the time of the store and gives how many pieces it started; `wait` gives the milliseconds
 * until it may start more than it just might, whatever the store says. Fails when the store stays away.
 */
export const loop = <E, R>(options: {
  readonly work: Work
  readonly changes: Queue.Queue<void>
  readonly sweep: Effect.Effect<{ readonly nextAt: number | undefined; readonly now: number }, E, R>
  readonly take: (now: number) => Effect.Effect<number, E, R>
  readonly wait?: Effect.Effect<number>
}): Effect.Effect<never, E, R> => {
  const { changes, sweep, take, wait = Effect.succeed(Infinity), work } = options
  const round = Effect.gen(function*() {
    const { nextAt = Infinity, now } = yield* sweep
    const rest = work.wake(yield* Clock.currentTimeMillis)
    const started = yield* take(now)
    return started > 0 ? 0 : Math.min(nextAt - now, rest, yield* wait)
  })
  return Effect.gen(function*() {
    // Not `Effect.forever`, which yields to the scheduler at every turn.
    while (true) {
      const millis = yield* Effect.retry(round, storeRetries)
      if (millis === Infinity) yield* Queue.take(changes)
      else if (millis !== 0) yield* Effect.timeoutOption(Queue.take(changes), Math.max(1, millis))
    }
  })
}

/**
 * Forks a loop into the scope of a layer. Where it fails, the fiber that built the layer is interrupted; where that has ended
 * long ago, the loop starts again after a while.
 */
export const forkWorker = <E, R>(
  name: string,
  loop: Effect.Effect<never, E, R>
): Effect.Effect<void, never, R | Scope.Scope> =>
  Effect.withFiber((builder) => {
    const guarded: Effect.Effect<never, never, R> = Effect.catchCause(loop, (cause) =>
      Effect.gen(function*() {
        yield* Effect.logFatal(`${name} stopped`, cause)
        if (builder.pollUnsafe() === undefined) {
          builder.interruptUnsafe()
          return yield* Effect.never
        }
        yield* Effect.sleep("5 seconds")
        return yield* guarded
      }))
    return Effect.asVoid(Effect.forkScoped(guarded, { startImmediately: true }))
  })

/** How often a failing store is asked again before its worker gives up: about half a minute. */
export const storeRetries = Schedule.max([Schedule.exponential("50 millis", 2), Schedule.recurs(9)])

/**
 * The delay before attempt `failures + 1`, in milliseconds; `undefined` when the schedule is over. Only the count has to be
 * durable: the schedule starts anew each time and is stepped `failures` times, as if the attempts had taken no time.
 */
export const retryDelay = (
  schedule: Schedule.Schedule<unknown, unknown>,
  failures: number,
  now: number
): Effect.Effect<number | undefined> =>
  Effect.gen(function*() {
    const step = yield* Schedule.toStep(schedule)
    let at = now
    let delay: number | undefined
    for (let failure = 0; failure < failures; failure++) {
      const exit = yield* Effect.exit(step(at, undefined))
      if (Exit.isFailure(exit)) return undefined
      delay = Duration.toMillis(exit.value[1])
      at += delay
    }
    return delay
  })

/** An option of a layer that a worker could not work with otherwise. */
export const positive = (name: string, value: number): number => {
  if (!(value > 0)) throw new RangeError(`'${name}' must be positive, it is ${value}`)
  return value
}
