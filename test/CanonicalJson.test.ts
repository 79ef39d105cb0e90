import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Result from "effect/Result"
import { createHash } from "node:crypto"
import * as CanonicalJson from "../src/CanonicalJson.ts"
import vectors from "./fixtures/canonical-vectors.json" with { type: "json" }
import { json } from "./fixtures/jsonValues.ts"
import { holds } from "./fixtures/property.ts"

const textOf = (value: unknown): string => Result.getOrThrow(CanonicalJson.encode(value))

const refusal = (result: Result.Result<unknown, CanonicalJson.CanonicalJsonError>): CanonicalJson.CanonicalJsonError =>
  Result.isFailure(result) ? result.failure : assert.fail("accepted")

const refused = (value: unknown, path: string, reason: RegExp) => {
  const error = refusal(CanonicalJson.encode(value))
  assert.strictEqual(error.path, path)
  assert.match(error.reason, reason)
}

const nested = (depth: number): unknown => {
  let value: unknown = 0
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}

const shuffled = (value: any): any =>
  Array.isArray(value)
    ? value.map(shuffled)
    : typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).reverse().map(([key, item]) => [key, shuffled(item)]))
    : value

describe("encode", () => {
  it("writes one text for arguments in other clothes (K65)", () => {
    const expected = `{"amountCents":1,"customerId":"c1"}`
    assert.strictEqual(textOf({ customerId: "c1", amountCents: 1 }), expected)
    assert.strictEqual(textOf({ amountCents: 1.0, customerId: "c1" }), expected)
    assert.strictEqual(textOf(Object.assign(Object.create(null), { customerId: "c1", amountCents: 1 })), expected)
    assert.strictEqual(textOf({ amountCents: -0 }), textOf({ amountCents: 0 }))
  })

  it("never gives two different values one text (K68)", () => {
    const values = [
      ["a|1", "2"],
      ["a", "1|2"],
      ["a\n", ""],
      ["a", "\n"],
      ["a\",\"b"],
      ["a", "b"],
      { a: 1 },
      { "a\":1": 1 },
      "1",
      1
    ]
    assert.strictEqual(new Set(values.map(textOf)).size, values.length)
  })

  it("sorts keys by code point, not by UTF-16 code unit", () => {
    // U+10000 is D800 DC00 in UTF-16, below U+E000 and U+FFFF as code units.
    assert.strictEqual(
      textOf({
        "\uffff": 1,
        "\u{10000}": 2,
        "\ue000": 3,
        "\ud7ff": 4,
        "": 5,
        "a\u{10000}": 6,
        "a\uffff": 7,
        "10": 8,
        "9": 9
      }),
      `{"":5,"10":8,"9":9,"a\uffff":7,"a\u{10000}":6,"\ud7ff":4,"\ue000":3,"\uffff":1,"\u{10000}":2}`
    )
  })

  it("writes numbers as ECMAScript does", () => {
    assert.strictEqual(textOf([1.0, 1e21, -0, 1e-7, 0.1 + 0.2, 5e-324]), "[1,1e+21,0,1e-7,0.30000000000000004,5e-324]")
  })

  it("keeps an own __proto__ as data", () => {
    const value = JSON.parse(`{"b":1,"__proto__":{"x":1}}`)
    assert.strictEqual(textOf(value), `{"__proto__":{"x":1},"b":1}`)
    assert.strictEqual(textOf({ ["__proto__"]: 1 }), `{"__proto__":1}`)
  })

  it("refuses what is not plain JSON, and says where", () => {
    refused({ a: [1, NaN] }, "a[1]", /not finite/)
    refused({ a: { "b c": Infinity } }, `a["b c"]`, /not finite/)
    refused(undefined, "", /undefined is not JSON/)
    refused({ a: undefined }, "a", /undefined is not JSON/)
    refused([() => 1], "[0]", /function is not JSON/)
    refused({ a: Symbol("x") }, "a", /symbol is not JSON/)
    refused({ a: 1n }, "a", /bigint is not JSON/)
    refused({ [Symbol("x")]: 1 }, "", /symbol as a key/)
    // oxlint-disable-next-line no-sparse-arrays
    refused([1, , 3], "[1]", /undefined is not JSON/)
    refused({ a: new Date(0) }, "a", /instance of a class/)
    refused(new Map(), "", /instance of a class/)
    refused(Object.create({ a: 1 }), "", /instance of a class/)
    refused(new (class extends Array {})(), "", /class of its own/)
    refused(new String("x"), "", /instance of a class/)
  })

  it("refuses lone surrogates in strings and keys", () => {
    refused({ a: "x\ud800" }, "a", /lone surrogate/)
    refused(["\udc00"], "[0]", /lone surrogate/)
    refused({ a: { "\ud800": 1 } }, "a", /key with .*lone surrogate/)
    assert.strictEqual(textOf("\ud83d\ude00"), `"😀"`)
  })

  it("refuses cycles and 20,000 levels with a bounded error", () => {
    const cycle: Record<string, unknown> = { a: 1 }
    cycle["b"] = [cycle, cycle]
    for (const value of [cycle, nested(20_000)]) {
      const error = refusal(CanonicalJson.encode(value))
      assert.match(error.reason, /cycle, or more than 512 levels/)
      assert.isBelow(error.message.length, 300)
    }
    assert.isTrue(Result.isSuccess(CanonicalJson.encode(nested(512))))
    assert.isTrue(Result.isFailure(CanonicalJson.encode(nested(513))))
  })

  it("refuses a value that shares its parts to grow without bound", () => {
    let value: unknown = 0
    for (let level = 0; level < 60; level++) value = [value, value]
    assert.match(refusal(CanonicalJson.encode(value)).reason, /more than \d+ values/)
  })

  it("does not repeat a key of 1 MB (K79)", () => {
    const key = "k".repeat(1_000_000)
    const error = refusal(CanonicalJson.encode({ [key]: { [`${key}\ud83d\ude00`]: NaN } }))
    assert.isBelow(error.path.length, 250)
    assert.isTrue(error.path.isWellFormed())
    const limited = CanonicalJson.encode({ [key]: 1 }, { ...CanonicalJson.defaultLimits, keyLength: 1000 })
    assert.match(refusal(limited).message, /^a key of more than 1000 characters$/)
  })
})

