/**
 * Sends every event to the agent, waits for the end, and sends everything a second time, as a sender does that does not know what
 * arrived.
 */
import { Clock, Effect, Result, Stream } from "effect"
import { AgentEngine } from "effect-intents"
import { triage } from "./agent.ts"
import type { AccountEvent } from "./events.ts"
import { parseLine } from "./input.ts"
import { Outside } from "./outside.ts"
import { settle } from "./reviewer.ts"
import { countUp } from "./summary.ts"

export const run = Effect.fnUntraced(function*<E, R>(
  lines: Stream.Stream<string, E, R>,
  progress: (lines: number) => Effect.Effect<void>
) {
  const { effects } = yield* Outside
  const started = yield* Clock.currentTimeMillis

  const events: Array<AccountEvent> = []
  const offsets = new Set<number>()
  const badLines: Array<{ readonly line: number; readonly problem: string }> = []
  yield* lines.pipe(
    Stream.zipWithIndex,
    Stream.runForEach(([text, index]) =>
      Effect.gen(function*() {
        const event = yield* Effect.fromResult(parseLine(text))
        offsets.add((yield* send(event)).offset)
        events.push(event)
      }).pipe(
        Effect.catch(({ message }) => Effect.sync(() => badLines.push({ line: index + 1, problem: message }))),
        Effect.andThen(progress(index + 1))
      )
    )
  )
  yield* settle
  const elapsedMillis = (yield* Clock.currentTimeMillis) - started
  const counts = yield* countUp([...offsets])
  const performed = effects.length

  const again = yield* Effect.forEach(events, (event) => Effect.result(send(event)))
  yield* settle

  return {
    events: offsets.size,
    customers: new Set(events.map(({ customer }) => customer)).size,
    badLines,
    ...counts,
    elapsedMillis,
    sentAgain: {
      events: again.length,
      recognised: again.filter((receipt) => Result.isSuccess(receipt) && receipt.success.duplicate).length,
      performed: effects.length - performed
    },
    outside: {
      effects: effects.length,
      twice: effects.length - new Set(effects.map(({ intent }) => intent)).size
    }
  }
})

const send = Effect.fnUntraced(function*(event: AccountEvent) {
  const engine = yield* AgentEngine.AgentEngine
  // The event's own id is what makes sending it again harmless.
  const sent = engine.send(triage, { key: event.customer, event, id: event.id })
  return yield* Effect.catchTag(sent, "InboxFull", () => Effect.andThen(settle, sent))
})
