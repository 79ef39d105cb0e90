import { existsSync, globSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import ts from "typescript"
import { assert, describe, it } from "vitest"
import manifest from "../package.json" with { type: "json" }

const project = resolve(import.meta.dirname, "..")
const read = (path: string) => readFileSync(join(project, path), "utf8")
const pages = ["README.md", "AGENTS.md", "CHANGELOG.md", ...globSync("docs/*.md", { cwd: project }).sort()]

describe("code in the docs", () => {
  for (const page of pages) {
    for (const [, file = "", code = ""] of read(page).matchAll(/^```ts *(.*)\n([\s\S]*?)^```$/gm)) {
      it(`${page} shows a verbatim part of ${file}`, () => {
        assert.notStrictEqual(file, "", `a block names no file:\n${code}`)
        assert.include(read(file), code.trimEnd())
      })
    }
  }

  it("is shown in the README, the refused program first", () => {
    const files = [...read("README.md").matchAll(/^```ts (.*)$/gm)].map(([, file]) => file)
    assert.deepStrictEqual(files, ["examples/refused.ts", "examples/01-the-line.ts"])
  })
})

describe("the docs", () => {
  it("keep the README under 150 lines", () => {
    assert.isBelow(read("README.md").split("\n").length, 150)
  })

  it("link to files that exist", () => {
    for (const page of pages) {
      for (const [, target = ""] of read(page).matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)) {
        assert.isTrue(existsSync(join(project, dirname(page), target)), `${page} links to ${target}`)
      }
    }
  })

  it("name npm scripts that exist", () => {
    for (const page of pages) {
      for (const [, script = ""] of read(page).matchAll(/npm run (?:-s )?([\w:-]+)/g)) {
        assert.property(manifest.scripts, script, page)
      }
    }
  })

  it("give each module a row in the order in which they may import each other", () => {
    const rows = [...section("docs/design.md", "Modules").matchAll(/^\| ((?:`[\w/]+`(?:, )?)+) \|/gm)]
      .flatMap(([, names = ""]) => [...names.matchAll(/`([\w/]+)`/g)].map(([, name]) => name))
    const table = /^const table = \[([\s\S]*?)^\]/m.exec(read("test/imports.test.ts"))?.[1] ?? ""
    const checked = [...table.matchAll(/"([\w/]+)"/g)].map(([, name]) => name).filter((name) => name !== "index")
    assert.isAbove(rows.length, 20)
    assert.deepStrictEqual(rows, checked)
  })

  it("give each dependency its reason", () => {
    const reasons = section("docs/design.md", "Dependencies")
    const { dependencies, devDependencies, peerDependencies } = manifest
    for (const name of Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies })) {
      assert.match(reasons, new RegExp(`^\\|.*\`${name}\`.*\\| .+ \\|$`, "m"), name)
    }
  })

  it("list every state of an intent", () => {
    const states = /export type State =([\s\S]*?)\n\n/.exec(read("src/LedgerEntry.ts"))?.[1] ?? ""
    const names = [...states.matchAll(/"(\w+)"/g)].map(([, name]) => name)
    assert.isAbove(names.length, 7)
    for (const name of names) assert.match(read("docs/design.md"), new RegExp(`^\\| ${name} \\|`, "m"))
  })
})

describe("the guarantees", () => {
  // A line is a sentence and its tests: `file`: describe > title, several with <br> between them.
  const lines = [...read("docs/guarantees.md").matchAll(/^\| (.+) \| (`(?:t|src\/).+) \|$/gm)]
    .map(([, sentence = "", tests = ""]) => ({ sentence, tests: tests.split("<br>") }))

  it("are many, and each line names its test", () => {
    const untested = section("docs/guarantees.md", "What neither can")
    const all = read("docs/guarantees.md").replace(untested, "").match(/^\| (?!---)(?!.* \| test \|$)/gm) ?? []
    assert.isAbove(lines.length, 40)
    assert.strictEqual(lines.length, all.length)
  })

  it("name tests that exist", () => {
    const missing = lines.flatMap(({ tests }) =>
      tests.filter((test) => {
        const [, file = "", title = ""] = /^`(.+?)`: (.+)$/.exec(test) ?? []
        return !existsSync(join(project, file)) || !titlesOf(file).includes(title)
      })
    )
    assert.deepStrictEqual(missing, [])
  })
})

function section(page: string, title: string) {
  const text = read(page)
  const from = text.indexOf(`\n## ${title}\n`)
  assert.notStrictEqual(from, -1, `${page} has no section '${title}'`)
  const to = text.indexOf("\n## ", from + 1)
  return text.slice(from, to === -1 ? undefined : to)
}

/** The titles of a file's tests, each behind those of the groups it stands in. */
function titlesOf(file: string) {
  const titles: Array<string> = []
  const visit = (node: ts.Node, groups: ReadonlyArray<string>): void => {
    const title = ts.isCallExpression(node) && node.arguments[0] !== undefined ? textOf(node.arguments[0]) : undefined
    if (ts.isCallExpression(node) && title !== undefined) {
      const callee = node.expression.getText()
      const path = [...groups, title]
      if (/^(it|test)\b/.test(callee)) titles.push(path.join(" > "))
      if (/^describe\b/.test(callee)) return ts.forEachChild(node, (child) => visit(child, path))
    }
    ts.forEachChild(node, (child) => visit(child, groups))
  }
  visit(ts.createSourceFile(file, read(file), ts.ScriptTarget.ESNext, true), [])
  return titles
}

/** A text, or a template as it is written. */
function textOf(node: ts.Expression) {
  if (ts.isStringLiteralLike(node)) return node.text
  return ts.isTemplateExpression(node) ? node.getText().slice(1, -1) : undefined
}
