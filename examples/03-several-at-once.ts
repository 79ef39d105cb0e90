/**
 * Several side effects at once. `ctx.requestAll` stages them together; the agent goes on once, when every result is there.
 */
import { Console, Effect, Layer, Schema } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "effect-intents"

const blockCard = Tool.sideEffect("block_card", {
  description: "Block a card.",
  parameters: { card: Schema.String },
  success: Schema.Struct({ blocked: Schema.Boolean })
})

const orderCard = Tool.sideEffect("order_card", {
  description: "Order a new card for a customer.",
  parameters: { customerId: Schema.String },
  success: Schema.Struct({ arrivesInDays: Schema.Int })
})

const notify = Tool.sideEffect("notify", {
  description: "Write to a customer.",
  parameters: { customerId: Schema.String, text: Schema.String }
})

const lostCard = Agent.make(
  "lost_card",
  { event: Schema.Struct({ customerId: Schema.String, card: Schema.String }), output: Schema.String },
  Effect.fnUntraced(function*(ctx, { card, customerId }) {
    const { old, replacement } = yield* ctx.requestAll({
      old: blockCard({ card }),
      replacement: orderCard({ customerId })
    })
    const text = `your new card arrives in ${replacement.arrivesInDays} days`
    // Nobody waits for this one: it is staged and performed after the event has ended.
    yield* ctx.act(notify({ customerId, text }))
    return Agent.complete(`${card} ${old.blocked ? "blocked" : "was blocked before"}, ${text}`)
  })
)

// Each layer of handlers may need other services; the agent knows nothing of them.
const Handlers = Layer.mergeAll(
  blockCard.toLayer(({ card }) => Effect.as(Console.log(`blocking ${card}`), { blocked: true })),
  orderCard.toLayer(({ customerId }) => Effect.as(Console.log(`a card for ${customerId}`), { arrivesInDays: 3 })),
  notify.toLayer(({ customerId, text }) => Console.log(`to ${customerId}: ${text}`))
)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  const output = yield* engine.call(lostCard, { key: "c-1", event: { customerId: "c-1", card: "card-1" } })
  yield* Console.log(output)
  yield* engine.drain
  for (const { intent, state } of yield* engine.intents()) {
    yield* Console.log(`step ${intent.step}: ${intent.tool} is ${state}`)
  }
})

const Live = AgentEngine.layer(lostCard).pipe(
  Layer.provide(Effector.layer(blockCard, orderCard, notify)),
  Layer.provide(Handlers),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
