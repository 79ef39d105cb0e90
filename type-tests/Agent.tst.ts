import { Context, Effect, Schema } from "effect"
import { type Activation, Agent, type Tool } from "effect-intents"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as HttpClient from "effect/http/HttpClient"
import * as SqlClient from "effect/sql/SqlClient"
import { describe, expect, test } from "tstyche"
import { charge, customer, lookup, mail, order, risk, sendEmail } from "./tools.ts"

class Ledger extends Context.Service<Ledger, { readonly balance: Effect.Effect<number> }>()("Ledger") {}

const schemas = { event: Schema.String, output: Schema.String }
const done = Agent.complete("done")

describe("an agent", () => {
  test("requires the handlers of its reads and the rows of its intents, and nothing else", () => {
    const agent = Agent.make(
      "assess",
      schemas,
      Effect.fnUntraced(function*(ctx, event) {
        const band = yield* ctx.runTool(risk({ id: event }))
        yield* lookup(customer)
        yield* ctx.act(charge(order))
        if (band === "high") yield* ctx.request(sendEmail(mail))
        return done
      })
    )
    expect(agent).type.toBe<
      Agent.Agent<
        "assess",
        string,
        string,
        Tool.ReadOnlyHandler<"risk"> | Tool.Intents<"charge"> | Tool.Intents<"sendEmail">
      >
    >()
    expect(Agent.activate(agent, { key: "k", event: "c1" })).type.toBeAssignableTo<
      Effect.Effect<Activation.Activated, unknown, Tool.ReadOnlyHandler<"risk">>
    >()
  })

  test("gets a typed context and event in every way of writing it", () => {
    Agent.make("a", schemas, (ctx, event) => {
      expect(ctx).type.toBe<Activation.Context<string, {}, never>>()
      expect(event).type.toBe<string>()
      return Effect.succeed(done)
    })
    Agent.make("a", schemas, (ctx, event) =>
      Effect.gen(function*() {
        expect(ctx).type.toBe<Activation.Context<string, {}, never>>()
        expect(event).type.toBe<string>()
        return yield* Effect.succeed(done)
      }))
    Agent.make(
      "a",
      schemas,
      Effect.fnUntraced(function*(ctx, event) {
        expect(ctx).type.toBe<Activation.Context<string, {}, never>>()
        expect(event).type.toBe<string>()
        return yield* Effect.succeed(done)
      })
    )
  })

  test("may yield a ReadOnly call, which is the same as running it", () => {
    expect(Agent.make("a", schemas, () => Effect.as(risk(customer), done))).type.toBe<
      Agent.Agent<"a", string, string, Tool.ReadOnlyHandler<"risk">>
    >()
  })
})

describe("a SideEffect call inside an agent is refused where the agent is made", () => {
  test("yielded, through Effect.fnUntraced", () => {
    Agent.make(
      "a",
      schemas,
      Effect.fnUntraced(function*(ctx) {
        yield* ctx.act(charge(order))
        return done
      })
    )
    Agent.make(
      "a",
      schemas,
      // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
      Effect.fnUntraced(function*() {
        yield* charge(order)
        return done
      })
    )
  })

  test("yielded, through Effect.gen", () => {
    Agent.make("a", schemas, (ctx) =>
      Effect.gen(function*() {
        yield* ctx.act(charge(order))
        return done
      }))
    Agent.make("a", schemas, () =>
      // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
      Effect.gen(function*() {
        yield* charge(order)
        return done
      }))
  })

  test("through pipe, map, flatMap, all, and with its failures caught", () => {
    Agent.make("a", schemas, (ctx) => ctx.act(charge(order)).pipe(Effect.as(done)))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => charge(order).pipe(Effect.as(done)))
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.map(charge(order), () => done))
    Agent.make(
      "a",
      schemas,
      // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
      (ctx) => Effect.flatMap(ctx.runTool(lookup(customer)), () => Effect.as(charge(order), done))
    )
    // @ts-expect-error Type 'EffectorScope' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(Effect.ignore(Effect.all([lookup(customer), charge(order)])), done))
  })
})

