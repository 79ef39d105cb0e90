import { execFile } from "node:child_process"
import { globSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"
import ts from "typescript"
import { assert, describe, it } from "vitest"

const project = resolve(import.meta.dirname, "..")

// The lines that make the point of an example, in the order in which they are printed.
const expected: Record<string, ReadonlyArray<string>> = {
  "01-the-line.ts": [
    "freeze requested",
    "freezing cust-9",
    "obedient: { _tag: 'Complete', output: 'high' }",
    "refused: 'obedient' failed for key 'c-9' (SideEffectToolError): 'freeze_account' is a SideEffect tool and runs in "
    + "the effector only; stage it with ctx.act or ctx.request"
  ],
  "02-request.ts": [
    "c-1 is suspended and waits for: intent",
    "c-1: receipt r-500, booked 20",
    "c-2: card card-2 has expired"
  ],
  "03-several-at-once.ts": [
    "blocking card-1",
    "a card for c-1",
    "card-1 blocked, your new card arrives in 3 days",
    "to c-1: your new card arrives in 3 days",
    "step 2: notify is Performed"
  ],
  "04-state-machine.ts": ["seat 14A, paid 9900 cents", "LX2 is sold out"],
  "05-memory-and-messages.ts": [
    "a lamp: order number 1 of c-1",
    "to c-1: Did everything go well with a lamp?",
    "refused: MessageMisfit",
    "a lamp: done, 1 complaints so far",
    "a chair: order number 2 of c-1",
    "to c-1: Did everything go well with a chair?",
    "a chair: done, 1 complaints so far"
  ],
  "06-approval.ts": [
    "moving 700 cents to bob",
    `dana sees transfer {"cents":50000,"to":"carol"} and says yes, but less`,
    `dana sees transfer {"cents":9000000,"to":"mallory"} and says no`,
    "moving 20000 cents to carol",
    "head of payments is asked now, and says yes",
    "huge: not paid: Denied, denied by dana",
    `large: paid, ref-20000, changed by dana to {"cents":20000,"to":"carol"}`,
    "late: paid, ref-30000"
  ],
  "07-testing.ts": ["all assertions hold, and nobody was reminded"],
  "08-unknown-outcomes.ts": [
    "invoice, attempt 1, idempotency key ",
    "invoice, attempt 2, idempotency key ",
    "invoice for order-1, parcel of order-1, charge unknown (TimedOut)",
    "charge was settled by dana",
    "invoice: Performed, 2 starts",
    "ship: Performed, 1 start",
    "charge: Performed, 1 start"
  ],
  "09-dry-run.ts": [
    `Performed: request_quote {"article":"desk lamp"}`,
    `Staged: order {"article":"desk lamp","cents":1200}`,
    "the agent is suspended, waiting for 1 intent"
  ]
}

const files = globSync("[0-9]*.ts", { cwd: join(project, "examples") }).sort()

describe("the examples", () => {
  it("are numbered in reading order, and each is run here", () => {
    assert.deepStrictEqual(files, Object.keys(expected))
    files.forEach((file, index) => assert.strictEqual(file.slice(0, 2), String(index + 1).padStart(2, "0")))
  })

  for (const [file, lines] of Object.entries(expected)) {
    it(`${file} runs and shows its point`, { timeout: 60_000 }, async () => {
      const { code, output } = await node(...process.execArgv, `examples/${file}`)
      assert.strictEqual(code, 0, output)
      let from = 0
      for (const line of lines) {
        const at = output.indexOf(line, from)
        assert.notStrictEqual(at, -1, `'${line}' is not printed, or not in this order, in:\n${output}`)
        from = at + line.length
      }
    })
  }

  it("08 performs the idempotent tool twice with one key, and never the others", { timeout: 60_000 }, async () => {
    const { output } = await node(...process.execArgv, "examples/08-unknown-outcomes.ts")
    const keys = [...output.matchAll(/idempotency key (\S+)/g)].map(([, key]) => key)
    assert.strictEqual(keys.length, 2)
    assert.strictEqual(keys[0], keys[1])
  })

  it("use no casts and no any", () => {
    for (const file of globSync("**/*.ts", { cwd: join(project, "examples") })) {
      const text = readFileSync(join(project, "examples", file), "utf8")
      assert.deepStrictEqual(casts(ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true)), [], file)
    }
  })
})

describe("npm run example", () => {
  it(
    "runs the example of a number, lists them without one, and refuses an unknown one",
    { timeout: 60_000 },
    async () => {
      const list = await node(...process.execArgv, "examples/run.ts")
      assert.deepStrictEqual(list, { code: 0, output: `${files.join("\n")}\n` })
      const one = await node(...process.execArgv, "examples/run.ts", "9")
      assert.strictEqual(one.code, 0)
      assert.include(one.output, expected["09-dry-run.ts"]![0]!)
      assert.strictEqual((await node(...process.execArgv, "examples/run.ts", "77")).code, 2)
    }
  )
})

describe("the refused program", () => {
  // The errors are those the README shows; a block of it is compared with both compilers line by line.
  const shown = /```text\n(examples\/refused\.ts\([\s\S]*?)```/.exec(readFileSync(join(project, "README.md"), "utf8"))
    ?.[1]

  for (const compiler of ["typescript", "@typescript/native"]) {
    it(`is refused by ${compiler} with the errors the README shows`, { timeout: 120_000 }, async () => {
      const { code, output } = await node(`node_modules/${compiler}/bin/tsc`, "-p", "examples", "--pretty", "false")
      assert.notStrictEqual(code, 0)
      assert.deepStrictEqual(output.trim().split("\n"), shown?.trim().split("\n"))
    })
  }
})

function casts(node: ts.Node): ReadonlyArray<string> {
  const isCast = ts.isTypeAssertionExpression(node) || ts.isNonNullExpression(node)
    || node.kind === ts.SyntaxKind.AnyKeyword
    || (ts.isAsExpression(node) && node.type.getText() !== "const")
  const found = isCast ? [node.getText()] : []
  ts.forEachChild(node, (child) => void found.push(...casts(child)))
  return found
}

function node(...args: ReadonlyArray<string>) {
  return new Promise<{ readonly code: number | string; readonly output: string }>((done) =>
    execFile(
      process.execPath,
      args,
      { cwd: project, env: { ...process.env, NO_COLOR: "1" } },
      (error, stdout, stderr) => done({ code: error?.code ?? 0, output: stdout + stderr })
    )
  )
}
