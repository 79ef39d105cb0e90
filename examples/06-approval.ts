/**
 * Approval. A tool can ask a person first, always or by a rule over its arguments. The intent waits, the agent waits, and a
 * decision names one intent by its id. Whoever decides may change the arguments, and the agent is told; where nobody decides
 * in time, the next one is asked. The handler of a denied intent never runs.
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool } from "effect-intents"
import { TestClock } from "effect/testing"

const Payment = Schema.Struct({ to: Schema.String, cents: Schema.Int })

const transfer = Tool.sideEffect("transfer", {
  description: "Transfer money to another account.",
  parameters: Payment,
  success: Schema.String,
  // Only a clear `false` lets a transfer through unasked: a rule that fails, dies or hangs means that somebody is asked.
  approval: ({ cents }) => Effect.succeed(cents > 10_000),
  approvalTimeout: "1 day",
  escalation: ["head of payments"]
})

const payments = Agent.make(
  "payments",
  { event: Payment, output: Schema.String },
  Effect.fnUntraced(
    function*(ctx, payment) {
      const reference = yield* ctx.request(transfer(payment))
      const changes = (yield* ctx.edits).map((edit) => `, changed by ${edit.by} to ${JSON.stringify(edit.arguments)}`)
      return Agent.complete(`paid, ${reference}${changes.join("")}`)
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

  for (const { intent } of yield* engine.intents({ states: ["Staged"] })) {
    const { arguments: shown, argumentsDigest, id, key, tool } = intent
    // The digest binds the decision to the arguments that were shown.
    const decision = key === "large"
      ? { id, argumentsDigest, by: "dana", approved: true, arguments: { to: "carol", cents: 20_000 } }
      : { id, argumentsDigest, by: "dana", approved: false }
    yield* Console.log(`dana sees ${tool} ${shown} and says ${decision.approved ? "yes, but less" : "no"}`)
    yield* engine.decide(decision)
  }
  yield* engine.drain

  // Nobody looks at this one for a day, so the next in line is asked.
  yield* engine.send(payments, { key: "late", event: { to: "carol", cents: 30_000 } })
  yield* engine.drain
  yield* TestClock.adjust("25 hours")
  for (const { channel, intent: { id } } of yield* engine.intents({ states: ["Staged"] })) {
    yield* Console.log(`${channel} is asked now, and says yes`)
    yield* engine.decide({ id, by: "maria", approved: true })
  }

  yield* engine.outputs(payments).pipe(
    Stream.take(4),
    Stream.runForEach(({ key, output }) => Console.log(`${key}: ${output}`))
  )
})

const Live = AgentEngine.layer(payments).pipe(
  Layer.provide(Effector.layer(transfer)),
  Layer.provide(Bank),
  Layer.provide(AgentStore.layerMemory),
  // Virtual time makes the day pass.
  Layer.provideMerge(TestClock.layer())
)

await Effect.runPromise(Effect.provide(program, Live))
