// `npm run bench` measures and prints a table, with `--json` one object. Nothing here is a test: figures depend on the machine.
import * as Effect from "effect/Effect"
import { parseArgs } from "node:util"
import { startServer, stopServer } from "../fixtures/postgres-server.ts"
import { activation } from "./activation.ts"
import { endToEnd } from "./endToEnd.ts"
import { identity } from "./identity.ts"
import { machine } from "./measure.ts"
import { memory, postgres, postgresInserts, sqlite, sqliteInserts } from "./stores.ts"

const { values } = parseArgs({
  options: { json: { type: "boolean", default: false }, events: { type: "string", default: "20000" } }
})

const server = startServer()
const result = {
  machine,
  activation: await activation(),
  endToEnd: await endToEnd([memory, sqlite, postgres(server.url)], Number(values.events)),
  inserts: {
    "SQLite FULL": await inserts(sqliteInserts),
    Postgres: await inserts((rows, size) => postgresInserts(server.url, rows, size))
  },
  identity: await identity()
}
stopServer(server)

async function inserts(measure: (rows: number, size: number) => Effect.Effect<number, unknown>) {
  return {
    alone: await Effect.runPromise(measure(1000, 1)),
    together: await Effect.runPromise(measure(100_000, 256))
  }
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
  console.log(
    "\nEvent, 1 read, 1 request, performed, resumed, output; beside what the driver inserts, 256 rows at a time"
  )
  console.table(
    Object.fromEntries(result.endToEnd.map(({ eventsPerSecond, keys, store }) => {
      const limit = store === "memory" ? undefined : result.inserts[store as keyof typeof result.inserts].together
      return [
        `${store}, ${keys === 1 ? "1 key" : `${keys} keys`}`,
        {
          "events a second": Math.round(eventsPerSecond),
          "inserts per event": limit === undefined ? "" : Math.round(limit / eventsPerSecond)
        }
      ]
    }))
  )
  console.log("\nRows of 200 bytes a second through the driver alone, as durable as the store")
  console.table(
    Object.fromEntries(
      Object.entries(result.inserts).map(([name, { alone, together }]) => [
        name,
        { "1 a transaction": Math.round(alone), "256 a transaction": Math.round(together) }
      ])
    )
  )
  console.log("\nNaming an intent, in microseconds")
  console.table(
    Object.fromEntries(result.identity.map(({ p50, p99, what }) => [what, { p50: micros(p50), p99: micros(p99) }]))
  )
}
