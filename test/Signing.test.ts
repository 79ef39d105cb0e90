import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Cause, ConfigProvider, Effect, Exit, Layer, Redacted, Result, Schema } from "effect"
import { createHmac, randomBytes } from "node:crypto"
import { inspect } from "node:util"
import type * as Intent from "../src/Intent.ts"
import * as Signing from "../src/Signing.ts"
import * as SigningForm from "../src/SigningForm.ts"
import { parseKeyRing } from "../src/SigningKeys.ts"
import { text } from "./fixtures/jsonValues.ts"
import { holds } from "./fixtures/property.ts"
import vectors from "./fixtures/signing-vectors.json" with { type: "json" }

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")
const ringOf = (keys: Signing.Keys) => Result.getOrThrow(Signing.keyRing(keys))
const failureOf = <E>(result: Result.Result<unknown, E>): E =>
  Result.isFailure(result) ? result.failure : assert.fail("it succeeded")

const { key_hex, key_id } = vectors.wire
const key = Buffer.from(key_hex, "hex")
const ring = ringOf({ current: key_id, keys: { [key_id]: key } })
const old = randomBytes(32)
const before = ringOf({ current: "k-old", keys: { "k-old": old } })
const rotated = ringOf({ current: "k-new", keys: { "k-new": randomBytes(48), "k-old": old } })
const retired = ringOf({ current: "k-new", keys: { "k-new": randomBytes(32) } })

const required = (ring: Signing.KeyRing): Signing.Signing => ({ ring, mode: "require" })
const permissive = (ring: Signing.KeyRing): Signing.Signing => ({ ring, mode: "permissive" })

const draftOf = (fields: object) =>
  ({ approvalTimeout: undefined, sealed: undefined, signature: undefined, ...fields }) as Intent.Draft

const charge = draftOf(vectors.intents[0]!.intent)

// Small numbers of values, so that neighbours are often equal; some of what only a changed record holds.
const int = (minimum: number, maximum: number) =>
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum, maximum })))
const of = <A>(...items: ReadonlyArray<A>) => Arbitrary.map(int(0, items.length - 1), (index) => items[index]!)
const anyText = Arbitrary.flatMap(int(0, 3), (die) =>
  die === 0
    ? of("", "a", "1", "a|1", "1|a", "a\n1", "\ufffd", "\ud800", "\udfff", "a\ud800", "decision")
    : text(0, 5))
const anyNumber = of(
  0,
  1,
  2,
  127,
  128,
  300,
  2 ** 31,
  2 ** 32,
  Number.MAX_SAFE_INTEGER,
  2 ** 60,
  0.5,
  1e-7,
  -1,
  Infinity
)
const anyHex = of("00".repeat(16), "0a".repeat(16), "0A".repeat(16), "0a".repeat(15), "zz".repeat(16), "")
const anyDraft: Arbitrary.Arbitrary<Intent.Draft> = Arbitrary.map(
  Arbitrary.all({
    texts: Arbitrary.array(anyText, { minLength: 8, maxLength: 8 }),
    numbers: Arbitrary.array(anyNumber, { minLength: 4, maxLength: 4 }),
    flags: Arbitrary.array(of(true, false), { minLength: 4, maxLength: 4 }),
    escalation: Arbitrary.array(anyText, { maxLength: 3 }),
    traceId: anyHex,
    kind: of("tool" as const, "approval" as const)
  }),
  ({ escalation, flags, kind, numbers, texts, traceId }) =>
    draftOf({
      id: texts[0],
      agent: texts[1],
      key: texts[2],
      tool: texts[3],
      contract: texts[4],
      arguments: texts[5],
      argumentsDigest: texts[6],
      kind,
      seq: numbers[0],
      step: numbers[1],
      ttl: numbers[2],
      approval: flags[0] ? "required" : "none",
      approvalTimeout: flags[0] ? numbers[3] : undefined,
      idempotent: flags[1],
      verify: flags[2],
      transactional: flags[3],
      escalation,
      traceId
    })
)
const anyDecision: Arbitrary.Arbitrary<Signing.Decision> = Arbitrary.map(
  Arbitrary.all([of(true, false), of(true, false), anyText, anyText, anyText]),
  ([approved, isEdited, by, args, argumentsDigest]) => ({
    approved,
    by,
    edited: isEdited ? { arguments: args, argumentsDigest } : undefined
  })
)

