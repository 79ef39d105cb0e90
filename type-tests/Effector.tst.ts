import { Effect, Layer } from "effect"
import { type AgentStore, Effector, type Intent, type Tool } from "effect-intents"
import { describe, expect, test } from "tstyche"
import { charge, customer, lookup, mail, sendEmail } from "./tools.ts"

declare const coin: boolean

const both = [charge, lookup]

type Both = Tool.Intents<"charge"> | Tool.Intents<"sendEmail">

describe("Effector.layer", () => {
  test("performs the rows of its tools, for their handlers and a store", () => {
    expect(Effector.layer(charge)).type.toBe<
      Layer.Layer<Tool.Intents<"charge">, never, Tool.Handler<"charge"> | AgentStore.AgentStore>
    >()
    expect(Effector.layer(charge, sendEmail)).type.toBe<
      Layer.Layer<Both, never, Tool.Handler<"charge"> | Tool.Handler<"sendEmail"> | AgentStore.AgentStore>
    >()
    expect(Effector.layerWith({ concurrency: 8 })(charge, sendEmail)).type.toBe<
      Layer.Layer<Both, never, Tool.Handler<"charge"> | Tool.Handler<"sendEmail"> | AgentStore.AgentStore>
    >()
  })

  test("gives a union of rows, never a row of a union", () => {
    expect<Layer.Success<ReturnType<typeof Effector.layer<[typeof charge, typeof sendEmail]>>>>().type.toBe<Both>()
    expect(Effector.layer(coin ? charge : sendEmail)).type.toBeAssignableTo<
      Layer.Layer<Both, never, Tool.Handler<"charge"> | Tool.Handler<"sendEmail"> | AgentStore.AgentStore>
    >()
  })

  test("is missing one handler where one layer is missing", () => {
    const receipts = charge.toLayer(() => Effect.succeed({ receipt: "r" }))
    const mails = sendEmail.toLayer(() => Effect.void)
    expect(Effector.layer(charge, sendEmail).pipe(Layer.provide([receipts, mails]))).type.toBe<
      Layer.Layer<Both, never, AgentStore.AgentStore>
    >()
    expect(Effector.layer(charge, sendEmail).pipe(Layer.provide(receipts))).type.toBe<
      Layer.Layer<Both, never, Tool.Handler<"sendEmail"> | AgentStore.AgentStore>
    >()
  })

  test("takes SideEffect tools, not reads and not calls", () => {
    Effector.layer(charge)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    Effector.layer(lookup)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    Effector.layer(charge, lookup)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    Effector.layer(coin ? charge : lookup)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    Effector.layer(...both)
    expect(Effector.layer).type.not.toBeCallableWith(charge as Tool.Any)
    expect(Effector.layer).type.not.toBeCallableWith({ ...charge })
    expect(Effector.layer).type.not.toBeCallableWith(sendEmail(mail))
    expect(Effector.layer).type.not.toBeCallableWith(lookup(customer))
  })

  test("keeps generic wrappers compiling", () => {
    const slow = <Tools extends ReadonlyArray<Effector.AnyTool>>(...tools: Tools) =>
      Effector.layerWith({ concurrency: 1 })(...tools)
    expect(slow(charge, sendEmail)).type.toBe<
      Layer.Layer<Both, never, Tool.Handler<"charge"> | Tool.Handler<"sendEmail"> | AgentStore.AgentStore>
    >()
    expect(slow).type.not.toBeCallableWith(lookup)
  })
})

describe("the other interpreters", () => {
  test("need no handlers", () => {
    expect(Effector.elsewhere(charge, sendEmail)).type.toBe<Layer.Layer<Both>>()
    expect(Effector.dryRun()(charge, sendEmail)).type.toBe<Layer.Layer<Both, never, AgentStore.AgentStore>>()
    expect(Effector.elsewhere).type.not.toBeCallableWith(lookup)
    expect(Effector.dryRun()).type.not.toBeCallableWith(lookup)
  })

  test("answer with results of intents", () => {
    Effector.dryRun(({ intent }) => {
      expect(intent).type.toBe<Intent.Intent>()
      return { _tag: "Success", value: intent.id }
    })
    // @ts-expect-error is not assignable to type 'Result | undefined'
    Effector.dryRun(() => "done")
  })
})
