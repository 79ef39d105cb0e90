/**
 * Approval. A tool can ask a person first, always or by a rule over its arguments. The intent waits, the agent waits, and a
 * decision names one intent by its id. The handler of a denied intent never runs.
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "effect-intents"

const transfer = Tool.sideEffect("transfer", {
  description: "Transfer money to another account.",
  parameters: { to: Schema.String, cents: Schema.Int },
  success: Schema.String,
  // Only a clear `false` lets a transfer through unasked: a rule that fails, dies or hangs means that somebody is asked.
  approval: ({ cents }) => Effect.succeed(cents > 10_000)
})

const payments = Agent.make(
  "payments",
  { event: Schema.Struct({ to: Schema.String, cents: Schema.Int }), output: Schema.String },
  Effect.fnUntraced(
    function*(ctx, payment) {
      return Agent.complete(`paid, ${yield* ctx.request(transfer(payment))}`)
    },
    Effect.catchTag(
      "IntentNotPerformed",
      ({ detail, reason }) => Effect.succeed(Agent.complete(`not paid: ${reason}, ${detail}`))
    )
  )
)

const Bank = transfer.toLayer(({ cents, to }) =>
  Effect.as(Console.log(`moving ${cents} cents to ${to}`), `ref-${cents}`)
)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* engine.send(payments, { key: "small", event: { to: "bob", cents: 700 } })
  yield* engine.send(payments, { key: "large", event: { to: "carol", cents: 50_000 } })
  yield* engine.send(payments, { key: "huge", event: { to: "mallory", cents: 9_000_000 } })
  yield* engine.drain

  const undecided = yield* engine.intents({ states: ["Staged"] })
  for (const { intent } of undecided) {
    const { arguments: shown, argumentsDigest, id, key, tool } = intent
    const approved = key === "large"
    yield* Console.log(`dana sees ${tool} ${shown} and says ${approved ? "yes" : "no"}`)
    // The digest binds the decision to the arguments that were shown.
    yield* engine.decide({ id, approved, by: "dana", argumentsDigest })
  }
  yield* engine.drain

  yield* engine.outputs(payments).pipe(
    Stream.take(3),
    Stream.runForEach(({ key, output }) => Console.log(`${key}: ${output}`))
  )
})

const Live = AgentEngine.layer(payments).pipe(
  Layer.provide(Effector.layer(transfer)),
  Layer.provide(Bank),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
