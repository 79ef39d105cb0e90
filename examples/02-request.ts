/**
 * Waiting for a side effect. `ctx.request` stages an intent and suspends the agent: no fiber waits, only data. When the intent
 * has been performed the agent goes on with its result, typed by the tool.
 */
import { Console, DateTime, Effect, Latch, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "effect-intents"

class CardExpired extends Schema.TaggedError<CardExpired>()("CardExpired", { card: Schema.String }) {}

const refund = Tool.sideEffect("refund", {
  description: "Pay money back to a card.",
  parameters: { card: Schema.String, cents: Schema.Int },
  success: Schema.Struct({ receipt: Schema.String, bookedAt: Schema.DateTimeUtc }),
  failure: CardExpired
})

const refunds = Agent.make(
  "refunds",
  { event: Schema.Struct({ card: Schema.String, cents: Schema.Int }), output: Schema.String },
  Effect.fnUntraced(
    function*(ctx, order) {
      const { bookedAt, receipt } = yield* ctx.request(refund(order))
      return Agent.complete(`receipt ${receipt}, booked ${DateTime.formatIso(bookedAt)}`)
    },
    // The tool's own failure arrives as any typed error does.
    Effect.catchTag("CardExpired", ({ card }) => Effect.succeed(Agent.complete(`card ${card} has expired`)))
  )
)

const bankWasAsked = Latch.makeUnsafe()
const bankOpens = Latch.makeUnsafe()

// Only the effector runs this handler; the agent does not know it.
const Bank = refund.toLayer(Effect.fnUntraced(function*({ card, cents }) {
  yield* bankWasAsked.open
  yield* bankOpens.await
  if (card === "card-2") return yield* new CardExpired({ card })
  return { receipt: `r-${cents}`, bookedAt: yield* DateTime.now }
}))

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* engine.send(refunds, { key: "c-1", event: { card: "card-1", cents: 500 } })
  yield* engine.send(refunds, { key: "c-2", event: { card: "card-2", cents: 900 } })

  yield* bankWasAsked.await
  const { waiting } = yield* engine.status(refunds, "c-1")
  yield* Console.log(`c-1 is suspended and waits for: ${waiting.map(({ type }) => type)}`)

  yield* bankOpens.open
  yield* engine.outputs(refunds).pipe(
    Stream.take(2),
    Stream.runForEach(({ key, output }) => Console.log(`${key}: ${output}`))
  )
})

const Live = AgentEngine.layer(refunds).pipe(
  Layer.provide(Effector.layer(refund)),
  Layer.provide(Bank),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
