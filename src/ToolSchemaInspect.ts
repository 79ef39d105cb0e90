/**
 * What a tool's schema does not say by itself: where its decoder still refuses more than a model is shown, and where its
 * secrets are.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import * as CanonicalJson from "./CanonicalJson.ts"
import { type AST, cannotBeShownReason, type Check, established, idOf, known, leaves, said } from "./ToolSchemaTree.ts"

/**
 * @since 0.1.0
 * @category models
 */
export type Path = ReadonlyArray<string>

const jsonTypes: { readonly [tag: string]: JsonSchema.Type } = { String: "string", Arrays: "array", Objects: "object" }

/**
 * What one tree does not say: `narrower` where the decoder refuses more than is shown, `redacted` where secrets are.
 *
 * @since 0.1.0
 * @category models
 */
export interface Inspection {
  readonly narrower: ReadonlyArray<Finding>
  readonly redacted: ReadonlyArray<Path>
}

/**
 * Something at a path, written as `CanonicalJson.formatPath` does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Finding {
  readonly path: string
  readonly message: string
}

/**
 * Looks through a tightened tree. Fails for a part no JSON can stand for.
 *
 * @since 0.1.0
 * @category destructors
 */
export const inspect = (root: AST): Result.Result<Inspection, Finding> => {
  const narrower: Array<Finding> = []
  const redacted: Array<Path> = []
  const active = new Set<AST>()
  const recursive = new Set<AST>()
  const withoutSecrets = new Set<AST>()
  let refused: Finding | undefined
  const refuse = (path: Path, reason: string) => {
    refused ??= { path: CanonicalJson.formatPath(path), message: reason }
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

// internal

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
