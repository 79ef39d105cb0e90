import { globSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import ts from "typescript"
import { assert, describe, it } from "vitest"
import manifest from "../package.json" with { type: "json" }

// The module table of docs/design.md: each module imports only from rows above it.
const table = [
  "internal/",
  "CanonicalJson",
  "ToolSchemaTree",
  "ToolSchemaInspect",
  "ToolSchema",
  "ToolError",
  "ToolDefinition",
  "ToolCall",
  "Tool",
  "Toolkit",
  "Intent",
  "SigningKeys",
  "SigningSeal",
  "SigningForm",
  "Signing",
  "Memory",
  "StepOrder",
  "JournalRow",
  "Journal",
  "ReplayOrder",
  "ActivationData",
  "ActivationError",
  "Activation",
  "ActivationState",
  "ActivationSegment",
  "ActivationReads",
  "ActivationIntents",
  "ActivationContext",
  "ActivationRun",
  "Agent",
  "LedgerEntry",
  "Ledger",
  "AgentStoreData",
  "AgentStore",
  "AgentStoreTables",
  "AgentStoreRules",
  "AgentStoreMemoryTables",
  "AgentStoreMemory",
  "EffectorSecrets",
  "EffectorResult",
  "EffectorTrust",
  "EffectorHandler",
  "EffectorDelivery",
  "EffectorWorker",
  "EffectorDryRun",
  "Effector",
  "AgentClient",
  "AgentEngineDelivery",
  "AgentEngine",
  "index",
  "model/",
  "sql/",
  "sqlite/",
  "postgres/",
  "testing/"
]

// The one look down: an interface gives the interpreter that comes with it.
const down = ["AgentStore -> AgentStoreMemory"]

// The core is src/*.ts and src/internal. It imports modules of effect itself, and of the rest only this.
const coreMay: Record<string, ReadonlyArray<string>> = {
  "CanonicalJson": ["node:crypto"],
  "Intent": ["uuid"],
  "SigningSeal": ["node:crypto"],
  "SigningKeys": ["node:crypto"],
  "Signing": ["node:crypto"]
}
const effectCore = /^effect(\/[A-Z][A-Za-z]*)?$/

const src = resolve(import.meta.dirname, "../src")

interface Module {
  readonly file: string
  readonly text: string
  /** Files of src without their ending, relative to it. */
  readonly local: ReadonlyArray<string>
  readonly packages: ReadonlyArray<string>
}

const files = globSync("**/*.ts", { cwd: src })

const modules = files.map((path): Module => {
  const text = readFileSync(join(src, path), "utf8")
  const imports = importsOf(ts.createSourceFile(path, text, ts.ScriptTarget.ESNext))
  return {
    file: name(path),
    text,
    local: imports.filter((file) => file.startsWith(".")).map((file) => name(join(dirname(path), file))),
    packages: imports.filter((file) => !file.startsWith("."))
  }
})
const isCore = (file: string) => !file.includes("/") || file.startsWith("internal/")

describe("each module", () => {
  it("has a row in the table", () => {
    assert.deepStrictEqual(modules.map(({ file }) => file).filter((file) => row(file) === -1), [])
  })

  it("imports only from rows above it", () => {
    const upwards = (file: string, local: string) =>
      row(local) < row(file) || (file.includes("/") && row(local) === row(file))
    assert.deepStrictEqual(edges((module) => module.local.filter((local) => !upwards(module.file, local))), down)
  })

  it("imports only packages that are installed with this one", () => {
    const installed = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies })
    const known = (name: string) =>
      name.startsWith("node:") || installed.some((dep) => `${name}/`.startsWith(`${dep}/`))
    assert.deepStrictEqual(edges((module) => module.packages.filter((name) => !known(name))), [])
  })
})

describe("the line between agents and effects", () => {
  it("keeps the effector out of everything an agent is made of", () => {
    const reached = reach(["Activation", "ActivationRun", "Agent"])
    assert.include(reached, "Tool")
    assert.notInclude(reached, "Effector")
  })

  it("leaves 'Tool.unwrap' to the effector", () => {
    const unwraps =
      /\bTool(?:Call)?\s*(?:\.\s*unwrap\b|\[)|import\s[^"]*\bunwrap\b[^"]*from\s+"[^"]*\/Tool(?:Call)?\.ts"/
    const code = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")
    assert.deepStrictEqual(modules.filter(({ text }) => unwraps.test(code(text))).map(({ file }) => file), ["Effector"])
  })
})

describe("the core", () => {
  it("imports effect's own modules, and nothing of ai, sql, cluster, cli, http or node beyond its list", () => {
    const may = (file: string, name: string) => effectCore.test(name) || coreMay[file]?.includes(name)
    assert.deepStrictEqual(
      modules.filter(({ file }) => isCore(file)).flatMap(({ file, packages }) =>
        packages.filter((name) => !may(file, name)).map((name) => `${file} -> ${name}`)
      ),
      []
    )
  })

  it("reaches no subpath from index.ts", () => {
    const reached = reach(["index"])
    assert.isAbove(reached.length, 1)
    assert.deepStrictEqual(reached.filter((file) => !isCore(file)), [])
  })
})

/** Static and dynamic imports, re-exports and `import("…")` types. */
function importsOf(node: ts.Node): Array<string> {
  const specifier = ts.isImportDeclaration(node) || ts.isExportDeclaration(node) ?
    node.moduleSpecifier
    : ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) ?
    node.argument.literal
    : ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword ?
    node.arguments[0]
    : undefined
  const found = specifier !== undefined && ts.isStringLiteralLike(specifier) ? [specifier.text] : []
  ts.forEachChild(node, (child) => void found.push(...importsOf(child)))
  return found
}

function name(path: string) {
  return path.replace(/\.ts$/, "")
}

function row(file: string) {
  return table.findIndex((entry) => entry === file || (entry.endsWith("/") && file.startsWith(entry)))
}

function edges(wrong: (module: Module) => ReadonlyArray<string>) {
  return modules.flatMap((module) => wrong(module).map((to) => `${module.file} -> ${to}`))
}

function reach(files: ReadonlyArray<string>) {
  const reached = new Set(files)
  for (const file of reached) modules.find((module) => module.file === file)?.local.forEach((to) => reached.add(to))
  return [...reached]
}
