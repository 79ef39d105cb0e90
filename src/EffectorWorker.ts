/**
 * A running effector: takes what is free to start from the store and delivers it, many keys at a time.
 *
 * Guarantees: no more handlers at a time than allowed, per tool and in all, and no more starts of a tool within a span of time;
 * no delivery is cut off between effect and record; what fails is tried again after a delay.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as AgentStore from "./AgentStore.ts"
import { deliver } from "./EffectorDelivery.ts"
import type { Served, Worker } from "./EffectorHandler.ts"
import { loop, Work } from "./internal/background.ts"
import type * as Ledger from "./Ledger.ts"
import * as Signing from "./Signing.ts"

/**
 * How an effector works. Durations are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings extends Pick<Worker, "owner" | "lease" | "grace" | "maxBytes"> {
  readonly served: ReadonlyArray<Served>
  readonly concurrency: number
}

/**
 * What an engine is told of an effector in its process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Activity {
  /** Whether it has nothing under way and nothing to start now. */
  readonly isIdle: Effect.Effect<boolean, AgentStore.StoreError>
  /** Queues that are told when a delivery has ended. */
  readonly watchers: Set<Queue.Queue<void>>
}

/**
 * An effector and its loop. It stops with the scope: nothing more is taken, running handlers have the grace time to end, then
 * they are interrupted, and their records are waited for.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  settings: Settings
): Effect.Effect<
  { readonly run: Effect.Effect<never, AgentStore.StoreError>; readonly activity: Activity },
  never,
  AgentStore.AgentStore | Scope.Scope
> =>
  Effect.gen(function*() {
    const { concurrency, grace, lease, maxBytes, owner, served } = settings
    const store = yield* AgentStore.AgentStore
    const changes = yield* store.changes
    const work = new Work()
    work.watchers.add(changes)
    const worker: Worker = {
      store,
      owner,
      lease,
      grace,
      maxBytes,
      signing: yield* Signing.Signing,
      handlers: new Set(),
      skipped: new Set(),
      stopping: false
    }
    const rooms = new Map(served.map((served) => [served.tool.name, new Room(served)]))

    const startable = (limit: number) =>
      Effect.flatMap(elapsed, (at) => {
        const tools = Array.from(rooms.values()).filter((room) => room.isFree(at)).map(({ served }) => served.tool.name)
        return limit > 0 && tools.length > 0
          ? store.startable({ tools, limit, except: new Set([...worker.skipped, ...work.names()]) })
          : Effect.succeed([])
      })

    /** Delivers in a fiber of its own, which not even a closing scope cuts off between effect and record. */
    const start = (room: Room, entry: Ledger.Entry, now: number, at: number) => {
      const { id, key, tool } = entry.intent
      room.enter(at)
      const delivery = Effect.onExit(
        deliver(worker, room.served, entry, now),
        (exit) => Effect.sync(() => room.leave(at, Exit.isSuccess(exit) && exit.value))
      )
      return work.start(id, Effect.uninterruptible(delivery), (cause) =>
        Effect.logError(`intent ${id} of key '${key}' ('${tool}') was left for a while`, cause))
    }

    const take = (now: number) =>
      Effect.gen(function*() {
        if (worker.stopping) {
          return 0
        }
        let started = 0
        for (const entry of yield* startable(concurrency - work.size)) {
          const room = rooms.get(entry.intent.tool)!
          const at = yield* elapsed
          if (!room.isFree(at)) {
            continue
          }
          started++
          yield* start(room, entry, now, at)
        }
        return started
      })

    /** The milliseconds until the rate of some tool allows another start. */
    const wait = Effect.map(elapsed, (at) =>
      Math.min(
        ...Array.from(rooms.values(), (room) =>
          room.wait(at)).filter((millis) =>
            millis > 0
          )
      ))

    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        worker.stopping = true
        const inTime = yield* Effect.timeoutOption(work.ends, grace)
        if (Option.isSome(inTime)) {
          return
        }
        for (const handler of worker.handlers) {
          handler.interruptUnsafe()
        }
        yield* Effect.timeoutOption(work.ends, grace)
      })
    )
    return {
      run: loop({ work, changes, sweep: store.sweep, take, wait }),
      activity: {
        isIdle: Effect.map(startable(1), (entries) => work.size === 0 && entries.length === 0),
        watchers: work.watchers
      }
    }
  })

// internal

/** Milliseconds of a clock that only goes forward: a rate is about time that passes, whatever the time of day is set to. */
const elapsed = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

/** How many handlers of a tool run, of how many that may, and when the last ones were started. */
class Room {
  readonly served: Served
  private running = 0
  private readonly limit: number
  private readonly every: number
  /** The starts within the last `every` milliseconds, where the tool has a rate. */
  private readonly starts: Array<number> = []
  constructor(served: Served) {
    const { rate } = served.tool.options
    this.served = served
    this.limit = rate?.limit ?? Infinity
    this.every = rate === undefined ? 0 : Duration.toMillis(Duration.fromInputUnsafe(rate.every))
  }

  isFree(at: number): boolean {
    return this.running < (this.served.tool.options.concurrency ?? Infinity) && this.wait(at) === 0
  }

  /** The milliseconds until the tool's rate allows a start. */
  wait(at: number): number {
    while (this.starts.length > 0 && this.starts[0]! + this.every <= at) this.starts.shift()
    return this.starts.length < this.limit ? 0 : Math.ceil(this.starts[0]! + this.every - at)
  }

  enter(at: number): void {
    this.running++
    if (this.limit !== Infinity) this.starts.push(at)
  }

  /** An intent that was not claimed has used nothing up. */
  leave(at: number, claimed: boolean): void {
    this.running--
    const index = claimed ? -1 : this.starts.indexOf(at)
    if (index >= 0) this.starts.splice(index, 1)
  }
}
