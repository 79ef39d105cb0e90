/**
 * What a model is shown is what is accepted (K12), for every kind of schema below, in both dialects and both directions.
 *
 * | kind                                   | shown as                                         | exact |
 * |----------------------------------------|--------------------------------------------------|-------|
 * | struct, class, empty struct, brand     | closed object                                    | yes   |
 * | optionalKey, optional, NullOr, default | field not required, `null` where it decodes      | yes   |
 * | String, code points, `u` pattern, UUID | string with bounds, pattern, format              | yes   |
 * | isMinLength                            | minLength in code points                         | yes   |
 * | isMaxLength, pattern with `.` or flags | the nearest JSON Schema can say                  | no    |
 * | Number, Finite, Int, bounds, multiples | number (finite) or safe integer                  | yes   |
 * | literals, enum, Boolean, Null, Void    | enum, boolean, null                              | yes   |
 * | NumberFromString, BigInt, BigDecimal   | string with a pattern                            | yes   |
 * | Date, DateTime.Utc, Date from millis   | date-time with a pattern, bounded integer        | yes   |
 * | Uint8Array                             | base64 string                                    | yes   |
 * | Map, Set, Option, Redacted, Duration   | their JSON forms                                 | yes   |
 * | array, tuple, record, template key     | array, prefixItems, additional/patternProperties | yes   |
 * | union, recursive, Unknown, Json        | anyOf, $ref, {}                                  | yes   |
 * | Trim and other pure transformations    | their encoded side                               | yes   |
 * | custom filter, oneOf, URL, JSON text,  | their encoded side, as near as it can be said    | no    |
 * | checks after a transformation          |                                                  |       |
 * | Never, symbols, no JSON form           | refused by `make`, with the path                 |       |
 */
import { assert, describe, it } from "@effect/vitest"
import type { AnySchema } from "ajv"
import { Ajv } from "ajv"
import addFormats from "ajv-formats"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaTransformation from "effect/SchemaTransformation"
import type { Json } from "../src/CanonicalJson.ts"
import * as ToolSchema from "../src/ToolSchema.ts"
import { admitted, json, mutant } from "./fixtures/jsonValues.ts"
import { holds } from "./fixtures/property.ts"

class Money extends Schema.Class<Money>("Money")({ cents: Schema.Int, currency: Schema.NonEmptyString }) {}

class Nothing extends Schema.Class<Nothing>("Nothing")({}) {}

interface Category {
  readonly name: string
  readonly parts: ReadonlyArray<Category>
}
const Category: Schema.Codec<Category> = Schema.Struct({
  name: Schema.NonEmptyString,
  parts: Schema.Array(Schema.suspend((): Schema.Codec<Category> => Category))
})

type Expression = number | { readonly left: Expression; readonly right: Expression }
const Expression: Schema.Codec<Expression> = Schema.Union([
  Schema.Finite,
  Schema.Struct({
    left: Schema.suspend((): Schema.Codec<Expression> => Expression),
    right: Schema.suspend((): Schema.Codec<Expression> => Expression)
  })
])

const Charge = Schema.Struct({ customerId: Schema.String, amountCents: Schema.Int })

const even = Schema.makeFilter((n: number) => n % 2 === 0, { expected: "an even number" })

const evenLength = Schema.makeFilter((text: string) => text.length % 2 === 0)

type AnyCodec = Schema.Codec<any, any, never, never>

