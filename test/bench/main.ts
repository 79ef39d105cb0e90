// `npm run bench` measures and prints a table, with `--json` one object. Nothing here is a test: figures depend on the machine.
import { parseArgs } from "node:util"
import { activation } from "./activation.ts"
import { endToEnd } from "./endToEnd.ts"
import { identity } from "./identity.ts"
import { machine } from "./measure.ts"

const { values } = parseArgs({
  options: { json: { type: "boolean", default: false }, events: { type: "string", default: "20000" } }
})

const result = {
  machine,
  activation: await activation(),
  endToEnd: await endToEnd(Number(values.events)),
  identity: await identity()
}

const micros = (value: number) => Number(value.toFixed(2))

if (values.json) {
  console.log(JSON.stringify(result))
} else {
  console.log(`${machine.cpu}, ${machine.cores} cores, node ${machine.node}`)
  console.log("\nOne activation, in microseconds, beside the bare Effect program in the same run")
  console.table(
    Object.fromEntries(result.activation.map(({ above, bareP50, p50, p99, times, work }) => [
      work,
      {
        p50: micros(p50),
        p99: micros(p99),
        "bare p50": micros(bareP50),
        above: micros(above),
        times: Math.round(times)
      }
    ]))
  )
  console.log("\nEvent, 1 read, 1 request, performed, resumed, output; store in memory")
  console.table(
    Object.fromEntries(result.endToEnd.map(({ eventsPerSecond, keys }) => [
      keys === 1 ? "1 key" : `${keys} keys`,
      { "events a second": Math.round(eventsPerSecond) }
    ]))
  )
  console.log("\nNaming an intent, in microseconds")
  console.table(
    Object.fromEntries(result.identity.map(({ p50, p99, what }) => [what, { p50: micros(p50), p99: micros(p99) }]))
  )
}
