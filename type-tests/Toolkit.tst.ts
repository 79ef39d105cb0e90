import { Context, Effect, type Layer, Schema } from "effect"
import { Intent, Tool, Toolkit } from "effect-intents"
import { describe, expect, test } from "tstyche"
import { charge, customer, lookup, mail, risk, sendEmail } from "./tools.ts"

declare const run: typeof Effect.runPromise

class Ledger extends Context.Service<Ledger, { readonly balance: Effect.Effect<number> }>()("Ledger") {}

const kit = Toolkit.make(lookup, risk, charge)

describe("tools by name", () => {
  test("keep their types", () => {
    expect(kit.tools.charge).type.toBe<typeof charge>()
    expect(kit.tools).type.not.toHaveProperty("sendEmail")
  })

  test("two of one name are refused where they are put together (K08)", () => {
    const other = Tool.sideEffect("charge", { description: "Charge another way." })
    Toolkit.make(charge, sendEmail, lookup)
    // @ts-expect-error type '"duplicate tool name 'charge'; rename one of them"'
    Toolkit.make(charge, sendEmail, other)
  })

  test("two of one name are refused where they are merged (K08)", () => {
    const other = Tool.readOnly("charge", { description: "What was charged." })
    expect(kit.merge(Toolkit.make(sendEmail))).type.toBe<
      Toolkit.Toolkit<typeof lookup | typeof risk | typeof charge | typeof sendEmail>
    >()
    // @ts-expect-error type '"duplicate tool name 'charge'; rename one of them"'
    kit.merge(Toolkit.make(other))
    // Two tools of one type may be two tools, of which one would win.
    // @ts-expect-error type '"duplicate tool name 'charge'; rename one of them"'
    kit.merge(Toolkit.make(charge))
  })

  test("names known at run time only are no duplicates of one another", () => {
    const named = (name: string) => Tool.readOnly(name, { description: "Named later." })
    Toolkit.make(named("a"), named("b"), charge)
    Toolkit.make(named("a"), charge).merge(Toolkit.make(named("b"), sendEmail))
  })

  test("a part is picked by names that exist", () => {
    expect(kit.pick("lookup", "charge")).type.toBe<Toolkit.Toolkit<typeof lookup | typeof charge>>()
    // @ts-expect-error Argument of type '"sendEmail"' is not assignable to parameter of type '"lookup" | "risk" | "charge"'
    kit.pick("lookup", "sendEmail")
  })

  test("a toolkit of more tools is no toolkit of fewer", () => {
    expect(kit).type.not.toBeAssignableTo<Toolkit.Toolkit<typeof lookup>>()
    expect(Toolkit.make(lookup)).type.not.toBeAssignableTo<Toolkit.Toolkit<typeof lookup | typeof charge>>()
  })

  test("a generic wrapper may take any toolkit", () => {
    const names = <Tools extends Tool.Any>(kit: Toolkit.Toolkit<Tools>): ReadonlyArray<Tools["name"]> =>
      Object.keys(kit.tools)
    expect(names(kit)).type.toBe<ReadonlyArray<"lookup" | "risk" | "charge">>()
  })
})