// Fields, because that is what tools have; most of them would do as roots as well.
const exact: { readonly [kind: string]: AnyCodec } = {
  struct: Charge,
  emptyStruct: Schema.Struct({}),
  emptyStructs: Schema.Struct({
    a: Schema.Struct({}),
    b: Schema.optionalKey(Schema.Struct({})),
    c: Schema.Array(Nothing)
  }),
  nested: Schema.Struct({ a: Schema.Struct({ b: Schema.Struct({ c: Schema.Boolean }) }) }),
  class: Schema.Struct({ one: Money, many: Schema.Array(Money) }),
  rootClass: Money,
  brand: Schema.Struct({ id: Schema.String.pipe(Schema.brand("Id")) }),
  inherited: Schema.Struct({ constructor: Schema.String, valueOf: Schema.Int }),
  note: Schema.Struct({ note: Schema.optional(Schema.NullOr(Schema.String)) }),
  optional: Schema.Struct({
    a: Schema.optionalKey(Schema.Int),
    b: Schema.optional(Schema.Int),
    c: Schema.NullOr(Schema.Int)
  }),
  undefinedOr: Schema.Struct({ a: Schema.UndefinedOr(Schema.String), b: Schema.Undefined, c: Schema.Null }),
  defaults: Schema.Struct({
    a: Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1))),
    b: Schema.NonEmptyString.pipe(Schema.withDecodingDefault(Effect.succeed("x")))
  }),
  strings: Schema.Struct({
    a: Schema.String,
    b: Schema.NonEmptyString,
    c: Schema.String.check(Schema.isMinCodePoints(2), Schema.isMaxCodePoints(4)),
    d: Schema.String.check(Schema.isBetweenCodePoints(1, 3)),
    e: Schema.String.check(Schema.isMinLength(3))
  }),
  patterns: Schema.Struct({
    a: Schema.String.check(Schema.isPattern(/^[a-c]+-\d{2}$/)),
    b: Schema.String.check(Schema.isPattern(/^(?:a|😀){1,3}$/u)),
    c: Schema.String.check(Schema.isUUID()),
    d: Schema.String.check(Schema.isULID()),
    e: Schema.String.check(Schema.isStartingWith("a-")),
    f: Schema.String.check(Schema.isTrimmed()),
    g: Schema.TemplateLiteral(["id-", Schema.Literals(["x", "y"])])
  }),
  numbers: Schema.Struct({
    a: Schema.Number,
    b: Schema.Finite,
    c: Schema.Number.check(Schema.isBetween({ minimum: -1, maximum: 2.5 })),
    d: Schema.Finite.check(Schema.isGreaterThan(0), Schema.isLessThanOrEqualTo(10))
  }),
  integers: Schema.Struct({
    a: Schema.Int,
    b: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1), Schema.isLessThan(5)),
    c: Schema.Int.check(Schema.isMultipleOf(5), Schema.isBetween({ minimum: -1000, maximum: 1000 }))
  }),
  literals: Schema.Struct({
    a: Schema.Literals(["x", "y", "😀"]),
    b: Schema.Literal(3),
    c: Schema.Literals([1, "1", true]),
    d: Schema.Enum({ Low: "low", High: 9 }),
    e: Schema.Literals([1n, 2n])
  }),
  numbersFromStrings: Schema.Struct({
    a: Schema.NumberFromString,
    b: Schema.FiniteFromString,
    c: Schema.BigIntFromString
  }),
  bigs: Schema.Struct({ a: Schema.BigInt, b: Schema.BigDecimal }),
  times: Schema.Struct({
    a: Schema.Date,
    b: Schema.DateFromString,
    c: Schema.DateFromMillis,
    d: Schema.DateTimeUtc,
    e: Schema.DateTimeUtcFromString
  }),
  bytes: Schema.Struct({ a: Schema.Uint8Array, b: Schema.Uint8ArrayFromBase64 }),
  collections: Schema.Struct({
    a: Schema.ReadonlyMap(Schema.String, Schema.NumberFromString),
    b: Schema.ReadonlySet(Schema.Int),
    c: Schema.Option(Schema.Date),
    d: Schema.OptionFromNullOr(Schema.NonEmptyString),
    e: Schema.Duration
  }),
  secrets: Schema.Struct({
    a: Schema.Redacted(Schema.String),
    b: Schema.RedactedFromValue(Schema.NonEmptyString),
    c: Schema.Redacted(Schema.Struct({ pin: Schema.NumberFromString }))
  }),
  arrays: Schema.Struct({
    a: Schema.Array(Schema.Int),
    b: Schema.NonEmptyArray(Schema.String),
    c: Schema.Array(Schema.Date).check(Schema.isMinLength(1), Schema.isMaxLength(2)),
    d: Schema.Array(Schema.Int).check(Schema.isUnique())
  }),
  tuples: Schema.Struct({
    a: Schema.Tuple([Schema.String, Schema.Int]),
    b: Schema.Tuple([Schema.String, Schema.optionalKey(Schema.Date)]),
    c: Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.Int])
  }),
  records: Schema.Struct({
    a: Schema.Record(Schema.String, Schema.Number),
    b: Schema.Record(Schema.NonEmptyString, Schema.Date),
    c: Schema.Record(Schema.Literals(["x", "y"]), Schema.Int),
    d: Schema.Record(Schema.TemplateLiteral(["a-", Schema.String]), Schema.Int),
    e: Schema.Record(Schema.String, Schema.Int).check(Schema.isMinProperties(1)),
    f: Schema.StructWithRest(Schema.Struct({ a: Schema.String }), [Schema.Record(Schema.String, Schema.String)])
  }),
  unions: Schema.Struct({
    a: Schema.Union([Schema.String, Schema.Int, Schema.Null]),
    b: Schema.Union([Schema.Struct({ x: Schema.Int }), Schema.Struct({ x: Schema.Int, y: Schema.Int })]),
    c: Schema.Union([
      Schema.Struct({ _tag: Schema.tag("A"), a: Schema.Date }),
      Schema.Struct({ _tag: Schema.tag("B"), b: Schema.BigInt })
    ]),
    d: Schema.Union([Schema.BigInt, Schema.Boolean])
  }),
  rootUnion: Schema.Union([Charge, Schema.Struct({ refund: Schema.Boolean })]),
  rootRecord: Schema.Record(Schema.String, Schema.Int),
  recursive: Schema.Struct({ category: Category, expression: Expression }),
  rootRecursive: Category,
  unknown: Schema.Struct({ a: Schema.Unknown, b: Schema.Any, c: Schema.Json, d: Schema.ObjectKeyword }),
  transformations: Schema.Struct({
    a: Schema.Trim,
    b: Schema.String.pipe(
      Schema.decodeTo(Schema.String.check(Schema.isLowercased()), SchemaTransformation.toLowerCase())
    ),
    c: Schema.NonEmptyString.pipe(Schema.decodeTo(Schema.Struct({ text: Schema.String }), {
      decode: SchemaGetter.transform((text: string) => ({ text })),
      encode: SchemaGetter.transform(({ text }: { readonly text: string }) => text)
    }))
  }),
  renamed: Schema.Struct({ customerId: Schema.NonEmptyString, at: Schema.Date }).pipe(
    Schema.encodeKeys({ customerId: "customer_id" })
  ),
  void: Schema.Void
}

