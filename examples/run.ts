// `npm run example -- 03` runs the example of that number; without one it lists them.
import { globSync } from "node:fs"

const files = globSync("[0-9]*.ts", { cwd: import.meta.dirname }).sort()
const asked = process.argv[2]
const file = files.find((name) => asked !== undefined && name.startsWith(asked.padStart(2, "0")))

if (file !== undefined) {
  await import(`./${file}`)
} else {
  console.log(files.join("\n"))
  process.exitCode = asked === undefined ? 0 : 2
}
