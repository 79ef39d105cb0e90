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
import * as Exit from "effect/Exit"
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaParser from "effect/SchemaParser"
import * as CanonicalJson from "./CanonicalJson.ts"
import { inspect } from "./ToolSchemaInspect.ts"
import { tighten } from "./ToolSchemaTree.ts"

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
    const { narrower, redacted } = yield* Result.mapError(
      inspect(ast),
      ({ message, path }) => new ToolSchemaError({ path, reason: message })
    )
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

const show = (ast: SchemaAST.AST): { readonly "draft-2020-12": Shown; readonly "draft-07": Shown } => {
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

const isData = /^(?:enum|const|default|examples)$/

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

const outcomeOf = (redacted: ReadonlyArray<ReadonlyArray<string>>) => {
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
