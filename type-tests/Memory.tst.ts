import { Effect, Schema } from "effect"
import { Agent, Memory } from "effect-intents"
import { describe, expect, test } from "tstyche"

const memory = {
  visits: Memory.entry(Schema.Int, () => 0),
  mood: Memory.entry(Schema.Literals(["good", "bad"]), () => "good" as const),
  notes: Memory.list(Schema.Struct({ text: Schema.String }), { maxItems: 10 })
}

const schemas = { event: Schema.String, output: Schema.String }

describe("an entry", () => {
  test("starts with a value of its schema", () => {
    Memory.entry(Schema.Int, () => 0)
    // @ts-expect-error Type 'string' is not assignable to type 'number'
    Memory.entry(Schema.Int, () => "0")
  })
})

describe("the memory of an agent", () => {
  test("has the entries it declares, with their types", () => {
    Agent.make("visitor", { ...schemas, memory }, (ctx) =>
      Effect.gen(function*() {
        expect(yield* ctx.memory.get("visits")).type.toBe<number>()
        expect(yield* ctx.memory.get("mood")).type.toBe<"good" | "bad">()
        expect(yield* ctx.memory.get("notes")).type.toBe<ReadonlyArray<{ readonly text: string }>>()
        return Agent.complete("done")
      }))
    Agent.make("visitor", { ...schemas, memory }, (ctx) => {
      ctx.memory.get("visits")
      // @ts-expect-error Argument of type '"visit"' is not assignable to parameter of type
      ctx.memory.get("visit")
      return Effect.succeed(Agent.complete("done"))
    })
  })

  test("is written with values of the entry's type", () => {
    Agent.make("visitor", { ...schemas, memory }, (ctx) => {
      ctx.memory.set("visits", 1)
      // @ts-expect-error Argument of type 'string' is not assignable to parameter of type 'number'
      ctx.memory.set("visits", "1")
      ctx.memory.set("mood", "bad")
      // @ts-expect-error Argument of type '"sad"' is not assignable to parameter of type '"good" | "bad"'
      ctx.memory.set("mood", "sad")
      ctx.memory.update("visits", (visits) => visits + 1)
      // @ts-expect-error Type 'string' is not assignable to type 'number'
      ctx.memory.update("visits", (visits) => String(visits))
      return Effect.succeed(Agent.complete("done"))
    })
  })

  test("appends items to lists only", () => {
    Agent.make("visitor", { ...schemas, memory }, (ctx) => {
      ctx.memory.append("notes", { text: "hello" })
      // @ts-expect-error Type 'number' is not assignable to type 'string'
      ctx.memory.append("notes", { text: 1 })
      // @ts-expect-error Argument of type '"visits"' is not assignable to parameter of type '"notes"'
      ctx.memory.append("visits", 1)
      return Effect.succeed(Agent.complete("done"))
    })
  })

  test("is empty where none is declared", () => {
    Agent.make("plain", schemas, (ctx) => {
      // @ts-expect-error Argument of type '"visits"' is not assignable to parameter of type 'never'
      ctx.memory.get("visits")
      return Effect.succeed(Agent.complete("done"))
    })
  })

  test("types flow through Effect.fnUntraced", () => {
    Agent.make(
      "visitor",
      { ...schemas, memory },
      Effect.fnUntraced(function*(ctx, event) {
        expect(event).type.toBe<string>()
        yield* ctx.memory.update("visits", (visits) => visits + 1)
        expect(yield* ctx.memory.get("mood")).type.toBe<"good" | "bad">()
        return Agent.complete("done")
      })
    )
  })

  test("what compaction keeps is JSON", () => {
    Agent.make(
      "visitor",
      { ...schemas, memory, compact: (entries) => ({ ...entries, notes: [] }) },
      () => Effect.succeed(Agent.complete("done"))
    )
    Agent.make(
      "visitor",
      // @ts-expect-error Type 'bigint' is not assignable to type 'Json'
      { ...schemas, memory, compact: (entries: Memory.Stored) => ({ ...entries, notes: 1n }) },
      () => Effect.succeed(Agent.complete("done"))
    )
  })
})
