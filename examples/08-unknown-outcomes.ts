/**
 * When nobody knows. A handler that was started and whose end was not recorded may have happened: that is `Unknown`, and it is
 * never run again by itself. What comes next is the tool's declaration.
 */
import { Console, Effect, Layer, Schema, Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Tool } from "effect-intents"

const parameters = { order: Schema.String }

// Nothing declared: the agent is told, and a person settles it.
const charge = Tool.sideEffect("charge", {
  description: "Charge for an order.",
  parameters,
  success: Schema.String,
  timeout: "100 millis"
})

// `verify` asks the outside whether it happened, before anybody is told.
const ship = Tool.sideEffect("ship", {
  description: "Ship an order.",
  parameters,
  success: Schema.String,
  timeout: "100 millis",
  verify: true
})

// Passes the idempotency key on, so that performing it again is safe.
const invoice = Tool.sideEffect("invoice", {
  description: "Write an invoice.",
  parameters,
  success: Schema.String,
  idempotent: true
})

const fulfil = Agent.make(
  "fulfil",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, order) {
    const invoiced = yield* ctx.request(invoice({ order }))
    const shipped = yield* ctx.request(ship({ order }))
    const charged = yield* ctx.request(charge({ order })).pipe(
      // Asking again could charge twice. `IntentNotPerformed` is the other tag: certainly never started.
      Effect.catchTag("IntentOutcomeUnknown", ({ reason }) => Effect.succeed(`charge unknown (${reason})`))
    )
    return Agent.complete([invoiced, shipped, charged].join(", "))
  })
)

const Handlers = Layer.mergeAll(
  charge.toLayer(() => Effect.never),
  ship.toLayer(() => Effect.never, {
    verify: ({ order }) => Effect.succeed({ _tag: "Performed", value: `parcel of ${order}` })
  }),
  invoice.toLayer(Effect.fnUntraced(function*({ order }) {
    const { attempt, id } = yield* Intent.Current
    yield* Console.log(`invoice, attempt ${attempt}, idempotency key ${id}`)
    if (attempt === 1) return yield* Effect.die(new Error("the connection broke"))
    return `invoice for ${order}`
  }))
)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* Console.log(yield* engine.call(fulfil, { key: "c-1", event: "order-1" }))

  for (const { intent } of yield* engine.intents({ states: ["Unknown"] })) {
    // An operator has looked it up at the bank. It can be settled once; what the agent was told does not change.
    yield* engine.resolve(intent.id, "dana", { to: "Performed", result: { _tag: "Success", value: "charge-77" } })
  }
  yield* engine.resolutions().pipe(
    Stream.take(1),
    Stream.runForEach(({ by, tool }) => Console.log(`${tool} was settled by ${by}`))
  )
  for (const { attempt, intent, state } of yield* engine.intents()) {
    yield* Console.log(`${intent.tool}: ${state}, ${attempt} ${attempt === 1 ? "start" : "starts"}`)
  }
})

const Live = AgentEngine.layer(fulfil).pipe(
  Layer.provide(Effector.layer(charge, ship, invoice)),
  Layer.provide(Handlers),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
