import { Effect, Layer, Schema, type Stream } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, type Tool } from "effect-intents"
import { describe, expect, test } from "tstyche"
import { charge, customer, lookup, mail, order, risk, sendEmail } from "./tools.ts"

declare const run: typeof Effect.runPromise

const schemas = { event: Schema.String, output: Schema.String }
const done = Agent.complete("done")

const reader = Agent.make("reader", schemas, (ctx) => Effect.as(ctx.runTool(lookup(customer)), done))
const rater = Agent.make("rater", schemas, (ctx) => Effect.as(ctx.runTool(risk(customer)), done))
const payer = Agent.make("payer", schemas, (ctx) =>
  Effect.gen(function*() {
    yield* ctx.act(charge(order))
    yield* ctx.request(sendEmail(mail))
    return done
  }))

const receipts = charge.toLayer(() => Effect.succeed({ receipt: "r" }))
const mails = sendEmail.toLayer(() => Effect.void)
const store = AgentStore.layerMemory

describe("the engine requires what its agents require", () => {
  test("a store, the handlers of reads, the rows of intents", () => {
    expect(AgentEngine.layer(reader)).type.toBe<
      Layer.Layer<AgentEngine.AgentEngine, never, AgentStore.AgentStore>
    >()
    expect(AgentEngine.layer(reader, rater, payer)).type.toBe<
      Layer.Layer<
        AgentEngine.AgentEngine,
        never,
        | AgentStore.AgentStore
        | Tool.ReadOnlyHandler<"risk">
        | Tool.Intents<"charge">
        | Tool.Intents<"sendEmail">
      >
    >()
  })

  test("an agent whose intents nobody performs is refused, and the message names them", () => {
    const effector = Effector.layer(charge, sendEmail).pipe(Layer.provide([receipts, mails]))
    run(Layer.launch(AgentEngine.layer(payer).pipe(Layer.provide(effector), Layer.provide(store))))
    // @ts-expect-error Type 'Intents<"charge">' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(payer).pipe(Layer.provide(store))))
    // @ts-expect-error Type 'Intents<"charge">' is not assignable to type 'never'
    run(Effect.provide(AgentEngine.AgentEngine, AgentEngine.layer(payer).pipe(Layer.provide(store))))
  })

  test("one tool of several missing in the effector is refused, and the message names it", () => {
    const half = Effector.layer(charge).pipe(Layer.provide(receipts))
    const other = Effector.layer(sendEmail).pipe(Layer.provide(mails))
    run(Layer.launch(AgentEngine.layer(payer).pipe(Layer.provide([half, other]), Layer.provide(store))))
    // @ts-expect-error Type 'Intents<"sendEmail">' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(payer).pipe(Layer.provide(half), Layer.provide(store))))
  })

  test("an effector without the handler is refused", () => {
    const open = Effector.layer(charge, sendEmail).pipe(Layer.provide(receipts))
    // @ts-expect-error Type 'Handler<"sendEmail">' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(payer).pipe(Layer.provide(open), Layer.provide(store))))
  })

  test("a read without its handler is refused", () => {
    const high = risk.toLayer(() => Effect.succeed("high" as const))
    run(Layer.launch(AgentEngine.layer(rater).pipe(Layer.provide(high), Layer.provide(store))))
    // @ts-expect-error Type 'ReadOnlyHandler<"risk">' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(rater).pipe(Layer.provide(store))))
  })

  test("somebody elsewhere is somebody", () => {
    run(Layer.launch(
      AgentEngine.layer(payer).pipe(
        Layer.provide(Effector.elsewhere(charge, sendEmail)),
        Layer.provide(store)
      )
    ))
  })

  test("'any' ends here: what an agent of unknown needs is provided by nobody", () => {
    const any = Agent.make("any", schemas, () => Effect.as(null as any as Effect.Effect<void, never, any>, done))
    const anyAct = Agent.make("anyAct", schemas, (ctx) => Effect.as(ctx.act(null as any), done))
    run(Layer.launch(AgentEngine.layer(reader).pipe(Layer.provide(store))))
    // @ts-expect-error Type 'any' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(any).pipe(Layer.provide(store))))
    // @ts-expect-error Type 'any' is not assignable to type 'never'
    run(Effect.provide(AgentEngine.AgentEngine, AgentEngine.layer(any).pipe(Layer.provide(store))))
    // @ts-expect-error Type 'any' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(reader, any).pipe(Layer.provide(store))))
    // @ts-expect-error Type 'Intents<string>' is not assignable to type 'never'
    run(Layer.launch(AgentEngine.layer(anyAct).pipe(Layer.provide(store))))
  })
})

describe("events and outputs have the agent's types", () => {
  const counter = Agent.make(
    "counter",
    { event: Schema.Int, output: Schema.Struct({ n: Schema.Int }) },
    (_, n) => Effect.succeed(Agent.complete({ n }))
  )

  test("sent, called and streamed", () => {
    Effect.map(AgentEngine.AgentEngine, (engine) => {
      engine.send(counter, { key: "k", event: 1 })
      // @ts-expect-error Type 'string' is not assignable to type 'number'
      engine.send(counter, { key: "k", event: "1" })
      expect<Effect.Success<ReturnType<typeof engine.call<"counter", number, { readonly n: number }, never>>>>()
        .type.toBe<{ readonly n: number }>()
      // @ts-expect-error Type 'string' is not assignable to type 'number'
      engine.call(counter, { key: "k", event: "1" })
      expect(engine.outputs(counter)).type.toBe<
        Stream.Stream<AgentEngine.OutputOf<{ readonly n: number }>, AgentStore.StoreError>
      >()
    })
  })

  test("a client needs the store alone", () => {
    expect<Effect.Services<typeof AgentEngine.client>>().type.toBe<AgentStore.AgentStore>()
  })
})
