// What it costs to name an intent: canonical JSON, its digest, the id of the place.
import { CanonicalJson, Intent } from "effect-intents"
import * as Effect from "effect/Effect"
import { time } from "./measure.ts"

const args = {
  customerId: "cust-0421",
  amountCents: 129_900,
  currency: "EUR",
  lines: [{ sku: "lamp", count: 2, cents: 59_900 }, { sku: "chair", count: 1, cents: 10_100 }],
  note: "leave it at the neighbour's door"
}

const text = Effect.sync(() => CanonicalJson.encode(args))
const digest = Effect.sync(() => CanonicalJson.digestOf(args))
const id = Effect.sync(() => Intent.makeId("payments", "cust-0421", 17, 3))

export const identity = async () => {
  const timed = await time({
    "canonical JSON": text,
    "canonical JSON and digest": digest,
    "id": id,
    "all of it": Effect.andThen(digest, id),
    "JSON.stringify, to compare": Effect.sync(() => JSON.stringify(args))
  })
  return Object.entries(timed).map(([what, timing]) => ({ what, ...timing }))
}
