/**
 * One tree for both forms of a tool's schema: what a model is shown and what its answer is decoded by. Checks that JSON
 * Schema can say are added wherever a decoder is pickier than what would be shown.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as Str from "effect/String"

/**
 * @since 0.1.0
 * @category models
 */
export type AST = SchemaAST.AST

/**
 * @since 0.1.0
 * @category models
 */
export type Check = SchemaAST.Check<any>

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

/**
 * By transformation: the check that its input gets, and the check of its output that then always passes.
 *
 * @since 0.1.0
 * @category constants
 */
export const known = new Map<unknown, readonly [check: Check, implies?: string]>([
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

/**
 * By function of a pure getter: the check that its output always passes.
 *
 * @since 0.1.0
 * @category constants
 */
export const established = new Map<unknown, string>([
  [Str.trim, "effect/schema/isTrimmed"],
  [Str.toLowerCase, "effect/schema/isLowercased"],
  [Str.toUpperCase, "effect/schema/isUppercased"],
  [Str.capitalize, "effect/schema/isCapitalized"],
  [Str.uncapitalize, "effect/schema/isUncapitalized"]
])

interface Annotated {
  readonly annotations?: Schema.Annotations.Annotations | undefined
}

/**
 * The id of a check or declaration of effect's own; empty for others.
 *
 * @since 0.1.0
 * @category checks
 */
export const idOf = (annotated: Annotated): string => (annotated.annotations?.["representation"] as any)?.id ?? ""

const payloadOf = (annotated: Annotated): any => (annotated.annotations?.["representation"] as any)?.payload

/**
 * The checks without their groups. A group that says itself how it is shown counts as one check.
 *
 * @since 0.1.0
 * @category checks
 */
export const leaves = (checks: ReadonlyArray<Check> | undefined): ReadonlyArray<Check> =>
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

/**
 * The annotation of what stands in for a part that cannot be shown: the reason.
 *
 * @since 0.1.0
 * @category constants
 */
export const cannotBeShownReason = "effect-intents/cannotBeShown"

const tightened = new WeakMap<AST, AST>()

/**
 * The tree with all that can be shown made a check of its JSON side.
 *
 * @since 0.1.0
 * @category constructors
 */
export const tighten = (ast: AST): AST => {
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

/**
 * What to add to a string check that effect does not say in JSON Schema or says too widely, and whether that says all of
 * it.
 *
 * @since 0.1.0
 * @category checks
 */
export const said = (check: Check): readonly [add: ReadonlyArray<Check>, all: boolean] => {
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
