// What an activation costs above the bare Effect program that does the same work.
import { Agent, Tool } from "effect-intents"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { time } from "./measure.ts"

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

const schemas = { event: Schema.String, output: Schema.String }
const given = { key: "c-1", event: "c-1" }
const args = { customerId: "c-1", amountCents: 500 }

const noop = Agent.make(
  "noop",
  schemas,
  Effect.fnUntraced(function*(_, id) {
    return Agent.complete(id)
  })
)

const read = Agent.make(
  "read",
  schemas,
  Effect.fnUntraced(function*(ctx, id) {
    return Agent.complete((yield* ctx.runTool(lookup({ id }))).name)
  })
)

const act = Agent.make(
  "act",
  schemas,
  Effect.fnUntraced(function*(ctx, id) {
    yield* ctx.act(charge(args))
    return Agent.complete(id)
  })
)

const request = Agent.make(
  "request",
  schemas,
  Effect.fnUntraced(function*(ctx) {
    return Agent.complete(yield* ctx.request(charge(args)))
  })
)

const answers = { 0: { _tag: "Success" as const, value: "receipt" } }

const resumed = Effect.flatMap(
  Agent.activate(request, given),
  (from) => Agent.activate(request, { ...given, resume: { from, answers } })
)

// The bare programs: the same generators, calling what the tools call.
const looked = ({ id }: { readonly id: string }) => Effect.succeed({ name: id, score: 7 })
const charged = (_: typeof args) => Effect.succeed("receipt")
const bareNoop = Effect.fnUntraced(function*(id: string) {
  return id
})
const bareRead = Effect.fnUntraced(function*(id: string) {
  return (yield* looked({ id })).name
})
const bareCharge = Effect.fnUntraced(function*() {
  return yield* charged(args)
})

export const activation = async () => {
  const timed = await time({
    "no-op": Agent.activate(noop, given),
    "no-op, bare": bareNoop("c-1"),
    "1 read": Agent.activate(read, given),
    "1 read, bare": bareRead("c-1"),
    "1 act": Agent.activate(act, given),
    "1 act, bare": bareCharge(),
    "1 request, suspended and resumed": resumed,
    "1 request, suspended and resumed, bare": bareCharge()
  })
  return (["no-op", "1 read", "1 act", "1 request, suspended and resumed"] as const).map((work) => {
    const bare = timed[`${work}, bare`]
    return {
      work,
      ...timed[work],
      bareP50: bare.p50,
      above: timed[work].p50 - bare.p50,
      times: timed[work].p50 / bare.p50
    }
  })
}
