import { execFile } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import manifest from "../package.json" with { type: "json" }

const project = resolve(import.meta.dirname, "..")
const effect = `effect@${manifest.devDependencies.effect}`
const folders: Array<string> = []
let tarball: string

const consumer = `import { Effect, Schema } from "effect"
import { type Activation, Agent, AgentStore, Signing, Tool, Toolkit } from "effect-intents"
import { AiToolkit } from "effect-intents/model"
import { SqliteAgentStore } from "effect-intents/sqlite"
import * as Testing from "effect-intents/testing"

const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String },
  success: Schema.String,
  handler: ({ id }) => Effect.succeed(id)
})

const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

export const kit = Toolkit.make(lookup, charge)

export const agent = Agent.make(
  "agent",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, event) {
    const customerId = yield* ctx.runTool(lookup({ id: event }))
    yield* ctx.act(charge({ customerId, amountCents: 500 }))
    return Agent.complete(customerId)
  })
)

// @ts-expect-error is not assignable
export const wrong = (ctx: Activation.Context<string, {}, never>) => ctx.runTool(charge({ customerId: "c", amountCents: 5 }))

const program = Effect.gen(function*() {
  const call = yield* kit.decode("charge", { customerId: "c1", amountCents: 500 })
  const { tools } = yield* AiToolkit.fromToolkit(kit, "acme")
  const amount = call.name === "charge" ? call.arguments.amountCents : 0
  const kept = yield* AgentStore.AgentStore.use((store) => store.key({ agent: "agent", key: "k" })).pipe(
    Effect.provide(SqliteAgentStore.layer({ filename: "agents.db" }))
  )
  const ring = Signing.keyRing({ current: "k-1", keys: { "k-1": new Uint8Array(32) } })
  return [amount, yield* lookup({ id: "1" }), typeof Testing, Object.keys(tools), kept.revision, ring._tag]
})

Effect.runPromise(program).then((values) => console.log(JSON.stringify(values)))
`

beforeAll(async () => {
  const out = folder()
  await succeeds("npm", ["run", "build"], project)
  await succeeds("npm", ["pack", "--pack-destination", out], project)
  tarball = join(out, readdirSync(out)[0]!)
}, 120_000)

afterAll(() => {
  for (const path of folders) rmSync(path, { recursive: true })
})

describe("the packed package", () => {
  it("installs beside effect, type-checks on TypeScript 6 and 7 and runs", { timeout: 300_000 }, async () => {
    const cwd = folder()
    await succeeds("npm", ["install", ...offline, tarball, effect], cwd)
    writeFileSync(join(cwd, "consumer.ts"), consumer)
    writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify(consumerConfig))
    for (const compiler of ["typescript", "@typescript/native"]) {
      await succeeds(process.execPath, [join(project, "node_modules", compiler, "bin/tsc"), "-p", "."], cwd)
    }
    const output = await succeeds(process.execPath, ["consumer.ts"], cwd)
    assert.strictEqual(output.trim(), `[500,"1","object",["lookup","charge"],0,"Success"]`)
  })

  it("is refused beside effect 3 when it is installed, by its peer range (K07)", { timeout: 120_000 }, async () => {
    const { code, output } = await run("npm", ["install", ...offline, tarball, "effect@3"], folder())
    assert.notStrictEqual(code, 0)
    assert.include(output, "ERESOLVE")
    assert.include(output, `peer effect@"${manifest.peerDependencies.effect}"`)
  })
})

const offline = ["--prefer-offline", "--no-audit", "--no-fund"]

const consumerConfig = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    module: "nodenext",
    target: "esnext",
    types: [],
    skipLibCheck: false,
    noEmit: true
  }
}

function folder() {
  const path = mkdtempSync(join(tmpdir(), "effect-intents-package-"))
  folders.push(path)
  writeFileSync(join(path, "package.json"), `{ "name": "consumer", "private": true, "type": "module" }`)
  return path
}

function run(command: string, args: ReadonlyArray<string>, cwd: string) {
  return new Promise<{ readonly code: number | string; readonly output: string }>((done) =>
    execFile(
      command,
      args,
      { cwd },
      (error, stdout, stderr) => done({ code: error?.code ?? 0, output: stdout + stderr })
    )
  )
}

async function succeeds(command: string, args: ReadonlyArray<string>, cwd: string) {
  const { code, output } = await run(command, args, cwd)
  assert.strictEqual(code, 0, output)
  return output
}
