/**
 * An agent that lives with its customer for days: memory of its own per key, outputs on the way, a durable sleep, and a message
 * from outside. Virtual time makes the days pass.
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Memory, Tool } from "effect-intents"
import { TestClock } from "effect/testing"

const write = Tool.sideEffect("write", {
  description: "Write to a customer.",
  parameters: { customerId: Schema.String, text: Schema.String }
})

const Reply = Schema.Struct({ satisfied: Schema.Boolean })

const afterCare = Agent.make(
  "after_care",
  {
    event: Schema.Struct({ order: Schema.String }),
    output: Schema.String,
    memory: {
      orders: Memory.list(Schema.String, { maxItems: 20 }),
      complaints: Memory.entry(Schema.Int, () => 0)
    }
  },
  Effect.fnUntraced(function*(ctx, { order }) {
    yield* ctx.memory.append("orders", order)
    yield* ctx.emit(`${order}: order number ${(yield* ctx.memory.get("orders")).length} of ${ctx.key}`)

    yield* ctx.sleep("3 days")
    yield* ctx.act(write({ customerId: ctx.key, text: `Did everything go well with ${order}?` }))

    const satisfied = yield* ctx.receive(Reply, { timeout: "2 days" }).pipe(
      Effect.map((reply) => reply.satisfied),
      // No answer is good news.
      Effect.catchTag("MessageTimeout", () => Effect.succeed(true))
    )
    if (!satisfied) yield* ctx.memory.update("complaints", (count) => count + 1)
    return Agent.complete(`${order}: done, ${yield* ctx.memory.get("complaints")} complaints so far`)
  })
)

const Mail = write.toLayer(({ customerId, text }) => Console.log(`to ${customerId}: ${text}`))

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* Effect.forkChild(Stream.runForEach(engine.outputs(afterCare), ({ output }) => Console.log(output)))

  // The second order waits in the inbox until the first has come to its end.
  yield* engine.send(afterCare, { key: "c-1", event: { order: "a lamp" } })
  yield* engine.send(afterCare, { key: "c-1", event: { order: "a chair" } })
  // `drain` ends when there is nothing to do now: the agent sleeps.
  yield* engine.drain
  yield* TestClock.adjust("3 days")

  const misfit = yield* Effect.flip(engine.message(afterCare, { key: "c-1", message: { satisfied: "no!" } }))
  yield* Console.log(`refused: ${misfit._tag}`)
  yield* engine.message(afterCare, { key: "c-1", message: { satisfied: false } })

  yield* TestClock.adjust("5 days")
})

const Live = AgentEngine.layer(afterCare).pipe(
  Layer.provide(Effector.layer(write)),
  Layer.provide(Mail),
  Layer.provide(AgentStore.layerMemory),
  Layer.provideMerge(TestClock.layer())
)

await Effect.runPromise(Effect.provide(program, Live))
