/**
 * The schema of a tool in two forms that say the same: the JSON Schema a model is shown, and the codec that reads its answer.
 *
 * Guarantees: both are made from one tree, so JSON that fits what is shown decodes, and what is encoded fits what is shown,
 * up to `narrower`: places where the schema refuses more than JSON Schema can say. Messages never repeat the input. Refuses
 * schemas that have no JSON form (`ToolSchemaError`) and input beyond `limits`.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as JsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Str from "effect/String"
import * as CanonicalJson from "./CanonicalJson.ts"

/**
 * One thing that is wrong, and where: `path` is written as `CanonicalJson.formatPath` does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Issue {
  readonly path: string
  readonly message: string
}

/**
 * A JSON Schema as plain JSON.
 *
 * @since 0.1.0
 * @category models
 */
export interface Shown {
  readonly [keyword: string]: CanonicalJson.Json
}

/**
 * A schema a model can be shown, with its codec.
 *
 * @since 0.1.0
 * @category models
 */
export interface ToolSchema<in out A> {
  /** Everything inline but recursive parts, which stand in `$defs` (`definitions` in draft-07). Without `$schema`. */
  jsonSchema(dialect: "draft-2020-12" | "draft-07"): Shown
  /** JSON to a value. A key the schema does not name is an issue. */
  decode(input: unknown): Result.Result<A, ReadonlyArray<Issue>>
  /**
   * The arguments of a model's call. Nothing, `null` and `""` count as the empty object, a string that holds an object is
   * read, and everything else that is not an object is an issue.
   */
  decodeArguments(input: unknown): Result.Result<A, ReadonlyArray<Issue>>
  /** A value to JSON, its checks run. Keys the schema does not name are dropped, as a type lets them through. */
  encode(value: A): Result.Result<CanonicalJson.Json, ReadonlyArray<Issue>>
  /** Where secrets are in the JSON. `*` is every item of an array and every key of a record; a path covers all below. */
  readonly redacted: ReadonlyArray<ReadonlyArray<string>>
  /** Where the schema refuses some of what is shown, and why. The model is then told so by an issue. */
  readonly narrower: ReadonlyArray<Issue>
  /** Whether exactly what is shown is accepted, that is, nothing is `narrower`. */
  readonly exact: boolean
}

/**
 * What `decode` and `encode` let through: deeper, larger or longer-keyed JSON is an issue, whatever the schema.
 *
 * @since 0.1.0
 * @category models
 */
export const limits: CanonicalJson.Limits = { depth: 256, values: 50_000, keyLength: 1024 }

/**
 * Compiles a schema, once per tool. Fails for a part that no JSON can stand for. Only the root may be `Schema.Never`: a tool
 * that never fails.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <A>(schema: Schema.Codec<A, any, never, never>): Result.Result<ToolSchema<A>, ToolSchemaError> =>
  Result.gen(function*() {
    const ast = yield* attempt(() => tighten(Schema.toCodecJson(Schema.make(tighten(schema.ast))).ast))
    const { narrower, redacted } = yield* inspect(ast)
    // The encoded side is JSON since `toCodecJson`; `tighten` adds checks and changes no type.
    const codec = Schema.make<Schema.Codec<A, CanonicalJson.Json>>(ast)
    const shown = yield* attempt(() => show(ast))
    const outcome = outcomeOf(redacted)
    const decoder = SchemaParser.decodeUnknownExit(codec, { errors: "all", onExcessProperty: "error" })
    const encoder = SchemaParser.encodeUnknownExit(codec, { errors: "all", onExcessProperty: "error" })
    const droppingEncoder = SchemaParser.encodeUnknownExit(codec, { errors: "all" })
    const decode = (input: unknown) => Result.flatMap(bounded(input), (json) => outcome(decoder(json)))
    return {
      jsonSchema: (dialect) => shown[dialect],
      decode,
      decodeArguments: (input) => Result.flatMap(toObject(input), decode),
      encode: (value) => {
        // Dropping keys comes second: of a union's members, the one that names them all is meant.
        const exit = encoder(value)
        return Result.flatMap(outcome(Exit.isSuccess(exit) ? exit : droppingEncoder(value)), bounded)
      },
      redacted,
      narrower,
      exact: narrower.length === 0
    }
  })

/**
 * Why no provider takes a schema as the parameters of a tool, whatever the mode: its root is not an object with named fields.
 *
 * @since 0.1.0
 * @category providers
 */