const narrower: { readonly [kind: string]: readonly [AnyCodec, ...paths: ReadonlyArray<string>] } = {
  custom: [Schema.Struct({ a: Schema.Int.check(even) }), "a"],
  maxLength: [Schema.Struct({ a: Schema.String.check(Schema.isMaxLength(4)) }), "a"],
  dot: [Schema.Struct({ a: Schema.String.check(Schema.isPattern(/^.{2}$/)) }), "a"],
  flags: [Schema.Struct({ a: Schema.Array(Schema.String.check(Schema.isPattern(/^[ab]*$/i))) }), `a["*"]`],
  afterwards: [Schema.Struct({ a: Schema.NumberFromString.check(Schema.isInt()) }), "a"],
  insideOption: [Schema.Struct({ a: Schema.Option(Schema.NumberFromString.check(Schema.isInt())) }), "a"],
  url: [Schema.Struct({ a: Schema.URL }), "a"],
  jsonText: [Schema.Struct({ a: Schema.fromJsonString(Schema.Struct({ b: Schema.Boolean })) }), "a"],
  fallible: [
    Schema.Struct({
      a: Schema.String.pipe(Schema.decodeTo(Schema.String, {
        decode: SchemaGetter.checkEffect((text: string) => Effect.succeed(text !== "")),
        encode: SchemaGetter.checkEffect((text: string) => Effect.succeed(text !== ""))
      }))
    }),
    "a"
  ],
  anew: [
    Schema.Struct({
      a: Schema.NonEmptyString.pipe(Schema.decodeTo(Schema.NonEmptyString, {
        decode: SchemaGetter.transform((text: string) => text.slice(1)),
        encode: SchemaGetter.transform((text: string) => `x${text}`)
      }))
    }),
    "a"
  ],
  oneOf: [Schema.Union([Schema.Struct({ a: Schema.Int }), Schema.Struct({ b: Schema.Int })], { mode: "oneOf" }), ""],
  template: [Schema.Struct({ a: Schema.TemplateLiteral(["n", Schema.Int]) }), "a"],
  uniqueDates: [Schema.Array(Schema.Date).check(Schema.isUnique()), ""],
  whole: [Schema.Struct({ a: Schema.Date, b: Schema.Date }).check(Schema.makeFilter((r) => r.a < r.b)), ""],
  lastItems: [Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.Int, Schema.Boolean]), ""]
}

