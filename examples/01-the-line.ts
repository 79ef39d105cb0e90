/**
 * The line. A tool stands on one side of it: `Tool.readOnly` looks and changes nothing, `Tool.sideEffect` changes something
 * outside. A read runs at once; a side effect is staged as an intent, and somebody else performs it.
 */
import { Console, Effect, Layer, Schema } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Tool, Toolkit } from "effect-intents"

const riskBand = Tool.readOnly("risk_band", {
  description: "Look up a customer's risk band.",
  parameters: { customerId: Schema.String },
  success: Schema.Literals(["high", "normal"]),
  handler: ({ customerId }) => Effect.succeed(customerId.endsWith("9") ? "high" : "normal")
})

const freezeAccount = Tool.sideEffect("freeze_account", {
  description: "Freeze an account.",
  parameters: { customerId: Schema.String }
})

const assess = Agent.make(
  "assess",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, customerId) {
    const band = yield* ctx.runTool(riskBand({ customerId })) // here, now
    if (band === "normal") return Agent.complete("cleared")
    yield* ctx.act(freezeAccount({ customerId }), { ttl: "1 minute" }) // staged, not performed
    return Agent.complete("freeze requested")
  })
)

// Handlers of side effects live with the effector, which may be another process; the agent holds no credentials.
const Accounts = freezeAccount.toLayer(({ customerId }) => Console.log(`freezing ${customerId}`))

const Live = AgentEngine.layer(assess).pipe(
  Layer.provide(Effector.layer(freezeAccount)),
  Layer.provide(Accounts),
  Layer.provide(AgentStore.layerMemory)
)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  yield* Console.log(yield* engine.call(assess, { key: "c-9", event: "cust-9" }))
  yield* engine.drain
})

await Effect.runPromise(Effect.provide(program, Live))

// The wrong side of the line does not compile. The comment demands exactly that error of the compiler.
export const hasty = Agent.make(
  "hasty",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, customerId) {
    // @ts-expect-error Type '"SideEffect"' is not assignable to type '"ReadOnly"'
    yield* ctx.runTool(freezeAccount({ customerId }))
    return Agent.complete("frozen")
  })
)

// A model names its tools in text, where no compiler looks: the same refusal, while running.
const tools = Toolkit.make(riskBand, freezeAccount)

const obedient = Agent.make(
  "obedient",
  { event: Schema.Struct({ tool: Schema.String, input: Schema.Json }), output: Schema.String },
  Effect.fnUntraced(function*(ctx, { input, tool }) {
    const call = yield* tools.read(tool, input)
    return Agent.complete(yield* ctx.runTool(call))
  })
)

const refusals = Effect.gen(function*() {
  const input = { customerId: "cust-9" }
  const read = yield* Agent.activate(obedient, { key: "c-9", event: { tool: "risk_band", input } })
  yield* Console.log("obedient:", read.outcome)

  // `Effect.flip` turns the refusal into a value. Where nothing is refused it fails, and this program with it.
  const refused = yield* Effect.flip(
    Agent.activate(obedient, { key: "c-9", event: { tool: "freeze_account", input } })
  )
  yield* Console.log(`refused: ${refused.message}`)
})

await Effect.runPromise(refusals)