export const rootIssue = (schema: Shown): string | undefined => {
  const { $defs, definitions, ...root } = schema
  const text = JSON.stringify(root)
  const combined = ["anyOf", "oneOf", "allOf", "not", "enum"].find((keyword) => keyword in root)
  return combined !== undefined || root["type"] !== "object"
    ? `the parameters are not one plain object (${combined ?? "type"}); wrap them in a field of a struct`
    : root["properties"] === undefined
    ? "the parameters are a record; wrap it in a field of a struct"
    : Object.values($defs ?? definitions ?? {}).some((definition) => JSON.stringify(definition) === text)
    ? "the parameters are a recursive type; wrap it in a field of a struct"
    : undefined
}

/**
 * Why a schema cannot go out in a provider's strict mode, with the path: there every object is closed, every field required
 * and everything typed. Such a tool goes out in non-strict form.
 *
 * @since 0.1.0
 * @category providers
 */
export const strictIssue = (schema: Shown): string | undefined => {
  const visit = (node: unknown, path: ReadonlyArray<PropertyKey>): string | undefined => {
    const issue = (reason: string) => `${CanonicalJson.formatPath(path) || "the parameters"}: ${reason}`
    const shown = node as Shown
    if ("prefixItems" in shown || Array.isArray(shown["items"])) return issue("a tuple is not strict")
    const keyword = Object.keys(shown).find((keyword) => !strictKeywords.has(keyword))
    if (keyword !== undefined) return issue(`'${keyword}' is not strict`)
    if (!("type" in shown || "anyOf" in shown || "$ref" in shown)) return issue("any JSON is not strict")
    const properties = (shown["properties"] ?? {}) as Shown
    if (shown["type"] === "object" && shown["additionalProperties"] !== false) {
      return issue("an open record is not strict")
    }
    const required = (shown["required"] ?? []) as ReadonlyArray<string>
    const optional = Object.keys(properties).find((name) => !required.includes(name))
    if (optional !== undefined) return issue(`the optional field '${optional}' is not strict`)
    const below: ReadonlyArray<readonly [unknown, ReadonlyArray<PropertyKey>]> = [
      ...Object.entries(properties).map(([name, field]) => [field, [...path, name]] as const),
      ...("items" in shown ? [[shown["items"], [...path, "*"]] as const] : []),
      ...((shown["anyOf"] ?? []) as ReadonlyArray<unknown>).map((member) => [member, path] as const),
      ...Object.entries(shown["$defs"] ?? shown["definitions"] ?? {}).map(([name, part]) => [part, [name]] as const)
    ]
    for (const [part, place] of below) {
      const found = visit(part, place)
      if (found !== undefined) return found
    }
    return undefined
  }
  return visit(schema, [])
}