const made = <A>(schema: Schema.Codec<A, any, never, never>): ToolSchema.ToolSchema<A> =>
  Result.getOrThrowWith(ToolSchema.make(schema), (error) => error)

const refusal = (schema: AnyCodec): ToolSchema.ToolSchemaError => {
  const result = ToolSchema.make(schema)
  return Result.isFailure(result) ? result.failure : assert.fail("accepted")
}

const issues = (result: Result.Result<unknown, ReadonlyArray<ToolSchema.Issue>>): ReadonlyArray<ToolSchema.Issue> =>
  Result.isFailure(result) ? result.failure : assert.fail("accepted")

/** Whether both dialects admit the value; they must agree. */
const validator = (tool: ToolSchema.ToolSchema<any>) => {
  const compile = (ajv: Ajv | Ajv2020, schema: AnySchema) => {
    addFormats.default(ajv)
    return ajv.compile<Json>(schema)
  }
  const newest = compile(new Ajv2020({ strict: false, ownProperties: true }), tool.jsonSchema("draft-2020-12"))
  const draft07 = compile(new Ajv({ strict: false, ownProperties: true }), tool.jsonSchema("draft-07"))
  return (value: unknown): value is Json => {
    const valid = newest(value) === true
    assert.strictEqual(draft07(value) === true, valid, "the dialects disagree")
    return valid
  }
}

/** Values of the type as effect makes them (dates of the year 200,000), and as a model would. */
const typed = (tool: ToolSchema.ToolSchema<any>, schema: AnyCodec): Arbitrary.Arbitrary<any> =>
  Arbitrary.flatMap(Arbitrary.schema(Schema.Boolean), (asModel) =>
    asModel
      ? Arbitrary.filterMap(
        admitted(tool.jsonSchema("draft-2020-12")),
        (value) => tool.decode(value)
      )
      : Arbitrary.schema(schema))

const all = Object.entries(exact).concat(Object.entries(narrower).map(([kind, [schema]]) => [kind, schema]))

describe("what is shown is what is accepted (K12)", () => {
  it.effect.each(Object.entries(exact))("%s: JSON is admitted if and only if it decodes", ([kind, schema]) => {
    const tool = made(schema)
    const valid = validator(tool)
    assert.deepStrictEqual(tool.narrower, [])
    const values = Arbitrary.filter(admitted(tool.jsonSchema("draft-2020-12")), valid)
    const agrees = (value: Json) => {
      const decoded = tool.decode(value)
      return valid(value) === Result.isSuccess(decoded)
        ? undefined
        : `${valid(value) ? "admitted, but" : "not admitted, but decodes:"} ${JSON.stringify(decoded)}`
    }
    return Effect.andThen(
      holds(kind, values, agrees, 150),
      Effect.andThen(
        holds(`${kind}, mutated`, mutant(values), agrees, 300),
        holds(`${kind}, any JSON`, json(), agrees, 50)
      )
    )
  })

  it.effect.each(all)("%s: what is encoded is admitted, decodes, and encodes again to the same", ([kind, schema]) => {
    const tool = made(schema)
    const valid = validator(tool)
    let encodings = 0
    return Effect.andThen(
      holds(kind, typed(tool, schema), (value) => {
        const encoded = tool.encode(value)
        // Some values have no JSON: NaN, the year 10000, `undefined` for `unknown`. They are refused, not bent.
        if (Result.isFailure(encoded)) return undefined
        encodings++
        if (!valid(encoded.success)) return `encoded outside the schema: ${JSON.stringify(encoded.success)}`
        const decoded = tool.decode(encoded.success)
        if (Result.isFailure(decoded)) return `encoded, but does not decode: ${JSON.stringify(decoded.failure)}`
        const again = tool.encode(decoded.success)
        return JSON.stringify(Result.getOrUndefined(again)) === JSON.stringify(encoded.success)
          ? undefined
          : "encodes anew"
      }, 150),
      Effect.sync(() => assert.isAtLeast(encodings, 20, `${kind}: hardly anything encodes`))
    )
  })

  it.effect("of all schemas that effect exports, those called exact are", () =>
    Effect.forEach(Object.entries(Schema).filter(([, schema]) => Schema.isSchema(schema)), ([name, schema]) => {
      const tool = Result.getOrUndefined(ToolSchema.make(schema as AnyCodec))
      if (tool === undefined || !tool.exact || name === "Never") return Effect.void
      const values = Arbitrary.filter(admitted(tool.jsonSchema("draft-2020-12")), validator(tool))
      return holds(name, values, (value) => {
        const decoded = tool.decode(value)
        return Result.isSuccess(decoded) ? undefined : `admitted, but ${JSON.stringify(decoded.failure)}`
      }, 50)
    }, { discard: true }))

  it.each(Object.entries(narrower))("%s: says that it is narrower, and where", (_, [schema, ...paths]) => {
    const tool = made(schema)
    assert.isFalse(tool.exact)
    assert.deepStrictEqual([...new Set(tool.narrower.map(({ path }) => path))], paths)
  })
})