/** Reads a form back, knowing only what docs/signing.md says. */
const read = (bytes: Uint8Array) => {
  const fields: Array<readonly [number, number | string]> = []
  let at = 0
  const varint = () => {
    let value = 0
    for (let scale = 1;; scale *= 128) {
      const byte = bytes[at++]!
      value += (byte & 127) * scale
      if (byte < 128) return value
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const number = Math.floor(tag / 8)
    if (tag % 8 === 0) {
      fields.push([number, varint()])
      continue
    }
    const length = varint()
    const value = Buffer.from(bytes.subarray(at, at += length))
    const numeric = [3, 4, 21, 23].includes(number - 64)
    if (numeric) fields.push([number - 64, Number(value.toString())])
    else if (number === 75) fields.push([11, value.toString()])
    else if (number > 64) fields.push([number - 64, value.toString("utf16le")])
    else fields.push([number, value.toString(number === 11 ? "hex" : "utf8")])
  }
  return fields
}

const readDraft = (bytes: Uint8Array): Intent.Draft => {
  const fields = read(bytes)
  const one = (number: number) => fields.find(([found]) => found === number)?.[1]
  return draftOf({
    id: one(1),
    key: one(2),
    seq: one(3) ?? 0,
    step: one(4) ?? 0,
    tool: one(5),
    arguments: one(6),
    traceId: one(11),
    agent: one(16),
    kind: one(17),
    contract: one(18),
    argumentsDigest: one(19),
    approval: one(20),
    approvalTimeout: one(21),
    escalation: fields.filter(([number]) => number === 22).map(([, value]) => value),
    ttl: one(23) ?? 0,
    idempotent: one(24) === 1,
    verify: one(25) === 1,
    transactional: one(26) === 1
  })
}

describe("the canonical form", () => {
  it("reproduces the wire vector byte by byte, its signature and the signed wire", () => {
    const { fields, hmac_sha256_hex, signed_wire_hex, signing_input_hex } = vectors.wire
    const unsigned: ReadonlyArray<SigningForm.Field> = [
      [1, fields.id],
      [2, fields.key],
      [3, fields.seq],
      [4, undefined],
      [5, fields.tool],
      [6, fields.arguments],
      [7, fields.createdAt],
      [8, fields.expiresAt],
      [10, fields.attempt],
      [11, Buffer.from(fields.traceId, "hex")]
    ]
    const bytes = SigningForm.write(unsigned)
    assert.strictEqual(hex(bytes), signing_input_hex)
    const signature = Signing.sign(ring, { of: "intent", id: fields.id, bytes })
    assert.deepStrictEqual(signature, { keyId: key_id, mac: hmac_sha256_hex })
    const signed: ReadonlyArray<SigningForm.Field> = [
      ...unsigned,
      [12, 1],
      [13, signature.keyId],
      [14, Buffer.from(signature.mac, "hex")]
    ]
    assert.strictEqual(hex(SigningForm.write(signed)), signed_wire_hex)
  })

  for (const { hmac_sha256_hex, intent, signing_input_hex } of vectors.intents) {
    it(`of an intent is that of the vector for '${intent.tool}'`, () => {
      const form = Signing.ofIntent(draftOf(intent))
      assert.strictEqual(hex(form.bytes), signing_input_hex)
      assert.strictEqual(Signing.sign(ring, form).mac, hmac_sha256_hex)
    })
  }

  for (const { decision, hmac_sha256_hex, intent, signing_input_hex } of vectors.decisions) {
    it(`of a decision is that of the vector for ${JSON.stringify(decision)}`, () => {
      const form = Signing.ofDecision(intent as Intent.Intent, { edited: undefined, ...decision })
      assert.strictEqual(hex(form.bytes), signing_input_hex)
      assert.strictEqual(Signing.sign(ring, form).mac, hmac_sha256_hex)
    })
  }

  it.effect("K68 separators in names: an intent can be read back from its form, so no two share one", () =>
    holds("the intent is read back", anyDraft, (draft) => {
      const again = readDraft(Signing.ofIntent(draft).bytes)
      return inspect(again) === inspect(Object.assign({}, again, draft)) ? undefined : inspect(again)
    }, 500))

  it.effect("K68 separators in names: a decision can be read back, and is never that of another intent", () =>
    holds("the decision is read back", Arbitrary.all([anyDraft, anyDecision]), ([intent, decision]) => {
      const fields = read(Signing.ofDecision(intent, decision).bytes)
      const expected: ReadonlyArray<readonly [number, string | number]> = [
        [1, intent.id],
        [15, "decision"],
        [19, intent.argumentsDigest],
        ...(decision.approved ? [[32, 1] as const] : []),
        [33, decision.by],
        ...(decision.edited === undefined
          ? []
          : [[34, decision.edited.arguments] as const, [35, decision.edited.argumentsDigest] as const])
      ]
      return inspect(fields) === inspect(expected) ? undefined : inspect(fields)
    }, 500))

  it("K68 separators in names: parts that join to the same text have different forms", () => {
    const forms = [["a|1", "2"], ["a", "1|2"], ["a|1|2", ""], ["a\n1", "2"], ["a", "\n12"]]
      .map(([agent = "", key = ""]) => hex(Signing.ofIntent({ ...charge, agent, key }).bytes))
    assert.strictEqual(new Set(forms).size, forms.length)
  })

  it.effect("of an intent is never the form of a decision", () =>
    holds(
      "field 15 tells them apart",
      Arbitrary.all([anyDraft, anyDecision]),
      ([intent, decision]) =>
        read(Signing.ofIntent(intent).bytes).some(([number]) => number === 15)
          || !read(Signing.ofDecision(intent, decision).bytes).some(([number]) => number === 15)
          ? "no"
          : undefined
    ))
})

describe("a signature", () => {
  // Typed, so that whoever adds a field to an intent decides whether it is signed.
  const covered: Record<keyof Intent.Draft, boolean> = {
    id: true,
    agent: true,
    key: true,
    seq: true,
    step: true,
    kind: true,
    tool: true,
    contract: true,
    arguments: true,
    argumentsDigest: true,
    sealed: false,
    ttl: true,
    approval: true,
    approvalTimeout: true,
    escalation: true,
    idempotent: true,
    verify: true,
    transactional: true,
    traceId: true,
    signature: false
  }
  const names = Object.entries(covered).filter(([, signed]) => signed).map(([name]) => name as keyof Intent.Draft)

  it.effect("is refused when any one field of the intent was changed", () =>
    holds("a change is refused", Arbitrary.all([anyDraft, anyDraft, of(...names)]), ([draft, other, name]) => {
      const signature = Signing.sign(ring, Signing.ofIntent(draft))
      const changed = { ...draft, [name]: other[name] }
      const wanted = inspect(draft[name]) === inspect(other[name]) ? "signed" : "wrong"
      for (const signing of [required(ring), permissive(ring)]) {
        const found = Result.merge(Result.mapError(
          Signing.check(signing, Signing.ofIntent(changed), signature),
          ({ reason }) => reason
        ))
        if (found !== wanted) return `${name} changed under ${signing.mode}: ${found}`
      }
      return undefined
    }, 1000))

  it("is refused for every field of one intent, changed", () => {
    const signature = Signing.sign(ring, Signing.ofIntent(charge))
    for (const name of names) {
      const value = charge[name]
      const other = typeof value === "string" ?
        `${value}x` :
        typeof value === "number" ?
        value + 1 :
        value === undefined
        ? 1
        : Array.isArray(value)
        ? ["someone"]
        : !value
      const refused = failureOf(
        Signing.check(required(ring), Signing.ofIntent({ ...charge, [name]: other }), signature)
      )
      assert.strictEqual(refused.reason, "wrong", name)
    }
  })

  it.effect("of a decision is refused when it, or the intent, is another", () =>
    holds(
      "a change is refused",
      Arbitrary.all([anyDraft, anyDraft, anyDecision, anyDecision, of(0, 1, 2, 3, 4)]),
      ([intent, otherIntent, decision, other, which]) => {
        const form = Signing.ofDecision(intent, decision)
        const changed = Signing.ofDecision(
          which === 0
            ? { ...intent, id: otherIntent.id }
            : which === 1
            ? { ...intent, argumentsDigest: otherIntent.argumentsDigest }
            : intent,
          which === 2
            ? { ...decision, approved: other.approved }
            : which === 3
            ? { ...decision, by: other.by }
            : which === 4
            ? { ...decision, edited: other.edited }
            : decision
        )
        const same = which === 0
          ? intent.id === otherIntent.id
          : which === 1
          ? intent.argumentsDigest === otherIntent.argumentsDigest
          : which === 2
          ? decision.approved === other.approved
          : which === 3
          ? decision.by === other.by
          : inspect(decision.edited) === inspect(other.edited)
        const checked = Signing.check(required(ring), changed, Signing.sign(ring, form))
        return Result.isSuccess(checked) === same ? undefined : `change ${which}: ${same}`
      },
      500
    ))

  it("of an intent is no signature of a decision, nor the reverse", () => {
    const decision = Signing.ofDecision(charge as Intent.Intent, { approved: true, by: "maria", edited: undefined })
    const intent = Signing.ofIntent(charge)
    assert.strictEqual(failureOf(Signing.check(required(ring), decision, Signing.sign(ring, intent))).reason, "wrong")
    assert.strictEqual(failureOf(Signing.check(required(ring), intent, Signing.sign(ring, decision))).reason, "wrong")
  })

  it("K82 a signature that was taken off is refused under require, passes as unsigned under permissive", () => {
    const form = Signing.ofIntent({ ...charge, arguments: "{\"amount_cents\":999999}" })
    const refused = failureOf(Signing.check(required(ring), form, undefined))
    assert.deepStrictEqual({ ...refused }, {
      _tag: "SignatureRefused",
      of: "intent",
      id: charge.id,
      reason: "missing",
      keyId: ""
    })
    assert.strictEqual(refused.message, `intent ${charge.id} has no signature, and this process requires one`)
    assert.strictEqual(Result.getOrThrow(Signing.check(permissive(ring), form, undefined)), "unsigned")
  })

  it("is not looked at when signing is off", () => {
    const signing: Signing.Signing = { ring, mode: "off" }
    const form = Signing.ofIntent(charge)
    for (const signature of [undefined, Signing.sign(ring, form), { keyId: "nobody", mac: "" }]) {
      assert.strictEqual(Result.getOrThrow(Signing.check(signing, form, signature)), "unsigned")
    }
  })

  it("is checked with the key it names, so that a rotation breaks none that is about", () => {
    const form = Signing.ofIntent(charge)
    const signature = Signing.sign(before, form)
    assert.strictEqual(Result.getOrThrow(Signing.check(required(rotated), form, signature)), "signed")
    assert.strictEqual(Signing.sign(rotated, form).keyId, "k-new")
  })

  it("by a key that is not in the ring is refused, and named", () => {
    const form = Signing.ofIntent(charge)
    for (const signing of [required(retired), permissive(retired)]) {
      const refused = failureOf(Signing.check(signing, form, Signing.sign(before, form)))
      assert.strictEqual(refused.reason, "unknown key")
      assert.strictEqual(
        refused.message,
        `intent ${charge.id} is signed by the key 'k-old', which is not in the ring`
      )
    }
    for (const keyId of ["", "__proto__", "constructor", `${"k".repeat(65)}`, "a\nb"]) {
      const refused = failureOf(Signing.check(required(ring), form, { ...Signing.sign(ring, form), keyId }))
      assert.strictEqual(refused.reason, "unknown key")
      assert.notInclude(refused.message, "\n")
    }
  })

  it("by another key of the same id is wrong", () => {
    const other = ringOf({ current: key_id, keys: { [key_id]: randomBytes(32) } })
    const form = Signing.ofIntent(charge)
    assert.strictEqual(failureOf(Signing.check(required(ring), form, Signing.sign(other, form))).reason, "wrong")
  })

  it("is wrong when it was cut off, made longer, in capitals, or with any digit changed", () => {
    const form = Signing.ofIntent(charge)
    const { keyId, mac } = Signing.sign(ring, form)
    const wrong = [
      "",
      mac.slice(0, -1),
      mac.slice(0, 32),
      `${mac}0`,
      mac.toUpperCase(),
      `\u0130${mac.slice(1)}`,
      ...Array.from(mac, (digit, at) => mac.slice(0, at) + (digit === "0" ? "1" : "0") + mac.slice(at + 1))
    ]
    for (const mac of wrong) {
      assert.strictEqual(failureOf(Signing.check(permissive(ring), form, { keyId, mac })).reason, "wrong", mac)
    }
  })

  it("can be checked by whoever has the key, without this library", () => {
    const form = Signing.ofIntent(charge)
    assert.strictEqual(Signing.sign(ring, form).mac, createHmac("sha256", key).update(form.bytes).digest("hex"))
  })
})

describe("a sealed text", () => {
  const anySecret = Arbitrary.all([text(0, 40), text(0, 10)])

  it("opens as the vector says", () => {
    for (const { aad, plaintext, sealed } of vectors.sealed) {
      assert.strictEqual(Result.getOrThrow(Signing.open(ring, sealed, aad)), plaintext)
    }
  })

  it.effect("opens to what was sealed, and never looks the same twice", () =>
    holds("it is read back", anySecret, ([plaintext, aad]) => {
      const sealed = Signing.seal(ring, plaintext, aad)
      if (sealed === Signing.seal(ring, plaintext, aad)) return "twice the same"
      return Result.getOrElse(Signing.open(ring, sealed, aad), String) === plaintext ? undefined : sealed
    }))

  it.effect("moved to another intent does not open", () =>
    holds("it is refused", Arbitrary.all([anySecret, text(0, 10)]), ([[plaintext, aad], other]) => {
      if (aad === other) return undefined
      const opened = Signing.open(ring, Signing.seal(ring, plaintext, aad), other)
      return Result.isFailure(opened) && opened.failure.reason === "wrong" ? undefined : "it opened"
    }))

  it("does not open when any character was changed, cut off or added", () => {
    const sealed = Signing.seal(ring, "{\"iban\":\"DE02\"}", charge.id)
    for (let at = 0; at < sealed.length; at++) {
      for (const other of ["A", "b", "-", "_", ".", "=", " ", "+", "\u0141", ""]) {
        const changed = sealed.slice(0, at) + other + sealed.slice(at + 1)
        if (changed !== sealed) assert.isTrue(Result.isFailure(Signing.open(ring, changed, charge.id)), changed)
      }
    }
    for (const changed of [`${sealed}A`, `${sealed}=`, ` ${sealed}`, sealed.slice(0, -1), sealed.slice(0, -22)]) {
      assert.isTrue(Result.isFailure(Signing.open(ring, changed, charge.id)), changed)
    }
  })

  it("is sealed with the current key, and opened with the one it names, dots in its id or not", () => {
    const dotted = ringOf({ current: "a.b", keys: { "a.b": old, "k-old": randomBytes(32) } })
    const sealed = Signing.seal(dotted, "secret", "id")
    assert.isTrue(sealed.startsWith("a.b."))
    assert.strictEqual(Result.getOrThrow(Signing.open(dotted, sealed, "id")), "secret")
    assert.strictEqual(Result.getOrThrow(Signing.open(rotated, Signing.seal(before, "s", "id"), "id")), "s")
  })

  it("says why it does not open, and nothing of what is inside", () => {
    const unknown = failureOf(Signing.open(retired, Signing.seal(before, "secret-iban", "id"), "id"))
    assert.strictEqual(unknown.message, "a text was sealed with the key 'k-old', which is not in the ring")
    for (const raw of ["secret-iban", "secret-iban.a.b", "{\"iban\":\"secret-iban\"}", "", "..", "a..", ".a."]) {
      const broken = failureOf(Signing.open(ring, raw, "id"))
      assert.strictEqual(broken.reason, "malformed", raw)
      assert.notInclude(inspect(broken) + broken.message + JSON.stringify(broken), "secret-iban")
    }
  })
})

describe("a keyed digest", () => {
  it("is that of the vector", () => {
    for (const { digest, text } of vectors.digests) assert.strictEqual(Signing.digest(ring, text), digest)
  })

  it.effect("matches its text and no other, after a rotation too", () =>
    holds("it matches", Arbitrary.all([text(0, 6), text(0, 6)]), ([a, b]) => {
      const recorded = Signing.digest(before, a)
      for (const at of [before, rotated]) {
        if (Result.getOrElse(Signing.matches(at, recorded, b), () => undefined) !== (a === b)) return inspect(at)
      }
      return Signing.digest(rotated, a) === recorded ? "the current key is not used" : undefined
    }))

  it("is compared without a key where it was recorded without one", () => {
    const { arguments: args, argumentsDigest } = charge
    assert.isTrue(Result.getOrThrow(Signing.matches(ring, argumentsDigest, args)))
    assert.isFalse(Result.getOrThrow(Signing.matches(ring, argumentsDigest, `${args} `)))
  })

  it("by a key that is gone is a failure of its own, never 'another text'", () => {
    const unknown = failureOf(Signing.matches(retired, Signing.digest(before, "a"), "a"))
    assert.strictEqual(unknown.message, "unknown key id 'k-old'; the ring has 'k-new'")
  })

  it("says nothing about the signature of the same bytes", () => {
    const bytes = Buffer.from("x")
    const { mac } = Signing.sign(ring, { of: "intent", id: "", bytes })
    assert.notInclude(Signing.digest(ring, "x"), mac)
  })
})

describe("a key ring", () => {
  const secret = "correct-horse-battery-staple-0123456789"
  const bytes = Buffer.from(secret)

  it("never prints a key (K81)", () => {
    const keys = { current: "k1", keys: { k1: Redacted.make(new Uint8Array(bytes)), k2: bytes } }
    const ring = ringOf(keys)
    const signing = required(ring)
    const shown = [ring, signing].flatMap((value) => [
      inspect(value, { depth: null, showHidden: true, getters: true }),
      JSON.stringify(value),
      String(value),
      `${ring}`,
      Cause.pretty(Cause.die(value)),
      Cause.pretty(Cause.fail(value)),
      inspect(Object.getOwnPropertyDescriptors(value), { depth: null, showHidden: true })
    ]).join("\n")
    const forms = ["hex", "base64", "base64url", "latin1"].map((encoding) => bytes.toString(encoding as BufferEncoding))
    for (const form of [...forms, "correct-horse", "63, 6f, 72", "99, 111, 114", "99,111,114", "63 6f 72 72"]) {
      assert.notInclude(shown, form)
    }
    assert.strictEqual(JSON.stringify(ring), "\"<key ring k1, k2>\"")
  })

  it("is not changed by whoever holds the bytes", () => {
    const mine = Buffer.from(bytes)
    const ring = ringOf({ current: "k1", keys: { k1: mine } })
    const form = Signing.ofIntent(charge)
    const signature = Signing.sign(ring, form)
    mine.fill(0)
    assert.deepStrictEqual(Signing.sign(ring, form), signature)
  })

  it("derives what it seals and digests with from the key, as the vectors say", () => {
    const { digesting_hex } = vectors.subkeys
    const mac = createHmac("sha256", Buffer.from(digesting_hex, "hex")).update("x").digest("hex")
    assert.strictEqual(Signing.digest(ring, "x"), `${key_id}:${mac}`)
  })

  const refused: ReadonlyArray<readonly [string, Signing.Keys, string]> = [
    [
      "a short key",
      { current: "a", keys: { a: bytes.subarray(0, 31) } },
      "key 'a': a key has at least 32 bytes, this one 31"
    ],
    ["an id with a colon", { current: "a:b", keys: { "a:b": bytes } }, "key 'a:b': an id has 1 to 64 letters"],
    ["an id with a line break", { current: "a\n", keys: { "a\n": bytes } }, "an id has 1 to 64 letters"],
    ["an empty id", { current: "", keys: { "": bytes } }, "key '': an id has 1 to 64 letters"],
    ["a long id", { current: "a", keys: { a: bytes, ["b".repeat(65)]: bytes } }, "an id has 1 to 64 letters"],
    [
      "a current key that is not there",
      { current: "b", keys: { a: bytes } },
      "key 'b': it is current, and not in the ring"
    ],
    ["a current key that every object has", { current: "constructor", keys: {} }, "key 'constructor': it is current"],
    ["text for a key", { current: "a", keys: { a: secret as never } }, "key 'a': a key is bytes"]
  ]
  for (const [what, keys, message] of refused) {
    it(`refuses ${what}, and names it without the key`, () => {
      const error = failureOf(Signing.keyRing(keys))
      assert.include(error.message, message)
      assert.notInclude(inspect(error) + error.message, secret)
    })
  }

  it("accepts an id of 64 characters and a key of 32 bytes, not one more or less", () => {
    const id = "a".repeat(64)
    assert.deepStrictEqual(ringOf({ current: id, keys: { [id]: bytes.subarray(0, 32) } }).ids, [id])
  })
})

describe("keys from the environment", () => {
  const base64 = randomBytes(32).toString("base64")
  const signingOf = (env: Record<string, string>) =>
    Signing.Signing.pipe(
      Effect.provide(Signing.layerConfig.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env }))))),
      Effect.exit
    )

  it.effect("make a ring whose first key is current, with the mode", () =>
    Effect.gen(function*() {
      const exit = yield* signingOf({
        EFFECT_INTENTS_KEYS: `k-2:${base64}, k-1:${randomBytes(40).toString("base64url")}`,
        EFFECT_INTENTS_SIGNING: "permissive"
      })
      const signing = Exit.isSuccess(exit) ? exit.value : assert.fail(Cause.pretty(exit.cause))
      assert.strictEqual(signing?.mode, "permissive")
      assert.strictEqual(signing?.ring.current, "k-2")
      assert.deepStrictEqual(signing?.ring.ids, ["k-2", "k-1"])
    }))

  it.effect("are refused with the variable that is missing or wrong", () =>
    Effect.gen(function*() {
      const keys = { EFFECT_INTENTS_KEYS: `k:${base64}` }
      const wrong: ReadonlyArray<readonly [Record<string, string>, string]> = [
        [{}, "EFFECT_INTENTS_KEYS"],
        [keys, "EFFECT_INTENTS_SIGNING"],
        [{ ...keys, EFFECT_INTENTS_SIGNING: "yes" }, "EFFECT_INTENTS_SIGNING"]
      ]
      for (const [env, name] of wrong) {
        const exit = yield* signingOf(env)
        const text = Exit.isFailure(exit) ? Cause.pretty(exit.cause) : assert.fail("it was accepted")
        assert.include(text, name)
        assert.notInclude(text, base64)
      }
    }))

  it("are refused by their position, because parts mixed up put the key in the place of the id", () => {
    const url = Buffer.from(base64, "base64").toString("base64url")
    const wrong: ReadonlyArray<readonly [string, string]> = [
      ["", "key 1: it has the form id:base64"],
      [base64, "key 1: it has the form id:base64"],
      [`${base64}:k`, "key 1: it has the form id:base64"],
      [`${url}:k`, "key 1: a key has at least 32 bytes"],
      [`k:${base64},`, "key 2: it has the form id:base64"],
      [`k:${base64},l:${base64}:m`, "key 2: it has the form id:base64"],
      [`k:${base64},k:${base64}`, "key 2: its id stands there twice"],
      [`k:${base64},l:c2hvcnQ=`, "key 2: a key has at least 32 bytes, this one 5"],
      [`k:${base64.slice(0, -2)}?=`, "key 1: its key is not base64"]
    ]
    for (const [text, message] of wrong) {
      const error = failureOf(parseKeyRing(text))
      assert.include(error.message, message)
      for (const part of [base64.slice(0, 40), url.slice(0, 40)]) assert.notInclude(inspect(error), part)
    }
  })

  it.effect("are not there by default, and given by a layer", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* Signing.Signing)
      const given = Signing.layer({ current: "k", keys: { k: key }, mode: "require" })
      const signing = yield* Signing.Signing.pipe(Effect.provide(given))
      assert.strictEqual(signing?.ring.current, "k")
      const error = yield* Effect.flip(Layer.build(Signing.layer({ current: "l", keys: { k: key }, mode: "off" })))
      assert.strictEqual(error._tag, "KeyRingError")
    }))
})