/**
 * A schema cannot be shown to a model, because of the part at `path`.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolSchemaError extends Schema.TaggedError<ToolSchemaError>()("ToolSchemaError", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return this.path === "" ? this.reason : `${this.path}: ${this.reason}`
  }
}

// internal

type AST = SchemaAST.AST
type Check = SchemaAST.Check<any>
type Path = ReadonlyArray<string>

const words = (text: string): ReadonlyArray<string> => text.split(" ")

// Keywords that say the same wherever they stand beside a type.
const plain = words("title description format pattern minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
  .concat(words("minLength maxLength minItems maxItems"))

const movable: ReadonlySet<string> = new Set(
  plain.concat(words("default examples uniqueItems minProperties maxProperties"))
)

const strictKeywords: ReadonlySet<string> = new Set(
  plain.concat(words("type properties required additionalProperties items enum const anyOf $ref $defs definitions"))
)

const attempt = <A>(f: () => A): Result.Result<A, ToolSchemaError> =>
  Result.try({ try: f, catch: (error) => new ToolSchemaError({ path: "", reason: String(error) }) })

const show = (ast: AST): { readonly "draft-2020-12": Shown; readonly "draft-07": Shown } => {
  const { dialect, ...made } = Schema.toJsonSchemaDocument(Schema.make(ast), {
    onExcessProperty: "error",
    referencePolicy: () => undefined
  })
  Result.getOrThrow(CanonicalJson.encode(made))
  // From here on plain JSON.
  const { definitions, schema } = simplify(JSON.parse(JSON.stringify(made))) as any
  const named = /^#\/\$defs\/([^/]+)$/.exec(schema.$ref)?.[1]
  const { $ref: _, ...root } = named === undefined ? schema : { ...definitions[named], ...schema }
  if (root.type === "object" && root.additionalProperties === false) root.properties ??= {}
  const inline = (schema: {}, collection: {}): Shown =>
    Object.keys(definitions).length === 0 ? schema : { ...schema, ...collection }
  const draft07 = JsonSchema.toDocumentDraft07({ dialect, schema: root, definitions })
  return {
    "draft-2020-12": inline(root, { $defs: definitions }),
    "draft-07": inline(draft07.schema, { definitions: draft07.definitions })
  }
}

// Providers read less than all of JSON Schema: what effect puts into `allOf` moves up where it can, and what `anyOf` says
// twice is said once. Values under `enum` and the like are data.
const simplify = (node: CanonicalJson.Json): CanonicalJson.Json => {
  if (typeof node !== "object" || node === null) return node
  if (Array.isArray(node)) return node.map(simplify)
  // From entries: a field may be called `__proto__`.
  const out: Record<string, any> = Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, isData.test(key) ? value : simplify(value)])
  )
  if (Array.isArray(out["anyOf"])) {
    out["anyOf"] = [...new Map(out["anyOf"].map((member) => [JSON.stringify(member), member])).values()]
  }
  if (Array.isArray(out["allOf"])) {
    out["allOf"] = out["allOf"].filter((member) => {
      const stays = Object.keys(member).some((key) => key in out || !movable.has(key))
      if (!stays) Object.assign(out, member)
      return stays
    })
    if (out["allOf"].length === 0) delete out["allOf"]
  }
  return out
}

const isData = /^properties$/

// --- reading and writing values

const bounded = (value: unknown): Result.Result<CanonicalJson.Json, ReadonlyArray<Issue>> =>
  Result.mapBoth(CanonicalJson.encode(value, limits), {
    onSuccess: () => value as CanonicalJson.Json,
    onFailure: ({ path, reason }) => [{ path, message: reason }]
  })

const toObject = (input: unknown): Result.Result<unknown, ReadonlyArray<Issue>> => {
  if (input === undefined || input === null || input === "") return Result.succeed({})
  if (typeof input === "object" && !Array.isArray(input)) return Result.succeed(input)
  const refused: ReadonlyArray<Issue> = [{ path: "", message: "Expected an object of arguments" }]
  if (typeof input !== "string") return Result.fail(refused)
  return Result.flatMap(
    Result.mapError(
      CanonicalJson.parse(input, limits),
      ({ path, reason }): ReadonlyArray<Issue> => [{ path, message: `Expected an object of arguments: ${reason}` }]
    ),
    (json) =>
      typeof json === "object" && json !== null && !Array.isArray(json) ? Result.succeed(json) : Result.fail(refused)
  )
}

const maxIssues = 16

const outcomeOf = (redacted: ReadonlyArray<Path>) => {
  const format = SchemaIssue.makeFormatterStandardSchemaV1()
  const secretAt = (path: ReadonlyArray<PropertyKey>) =>
    redacted.find((secret) =>
      secret.every((name, index) => index < path.length && (name === "*" || name === String(path[index])))
    )
  return <A>(exit: Exit.Exit<A, SchemaIssue.Issue>): Result.Result<A, ReadonlyArray<Issue>> => {
    if (Exit.isSuccess(exit)) return Result.succeed(exit.value)
    const found = Cause.findError(exit.cause)
    if (Result.isFailure(found)) {
      return Result.fail([{ path: "", message: "The schema itself failed: it threw, or it did not answer at once" }])
    }
    const { issues } = format(found.success)
    const first = issues.slice(0, maxIssues).map(({ message, path }): Issue => {
      const place = (path ?? []) as ReadonlyArray<PropertyKey>
      // What stands at or below a secret may be quoted by a filter's own message, or be a key of the secret itself.
      const secret = secretAt(place)
      return secret === undefined || message === "Missing key"
        ? { path: CanonicalJson.formatPath(place), message: message.slice(0, 300).toWellFormed() }
        : { path: CanonicalJson.formatPath(place.slice(0, secret.length)), message: "Expected a valid value" }
    })
    return Result.fail(
      issues.length <= maxIssues ? first : [...first, { path: "", message: `and ${issues.length - maxIssues} more` }]
    )
  }
}

// --- one tree for both forms: checks that JSON Schema can say, added where a decoder is pickier than what would be shown

const pattern = (source: string): Check => Schema.isPattern(new RegExp(source, "u"))

// RFC 3339 with seconds and capitals, as `Date` reads it; the filter adds that the day exists (`Date` takes 30 February).
const instant =
  "^\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])T(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?" +
  "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)$"
const instantPattern = new RegExp(instant, "u")
const isInstant = Schema.makeFilter((text: string) => {
  const day = text.slice(0, 10)
  return instantPattern.test(text) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)
}, {
  expected: "an instant such as 2026-01-31T09:30:00Z",
  toJsonSchema: () => ({ format: "date-time", pattern: instant })
})

// Every text of a finite double that is below 1e308, so that none becomes Infinity.
const isDecimal = pattern("^-?(?:\\d{1,21}(?:\\.\\d+)?|\\d(?:\\.\\d+)?[eE][+-]?(?:[0-2]?\\d?\\d|30[0-7]))$")

const finite = Schema.isFinite()

// The transformation a schema decodes its JSON with; some of effect's own are reachable in no other way.
const decoding = (schema: Schema.Constraint) => Schema.toCodecJson(schema).ast.encoding?.at(-1)?.transformation

// By transformation: the check that its input gets, and the check of its output that then always passes.
const known = new Map<unknown, readonly [check: Check, implies?: string]>([
  [SchemaTransformation.numberFromString, [isDecimal, "effect/schema/isFinite"]],
  [SchemaTransformation.bigintFromString, [Schema.isStringBigInt()]],
  [SchemaTransformation.dateFromString, [isInstant, "effect/schema/Date"]],
  [SchemaTransformation.dateFromMillis, [
    Schema.isBetween({ minimum: -8.64e15, maximum: 8.64e15 }),
    "effect/schema/Date"
  ]],
  [decoding(Schema.DateTimeUtc), [isInstant]],
  [decoding(Schema.Uint8Array), [Schema.isBase64()]],
  [decoding(Schema.BigDecimal), [pattern("^-?\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d{1,4})?$")]]
])

// By function of a pure getter: the check that its output always passes.
const established = new Map<unknown, string>([
  [Str.trim, "effect/schema/isTrimmed"],
  [Str.toLowerCase, "effect/schema/isLowercased"],
  [Str.toUpperCase, "effect/schema/isUppercased"],
  [Str.capitalize, "effect/schema/isCapitalized"],
  [Str.uncapitalize, "effect/schema/isUncapitalized"]
])

interface Annotated {
  readonly annotations?: Schema.Annotations.Annotations | undefined
}

const idOf = (annotated: Annotated): string => (annotated.annotations?.["representation"] as any)?.id ?? ""

const payloadOf = (annotated: Annotated): any => (annotated.annotations?.["representation"] as any)?.payload

// A group that says itself how it is shown counts as one check.
const leaves = (checks: ReadonlyArray<Check> | undefined): ReadonlyArray<Check> =>
  (checks ?? []).flatMap((check) =>
    check._tag === "Filter" || check.annotations?.toJsonSchema !== undefined ? [check] : leaves(check.checks)
  )

const withChecks = (ast: AST, checks: ReadonlyArray<Check>): AST => {
  const has = leaves(ast.checks).map(keyOf)
  return checks.filter((check) => !has.includes(keyOf(check)))
    .reduce((schema, check) => schema.check(check), Schema.make<Schema.Codec<any>>(ast)).ast
}

// Checks that say the same have the same key.
const keyOf = (check: Check): unknown =>
  idOf(check) === "" ? check : `${idOf(check)} ${JSON.stringify(payloadOf(check))}`

// Stands in for a part that cannot be shown, so that `inspect`, which knows the path, can say so.
const cannotBeShown = (reason: string): AST => new SchemaAST.Never({ [cannotBeShownReason]: reason })
const cannotBeShownReason = "effect-intents/cannotBeShown"

const tightened = new WeakMap<AST, AST>()

const tighten = (ast: AST): AST => {
  const done = tightened.get(ast)
  if (done !== undefined) return done
  const out = (ast.encoding ?? []).reduce(
    (to, link) => {
      const check = known.get(link.transformation)?.[0]
      const from = tighten(link.to)
      return SchemaAST.decodeTo(check === undefined ? from : withChecks(from, [check]), to, link.transformation as any)
    },
    tightenBody(ast)
  )
  tightened.set(ast, out)
  return out
}

const tightenBody = (ast: AST): AST => {
  const { annotations, checks, context } = ast
  const common = [annotations, checks, undefined, context] as const
  switch (ast._tag) {
    case "Any":
      return new SchemaAST.Unknown(...common)
    case "Symbol":
    case "UniqueSymbol":
      return cannotBeShown("a symbol is not data")
    case "Number": {
      // Not shown as `number | "NaN" | "Infinity"`: a model must not get past `amount > limit` with a word.
      const integer = leaves(checks).some((check) => idOf(check) === "effect/schema/isInt")
      return ast.encoding === undefined ? withChecks(ast, integer ? [] : [finite]) : SchemaAST.toType(ast)
    }
    case "String":
      return ast.encoding === undefined
        ? withChecks(ast, leaves(checks).flatMap((check) => said(check)[0]))
        : SchemaAST.toType(ast)
    case "Declaration":
      return ast.encoding === undefined && !("toCodecJson" in { ...annotations }) && !("toCodec" in { ...annotations })
        ? cannotBeShown("it has no JSON form; annotate it with toCodecJson, or decode it from a schema that has one")
        : payloadOf(ast)?.disallowJsonEncode === true
        ? cannotBeShown(
          "it may not be encoded, and tools are called through JSON; a durable store seals secrets itself"
        )
        : new SchemaAST.Declaration(
          ast.typeParameters.map(tighten),
          ast.run,
          ...common,
          ast.encodingChecks,
          ast.encodingRun
        )
    case "Arrays":
      return new SchemaAST.Arrays(
        ast.isMutable,
        ast.elements.map(tighten),
        ast.rest.map(tighten),
        ...common,
        ast.encodingChecks
      )
    case "Objects": {
      if (
        ast.propertySignatures.some(({ name }) => typeof name === "symbol") ||
        ast.indexSignatures.some(({ parameter }) => SchemaAST.isSymbol(SchemaAST.toEncoded(parameter)))
      ) {
        return cannotBeShown("a symbol is not a key")
      }
      const fields = ast.propertySignatures.map(({ name, type }) =>
        new SchemaAST.PropertySignature(name, tighten(type))
      )
      const indexes = ast.indexSignatures.map(({ parameter, type }) =>
        new SchemaAST.IndexSignature(tighten(parameter), tighten(type))
      )
      const objects = new SchemaAST.Objects(fields, indexes, ...common, ast.encodingChecks)
      const none = new SchemaAST.Objects([], noKeys, undefined, undefined, undefined, context)
      return fields.length + indexes.length > 0 ? objects : SchemaAST.decodeTo(none, objects, toEmpty)
    }
    case "Union":
      return new SchemaAST.Union(ast.types.map(tighten), ast.options, ...common, ast.encodingChecks)
    case "Suspend":
      return new SchemaAST.Suspend(() => tighten(ast.thunk()), annotations, undefined, undefined, context)
    default:
      return SchemaAST.toType(ast)
  }
}

// `Struct({})` alone is every value but null and undefined.
const noKeys = [new SchemaAST.IndexSignature(SchemaAST.string, SchemaAST.never)]
const toEmpty = SchemaTransformation.transform<unknown, {}>({ decode: (value) => value, encode: () => ({}) })

// What to add to a string check that effect does not say in JSON Schema or says too widely, and whether that says all of it.
const said = (check: Check): readonly [add: ReadonlyArray<Check>, all: boolean] => {
  const payload = payloadOf(check)
  switch (idOf(check)) {
    // JSON Schema counts code points, of which a string never has more than the UTF-16 code units that effect counts.
    case "effect/schema/isMinLength":
      return [payload.minLength > 1 ? [Schema.isMinCodePoints(payload.minLength)] : [], true]
    case "effect/schema/isBetweenLength":
      return [payload.minimum > 1 ? [Schema.isMinCodePoints(payload.minimum)] : [], false]
    case "effect/schema/isPattern": {
      const unicode = payload.flags === "" ? Result.try(() => pattern(payload.source)) : Result.fail(undefined)
      // Without these, a match covers the same in code units and in code points.
      return [Option.toArray(Result.getSuccess(unicode)), !/\.|\[\^|\\[SWDP]|\\u[dD][89a-fA-F]/.test(payload.source)]
    }
    default:
      return [[], false]
  }
}

// --- where the decoder still refuses more than is shown, and where secrets are

const jsonTypes: { readonly [tag: string]: JsonSchema.Type } = { String: "string", Arrays: "array", Objects: "object" }

interface Inspection {
  readonly narrower: Array<Issue>
  readonly redacted: Array<Path>
}

const inspect = (root: AST): Result.Result<Inspection, ToolSchemaError> => {
  const narrower: Array<Issue> = []
  const redacted: Array<Path> = []
  const active = new Set<AST>()
  const recursive = new Set<AST>()
  const withoutSecrets = new Set<AST>()
  let refused: ToolSchemaError | undefined
  const refuse = (path: Path, reason: string) => {
    refused ??= new ToolSchemaError({ path: CanonicalJson.formatPath(path), reason })
  }
  const note = (path: Path, message: string) => {
    narrower.push({ path: CanonicalJson.formatPath(path), message })
  }

  const visit = (ast: AST, path: Path, inSecret: boolean): void => {
    if (active.has(ast)) {
      recursive.add(ast)
      return
    }
    if (withoutSecrets.has(ast)) return
    const before = redacted.length
    active.add(ast)
    const secret = inSecret || isSecret(ast)
    if (secret && !inSecret) redacted.push(path)
    const reason = ast.annotations?.[cannotBeShownReason]
    if (SchemaAST.isNever(ast) && (ast !== root || reason !== undefined)) {
      refuse(path, String(reason ?? "Schema.Never has no values; leave the part out"))
    }
    if (ast.encoding === undefined) visitShown(ast, path, secret)
    else visitEncoded(ast, ast.encoding, path, secret)
    active.delete(ast)
    if (redacted.length > before && recursive.has(ast)) {
      refuse(path, "a secret in a recursive type has no fixed place; move it out of the recursion")
    }
  }

  // What is shown is the innermost encoded side; everything on the way to the type is not.
  const visitEncoded = (ast: AST, encoding: SchemaAST.Encoding, path: Path, secret: boolean): void => {
    const from = encoding[encoding.length - 1]!.to
    const shown = factsOf(from)
    const hidden = factsOf(ast, from)
    const implied = encoding.flatMap(({ transformation }) => [
      known.get(transformation)?.[1],
      transformation._tag === "Middleware" ? undefined : established.get((transformation.decode as any).transform)
    ])
    // A check of the outcome says nothing new if its input was checked so, unless the value changed on the way.
    const anew = encoding.some(({ transformation }) => isPure(transformation)) ? leaves(ast.checks) : []
    for (const [fact, { id, reason }] of hidden.reasons) {
      const repeats = shown.reasons.has(fact) && !anew.includes(fact as Check)
      if (!repeats && !implied.includes(id)) note(path, reason)
    }
    if (!secret && hidden.secrets > shown.secrets) {
      // Made of several parts of the JSON, or renamed: everything it may be made of counts as secret.
      const innermost = innermostOf(from)
      const names = SchemaAST.isObjects(innermost) ? innermost.propertySignatures.map(({ name }) => String(name)) : []
      redacted.push(...names.length === 0 ? [path] : names.map((name) => [...path, name]))
      visit(from, path, true)
    } else {
      visit(from, path, secret)
    }
  }

  const visitShown = (ast: AST, path: Path, secret: boolean): void => {
    for (const check of leaves(ast.checks)) {
      // A check of a whole sees decoded parts, of which only the number is the same in JSON.
      const sameInJson = lengths.test(idOf(check)) || !childrenOf(ast).some((child) => factsOf(child).decodes)
      if (!isShown(check, jsonTypes[ast._tag]) || !sameInJson) note(path, `not shown: ${expectedOf(check)}`)
    }
    switch (ast._tag) {
      case "Declaration":
        if (!/^effect\/schema\/(?:Mutable)?Json$/.test(idOf(ast))) note(path, "shown as any JSON")
        return
      case "TemplateLiteral":
        if (ast.parts.some((part) => factsOf(part).reasons.size > 0)) {
          note(path, "not shown: checks of a part of a template")
        }
        return
      case "Arrays":
        ast.elements.forEach((element, index) => visit(element, [...path, String(index)], secret))
        ast.rest.slice(0, 1).forEach((item) => visit(item, [...path, "*"], secret))
        if (ast.rest.length > 1) note(path, "not shown: the last items of the tuple")
        return
      case "Objects":
        for (const { name, type } of ast.propertySignatures) {
          // The decoder reads `input[name]`, which every object inherits.
          if (name in Object.prototype && (name === "__proto__" || SchemaAST.isOptional(type))) {
            refuse(
              [...path, String(name)],
              "absent, it cannot be told from what every object inherits; rename the field"
            )
          }
          visit(type, [...path, String(name)], secret)
        }
        if (ast.propertySignatures.length === 0 && ast.indexSignatures.every(({ type }) => SchemaAST.isNever(type))) {
          return
        }
        for (const { parameter, type } of ast.indexSignatures) {
          visit(parameter, path, secret)
          visit(type, [...path, "*"], secret)
        }
        return
      case "Union":
        if (ast.options?.mode === "oneOf") note(path, "JSON that fits two members of the union is refused")
        for (const member of ast.types) visit(member, path, secret)
        return
      case "Suspend": {
        const before = redacted.length
        const target = ast.thunk()
        visit(target, path, secret)
        if (redacted.length === before) withoutSecrets.add(target)
      }
    }
  }

  visit(root, [], false)
  return refused === undefined ? Result.succeed({ narrower, redacted }) : Result.fail(refused)
}

const isSecret = (ast: AST): boolean => idOf(ast) === "effect/schema/Redacted"

const innermostOf = (ast: AST): AST => ast.encoding === undefined ? ast : innermostOf(ast.encoding.at(-1)!.to)

const lengths = /^effect\/schema\/is(?:Min|Max|Between)Length$/

const expectedOf = (check: Check): string => {
  const expected = String(check.annotations?.expected ?? "a check of its own")
  return /is(?:Max|Between)Length$/.test(idOf(check))
    ? `${expected} (in UTF-16 code units; isMaxCodePoints is shown exactly)`
    : expected
}

const isShown = (check: Check, type: JsonSchema.Type | undefined): boolean => {
  // A pair is effect's way to say "about".
  const shown = check.annotations?.toJsonSchema?.({ type, schemas: [{}] })
  const [add, all] = said(check)
  return Array.isArray(shown) ? type === "string" && all && add.length > 0 : shown !== undefined
}

interface Facts {
  /** Reasons to refuse, by the check, transformation or declaration that has them. */
  readonly reasons: Map<unknown, { readonly id: string; readonly reason: string }>
  secrets: number
  decodes: boolean
}