describe("make", () => {
  it("refuses what no JSON can stand for, and says where", () => {
    const at = (schema: AnyCodec) => {
      const { path, reason } = refusal(schema)
      return `${path}: ${reason}`
    }
    assert.match(
      at(Schema.Struct({ a: Schema.Array(Schema.Struct({ b: Schema.Never })) })),
      /^a\["\*"\]\.b: Schema\.Never/
    )
    assert.match(
      at(Schema.Struct({ a: Schema.Option(Schema.instanceOf(WeakMap)) })),
      /^a\.value: it has no JSON form; annot/
    )
    assert.match(
      at(Schema.Struct({ a: Schema.declare((u): u is () => void => typeof u === "function") })),
      /^a: it has no JSON/
    )
    assert.match(at(Schema.Struct({ a: Schema.Symbol })), /^a: a symbol is not data/)
    assert.match(
      at(Schema.Struct({ a: Schema.Struct({ [Symbol.for("x")]: Schema.String }) })),
      /^a: a symbol is not a key/
    )
    assert.match(at(Schema.Record(Schema.Symbol, Schema.String)), /^: a symbol is not a key/)
    assert.match(
      at(Schema.Struct({ a: Schema.Redacted(Schema.String, { disallowJsonEncode: true }) })),
      /^a: it may not be encoded/
    )
    assert.match(at(Schema.Struct({ toString: Schema.optionalKey(Schema.Int) })), /^toString: .*rename the field/)
    const unbounded = Schema.makeFilter(() => true, { toJsonSchema: () => ({ minimum: -Infinity }) })
    assert.match(at(Schema.Finite.check(unbounded)), /minimum: a number that is not finite/)
    assert.isFalse(Result.isSuccess(made(Schema.Never).decode(null)), "as the failure of a tool that never fails")
  })

  it("shows a plain object schema, everything inline", () => {
    const described = Schema.Struct({
      who: Schema.String.annotate({ description: "a customer" }),
      money: Money.annotate({ description: "how much" }),
      at: Schema.Int.annotateKey({ description: "when" })
    }).annotate({ identifier: "Described", description: "a thing" })
    const shown = made(described).jsonSchema("draft-2020-12")
    const integer = { type: "integer", minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }
    assert.deepStrictEqual(shown, {
      type: "object",
      description: "a thing",
      properties: {
        who: { type: "string", description: "a customer" },
        money: {
          type: "object",
          properties: { cents: integer, currency: { type: "string", minLength: 1 } },
          required: ["cents", "currency"],
          additionalProperties: false
        },
        at: { ...integer, description: "when" }
      },
      required: ["who", "money", "at"],
      additionalProperties: false
    })
    assert.deepStrictEqual(made(described).jsonSchema("draft-07"), shown)
    assert.deepStrictEqual(made(Schema.Struct({})).jsonSchema("draft-07"), {
      type: "object",
      properties: {},
      additionalProperties: false
    })
    assert.deepStrictEqual(
      made(Schema.Struct({ a: Schema.optional(Schema.NullOr(Schema.String)) })).jsonSchema("draft-07"),
      {
        type: "object",
        properties: { a: { anyOf: [{ type: "string" }, { type: "null" }] } },
        additionalProperties: false
      }
    )
  })

  it("keeps definitions for recursive parts only, and no $ref at the root", () => {
    const newest = made(Category).jsonSchema("draft-2020-12")
    const draft07 = made(Category).jsonSchema("draft-07")
    assert.strictEqual(newest["type"], "object")
    assert.deepStrictEqual(Object.keys(newest["$defs"]!).length, 1)
    assert.isUndefined(draft07["$defs"])
    assert.match(JSON.stringify(draft07["properties"]), /"#\/definitions\//)
  })

  it("lists where secrets are, wherever they come from", () => {
    const paths = (schema: AnyCodec) => made(schema).redacted.map((path) => path.join("/"))
    assert.deepStrictEqual(paths(Charge), [])
    assert.deepStrictEqual(
      paths(Schema.Struct({
        a: Schema.Redacted(Schema.String),
        b: Schema.Array(Schema.RedactedFromValue(Schema.NonEmptyString)),
        c: Schema.Record(Schema.String, Schema.Redacted(Schema.Struct({ pin: Schema.Redacted(Schema.String) }))),
        d: Schema.optional(Schema.Option(Schema.Redacted(Schema.String))),
        e: Schema.Tuple([Schema.Int, Schema.Redacted(Schema.String)])
      })),
      ["a", "b/*", "c/*", "d/value", "e/1"]
    )
    class Card extends Schema.Class<Card>("Card")({ name: Schema.String, pin: Schema.Redacted(Schema.String) }) {}
    assert.deepStrictEqual(paths(Schema.Struct({ card: Card })), ["card/pin"])
    // Renamed, the trail is lost: all fields count.
    const renamed = Schema.Struct({ pin: Schema.RedactedFromValue(Schema.String), name: Schema.String })
    assert.deepStrictEqual(paths(renamed.pipe(Schema.encodeKeys({ pin: "p" }))), ["p", "name"])
    interface Tree {
      readonly secret: Redacted.Redacted<string>
      readonly below: ReadonlyArray<Tree>
    }
    const Tree: Schema.Codec<Tree, any> = Schema.Struct({
      secret: Schema.Redacted(Schema.String),
      below: Schema.Array(Schema.suspend((): Schema.Codec<Tree, any> => Tree))
    })
    assert.match(refusal(Schema.Struct({ tree: Tree })).message, /^tree: a secret in a recursive type/)
  })
})

describe("decodeArguments", () => {
  const optional = made(Schema.Struct({ a: Schema.optionalKey(Schema.Int), b: Schema.optional(Schema.String) }))
  const charge = made(Charge)

  it("takes nothing as the empty object (K13)", () => {
    for (const input of [undefined, null, "", "{}", {}]) {
      assert.deepStrictEqual(optional.decodeArguments(input), Result.succeed({}))
      assert.deepStrictEqual(issues(charge.decodeArguments(input)).map(({ path }) => path), [
        "customerId",
        "amountCents"
      ])
    }
    for (const input of [[], "x", "[]", "null", "1", 1, true, "{"]) {
      for (const tool of [optional, charge]) {
        assert.match(issues(tool.decodeArguments(input))[0]!.message, /^Expected an object of arguments/)
      }
    }
  })

  it("reads a string that holds an object", () => {
    const text = JSON.stringify({ customerId: "c1", amountCents: 5 })
    assert.deepStrictEqual(charge.decodeArguments(text), Result.succeed({ customerId: "c1", amountCents: 5 }))
  })

  it("names the missing field (K14) and the field nobody asked for (K64)", () => {
    assert.deepStrictEqual(issues(charge.decodeArguments({ customerId: "c1" })), [
      { path: "amountCents", message: "Missing key" }
    ])
    assert.deepStrictEqual(
      issues(charge.decodeArguments({ customerId: "c1", amountCents: 1, idempotencyKey: "k" })).map(({ path }) => path),
      ["idempotencyKey"]
    )
  })

  it("refuses hostile arguments with bounded errors that do not repeat them (K79)", () => {
    const everything = made(Schema.Struct({ a: Schema.Unknown, b: Schema.Record(Schema.String, Schema.Unknown) }))
    let deep: unknown = "secret"
    for (let level = 0; level < 20_000; level++) deep = { a: deep }
    const bad: ReadonlyArray<unknown> = [
      deep,
      { a: deep, b: {} },
      { a: 1, b: { ["secret".repeat(170_000)]: 1 } },
      { a: 1, b: {}, ["secret".repeat(170_000)]: 1 },
      { a: Array.from({ length: 100_000 }, () => "secret"), b: {} },
      { a: "secret\ud800", b: {} },
      "[\"secret\",".repeat(20_000),
      `{"a":${"[".repeat(20_000)}"secret"${"]".repeat(20_000)}}`
    ]
    for (const tool of [everything, charge]) {
      for (const input of bad) {
        const text = JSON.stringify(issues(tool.decodeArguments(input)))
        assert.isBelow(text.length, 600)
        assert.notInclude(text.slice(0, 100), "secretsecret")
      }
    }
    const many = issues(made(Schema.Array(Schema.Int)).decode(Array.from({ length: 40_000 }, () => "secret")))
    assert.strictEqual(many.length, 17)
    assert.deepStrictEqual(many[16], { path: "", message: "and 39984 more" })
  })

  it("decodes 256 levels of a recursive type", () => {
    let value: Json = 1
    for (let level = 0; level < 255; level++) value = { left: value, right: 1 }
    assert.isTrue(Result.isSuccess(made(Expression).decode(value)))
    assert.isTrue(Result.isFailure(made(Expression).decode({ left: { left: value, right: 1 }, right: 1 })))
  })
})

describe("decode", () => {
  it("decodes once, to the declared type (K15)", () => {
    const tool = made(Schema.Struct({ count: Schema.NumberFromString, money: Money }))
    const value = Result.getOrThrow(tool.decode({ count: "5", money: { cents: 1, currency: "EUR" } }))
    assert.strictEqual(value.count, 5)
    assert.instanceOf(value.money, Money)
    const encoded = Result.getOrThrow(tool.encode(value))
    assert.deepStrictEqual(encoded, { count: "5", money: { cents: 1, currency: "EUR" } })
    assert.deepStrictEqual(Result.getOrThrow(tool.decode(encoded)), value)
  })

  it("never says what was given", () => {
    const tool = made(Schema.Struct({
      a: Schema.Literals(["x", "y"]),
      b: Schema.Date,
      c: Schema.Union([Schema.Struct({ k: Schema.Int }), Schema.Int]),
      d: Schema.String.check(evenLength),
      e: Schema.Record(Schema.String, Schema.Int)
    }))
    const secret = "hunter2"
    const text = JSON.stringify(
      issues(tool.decode({ a: secret, b: secret, c: { k: secret }, d: secret, e: { x: secret } }))
    )
    assert.notInclude(text, secret)
  })

  it("says nothing of a secret, not even what its own filter says", () => {
    const tellTale = Schema.String.check(Schema.makeFilter((text) => text === "" ? undefined : `${text} is wrong`))
    const tool = made(
      Schema.Struct({ pin: Schema.Redacted(tellTale), box: Schema.Redacted(Schema.Struct({ a: tellTale })) })
    )
    const found = issues(tool.decode({ pin: "hunter2", box: { hunter2: 1, a: "hunter2" } }))
    assert.notInclude(JSON.stringify(found), "hunter2")
    assert.deepStrictEqual([...new Set(found.map(({ path }) => path))], ["pin", "box"])
    assert.deepStrictEqual(issues(tool.decode({ box: { a: "" } })), [{ path: "pin", message: "Missing key" }])
  })

  it("turns a schema that throws or answers late into an issue", () => {
    const throwing = Schema.String.pipe(Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transform((text: string): string => {
        throw new Error(text)
      }),
      encode: SchemaGetter.transformEffect((text: string) => Effect.as(Effect.sleep(1), text))
    }))
    assert.match(issues(made(throwing).decode("secret"))[0]!.message, /^The schema itself failed/)
    assert.match(issues(made(throwing).encode("secret"))[0]!.message, /^The schema itself failed/)
  })
})

