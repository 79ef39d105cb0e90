import * as Effect from "effect/Effect"
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { generate } from "../examples/triage/generate.ts"
import manifest from "../package.json" with { type: "json" }

const project = resolve(import.meta.dirname, "..")
const shipped = join(project, "examples/triage/events.ndjson")
const folder = mkdtempSync(join(tmpdir(), "effect-intents-start-"))

afterAll(() => rmSync(folder, { recursive: true }))

const login = (id: string, more: object = {}) =>
  JSON.stringify({
    id,
    at: "2026-03-02T06:00:00.000Z",
    customer: "cust-005",
    type: "login",
    ok: true,
    country: "CH",
    ...more
  })

describe("npm start", () => {
  it("is the triage example", () => {
    assert.strictEqual(manifest.scripts.start, "node --conditions=effect-intents-source examples/triage/main.ts")
  })

  it("handles every shipped event, names the bad lines, and does nothing twice", { timeout: 60_000 }, async () => {
    const { code, stderr, stdout } = await start("--json")
    assert.strictEqual(code, 0, stderr)
    assert.strictEqual(stderr, "")
    const summary = JSON.parse(stdout)
    assert.strictEqual(summary.events, 1000)
    assert.strictEqual(summary.completed, 1000)
    assert.deepStrictEqual(summary.badLines.map(({ line }: { readonly line: number }) => line), [214, 588, 805])
    assert.deepStrictEqual(summary.deadLetters, [])
    assert.isAbove(summary.suspended, 0)
    assert.strictEqual(summary.activations, summary.completed + summary.suspended)

    const { denied, open, performed, staged, unknown } = summary.intents
    assert.isAbove(denied, 0)
    assert.strictEqual(staged, performed + denied)
    assert.strictEqual(unknown + open, 0)
    const failed = summary.tools.sideEffects.reduce((sum: number, tool: any) => sum + tool.failed, 0)
    const effects = performed - failed
    assert.deepStrictEqual(summary.outside, { effects, before: 0, now: effects, twice: 0 })
    assert.deepStrictEqual(summary.sentAgain, { events: 1000, recognised: 1000, performed: 0 })
    for (const tool of summary.tools.sideEffects) assert.isAbove(tool.performed, 0, tool.tool)
    for (const tool of summary.tools.reads) assert.isAbove(tool.calls, 0, tool.tool)
  })

  it("run again on its file, has seen every event before and does nothing twice", { timeout: 60_000 }, async () => {
    const db = join(folder, "again", "triage.db")
    const first = await start("--json", "--db", db)
    assert.strictEqual(first.code, 0, first.stderr)
    const { outside, seenBefore } = JSON.parse(first.stdout)
    assert.strictEqual(seenBefore, 0)
    assert.isAbove(outside.now, 100)
    const second = JSON.parse((await start("--json", "--db", db)).stdout)
    assert.deepInclude(second, { events: 1000, seenBefore: 1000, completed: 1000 })
    assert.deepStrictEqual(second.outside, { effects: outside.now, before: outside.now, now: 0, twice: 0 })
  })

  it(
    "killed between an effect and its record, finishes the work when it is run again",
    { timeout: 60_000 },
    async () => {
      const db = join(folder, "killed.db")
      for (const crashAt of ["1", "40", "25"]) {
        const { code, stdout } = await start("--json", "--db", db, "--crash-at", crashAt)
        assert.strictEqual(code, "SIGKILL")
        assert.strictEqual(stdout, "")
      }
      const { code, stdout } = await start("--json", "--db", db)
      assert.strictEqual(code, 0)
      const { completed, deadLetters, intents, outside } = JSON.parse(stdout)
      assert.deepInclude({ completed, deadLetters, open: intents.open }, { completed: 1000, deadLetters: [], open: 0 })
      assert.deepInclude(outside, { before: 66, twice: 0 })
      // Nobody honours a key when an analyst is paged: an end without a record is left for people to look at.
      assert.strictEqual(intents.staged, intents.performed + intents.denied + intents.unknown)
      const table = await start("--db", db)
      if (intents.unknown > 0) assert.match(table.stdout, /^\d+ may or may not have happened: .*engine\.resolve\.$/m)
    }
  )

  it("ends with 1 and one line when the store cannot be opened", { timeout: 60_000 }, async () => {
    for (const db of [file("no database ".repeat(1000)), "postgres://nobody@127.0.0.1:1/nothing"]) {
      const { code, stderr, stdout } = await start("--db", db)
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "")
      assert.match(stderr, /^triage: cannot open the store: .*\n$/)
    }
  })

  it("gives the same answer on every run", { timeout: 60_000 }, async () => {
    const runs = await Promise.all([start("--json"), start("--json")])
    const [one, two] = runs.map(({ stdout }) => ({ ...JSON.parse(stdout), elapsedMillis: 0 }))
    assert.deepStrictEqual(one, two)
  })

  it("prints a table, and nothing else in a pipe", { timeout: 60_000 }, async () => {
    const { code, stderr, stdout } = await start()
    assert.strictEqual(code, 0)
    assert.strictEqual(stderr, "")
    assert.notInclude(stdout, "\r")
    for (
      const line of [
        /^events +1,000$/m,
        /^dead letters +0$/m,
        /^reads +\d+$/m,
        /^freeze_account( +\d+){5}$/m,
        /^Sent again: 1,000 events, 1,000 recognised as duplicates, 0 more effects\.$/m,
        /^Outside: \d+ effects happened, \d+ of them in this run, 0 of them twice\.$/m,
        /^ {2}line 214: Expected a valid JSON string$/m
      ]
    ) assert.match(stdout, line)
  })

  it("counts bad lines by number and goes on", { timeout: 60_000 }, async () => {
    const path = file(
      login("e-1"),
      `{"id":"e-2",`,
      login("e-3", { type: "logn" }),
      "",
      login("e-4", { country: "x".repeat(100_000) }),
      login("e-5", { at: "yesterday" }),
      login("e-1"),
      login("e-1", { ok: false }),
      login("e-6", { customer: "\ud800" }),
      "null",
      login("e-7")
    )
    const { code, stdout } = await start("--json", "--events", path)
    assert.strictEqual(code, 0)
    const { badLines, events, sentAgain } = JSON.parse(stdout)
    assert.strictEqual(events, 2)
    assert.deepStrictEqual(badLines.slice(0, 5), [
      { line: 2, problem: "Expected a valid JSON string" },
      { line: 3, problem: "Expected an account event of a known type" },
      { line: 4, problem: "empty" },
      { line: 5, problem: "longer than 65536 characters" },
      { line: 6, problem: `Expected a valid UTC DateTime string at ["at"]` }
    ])
    assert.deepStrictEqual(badLines.slice(5).map(({ line }: { readonly line: number }) => line), [8, 9, 10])
    assert.match(badLines[5].problem, /event 'e-1' .* was sent before with another content/)
    assert.match(badLines[6].problem, /well-formed/)
    // Line 7 repeats line 1.
    assert.deepStrictEqual(sentAgain, { events: 3, recognised: 3, performed: 0 })
    assert.match((await start("--events", path)).stdout, /^ {2}and 3 more$/m)
  })

  it("sends more events for one customer than an inbox holds", { timeout: 60_000 }, async () => {
    const chargeback = login("e-0", { type: "chargeback", cents: 50_000, payment: "pay-1" })
    const logins = Array.from({ length: 10_001 }, (_, index) => login(`e-${index + 1}`))
    const { code, stdout } = await start("--json", "--events", file(chargeback, ...logins))
    assert.strictEqual(code, 0)
    // The first event waits for a decision, and everything else for the first event.
    assert.deepInclude(JSON.parse(stdout), { events: 10_002, completed: 10_002, suspended: 1, badLines: [] })
  })

  it("reads standard input for -", { timeout: 60_000 }, async () => {
    const { code, stdout } = await start("--json", "--events", "-", { input: `${login("e-1")}\n${login("e-2")}` })
    assert.strictEqual(code, 0)
    assert.strictEqual(JSON.parse(stdout).events, 2)
  })

  it("reads an empty input", { timeout: 60_000 }, async () => {
    const { code, stdout } = await start("--json", "--events", "-", { input: "" })
    assert.strictEqual(code, 0)
    assert.deepInclude(JSON.parse(stdout), { events: 0, badLines: [], activations: 0 })
  })

  it("ends with 1 and says why when an event became a dead letter", { timeout: 60_000 }, async () => {
    const stranger = { customer: "cust-999", type: "transfer", cents: 5 }
    const { code, stderr, stdout } = await start("--json", "--events", file(login("e-1"), login("e-2", stranger)))
    assert.strictEqual(code, 1)
    const { deadLetters, events } = JSON.parse(stdout)
    assert.strictEqual(events, 2)
    assert.deepStrictEqual(deadLetters, [
      { customer: "cust-999", problem: "UnknownCustomer: no customer 'cust-999'" }
    ])
    assert.include(stderr, "no customer 'cust-999'")
  })

  it("ends with 1 and one line when the file cannot be read", { timeout: 60_000 }, async () => {
    for (const path of [join(folder, "missing.ndjson"), folder]) {
      const { code, stderr, stdout } = await start("--events", path)
      assert.strictEqual(code, 1)
      assert.strictEqual(stdout, "")
      assert.match(stderr, /^triage: cannot read the events: .*\n$/)
    }
  })

  it("ends with 2 and the help when it is called wrongly", { timeout: 60_000 }, async () => {
    for (const args of [["--evnts", "x"], ["surplus"], ["--events"]]) {
      const { code, stderr, stdout } = await start(...args)
      assert.strictEqual(code, 2, args.join(" "))
      assert.include(stdout, "USAGE")
      assert.include(stderr, "ERROR")
    }
  })

  it("shows its help", { timeout: 60_000 }, async () => {
    const { code, stderr, stdout } = await start("--help")
    assert.strictEqual(code, 0)
    assert.strictEqual(stderr, "")
    assert.match(stdout, /--events PATH [^]*--db PATH\|URL [^]*--crash-at N [^]*--json /)
  })
})

describe("the shipped events", () => {
  it("are those its seeded script makes, byte for byte", async () => {
    assert.strictEqual(readFileSync(shipped, "utf8"), await Effect.runPromise(generate))
  })
})

function file(...lines: ReadonlyArray<string>) {
  const path = join(folder, `${process.hrtime.bigint()}.ndjson`)
  writeFileSync(path, lines.map((line) => `${line}\n`).join(""))
  return path
}

function start(...args: ReadonlyArray<string | { readonly input: string }>) {
  const input = args.find((arg) => typeof arg !== "string")
  const given = args.filter((arg) => typeof arg === "string")
  // What is not about the store runs in memory, and leaves nothing behind.
  const strings = given.includes("--db") ? given : ["--db", "memory", ...given]
  return new Promise<{ readonly code: number | string; readonly stdout: string; readonly stderr: string }>((done) => {
    const child = execFile(
      process.execPath,
      [...process.execArgv, "examples/triage/main.ts", ...strings],
      { cwd: project, env: { ...process.env, NO_COLOR: "1" } },
      (error, stdout, stderr) => done({ code: error?.signal ?? error?.code ?? 0, stdout, stderr })
    )
    child.stdin?.end(input?.input ?? "")
  })
}
