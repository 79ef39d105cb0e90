// A program that is wrong in five places. `npm run refused` shows what the compiler says.
import { Effect, Layer, Schema } from "effect"
import { Agent, AgentEngine, AgentStore, Tool } from "effect-intents"
import { HttpClient } from "effect/http"

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

const schemas = { event: Schema.String, output: Schema.String }

Agent.make(
  "hasty",
  schemas,
  Effect.fnUntraced(function*(ctx, customerId) {
    yield* ctx.runTool(freezeAccount({ customerId })) // a side effect is no read
    yield* ctx.act(riskBand({ customerId })) // a read is nothing to stage
    return Agent.complete("frozen")
  })
)

// An agent reaches the world through tools and through nothing else.
Agent.make("sly", schemas, (_, customerId) =>
  HttpClient.get(`https://bank.example/freeze/${customerId}`).pipe(
    Effect.as(Agent.complete("frozen"))
  ))

// Only the effector runs a side effect.
Effect.runPromise(freezeAccount({ customerId: "cust-9" }))

// Somebody has to perform what an agent stages.
const careful = Agent.make("careful", schemas, (ctx, customerId) =>
  ctx.act(freezeAccount({ customerId })).pipe(
    Effect.as(Agent.complete("freeze requested"))
  ))
const engine = AgentEngine.layer(careful).pipe(Layer.provide(AgentStore.layerMemory))
Effect.runPromise(Layer.launch(engine))