// Everything in a tree that may refuse a value, without the part at `except`.
const factsOf = (
  ast: AST,
  except?: AST,
  facts: Facts = { reasons: new Map(), secrets: 0, decodes: false },
  seen = new Set<AST>()
): Facts => {
  if (ast === except || seen.has(ast)) return facts
  if (isSecret(ast)) facts.secrets++
  if (idOf(ast) === "effect/schema/Date") {
    facts.reasons.set((ast as SchemaAST.Declaration).run, {
      id: "effect/schema/Date",
      reason: "an invalid date is refused"
    })
  }
  for (const check of leaves(ast.checks)) {
    facts.reasons.set(check, { id: idOf(check), reason: `not shown, after a transformation: ${expectedOf(check)}` })
  }
  if (ast.encoding !== undefined) facts.decodes = true
  let to = ast
  for (const { to: from, transformation } of ast.encoding ?? []) {
    const reason = mayRefuse(transformation, from, to)
    const isPassthrough = transformation._tag === "Transformation" && transformation.decode._tag === "Passthrough"
    // There is one `passthrough` for all; what it may refuse is its target's.
    const by = isPassthrough ? to : transformation
    if (reason !== undefined) facts.reasons.set(by, { id: "", reason })
    factsOf(from, except, facts, seen)
    to = from
  }
  if (SchemaAST.isSuspend(ast)) seen.add(ast)
  for (const child of childrenOf(ast)) factsOf(child, except, facts, seen)
  return facts
}

