/**
 * Stands in for the person who decides on large refunds: the one thing here that a model or an agent can never do.
 */
import { Effect, Schema } from "effect"
import { AgentEngine, Ledger } from "effect-intents"

const Refund = Schema.fromJsonString(Schema.Struct({ cents: Schema.Int }))

const review = Effect.fnUntraced(function*({ intent }: Ledger.Entry) {
  const engine = yield* AgentEngine.AgentEngine
  const { cents } = yield* Effect.orDie(Schema.decodeEffect(Refund)(intent.arguments))
  yield* engine.decide({
    id: intent.id,
    approved: cents <= 60_000,
    by: "reviewer",
    // The decision is about exactly what was looked at.
    argumentsDigest: intent.argumentsDigest
  })
})

/** Works until there is nothing left to run, to perform or to decide. */
export const settle = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  while (true) {
    yield* engine.drain
    const undecided = (yield* engine.intents({ states: ["Staged"] })).filter(Ledger.waitsForApproval)
    yield* Effect.forEach(undecided, review, { discard: true })
    if (undecided.length > 0) continue
    // What a process claimed that died is free again when its lease is over.
    if ((yield* engine.intents({ states: ["Staged", "Claimed"] })).length === 0) return
    yield* Effect.sleep("100 millis")
  }
})
