import { Effect, Schema } from "effect"
import type { Activation, Intent, Tool } from "effect-intents"
import { describe, expect, test } from "tstyche"
import { type CardDeclined, charge, customer, lookup, mail, order, risk, sendEmail } from "./tools.ts"

declare const ctx: Activation.Context<string, {}, never>
declare const coin: boolean
declare const anything: any

const either = coin ? lookup(customer) : charge(order)
const upcast: Effect.Effect<string, Tool.ToolArgumentError> = lookup(customer)
const upcastEffect: Effect.Effect<unknown, unknown, unknown> = charge(order)
const upcastKind: Effect.Effect<unknown, unknown, any> & { readonly kind: Tool.Kind; readonly tool: Tool.Any } = coin
  ? lookup(customer)
  : charge(order)
const forged = { ...charge(order), kind: "ReadOnly" as const }

describe("ctx.runTool (K01)", () => {
  test("takes a ReadOnly call", () => {
    expect(ctx.runTool(lookup(customer))).type.toBe<Effect.Effect<string, Tool.ToolArgumentError>>()
    expect(ctx.runTool(risk(customer))).type.toBeAssignableTo<
      Effect.Effect<"high" | "low", unknown, Tool.ReadOnlyHandler<"risk">>
    >()
    expect(ctx.runTool(coin ? lookup(customer) : risk(customer))).type.toBeAssignableTo<
      Effect.Effect<string, unknown, Tool.ReadOnlyHandler<"risk">>
    >()
  })

  test("refuses a SideEffect call", () => {
    ctx.runTool(lookup(customer))
    // @ts-expect-error Type '"SideEffect"' is not assignable to type '"ReadOnly"'
    ctx.runTool(charge(order))
  })

  test("refuses a call that may be either", () => {
    // @ts-expect-error Type '"SideEffect"' is not assignable to type '"ReadOnly"'
    ctx.runTool(either)
    for (const call of [lookup(customer), risk(customer)]) ctx.runTool(call)
    for (const call of [lookup(customer), charge(order)]) {
      // @ts-expect-error Type '"SideEffect"' is not assignable to type '"ReadOnly"'
      ctx.runTool(call)
    }
    // @ts-expect-error is missing the following properties from type 'ReadOnlyCall
    ctx.runTool([lookup(customer)])
  })

  test("refuses what was a call: upcast, spread, forged, mapped", () => {
    expect(ctx.runTool).type.not.toBeCallableWith(upcast)
    expect(ctx.runTool).type.not.toBeCallableWith(upcastKind)
    expect(ctx.runTool).type.not.toBeCallableWith({ ...lookup(customer) })
    expect(ctx.runTool).type.not.toBeCallableWith(forged)
    expect(ctx.runTool).type.not.toBeCallableWith(Effect.map(lookup(customer), (id) => id))
    // @ts-expect-error is missing the following properties from type 'ReadOnlyCall
    ctx.runTool(Effect.asVoid(lookup(customer)))
    // @ts-expect-error Argument of type 'string' is not assignable
    ctx.runTool("lookup")
    // @ts-expect-error is missing the following properties from type 'ReadOnlyCall
    ctx.runTool(lookup)
  })

  test("keeps generic wrappers compiling", () => {
    const traced = <Call extends Tool.ReadOnlyCall<any, any, any, any>>(call: Call) =>
      Effect.withSpan(ctx.runTool(call), call.name)
    expect(traced(lookup(customer))).type.toBe<Effect.Effect<string, Tool.ToolArgumentError>>()
    expect(traced).type.not.toBeCallableWith(charge(order))
    const spread = <Name extends string, A, E, R>(call: Tool.ReadOnlyCall<Name, A, E, R>): Effect.Effect<A, E, R> =>
      ctx.runTool(call)
    expect(spread(lookup(customer))).type.toBe<Effect.Effect<string, Tool.ToolArgumentError>>()
  })

  test("lets 'any' through, which the run time refuses", () => {
    ctx.runTool(anything)
  })
})

