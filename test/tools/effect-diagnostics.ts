// Effect's own diagnostics. The tool exits 0 when it checked nothing, so the number of files it reports is checked too.
import { spawnSync } from "node:child_process"
import { globSync } from "node:fs"

const sources = globSync("src/**/*.ts").length
const cli = "node_modules/@effect/tsgo/dist/effect-tsgo.cjs"
const options = ["--project", "tsconfig.json", "--format", "text", "--severity", "error,warning", "--strict"]
const run = spawnSync(process.execPath, [cli, "diagnostics", ...options], { encoding: "utf8" })
console.log((run.stdout + run.stderr).trim())

const checked = Number(/Checked (\d+) files/.exec(run.stdout)?.[1] ?? 0)
if (checked < sources) console.error(`checked ${checked} files; src has ${sources}`)
process.exitCode = run.status === 0 && sources > 0 && checked >= sources ? 0 : 1
