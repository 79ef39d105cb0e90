import { Context, Effect, Layer, Schema } from "effect"
import { Intent, Tool } from "effect-intents"
import { describe, expect, test } from "tstyche"
import { CardDeclined, charge, customer, lookup, mail, order, risk, sendEmail, type Unreachable } from "./tools.ts"

declare const run: typeof Effect.runPromise

class Ledger extends Context.Service<Ledger, { readonly balance: Effect.Effect<number> }>()("Ledger") {}

describe("a call", () => {
  test("carries the kind, the name and the types of its tool", () => {
    expect(lookup(customer)).type.toBe<Tool.ReadOnlyCall<"lookup", string, Tool.ToolArgumentError, never>>()
    expect(risk(customer)).type.toBe<
      Tool.ReadOnlyCall<"risk", "high" | "low", Unreachable | Tool.ToolArgumentError, Tool.ReadOnlyHandler<"risk">>
    >()
    expect(charge(order)).type.toBe<Tool.SideEffectCall<"charge", { readonly receipt: string }, CardDeclined>>()
    expect(sendEmail(mail)).type.toBe<Tool.SideEffectCall<"sendEmail", void, never>>()
  })

  test("takes the arguments of its tool, all of them", () => {
    expect(charge).type.toBeCallableWith({ customerId: "c1", amountCents: 500 })
    expect(charge).type.not.toBeCallableWith({ customerId: "c1" })
    expect(charge).type.not.toBeCallableWith({ customerId: "c1", amountCents: "500" })
    expect(charge).type.not.toBeCallableWith({ customerId: "c1", amountCents: 500, currency: "EUR" })
    expect(charge).type.not.toBeCallableWith()
  })

  test("needs no arguments where the tool has none or all are optional", () => {
    const ping = Tool.readOnly("ping", { description: "Ping.", handler: () => Effect.void })
    const list = Tool.readOnly("list", {
      description: "List.",
      parameters: { page: Schema.optionalKey(Schema.Int) },
      handler: () => Effect.void
    })
    expect(ping).type.toBeCallableWith()
    expect(list).type.toBeCallableWith()
    expect(list).type.toBeCallableWith({ page: 1 })
    expect(list).type.not.toBeCallableWith({ page: "1" })
  })
})

describe("running a call (K01)", () => {
  test("a ReadOnly call with its handler is a program, a SideEffect call never is", () => {
    run(lookup(customer))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(charge(order))
    // @ts-expect-error Type 'ReadOnlyHandler<"risk">' is not assignable to type 'never'
    run(risk(customer))
    // A union of both kinds is no program either.
    // @ts-expect-error Type 'SideEffectCall<"charge",
    run(Math.random() > 0.5 ? lookup(customer) : charge(order))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(Effect.all([lookup(customer), charge(order)]))
  })

  test("the requirement survives mapping, catching and every way of running", () => {
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(charge(order).pipe(Effect.map(() => 1), Effect.ignore))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(Effect.gen(function*() {
      return yield* charge(order)
    }))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    Effect.runFork(charge(order))
  })

  test("nothing outside the effector can provide it: its key is not exported", () => {
    expect<Extract<keyof typeof Tool, "EffectorScope" | "Start">>().type.toBe<never>()
  })
})

describe("the kinds", () => {
  test("are not assignable to one another, as tools or as calls", () => {
    expect(lookup).type.toBeAssignableTo<Tool.ReadOnly<"lookup", { readonly id: string }, string, never, never>>()
    expect(lookup).type.not.toBeAssignableTo<Tool.SideEffect<any, any, any, any>>()
    expect(charge).type.not.toBeAssignableTo<Tool.ReadOnly<any, any, any, any, any>>()
    expect(lookup(customer)).type.toBeAssignableTo<Tool.ReadOnlyCall<any, any, any, any>>()
    expect(charge(order)).type.not.toBeAssignableTo<Tool.ReadOnlyCall<any, any, any, any>>()
    expect(lookup(customer)).type.not.toBeAssignableTo<Tool.SideEffectCall<any, any, any>>()
  })

  test("are lost by mapping a call and by spreading it", () => {
    expect(Effect.map(lookup(customer), (id) => id)).type.not.toBeAssignableTo<
      Tool.ReadOnlyCall<any, any, any, any>
    >()
    expect({ ...lookup(customer) }).type.not.toBeAssignableTo<Tool.ReadOnlyCall<any, any, any, any>>()
    expect({ ...charge(order) }).type.not.toBeAssignableTo<Tool.SideEffectCall<any, any, any>>()
  })

  test("are chosen by name only: there is no option for the kind", () => {
    Tool.readOnly("a", { description: "A." })
    // @ts-expect-error 'kind' does not exist in type
    Tool.readOnly("a", { description: "A.", kind: "SideEffect" })
  })

  test("'unwrap' opens SideEffect tools only, and asks for the handler", () => {
    expect(Tool.unwrap(charge)).type.toBe<
      Effect.Effect<
        Tool.Unwrapped<
          { readonly customerId: string; readonly amountCents: number },
          { readonly receipt: string },
          CardDeclined
        >,
        never,
        Tool.Handler<"charge">
      >
    >()
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    Tool.unwrap(lookup)
  })
})