describe("ctx.act and ctx.request (K01)", () => {
  test("take a SideEffect call and add its row", () => {
    expect(ctx.act(charge(order))).type.toBe<
      Effect.Effect<Intent.Id, Tool.ToolArgumentError | Activation.StepError, Tool.Intents<"charge">>
    >()
    expect(ctx.request(charge(order))).type.toBe<
      Effect.Effect<{ readonly receipt: string }, CardDeclined | Activation.RequestError, Tool.Intents<"charge">>
    >()
    ctx.act(charge(order), { ttl: "1 minute" })
  })

  test("refuse a ReadOnly call", () => {
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.act(lookup(customer))
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.request(lookup(customer))
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.requestAll({ a: charge(order), b: lookup(customer) })
    ctx.requestAll({ a: charge(order), b: sendEmail(mail) })
  })

  test("refuse a call that may be either", () => {
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.act(either)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.request(either)
    // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
    ctx.requestAll({ a: either })
    for (const call of [charge(order), sendEmail(mail)]) ctx.act(call)
    for (const call of [charge(order), lookup(customer)]) {
      // @ts-expect-error Type '"ReadOnly"' is not assignable to type '"SideEffect"'
      ctx.act(call)
    }
  })

  test("refuse what was a call: upcast, spread, mapped", () => {
    for (const refused of [ctx.act, ctx.request]) {
      expect(refused).type.not.toBeCallableWith(upcastEffect)
      expect(refused).type.not.toBeCallableWith(upcastKind)
      expect(refused).type.not.toBeCallableWith({ ...charge(order) })
      expect(refused).type.not.toBeCallableWith(Effect.asVoid(charge(order)))
      expect(refused).type.not.toBeCallableWith([charge(order)])
      expect(refused).type.not.toBeCallableWith(charge)
    }
    expect(ctx.requestAll).type.not.toBeCallableWith({ a: upcastEffect })
    expect(ctx.requestAll).type.not.toBeCallableWith({ a: { ...charge(order) } })
    expect(ctx.requestAll).type.not.toBeCallableWith(charge(order))
  })

  test("take a value, not a name and a text (K02)", () => {
    // @ts-expect-error Argument of type 'string' is not assignable to parameter of type 'AnySideEffectCall'
    ctx.act("no_such_tool", "not json")
    // @ts-expect-error Argument of type 'string' is not assignable to parameter of type 'AnySideEffectCall'
    ctx.request("no_such_tool")
  })

  test("give a union of rows for a union of calls, never a row of a union", () => {
    const call = coin ? charge(order) : sendEmail(mail)
    expect<Effect.Services<ReturnType<typeof ctx.act<typeof call>>>>().type.toBe<
      Tool.Intents<"charge"> | Tool.Intents<"sendEmail">
    >()
    const all = ctx.requestAll({ a: charge(order), b: sendEmail(mail) })
    expect(all).type.toBe<
      Effect.Effect<
        { readonly a: { readonly receipt: string }; readonly b: void },
        CardDeclined | Activation.RequestError,
        Tool.Intents<"charge"> | Tool.Intents<"sendEmail">
      >
    >()
    expect<Effect.Services<typeof all>>().type.not.toBe<Tool.Intents<"charge" | "sendEmail">>()
  })

  test("keep generic wrappers compiling", () => {
    const urgent = <Call extends Activation.AnySideEffectCall>(call: Call) => ctx.act(call, { ttl: "1 minute" })
    expect<Effect.Services<ReturnType<typeof urgent<ReturnType<typeof charge>>>>>().type.toBe<Tool.Intents<"charge">>()
    expect(urgent).type.toBeCallableWith(charge(order))
    expect(urgent).type.not.toBeCallableWith(lookup(customer))
  })

  test("let 'any' through with a row nobody can discharge by name, which the run time refuses as well", () => {
    expect(ctx.act(anything)).type.toBe<
      Effect.Effect<Intent.Id, Tool.ToolArgumentError | Activation.StepError, Tool.Intents<string>>
    >()
  })
})

describe("the other steps", () => {
  test("are typed by their schemas", () => {
    const Reply = Schema.Struct({ yes: Schema.Boolean })
    expect(ctx.receive(Reply, { timeout: "3 days" })).type.toBe<
      Effect.Effect<{ readonly yes: boolean }, Activation.MessageTimeout | Activation.StepError>
    >()
    expect(ctx.requestApproval({ title: "Really?" })).type.toBe<
      Effect.Effect<Activation.Decision, Activation.StepError>
    >()
    expect(ctx.requestApproval).type.toBeCallableWith({ title: "Really?", timeout: "1 hour", escalation: ["dana"] })
    expect(ctx.requestApproval).type.not.toBeCallableWith({ title: "Really?", timeout: "1 hour", escalation: "dana" })
    expect(ctx.edits).type.toBe<Effect.Effect<ReadonlyArray<Activation.Edit>>>()
    expect<ReadonlyArray<Activation.Edit>>().type.toBeAssignableTo<Schema.Json>()
    expect<Activation.Resume<string>["results"][number]["edited"]>().type.toBe<Activation.Edited | undefined>()
    expect(ctx.emit).type.toBeCallableWith("an output")
    expect(ctx.emit).type.not.toBeCallableWith(1)
  })
})
