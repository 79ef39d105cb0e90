// Event, 1 read, 1 request, performed, resumed, output: how many a second on each store.
import { Agent, AgentEngine, type AgentStore, Effector, Tool } from "effect-intents"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String },
  success: Schema.Struct({ name: Schema.String, score: Schema.Int }),
  handler: ({ id }) => Effect.succeed({ name: id, score: 7 })
})

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

/** Ended events, and the number at which somebody waits. Counted by the agent itself: anything else would be measured too. */
const ended = { count: 0, awaited: 0, latch: Latch.makeUnsafe() }

const payments = Agent.make(
  "payments",
  { event: Schema.Struct({ id: Schema.String, amountCents: Schema.Int }), output: Schema.String },
  Effect.fnUntraced(function*(ctx, { amountCents, id }) {
    const { name } = yield* ctx.runTool(lookup({ id }))
    const receipt = yield* ctx.request(charge({ customerId: name, amountCents }))
    if (++ended.count === ended.awaited) ended.latch.openUnsafe()
    return Agent.complete(receipt)
  })
)

const Live = AgentEngine.layer(payments).pipe(
  Layer.provide(Effector.layerWith({ concurrency: 256 })(charge)),
  Layer.provide(charge.toLayer(({ customerId }) => Effect.succeed(`receipt for ${customerId}`)))
)

/** A bounded backlog: events are sent in rounds, and a round is over before the next one starts. */
const sendAll = Effect.fnUntraced(function*(keys: number, events: number, round: number) {
  const engine = yield* AgentEngine.AgentEngine
  for (let sent = 0; sent < events; sent += round) {
    ended.awaited = ended.count + round
    ended.latch.closeUnsafe()
    const send = (index: number) => {
      const id = `c-${(sent + index) % keys}`
      return engine.send(payments, { key: id, event: { id, amountCents: index } })
    }
    yield* Effect.forEach(Array.from({ length: round }, (_, index) => index), send, {
      concurrency: "unbounded",
      discard: true
    })
    yield* ended.latch.await
  }
})

const eventsPerSecond = (store: Store, keys: number, events: number) =>
  Effect.gen(function*() {
    const round = Math.max(100, keys * 2)
    yield* sendAll(keys, events / 2, round)
    const started = process.hrtime.bigint()
    yield* sendAll(keys, events, round)
    return events / (Number(process.hrtime.bigint() - started) / 1e9)
  }).pipe(Effect.provide(Layer.provide(Live, store.layer)))

/** A store to measure; `events` is how many of the asked events it gets with so many keys. */
export interface Store {
  readonly name: string
  readonly layer: Layer.Layer<AgentStore.AgentStore, unknown>
  readonly events: (events: number, keys: number) => number
}

export const endToEnd = async (stores: ReadonlyArray<Store>, events: number) => {
  const rows = []
  for (const store of stores) {
    for (const keys of [1, 32, 1000]) {
      const measured = eventsPerSecond(store, keys, store.events(events, keys))
      rows.push({ store: store.name, keys, eventsPerSecond: await Effect.runPromise(measured) })
    }
  }
  return rows
}