describe("the handler of a ReadOnly tool", () => {
  const base = { description: "Rate.", success: Schema.Literals(["high", "low"]) }

  test("in place gives the declared result, literals kept, and needs nothing", () => {
    Tool.readOnly("rate", { ...base, handler: (_) => Effect.succeed("high") })
    // @ts-expect-error is not assignable to type '"high" | "low"'
    Tool.readOnly("rate", { ...base, handler: (_) => Effect.succeed("none") })
    // @ts-expect-error Type 'Ledger' is not assignable to type 'never'
    Tool.readOnly("rate", { ...base, handler: (_) => Effect.as(Ledger, "high") })
  })

  test("fails with the declared failure only", () => {
    Tool.readOnly("rate", {
      description: "Rate.",
      failure: CardDeclined,
      handler: () => new CardDeclined({ code: "1" })
    })
    // @ts-expect-error Type 'CardDeclined' is not assignable to type 'never'
    Tool.readOnly("rate", { description: "Rate.", handler: () => new CardDeclined({ code: "1" }) })
  })

  test("in a layer may need services, which the layer then needs", () => {
    expect(risk.toLayer(() => Effect.succeed("high" as const))).type.toBe<Layer.Layer<Tool.ReadOnlyHandler<"risk">>>()
    expect(risk.toLayer(() => Effect.as(Ledger, "high" as const))).type.toBe<
      Layer.Layer<Tool.ReadOnlyHandler<"risk">, never, Ledger>
    >()
  })

  test("cannot ask for the intent being performed, in place or in a layer", () => {
    // @ts-expect-error Type 'CurrentIntent' is not assignable to type 'never'
    Tool.readOnly("rate", { ...base, handler: (_) => Effect.as(Intent.Current, "high") })
    const asking = risk.toLayer(() => Effect.as(Intent.Current, "high" as const))
    expect(asking).type.toBe<Layer.Layer<Tool.ReadOnlyHandler<"risk">, never, Tool.CurrentIntent>>()
    run(Effect.provide(risk(customer), risk.toLayer(() => Effect.succeed("high" as const))))
    // @ts-expect-error Type 'CurrentIntent' is not assignable to type 'never'
    run(Effect.provide(risk(customer), asking))
  })

  test("cannot run a SideEffect call", () => {
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    Tool.readOnly("rate", { ...base, handler: (_) => Effect.as(sendEmail(mail), "high") })
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(Effect.provide(risk(customer), risk.toLayer(() => Effect.as(sendEmail(mail), "high" as const))))
  })
})

describe("the handler of a SideEffect tool", () => {
  test("is never part of the tool", () => {
    Tool.sideEffect("send", { description: "Send." })
    // @ts-expect-error 'handler' does not exist in type
    Tool.sideEffect("send", { description: "Send.", handler: () => Effect.void })
  })

  test("gets the arguments, gives the declared result, and may ask for its intent", () => {
    const layer = charge.toLayer(({ amountCents, customerId }) => {
      expect(customerId).type.toBe<string>()
      expect(amountCents).type.toBe<number>()
      return Effect.map(Intent.Current, ({ id }) => ({ receipt: id }))
    })
    expect(layer).type.toBe<Layer.Layer<Tool.Handler<"charge">>>()
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    charge.toLayer(() => Effect.succeed({ receipt: 1 }))
    // @ts-expect-error Type 'string' is not assignable to type 'CardDeclined'
    charge.toLayer(() => Effect.fail("declined"))
  })

  test("needs its services in the layer", () => {
    expect(charge.toLayer(() => Effect.as(Ledger, { receipt: "r" }))).type.toBe<
      Layer.Layer<Tool.Handler<"charge">, never, Ledger>
    >()
  })

  test("cannot run another SideEffect tool: the scope stays required", () => {
    const quiet = charge.toLayer(() => Effect.succeed({ receipt: "r" }))
    const loud = charge.toLayer(() => Effect.as(sendEmail(mail), { receipt: "r" }))
    expect(loud).type.toBe<Layer.Layer<Tool.Handler<"charge">, never, Tool.EffectorScope>>()
    run(Layer.launch(quiet))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'never'
    run(Layer.launch(loud))
  })

  test("comes with a 'verify' that answers in the tool's terms", () => {
    const performed = Effect.succeed({ _tag: "Performed" as const, value: { receipt: "r" } })
    charge.toLayer(() => Effect.succeed({ receipt: "r" }), { verify: () => performed })
    charge.toLayer(() => Effect.succeed({ receipt: "r" }), {
      // @ts-expect-error Type 'string' is not assignable to type '{ readonly receipt: string; }'
      verify: () => Effect.succeed({ _tag: "Performed" as const, value: "r" })
    })
  })
})

