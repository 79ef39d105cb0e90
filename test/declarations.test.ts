/**
 * What a package that exports tools gives to its own users: declarations that compile, and types that survive them (K05).
 */
import { readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { compile, type Compiler, compilers, consumer, handler, imports, name, times, tool } from "./tools/typecost.ts"

let folder: string

beforeAll(() => {
  folder = consumer()
}, 120_000)

afterAll(() => {
  rmSync(folder, { recursive: true })
})

const tools = 100

// No annotation anywhere: everything below is inferred, and written to the declarations by the compiler.
const library = `${imports}
${times(tools, (index) => `export ${tool(index)}`)}

export class NotToday extends Schema.TaggedError<NotToday>()("NotToday", { day: Schema.String }) {}

export const ping = Tool.readOnly("ping", { description: "No parameters.", failure: NotToday })

export const remote = Tool.sideEffect("remote", {
  description: "Its schema is known at run time only.",
  parameters: Schema.Unknown as Schema.Codec<unknown, unknown>
})

export const kit = Toolkit.make(ping, remote, ${times(tools, (index) => `${name(index)},`).slice(0, -1)})

export const some = kit.pick("charge", "ping")

export const layer = Toolkit.make(charge, tool_1, ping).toLayer({
${handler(0)},
${handler(1)},
  ping: () => Effect.void
})

export const agent = Agent.make(
  "agent",
  { event: Schema.String, output: Schema.String },
  Effect.fnUntraced(function*(ctx, event) {
    yield* ctx.act(charge({ customerId: event, amount0: 1 }))
    return Agent.complete(event)
  })
)

export const priced = <const Name extends string, P extends Tool.Fields>(name: Name, parameters: P) =>
  Tool.sideEffect(name, { description: name, parameters: { ...parameters, priceCents: Schema.Int } })
`

const user = `import { Effect, Schema } from "effect"
import type { Agent, Tool } from "effect-intents"
import { agent, kit, priced, some } from "./lib/library.js"

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false
const same = <A, B>(same: Same<A, B>) => same

Effect.map(kit.decode("charge", {}), (call) => {
  if (call.name === "charge") same<typeof call.arguments, { readonly customerId: string; readonly amount0: number }>(true)
  if (call.name === "ping") same<typeof call.arguments, {}>(true)
  if (call.name === "remote") same<typeof call.arguments, unknown>(true)
  if (call.name === "tool_99") call.arguments.items?.map(({ sku99 }) => sku99.length)
  // @ts-expect-error no tool of that name
  if (call.name === "tool_1000") return
})

same<keyof typeof some.tools, "charge" | "ping">(true)
same<Agent.Services<typeof agent>, Tool.Intents<"charge">>(true)
priced("refund", { id: Schema.String })({ id: "1", priceCents: 5 })

// @ts-expect-error the effector's alone
Effect.runPromise(kit.tools.charge({ customerId: "c", amount0: 1 }))
// @ts-expect-error 'priceCents' is missing
priced("refund", { id: Schema.String })({ id: "1" })
`

describe.each(Object.keys(compilers) as Array<Compiler>)("a package with declarations, on %s", (compiler) => {
  it("exports a toolkit of 100 tools, and a user of its declarations narrows by name (K05)", async () => {
    const emit = { declaration: true, emitDeclarationOnly: true, noEmit: false, outDir: "lib" }
    const built = await compile(compiler, folder, "library", library, emit)
    assert.deepStrictEqual(built.errors, [])
    assert.notInclude(readFileSync(join(folder, "lib/library.d.ts"), "utf8"), ": any")
    const used = await compile(compiler, folder, "user", user)
    assert.deepStrictEqual(used.errors, [])
  }, 60_000)
})
