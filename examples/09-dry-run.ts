/**
 * A dry run. The same agents, the same engine, and an effector that performs nothing: it needs no handlers, answers for them
 * where it is told to, and leaves in the ledger what would have been done.
 */
import { Console, Effect, Layer, Schema } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "effect-intents"

const quote = Tool.sideEffect("request_quote", {
  description: "Ask a supplier for a price.",
  parameters: { article: Schema.String },
  success: Schema.Struct({ cents: Schema.Int })
})

const order = Tool.sideEffect("order", {
  description: "Order from a supplier.",
  parameters: { article: Schema.String, cents: Schema.Int },
  success: Schema.String
})

const purchasing = Agent.make(
  "purchasing",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, article) {
    const { cents } = yield* ctx.request(quote({ article }))
    const confirmation = yield* ctx.request(order({ article, cents }))
    return Agent.complete(confirmation)
  })
)

// Quotes are answered; orders are not, so an agent that wants to order stays suspended there.
const Dry = Effector.dryRun(({ intent }) =>
  intent.tool === "request_quote" ? { _tag: "Success", value: { cents: 1200 } } : undefined
)(quote, order)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* engine.send(purchasing, { key: "desk", event: "desk lamp" })
  yield* engine.drain
  for (const { intent, state } of yield* engine.intents()) {
    yield* Console.log(`${state}: ${intent.tool} ${intent.arguments}`)
  }
  const { waiting } = yield* engine.status(purchasing, "desk")
  yield* Console.log(`the agent is suspended, waiting for ${waiting.length} intent`)
})

const Live = AgentEngine.layer(purchasing).pipe(
  Layer.provide(Dry),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