describe("parse", () => {
  it("keeps an own __proto__ as data", () => {
    const value: any = Result.getOrThrow(CanonicalJson.parse(`{"__proto__":{"polluted":true}}`))
    assert.isTrue(Object.hasOwn(value, "__proto__"))
    assert.isUndefined(value.polluted)
  })

  it("refuses what is not JSON without quoting it", () => {
    for (const text of ["", "secret", "{'secret':1}", "[1,]", "NaN", "undefined"]) {
      const error = refusal(CanonicalJson.parse(text))
      assert.strictEqual(error.message, "not a JSON text")
    }
  })

  it("refuses what encode would refuse", () => {
    assert.match(refusal(CanonicalJson.parse(`{"a":1e999}`)).message, /^a: .*not finite/)
    assert.match(refusal(CanonicalJson.parse(`["\\ud800"]`)).message, /lone surrogate/)
    assert.match(refusal(CanonicalJson.parse(`["\ud800"]`)).message, /lone surrogate/)
    const deep = refusal(CanonicalJson.parse("[".repeat(20_000) + "]".repeat(20_000)))
    assert.match(deep.reason, /512 levels/)
    assert.isBelow(deep.message.length, 300)
  })
})

describe("digest", () => {
  // The fourth vector was written by another language, which writes 1 as `1.0`, -0 as `-0.0` and 1e-7 as `1e-07`. Its text is
  // no ECMAScript number text, so no value encodes to it; its digest as a text still is what it says.
  const [python] = vectors.slice(3)

  it.each(vectors.slice(0, 3))("reproduces vector $sha256", ({ canonical, sha256 }) => {
    assert.strictEqual(textOf(shuffled(JSON.parse(canonical))), canonical)
    assert.strictEqual(Result.getOrThrow(CanonicalJson.digestOf(shuffled(JSON.parse(canonical)))), sha256)
  })

  it("is SHA-256 of the text as it stands", () => {
    for (const { canonical, sha256 } of vectors) assert.strictEqual(CanonicalJson.digest(canonical), sha256)
    assert.strictEqual(
      textOf(JSON.parse(python!.canonical)),
      python!.canonical.replace("1.0,1e+21,-0.0,1e-07", "1,1e+21,0,1e-7")
    )
  })
})

describe("for all JSON", () => {
  const depth = 3

  it.effect("parsing the text gives the value back, and its text again", () =>
    holds("round trip", json(depth), (value) => {
      const text = textOf(value)
      const back = Result.getOrThrow(CanonicalJson.parse(text))
      return textOf(back) !== text
        ? "encoding twice differs"
        : JSON.stringify(shuffled(back)) === JSON.stringify(shuffled(JSON.parse(text)))
        ? undefined
        : "parsed differently"
    }, 500))

  it.effect("the order of keys does not count", () =>
    holds("order", json(depth), (value) => textOf(shuffled(value)) === textOf(value) ? undefined : "another text", 500))

  it.effect("the text says what JSON.stringify says", () =>
    holds("stringify", json(depth), (value) => {
      assert.deepStrictEqual(JSON.parse(textOf(value)), JSON.parse(JSON.stringify(value)))
      return textOf(value).length === JSON.stringify(value).length ? undefined : "another length"
    }, 500))

  it.effect("different texts have different digests, equal ones equal ones", () =>
    holds("digest", Arbitrary.all([json(1), json(1)]), ([a, b]) =>
      (textOf(a) === textOf(b)) ===
          (Result.getOrThrow(CanonicalJson.digestOf(a)) === createHash("sha256").update(textOf(b)).digest("hex"))
        ? undefined
        : "digest and text disagree"))
})
