/**
 * The effector of a dry run: asks for an answer where another one would call a handler. Performs nothing.
 *
 * Guarantees: each intent is asked for once, when it could have been performed. What is given no answer stays staged, and is
 * not waited for by those behind it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as AgentStore from "./AgentStore.ts"
import { readArguments } from "./EffectorDelivery.ts"
import type { Activity } from "./EffectorWorker.ts"
import type * as Intent from "./Intent.ts"
import { loop, Work } from "./internal/background.ts"
import * as Ledger from "./Ledger.ts"
import type * as Tool from "./Tool.ts"

/**
 * What a dry run is asked.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request {
  readonly intent: Intent.Intent
  /** The arguments as the handler would get them. */
  readonly arguments: any
}

/**
 * A dry run and its loop.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (
  tools: ReadonlyArray<Tool.Any>,
  answer: (request: Request) => Intent.Result | undefined
): Effect.Effect<
  { readonly run: Effect.Effect<never, AgentStore.StoreError>; readonly activity: Activity },
  never,
  AgentStore.AgentStore | Scope.Scope
> =>
  Effect.gen(function*() {
    const store = yield* AgentStore.AgentStore
    const changes = yield* store.changes
    const work = new Work()
    const served = new Map(tools.map((tool) => [tool.name, tool]))
    const asked = new Set<string>()

    const startable = Effect.gen(function*() {
      const { now } = yield* store.sweep
      const staged = yield* store.entries({ states: ["Staged"] })
      return staged.filter((entry) =>
        served.has(entry.intent.tool) && !asked.has(entry.intent.id) && Ledger.isStartable(entry, now)
      )
    })

    const ask = (entry: Ledger.Entry) =>
      Effect.gen(function*() {
        const { intent } = entry
        const input = yield* Effect.fromResult(readArguments(served.get(intent.tool)!, entry))
        const result = answer({ intent, arguments: input })
        if (result === undefined) return
        const token = `dry run of ${intent.id}`
        yield* store.move(intent.id, Ledger.claim({ owner: "dry run", token, lease: 30_000, retryIn: undefined }))
        yield* store.move(intent.id, Ledger.complete(token, result))
      })

    const take = Effect.gen(function*() {
      const entries = yield* startable
      for (const entry of entries) {
        const { id } = entry.intent
        asked.add(id)
        yield* work.start(id, ask(entry), (cause) => Effect.logError(`no answer to intent ${id}`, cause))
      }
      return entries.length
    })

    return {
      run: loop({ work, changes, sweep: store.sweep, take: () => take }),
      activity: {
        isIdle: Effect.map(startable, (entries) => work.size === 0 && entries.length === 0),
        watchers: work.watchers
      }
    }
  })