describe("encode", () => {
  it("runs the checks of typed values and names the field (K16)", () => {
    assert.deepStrictEqual(issues(made(Charge).encode({ customerId: "c1", amountCents: 10.5 })), [
      { path: "amountCents", message: "Expected an integer" }
    ])
    assert.match(issues(made(Schema.Struct({ a: Schema.Number })).encode({ a: NaN }))[0]!.message, /finite/)
    assert.match(issues(made(Schema.Unknown).encode(new Date()))[0]!.message, /JSON/)
  })

  it("drops keys the type does not know, and never one that a member of a union knows", () => {
    const row = { customerId: "c1", amountCents: 1, createdAt: new Date(0) }
    assert.deepStrictEqual(made(Charge).encode(row), Result.succeed({ customerId: "c1", amountCents: 1 }))
    const union = Schema.Union([Schema.Struct({ x: Schema.Int }), Schema.Struct({ x: Schema.Int, y: Schema.Int })])
    assert.deepStrictEqual(made(union).encode({ x: 1, y: 2 }), Result.succeed({ x: 1, y: 2 }))
    assert.deepStrictEqual(made(Schema.Struct({})).encode(row), Result.succeed({}))
  })

  it("encodes nothing that would not decode again", () => {
    assert.match(
      issues(made(Schema.Array(Schema.Int)).encode(Array.from({ length: 100_000 }, () => 0)))[0]!.message,
      /more than 50000 values/
    )
    assert.match(issues(made(Schema.String).encode("\ud800"))[0]!.message, /lone surrogate/)
  })
})