describe("a service of its own is refused where the agent is made", () => {
  test("any service", () => {
    // @ts-expect-error Type 'Ledger' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(Ledger, done))
    Agent.make("a", schemas, () => Effect.as(Effect.void, done))
  })

  test("a database, an HTTP client, a model", () => {
    // @ts-expect-error Type 'SqlClient' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(SqlClient.SqlClient, done))
    // @ts-expect-error Type 'HttpClient' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(HttpClient.get("https://example.com"), done))
    // @ts-expect-error Type 'LanguageModel' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(LanguageModel.generateText({ prompt: "Hello" }), done))
  })

  test("the handler of a SideEffect tool, and a scope", () => {
    // @ts-expect-error Type 'Handler<"charge">' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(null as any as Effect.Effect<void, never, Tool.Handler<"charge">>, done))
    // @ts-expect-error Type 'Scope' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(Effect.addFinalizer(() => Effect.void), done))
    Agent.make("a", schemas, () => Effect.scoped(Effect.as(Effect.addFinalizer(() => Effect.void), done)))
  })

  test("one among capabilities", () => {
    Agent.make("a", schemas, (ctx) => Effect.as(Effect.andThen(ctx.act(charge(order)), risk(customer)), done))
    // @ts-expect-error Type 'Ledger' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, (ctx) => Effect.as(Effect.andThen(ctx.act(charge(order)), Ledger), done))
  })

  test("'unknown' is refused; 'any' passes here and ends at the engine", () => {
    // @ts-expect-error Type 'unknown' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, () => Effect.as(null as any as Effect.Effect<void, never, unknown>, done))
    // @ts-expect-error Type 'unknown' is not assignable to type 'Capabilities'
    Agent.make("a", schemas, (ctx) => Effect.as(ctx.runTool(null as any), done))
    expect(Agent.make("a", schemas, () => Effect.as(null as any as Effect.Effect<void, never, any>, done))).type.toBe<
      Agent.Agent<"a", string, string, any>
    >()
  })
})

describe("the outcome", () => {
  test("is the declared output", () => {
    Agent.make(
      "a",
      { event: Schema.String, output: Schema.Literals(["yes", "no"]) },
      () => Effect.succeed(Agent.complete("yes"))
    )
    Agent.make(
      "a",
      { event: Schema.String, output: Schema.Literals(["yes", "no"]) },
      // @ts-expect-error Type '"perhaps"' is not assignable to type '"yes" | "no"'
      () => Effect.succeed(Agent.complete("perhaps"))
    )
    // @ts-expect-error Type 'number' is not assignable to type 'string'
    Agent.make("a", schemas, () => Effect.succeed(Agent.complete(1 as number)))
    // @ts-expect-error is not assignable to type 'Outcome<string, never>'
    Agent.make("a", schemas, () => Effect.succeed("done"))
  })

  test("suspends with the declared state only", () => {
    const machine = { ...schemas, state: Schema.Struct({ tries: Schema.Int }) }
    Agent.make("a", machine, () => Effect.succeed(Agent.suspend({ tries: 1 })))
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Agent.make("a", machine, () => Effect.succeed(Agent.suspend({ tries: "1" as string })))
    // @ts-expect-error is not assignable to type 'Outcome<string, never>'
    Agent.make("a", schemas, () => Effect.succeed(Agent.suspend({ tries: 1 })))
  })

  test("a machine is resumed with its own state and the results of its tools", () => {
    const machine = { ...schemas, state: Schema.Struct({ tries: Schema.Int }) }
    Agent.make(
      "a",
      machine,
      Effect.fnUntraced(function*(ctx) {
        if (ctx.resume === undefined) {
          yield* ctx.act(charge(order))
          return Agent.suspend({ tries: 1 })
        }
        expect(ctx.resume.state).type.toBe<{ readonly tries: number }>()
        const [first] = ctx.resume.results
        const result = ctx.resume.result(charge, first!.id)
        expect<Effect.Success<typeof result>>().type.toBe<{ readonly receipt: string }>()
        expect(ctx.resume.result).type.not.toBeCallableWith(lookup, first!.id)
        return Agent.complete("done")
      })
    )
    Agent.make("a", schemas, (ctx) => {
      expect(ctx.resume!.state).type.toBe<never>()
      return Effect.succeed(done)
    })
  })
})

describe("schemas", () => {
  test("need no services", () => {
    const needy = Schema.String as any as Schema.Codec<string, string, Ledger, never>
    Agent.make("a", { ...schemas, event: Schema.String }, () => Effect.succeed(done))
    // @ts-expect-error Type 'Ledger' is not assignable to type 'never'
    Agent.make("a", { ...schemas, event: needy }, () => Effect.succeed(done))
  })

  test("type the event and the output as decoded", () => {
    const agent = Agent.make("a", { event: Schema.Date, output: Schema.BigInt }, (_, event) => {
      expect(event).type.toBe<Date>()
      return Effect.succeed(Agent.complete(1n))
    })
    expect(agent).type.toBe<Agent.Agent<"a", Date, bigint, never>>()
  })
})