describe("calls that arrive by name (K04)", () => {
  const many = Toolkit.make(
    charge,
    Tool.readOnly("ping", { description: "No parameters." }),
    Tool.sideEffect("remote", {
      description: "Its schema is known at run time only.",
      parameters: Schema.Unknown as Schema.Codec<unknown, unknown>
    }),
    Tool.readOnly("t01", { description: "1.", parameters: { p01: Schema.Int } }),
    Tool.sideEffect("t02", { description: "2.", parameters: { p02: Schema.Int } }),
    Tool.readOnly("t03", { description: "3.", parameters: { p03: Schema.Int } }),
    Tool.sideEffect("t04", { description: "4.", parameters: { p04: Schema.Int } }),
    Tool.readOnly("t05", { description: "5.", parameters: { p05: Schema.Int } }),
    Tool.sideEffect("t06", { description: "6.", parameters: { p06: Schema.Int } }),
    Tool.readOnly("t07", { description: "7.", parameters: { p07: Schema.Int } }),
    Tool.sideEffect("t08", { description: "8.", parameters: { p08: Schema.Int } }),
    Tool.readOnly("t09", { description: "9.", parameters: { p09: Schema.Int } }),
    Tool.sideEffect("t10", { description: "10.", parameters: { p10: Schema.Int } }),
    Tool.readOnly("t11", { description: "11.", parameters: { p11: Schema.Int } }),
    Tool.sideEffect("t12", { description: "12.", parameters: { p12: Schema.Int } }),
    Tool.readOnly("t13", { description: "13.", parameters: { p13: Schema.Int } }),
    Tool.sideEffect("t14", { description: "14.", parameters: { p14: Schema.Int } }),
    Tool.readOnly("t15", { description: "15.", parameters: { p15: Schema.Int } }),
    Tool.sideEffect("t16", { description: "16.", parameters: { p16: Schema.Int } }),
    Tool.readOnly("t17", { description: "17.", parameters: { p17: Schema.Int } }),
    Tool.sideEffect("t18", { description: "18.", parameters: { p18: Schema.Int } }),
    Tool.readOnly("t19", { description: "19.", parameters: { p19: Schema.Int } }),
    Tool.sideEffect("t20", { description: "20.", parameters: { p20: Schema.Int } }),
    Tool.readOnly("t21", { description: "21.", parameters: { p21: Schema.Int } }),
    Tool.sideEffect("t22", { description: "22.", parameters: { p22: Schema.Int } }),
    Tool.readOnly("t23", { description: "23.", parameters: { p23: Schema.Int } }),
    Tool.sideEffect("t24", { description: "24.", parameters: { p24: Schema.Int } }),
    Tool.readOnly("t25", { description: "25.", parameters: { p25: Schema.Int } }),
    Tool.sideEffect("t26", { description: "26.", parameters: { p26: Schema.Int } }),
    Tool.readOnly("t27", { description: "27.", parameters: { p27: Schema.Int } })
  )

  test("narrow by name, and nothing is widened by a tool without types", () => {
    expect<keyof typeof many.tools>().type.toBeAssignableFrom<"charge" | "ping" | "remote" | "t27">()
    Effect.map(many.decode("charge", {}), (call) => {
      if (call.name === "charge") {
        expect(call.arguments).type.toBe<{ readonly customerId: string; readonly amountCents: number }>()
        expect(call.call).type.toBe<ReturnType<typeof charge>>()
      }
      if (call.name === "t27") expect(call.arguments).type.toBe<{ readonly p27: number }>()
      if (call.name === "ping") expect(call.arguments).type.toBe<{}>()
      if (call.name === "remote") expect(call.arguments).type.toBe<unknown>()
      // @ts-expect-error have no overlap
      if (call.name === "chargee") return
    })
  })

  test("narrow by kind", () => {
    Effect.map(kit.decode("charge", {}), (call) => {
      expect(call.kind).type.toBe<"ReadOnly" | "SideEffect">()
      if (call.kind === "ReadOnly") expect(call.name).type.toBe<"lookup" | "risk">()
      else expect(call.name).type.toBe<"charge">()
    })
  })

  test("are only ReadOnly calls where they are to run at once", () => {
    expect<Effect.Success<ReturnType<typeof kit.read>>>().type.toBe<
      ReturnType<typeof lookup> | ReturnType<typeof risk>
    >()
    expect<Effect.Error<ReturnType<typeof kit.read>>>().type.toBe<
      Tool.ToolNotFoundError | Tool.ToolArgumentError | Tool.SideEffectToolError
    >()
  })
})

describe("a record of handlers", () => {
  const high = () => Effect.succeed("high" as const)
  const receipt = () => Effect.succeed({ receipt: "r" })

  test("holds one for every tool without a handler in place, no more and no less", () => {
    expect(kit.toLayer({ risk: high, charge: receipt })).type.toBe<
      Layer.Layer<Tool.ReadOnlyHandler<"risk"> | Tool.Handler<"charge">>
    >()
    // @ts-expect-error type '"no handler for 'charge'; add it to the record"'
    kit.toLayer({ risk: high })
    // @ts-expect-error type '"no tool 'sendEmail' needs a handler; remove it from the record"'
    kit.toLayer({ risk: high, charge: receipt, sendEmail: () => Effect.void })
    // @ts-expect-error type '"no tool 'lookup' needs a handler; remove it from the record"'
    kit.toLayer({ risk: high, charge: receipt, lookup: ({ id }: { readonly id: string }) => Effect.succeed(id) })
  })

  test("types the arguments, the result and the failure of each", () => {
    kit.toLayer({
      risk: ({ id }) => {
        expect(id).type.toBe<string>()
        return Effect.succeed("high")
      },
      charge: ({ amountCents }) => {
        expect(amountCents).type.toBe<number>()
        return Effect.succeed({ receipt: "r" })
      }
    })
    // @ts-expect-error Type '"none"' is not assignable to type '"high" | "low"'
    kit.toLayer({ risk: () => Effect.succeed("none" as const), charge: receipt })
    // @ts-expect-error Type 'string' is not assignable to type 'CardDeclined'
    kit.toLayer({ risk: high, charge: () => Effect.fail("declined") })
  })

  test("needs the services of its handlers; only SideEffect handlers are given their intent", () => {
    expect(kit.toLayer({ risk: high, charge: () => Effect.as(Ledger, { receipt: "r" }) })).type.toBe<
      Layer.Layer<Tool.ReadOnlyHandler<"risk"> | Tool.Handler<"charge">, never, Ledger>
    >()
    const acting = kit.toLayer({ risk: high, charge: () => Effect.map(Intent.Current, ({ id }) => ({ receipt: id })) })
    expect(acting).type.toBe<Layer.Layer<Tool.ReadOnlyHandler<"risk"> | Tool.Handler<"charge">>>()
    const reading = kit.toLayer({ risk: () => Effect.as(Intent.Current, "high" as const), charge: receipt })
    run(Effect.provide(risk(customer), acting))
    // @ts-expect-error Type 'CurrentIntent' is not assignable to type 'never'
    run(Effect.provide(risk(customer), reading))
  })

  test("does not let a handler run a SideEffect call", () => {
    const loud = kit.toLayer({ risk: high, charge: () => Effect.as(sendEmail(mail), { receipt: "r" }) })
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(Effect.provide(risk(customer), loud))
  })
})