describe("providers", () => {
  const root = (schema: AnyCodec) => {
    const issue = ToolSchema.rootIssue(made(schema).jsonSchema("draft-2020-12"))
    assert.strictEqual(ToolSchema.rootIssue(made(schema).jsonSchema("draft-07")), issue)
    return issue
  }
  const strict = (schema: AnyCodec) => {
    const issue = ToolSchema.strictIssue(made(schema).jsonSchema("draft-2020-12"))
    assert.strictEqual(ToolSchema.strictIssue(made(schema).jsonSchema("draft-07")), issue)
    return issue
  }

  it("take a plain object as root and nothing else (K10)", () => {
    assert.isUndefined(root(Schema.Struct({})))
    assert.isUndefined(root(Charge))
    assert.isUndefined(root(Schema.Struct({ category: Category })))
    assert.isUndefined(root(Schema.Struct({ labels: Schema.Record(Schema.String, Schema.Int) })))
    assert.match(root(Schema.Union([Charge, Money]))!, /anyOf.*wrap them in a field/)
    assert.match(root(Schema.Record(Schema.String, Schema.Int))!, /a record; wrap it/)
    assert.match(root(Category)!, /a recursive type; wrap it/)
    assert.match(root(Expression)!, /anyOf/)
    assert.match(root(Schema.String)!, /not one plain object/)
    assert.match(root(Schema.Never)!, /not one plain object/)
  })

  it("do not take open records and optional fields in strict mode (K11)", () => {
    assert.isUndefined(strict(Charge))
    assert.isUndefined(
      strict(Schema.Struct({ category: Category, note: Schema.NullOr(Schema.NonEmptyString), at: Schema.Date }))
    )
    assert.match(
      strict(Schema.Struct({ labels: Schema.Record(Schema.String, Schema.Number) }))!,
      /^labels: an open record/
    )
    assert.match(
      strict(Schema.Struct({ a: Schema.Array(Schema.Struct({ b: Schema.optionalKey(Schema.Int) })) }))!,
      /^a\["\*"\]: .*'b'/
    )
    assert.match(strict(Schema.Struct({ a: Schema.Unknown }))!, /^a: any JSON/)
    assert.match(strict(Schema.Struct({ a: Schema.Tuple([Schema.Int]) }))!, /^a: /)
    const labels = made(Schema.Struct({ labels: Schema.Record(Schema.String, Schema.Number) }))
    assert.deepStrictEqual(labels.decode({ labels: { a: 1 } }), Result.succeed({ labels: { a: 1 } }))
  })
})
