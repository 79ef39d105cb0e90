/**
 * Makes the events of events.ndjson: three days of 200 accounts, the same on every run.
 * `node --conditions=effect-intents-source examples/triage/generate.ts > examples/triage/events.ndjson`
 */
import { DateTime, Effect, Random } from "effect"
import { type Customer, customers } from "./customers.ts"

const count = 1_000
const start = DateTime.makeUnsafe("2026-03-02T06:00:00Z")

interface Draft {
  readonly minute: number
  readonly customer: string
  readonly [field: string]: string | number | boolean
}

const percent = Effect.map(Random.nextIntBetween(0, 100), (drawn) => (likely: number) => drawn < likely)

const abroad = Random.choice(["BR", "NG", "RU", "US", "VN"])

/** One thing that happens to a customer: a few events, minutes apart. */
const story = Effect.fnUntraced(function*({ averageTransferCents, country, id }: Customer) {
  const drafts: Array<Draft> = []
  let minute = yield* Random.nextIntBetween(0, 3 * 24 * 60)
  const happens = (fields: Omit<Draft, "minute" | "customer">) => {
    drafts.push({ minute, customer: id, ...fields })
    minute += 1 + drafts.length % 4
  }
  const login = (ok: boolean, from = country) => happens({ type: "login", ok, country: from })
  const newDevice = Effect.map(
    Random.nextIntBetween(1000, 10_000),
    (number) => happens({ type: "new_device", device: `phone-${number}` })
  )
  const transfer = (times: number, to = country) =>
    Effect.map(
      Random.nextIntBetween(20, 150),
      (share) =>
        happens({ type: "transfer", cents: Math.round(averageTransferCents * times * share / 100), country: to })
    )

  const kind = yield* Random.nextIntBetween(0, 100)
  if (kind < 50) {
    login(true)
    if ((yield* percent)(60)) yield* transfer(1)
  } else if (kind < 62) {
    login(false)
    if ((yield* percent)(60)) login(false)
    if ((yield* percent)(50)) happens({ type: "password_reset" })
    login(true)
  } else if (kind < 70) {
    login(true)
    yield* newDevice
    yield* transfer(1)
  } else if (kind < 76) {
    const country = yield* abroad
    login(true, country)
    yield* transfer(1, country)
  } else if (kind < 84) {
    // Somebody takes the account over.
    const country = yield* abroad
    for (let attempt = 0; attempt < 3; attempt++) login(false, country)
    happens({ type: "password_reset" })
    login(true, country)
    yield* newDevice
    yield* transfer(9, country)
  } else if (kind < 88) {
    yield* transfer(8)
  } else {
    const cents = yield* Random.nextIntBetween(500, 90_000)
    const payment = yield* Random.nextIntBetween(10_000, 100_000)
    const refunded = (yield* percent)(10) ? "-refunded" : ""
    happens({ type: "chargeback", cents, payment: `pay-${payment}${refunded}` })
  }
  return drafts
})

/** Lines as a careless sender mixes them in: cut off, of an unknown type, with an amount that is none. */
const badLines: ReadonlyArray<readonly [after: number, line: string]> = [
  [213, `{"id":"e-0214x","at":"2026-03-02T21:14:00.000Z","customer":"cust-0`],
  [
    586,
    `{"id":"e-0587x","at":"2026-03-03T18:40:00.000Z","customer":"cust-064","type":"logn","ok":true,"country":"CH"}`
  ],
  [
    802,
    `{"id":"e-0803x","at":"2026-03-04T10:02:00.000Z","customer":"cust-171","type":"transfer","cents":-5,"country":"FR"}`
  ]
]

export const generate = Effect.gen(function*() {
  const drafts: Array<Draft> = []
  while (drafts.length < count) drafts.push(...yield* story(yield* Random.choice(customers)))
  const inOrder = drafts.slice(0, count).sort((a, b) => a.minute - b.minute)
  const lines = inOrder.map(({ minute, ...fields }, index) => {
    const id = `e-${String(index + 1).padStart(4, "0")}`
    return JSON.stringify({ id, at: DateTime.formatIso(DateTime.add(start, { minutes: minute })), ...fields })
  })
  for (const [after, line] of badLines.toReversed()) lines.splice(after, 0, line)
  return lines.join("\n") + "\n"
}).pipe(Random.withSeed("triage"))

if (import.meta.main) process.stdout.write(await Effect.runPromise(generate))