const childrenOf = (ast: AST): ReadonlyArray<AST> => {
  switch (ast._tag) {
    case "Declaration":
      return ast.typeParameters
    case "Arrays":
      return [...ast.elements, ...ast.rest]
    case "Objects":
      return [
        ...ast.propertySignatures.map(({ type }) => type),
        ...ast.indexSignatures.flatMap(({ parameter, type }) => [parameter, type])
      ]
    case "Union":
      return ast.types
    case "Suspend":
      return [ast.thunk()]
    default:
      return []
  }
}

const mayRefuse = (transformation: SchemaAST.Link["transformation"], from: AST, to: AST): string | undefined => {
  if (transformation._tag === "Middleware") return "a middleware may refuse what is shown"
  const { decode } = transformation
  if (decode._tag === "Passthrough") {
    const picks = /^(?:Literal|Enum|TemplateLiteral)$/.test(to._tag) && to._tag !== from._tag
    return picks ? "only some of what is shown is passed through" : undefined
  }
  return isPure(transformation) || known.has(transformation) || codeOf(decode) === codeOf(aDefault)
    ? undefined
    : "a transformation may refuse what is shown"
}

const isPure = (transformation: SchemaAST.Link["transformation"]): boolean =>
  transformation._tag === "Transformation" && /^Transform(?:Optional)?$/.test(transformation.decode._tag)

// All defaults are closures of one place in effect, and so of one text.
const aDefault = SchemaGetter.withDefault(Effect.void)
const codeOf = (getter: SchemaGetter.Getter<any, any, any>): string =>
  getter._tag === "Passthrough" ? "" : String(getter.transform)
