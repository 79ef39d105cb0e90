// What the types cost a user: instantiations per fixture, less those of importing the library, on both compilers.
// `npm run typecost` prints them; test/typecost.test.ts compares them with typecost.json.
import { execFile, spawnSync } from "node:child_process"
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import limits from "./typecost.json" with { type: "json" }

export { limits }

export interface Cost {
  readonly instantiations: number
  readonly seconds: number
  readonly errors: ReadonlyArray<string>
}

export const compilers = {
  "TypeScript 6": ["node_modules/typescript/bin/tsc"],
  "TypeScript 7": ["node_modules/@typescript/native/bin/tsc", "--singleThreaded"]
}

export type Compiler = keyof typeof compilers

// fixtures

export const imports = `import { Effect, Schema } from "effect"
import { Agent, Tool, Toolkit } from "effect-intents"
`

export const times = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => line(i)).join("\n")

export const name = (index: number) => index === 0 ? "charge" : `tool_${index}`

// Every second tool reads a record, the others act and answer with an id; every fourth takes a note, every fourth a list.
const more = (index: number) =>
  index % 4 === 1 ?
    ", note: Schema.optionalKey(Schema.NullOr(Schema.String))"
    : index % 4 === 3 ?
    `, items: Schema.optionalKey(Schema.Array(Schema.Struct({ sku${index}: Schema.String })))`
    : ""

export const tool = (index: number) =>
  `const ${name(index)} = Tool.${index % 2 === 0 ? "sideEffect" : "readOnly"}("${name(index)}", {
  description: "Number ${index}.",
  parameters: { customerId: Schema.String, amount${index}: Schema.Number${more(index)} },
  success: ${index % 2 === 0 ? "Schema.String" : `Schema.Struct({ id${index}: Schema.String })`}
})`

const call = (index: number) => `${name(index)}({ customerId: "c", amount${index}: ${index} })`

export const handler = (index: number) =>
  `  ${name(index)}: ({ customerId, amount${index} }) => Effect.succeed(${
    index % 2 === 0 ? `customerId + amount${index}` : `{ id${index}: customerId + amount${index} }`
  })`

const toolkit = (count: number, from = 0) =>
  `${imports}
${times(count, tool)}
export const kit = Toolkit.make(${times(count, (index) => `${name(index)},`).slice(0, -1)})
export const handlers = kit.toLayer({
${times(count - from, (index) => `${handler(index + from)},`)}
})
export const amount = Effect.map(kit.decode("charge", {}), (call) => call.name === "charge" ? call.arguments.amount0 : 0)
`

const agent = (tools: number, steps: string) =>
  `${imports}
${times(tools, tool)}
export const agent = Agent.make(
  "agent",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, event) {
${steps}
    return Agent.complete(event)
  })
)
`

const step = (index: number) => `    yield* ctx.${index % 2 === 0 ? "act" : "runTool"}(${call(index % 10)})`

export const fixtures = {
  "import": `${imports}\nexport { Agent, Effect, Schema, Tool, Toolkit }\n`,
  "1 tool": toolkit(1),
  "50 tools": toolkit(50),
  "100 tools": toolkit(100),
  "200 tools": toolkit(200),
  "50 steps": agent(10, times(50, step)),
  "refused call": agent(1, `    yield* ctx.runTool(${call(0)})`),
  "missing handler": toolkit(50, 1)
}

export type Fixture = keyof typeof fixtures

// measuring

const project = resolve(import.meta.dirname, "../..")

/** The cost of every fixture on one compiler. Instantiations are those of the fixture above those of "import". */
export const measure = async (compiler: Compiler): Promise<Record<Fixture, Cost>> => {
  const folder = consumer()
  const costs = {} as Record<Fixture, Cost>
  for (const [fixture, source] of Object.entries(fixtures)) {
    costs[fixture as Fixture] = await compile(compiler, folder, fixture.replace(" ", "-"), source)
  }
  rmSync(folder, { recursive: true })
  const base = costs["import"]
  const above = (cost: Cost) => ({ ...cost, instantiations: cost.instantiations - base.instantiations })
  return Object.fromEntries(Object.entries(costs).map(([fixture, cost]) => [fixture, above(cost)])) as any
}

/** How much dearer a tool is among 200 than among 50. 1 is linear. */
export const growth = (costs: Record<Fixture, Cost>): number => {
  const perTool = (few: Fixture, many: Fixture, added: number) =>
    (costs[many].instantiations - costs[few].instantiations) / added
  return perTool("50 tools", "200 tools", 150) / perTool("1 tool", "50 tools", 49)
}

/** A project that has the built declarations of the library installed, as a user has them. */
export const consumer = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "typecost-"))
  const library = join(folder, "node_modules/effect-intents")
  const emit = ["-p", "tsconfig.build.json", "--emitDeclarationOnly", "--noEmitOnError", "false"]
  const tsc = [...compilers["TypeScript 7"], ...emit, "--outDir", join(library, "dist")]
  spawnSync(process.execPath, tsc, { cwd: project })
  copyFileSync(join(project, "package.json"), join(library, "package.json"))
  mkdirSync(join(folder, "node_modules/@types"))
  for (const name of ["effect", "@types/node"]) {
    symlinkSync(join(project, "node_modules", name), join(folder, "node_modules", name))
  }
  writeFileSync(join(folder, "package.json"), `{ "type": "module" }`)
  return folder
}

/** Compiles one file in a project of `consumer`. */
export const compile = (
  compiler: Compiler,
  folder: string,
  file: string,
  source: string,
  options: Record<string, unknown> = {}
): Promise<Cost> => {
  const config = join(folder, `${file}.json`)
  writeFileSync(join(folder, `${file}.ts`), source)
  writeFileSync(
    config,
    JSON.stringify({
      extends: join(project, "tsconfig.json"),
      compilerOptions: { plugins: [], customConditions: [], ...options },
      files: [`${file}.ts`],
      include: []
    })
  )
  const [script, ...flags] = compilers[compiler]
  const args = [join(project, script!), ...flags, "-p", config, "--extendedDiagnostics", "--pretty", "false"]
  return new Promise((done, fail) =>
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 1e8 }, (_, stdout, stderr) => {
      const figure = (name: string) => Number(new RegExp(`^${name}:\\s+([\\d.]+)`, "m").exec(stdout)?.[1])
      if (Number.isNaN(figure("Instantiations"))) return fail(new Error(`${compiler}, ${file}: ${stdout}${stderr}`))
      const report = stdout.slice(0, stdout.search(/^Files:/m)).split("\n").filter((line) => line !== "")
      done({
        instantiations: figure("Instantiations"),
        seconds: figure("Check time"),
        errors: report.slice(report.findIndex((line) => line.startsWith(`${file}.ts`)) >>> 0)
      })
    })
  )
}

if (import.meta.main) {
  for (const compiler of Object.keys(compilers) as Array<Compiler>) {
    const costs = await measure(compiler)
    console.log(compiler)
    console.table(
      Object.fromEntries(
        Object.entries(costs).map(([fixture, { errors, instantiations, seconds }]) => [
          fixture,
          {
            instantiations,
            limit: (limits as Record<string, number>)[fixture] ?? "",
            seconds,
            error: (errors[0] ?? "").slice(0, 70)
          }
        ])
      )
    )
    console.log(`a tool among 200 costs ${growth(costs).toFixed(2)} times one among 50; limit ${limits.growth}\n`)
  }
}
