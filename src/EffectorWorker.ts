/**
 * The loop of an effector: takes what is free to start from the store and delivers it, many keys at a time.
 *
 * Guarantees: per tool and in all no more handlers at a time than allowed; a delivery is never cut off between effect and
 * record; what fails is tried again after a delay, and a store that stays away fails the loop.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as AgentStore from "./AgentStore.ts"
import { deliver, type Served, type Worker as Delivering } from "./EffectorDelivery.ts"
import { awaitChange, storeRetries } from "./internal/background.ts"
import type * as Ledger from "./Ledger.ts"

/**
 * A running effector.
 *
 * @since 0.1.0
 * @category models
 */
export interface Worker extends Delivering {
  readonly served: ReadonlyMap<string, Served>
  readonly concurrency: number
  readonly running: Map<string, Fiber.Fiber<unknown>>
  readonly changes: Queue.Queue<void>
}

/**
 * How a worker works. Durations are milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export type Settings = Pick<Worker, "served" | "owner" | "lease" | "grace" | "concurrency" | "maxBytes" | "answer">

/**
 * A worker that stops with its scope: it takes nothing more, lets running handlers end within the grace time, interrupts the
 * rest and waits for their records.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (settings: Settings): Effect.Effect<Worker, never, AgentStore.AgentStore | Scope.Scope> =>
  Effect.gen(function*() {
    const store = yield* AgentStore.AgentStore
    const worker: Worker = {
      ...settings,
      store,
      running: new Map(),
      handlers: new Set(),
      skipped: new Set(),
      changes: yield* store.changes,
      stopping: false
    }
    yield* Effect.addFinalizer(() => shutdown(worker))
    return worker
  })

/**
 * Works until the store stays away.
 *
 * @since 0.1.0
 * @category running
 */
export const loop = (worker: Worker): Effect.Effect<never, AgentStore.StoreError> =>
  Effect.gen(function*() {
    const round = Effect.gen(function*() {
      const swept = yield* worker.store.sweep
      const tools = [...worker.served.values()].filter(hasRoom).map(({ tool }) => tool.name)
      const limit = worker.concurrency - worker.running.size
      const entries = limit > 0 && tools.length > 0
        ? yield* worker.store.startable({ tools, limit, except: worker.skipped })
        : []
      let started = 0
      for (const entry of entries) {
        const served = worker.served.get(entry.intent.tool)!
        if (worker.running.has(entry.intent.id) || !hasRoom(served)) continue
        started++
        yield* start(worker, served, entry)
      }
      return started > 0 ? undefined : swept
    })
    while (true) {
      const swept = yield* Effect.retry(round, storeRetries)
      if (swept !== undefined) yield* awaitChange(worker.changes, swept)
    }
  }) as Effect.Effect<never, AgentStore.StoreError>

// internal

/** Stops taking, lets running handlers end within the grace time, interrupts the rest and waits for their records. */
const shutdown = (worker: Worker): Effect.Effect<void> =>
  Effect.gen(function*() {
    worker.stopping = true
    const ended = Effect.suspend(() => Fiber.awaitAll([...worker.running.values()]))
    const inTime = yield* Effect.timeoutOption(ended, worker.grace)
    if (Option.isSome(inTime)) return
    for (const handler of worker.handlers) handler.interruptUnsafe()
    yield* Effect.timeoutOption(ended, worker.grace)
  })

const hasRoom = ({ running, tool }: Served): boolean => running < (tool.options.concurrency ?? Infinity)

/** Delivers one intent in a fiber of its own: not even a closing scope may cut it off between effect and record. */
const start = (worker: Worker, served: Served, entry: Ledger.Entry): Effect.Effect<void> => {
  const { id, key } = entry.intent
  served.running++
  const delivery = deliver(worker, served, entry).pipe(
    Effect.catchCause((cause) =>
      Effect.gen(function*() {
        worker.skipped.add(id)
        yield* Effect.logError(`intent ${id} of key '${key}' ('${served.tool.name}') was left for a while`, cause)
        yield* Effect.forkDetach(Effect.andThen(
          Effect.sleep("1 second"),
          Effect.sync(() => {
            worker.skipped.delete(id)
            Queue.offerUnsafe(worker.changes, undefined)
          })
        ))
      })
    ),
    Effect.ensuring(Effect.sync(() => {
      served.running--
      worker.running.delete(id)
      // There is room again, which no change of the store tells.
      Queue.offerUnsafe(worker.changes, undefined)
    })),
    Effect.uninterruptible
  )
  return Effect.map(Effect.forkDetach(delivery, { startImmediately: true }), (fiber) => {
    if (fiber.pollUnsafe() === undefined) worker.running.set(id, fiber)
  })
}
