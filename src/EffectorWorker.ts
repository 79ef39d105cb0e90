/**
 * A running effector: takes what is free to start from the store and delivers it, many keys at a time.
 *
 * Guarantees: no more handlers at a time than allowed, per tool and in all; no delivery is cut off between effect and record;
 * what fails is tried again after a delay.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as AgentStore from "./AgentStore.ts"
import { deliver, type Served, type Worker } from "./EffectorDelivery.ts"
import { loop, Work } from "./internal/background.ts"
import type * as Ledger from "./Ledger.ts"

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
      handlers: new Set(),
      skipped: new Set(),
      stopping: false
    }
    const rooms = new Map(served.map((served) => [served.tool.name, new Room(served)]))

    const startable = (limit: number) => {
      const tools = Array.from(rooms.values()).filter((room) => room.isFree).map(({ served }) => served.tool.name)
      return limit > 0 && tools.length > 0
        ? store.startable({ tools, limit, except: new Set([...worker.skipped, ...work.names()]) })
        : Effect.succeed([])
    }

    /** Delivers in a fiber of its own, which not even a closing scope cuts off between effect and record. */
    const start = (room: Room, entry: Ledger.Entry, now: number) => {
      const { id, key, tool } = entry.intent
      room.running++
      const delivery = Effect.ensuring(
        deliver(worker, room.served, entry, now),
        Effect.sync(() => room.running--)
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
          if (!room.isFree) {
            continue
          }
          started++
          yield* start(room, entry, now)
        }
        return started
      })

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
      run: loop({ work, changes, sweep: store.sweep, take }),
      activity: {
        isIdle: Effect.map(startable(1), (entries) =>
          work.size === 0 && entries.length === 0),
        watchers: work.watchers
      }
    }
  })

// internal

/** How many handlers of a tool run, of how many that may. */
class Room {
  readonly served: Served
  running = 0
  constructor(served: Served) {
    this.served = served
  }
  get isFree(): boolean {
    return this.running < (this.served.tool.options.concurrency ?? Infinity)
  }
}
