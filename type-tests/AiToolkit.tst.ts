import type { Effect, Layer } from "effect"
import { type Tool, Toolkit } from "effect-intents"
import { AiToolkit } from "effect-intents/model"
import type * as EffectTool from "effect/ai/Tool"
import { describe, expect, test } from "tstyche"
import { charge, lookup, risk, type Unreachable } from "./tools.ts"

const kit = Toolkit.make(lookup, risk, charge)

describe("a converted toolkit", () => {
  const converted = AiToolkit.fromToolkit(kit, "acme")
  type Tools = Effect.Success<typeof converted>["tools"]

  test("keeps names, arguments and results", () => {
    expect<keyof Tools>().type.toBe<"lookup" | "risk" | "charge">()
    expect<EffectTool.Parameters<Tools["charge"]>>().type.toBe<
      { readonly customerId: string; readonly amountCents: number }
    >()
    expect<EffectTool.Success<Tools["risk"]>>().type.toBe<"high" | "low">()
    expect<EffectTool.Failure<Tools["risk"]>>().type.toBe<Unreachable>()
    expect<Effect.Error<typeof converted>>().type.toBe<AiToolkit.UnsupportedToolError>()
  })

  test("fails by itself only where a SideEffect tool is run", () => {
    expect<EffectTool.HandlerError<Tools["risk"]>>().type.toBe<never>()
    expect<EffectTool.HandlerError<Tools["charge"]>>().type.toBeAssignableFrom<Tool.SideEffectToolError>()
  })

  test("needs the handlers of its reads, and none of a side effect", () => {
    expect(AiToolkit.layer(kit)).type.toBe<
      Layer.Layer<
        EffectTool.Handler<"lookup"> | EffectTool.Handler<"risk"> | EffectTool.Handler<"charge">,
        never,
        Tool.ReadOnlyHandler<"risk">
      >
    >()
    expect(AiToolkit.layer(Toolkit.make(lookup, charge))).type.toBe<
      Layer.Layer<EffectTool.Handler<"lookup"> | EffectTool.Handler<"charge">>
    >()
  })

  test("is made of tools", () => {
    AiToolkit.fromTool(charge)
    // @ts-expect-error is missing the following properties from type 'Any'
    AiToolkit.fromTool(charge({ customerId: "c1", amountCents: 500 }))
    expect(AiToolkit.fromToolkit).type.not.toBeCallableWith(charge, "acme")
  })

  test("keeps generic wrappers compiling", () => {
    const acme = <Tools extends Tool.Any>(kit: Toolkit.Toolkit<Tools>) => AiToolkit.fromToolkit(kit, "acme")
    const lookups = acme(Toolkit.make(lookup))
    expect<keyof Effect.Success<typeof lookups>["tools"]>().type.toBe<"lookup">()
  })
})