describe("what a name identifies", () => {
  test("is neither part of a union of names nor stands for one", () => {
    expect<Tool.Intents<"a">>().type.not.toBeAssignableTo<Tool.Intents<"a" | "b">>()
    expect<Tool.Intents<"a" | "b">>().type.not.toBeAssignableTo<Tool.Intents<"a">>()
    expect<Tool.Handler<"a">>().type.not.toBeAssignableTo<Tool.Handler<"a" | "b">>()
    expect<Tool.Handler<"a" | "b">>().type.not.toBeAssignableTo<Tool.Handler<"a">>()
    expect<Tool.ReadOnlyHandler<"a">>().type.not.toBeAssignableTo<Tool.ReadOnlyHandler<"a" | "b">>()
    expect<Tool.ReadOnlyHandler<"a" | "b">>().type.not.toBeAssignableTo<Tool.ReadOnlyHandler<"a">>()
  })

  test("is of one sort: rows, handlers of reads and handlers of side effects are different", () => {
    expect<Tool.Handler<"a">>().type.not.toBeAssignableTo<Tool.ReadOnlyHandler<"a"> | Tool.Intents<"a">>()
    expect<Tool.ReadOnlyHandler<"a">>().type.not.toBeAssignableTo<Tool.Handler<"a"> | Tool.Intents<"a">>()
    expect<Tool.Intents<"a">>().type.not.toBeAssignableTo<Tool.Handler<"a"> | Tool.ReadOnlyHandler<"a">>()
  })
})

describe("options", () => {
  test("of a SideEffect tool are its own", () => {
    Tool.sideEffect("send", { description: "Send.", ttl: "1 minute", idempotent: true, approval: "required" })
    // @ts-expect-error 'ttl' does not exist in type
    Tool.readOnly("read", { description: "Read.", ttl: "1 minute" })
    // @ts-expect-error Type 'true' is not assignable to type '"required"
    Tool.sideEffect("send", { description: "Send.", approval: true })
  })

  test("an approval rule sees the arguments and needs no services", () => {
    Tool.sideEffect("pay", {
      description: "Pay.",
      parameters: { cents: Schema.Int },
      approval: ({ cents }) => Effect.succeed(cents > 100)
    })
    Tool.sideEffect("pay", {
      description: "Pay.",
      parameters: { cents: Schema.Int },
      // @ts-expect-error Property 'euros' does not exist on type '{ readonly cents: number; }'
      approval: ({ euros }) => Effect.succeed(euros > 100)
    })
    Tool.sideEffect("pay", {
      description: "Pay.",
      // @ts-expect-error Type 'Ledger' is not assignable to type 'never'
      approval: () => Effect.as(Ledger, true)
    })
  })

  test("parameters need no services to be read", () => {
    const needy = Schema.String.pipe(Schema.decodeTo(Schema.String, {
      decode: null as never as any,
      encode: null as never as any
    })) as any as Schema.Codec<string, string, Ledger, never>
    Tool.readOnly("read", { description: "Read.", parameters: { id: Schema.String } })
    // @ts-expect-error Type 'Ledger' is not assignable to type 'never'
    Tool.readOnly("read", { description: "Read.", parameters: { id: needy } })
  })
})

describe("a generic wrapper (K03)", () => {
  // Adds a price to the parameters of any SideEffect tool.
  const priced = <const Name extends string, P extends Tool.Fields>(
    name: Name,
    definition: { readonly description: string; readonly parameters: P }
  ) => Tool.sideEffect(name, { ...definition, parameters: { ...definition.parameters, priceCents: Schema.Int } })

  test("keeps the kind, the literal name and the types of the parameters", () => {
    const tool = priced("charge", {
      description: "Charge a customer.",
      parameters: { customerId: Schema.String, amountCents: Schema.Int }
    })
    expect(tool.kind).type.toBe<"SideEffect">()
    expect(tool.name).type.toBe<"charge">()
    expect(tool).type.toBeCallableWith({ customerId: "c1", amountCents: 500, priceCents: 5 })
    expect(tool).type.not.toBeCallableWith({ customerId: "c1", amountCents: 500 })
    expect(tool).type.not.toBeCallableWith({ customerId: "c1", amountCents: "500", priceCents: 5 })
  })

  test("that only passes the definition on keeps everything", () => {
    const audited = <
      const Name extends string,
      P extends Tool.Parameters,
      S extends Schema.Codec<any, any> = Schema.Void,
      F extends Schema.Codec<any, any> = Schema.Never
    >(name: Name, definition: Tool.SideEffectDefinition<P, S, F>) =>
      Tool.sideEffect(name, { ...definition, ttl: "1 hour" })
    const tool = audited("charge", { description: "Charge.", parameters: { id: Schema.String }, success: Schema.Int })
    expect(tool({ id: "1" })).type.toBeAssignableTo<Tool.SideEffectCall<"charge", number, never>>()
    expect(tool).type.not.toBeCallableWith({ id: 1 })
  })
})
