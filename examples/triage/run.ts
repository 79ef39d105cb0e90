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
  const { before, effects } = yield* Outside
  const started = yield* Clock.currentTimeMillis

  const events: Array<AccountEvent> = []
  const offsets = new Set<number>()
  const badLines: Array<{ readonly line: number; readonly problem: string }> = []
  let seenBefore = 0
  const bad = (line: number, problem: string) => Effect.sync(() => badLines.push({ line, problem }))
  yield* lines.pipe(
    Stream.zipWithIndex,
    Stream.grouped(250),
    Stream.runForEach((chunk) =>
      Effect.gen(function*() {
        const parsed = chunk.map(([text, index]) => ({ line: index + 1, parsed: parseLine(text) }))
        for (const { line, parsed: result } of parsed) {
          if (Result.isFailure(result)) yield* bad(line, result.failure.message)
        }
        const sent = yield* sendAll(
          parsed.flatMap(({ line, parsed }) => Result.isSuccess(parsed) ? [{ line, event: parsed.success }] : [])
        )
        for (const { event, line, receipt } of sent) {
          if (Result.isFailure(receipt)) {
            yield* bad(line, receipt.failure.message)
            continue
          }
          // One that this run has sent already is no news.
          if (receipt.success.duplicate && !offsets.has(receipt.success.offset)) seenBefore++
          offsets.add(receipt.success.offset)
          events.push(event)
        }
        yield* progress(parsed.at(-1)?.line ?? 0)
      })
    )
  )
  badLines.sort((a, b) => a.line - b.line)
  yield* settle
  const elapsedMillis = (yield* Clock.currentTimeMillis) - started
  const counts = yield* countUp([...offsets])
  const performed = effects.length

  const again = yield* sendAll(events.map((event, line) => ({ line, event })))
  yield* settle

  return {
    events: offsets.size,
    seenBefore,
    customers: new Set(events.map(({ customer }) => customer)).size,
    badLines,
    ...counts,
    elapsedMillis,
    sentAgain: {
      events: again.length,
      recognised: again.filter(({ receipt }) => Result.isSuccess(receipt) && receipt.success.duplicate).length,
      performed: effects.length - performed
    },
    outside: {
      effects: effects.length,
      before,
      now: effects.length - before,
      twice: effects.length - new Set(effects.map(({ intent }) => intent)).size
    }
  }
})

/** Sends events side by side, those of one customer one after the other. */
const sendAll = Effect.fnUntraced(
  function*(lines: ReadonlyArray<{ readonly line: number; readonly event: AccountEvent }>) {
    const byCustomer = Map.groupBy(lines, ({ event }) => event.customer)
    const sent = yield* Effect.forEach(
      Array.from(byCustomer.values()),
      (own) =>
        Effect.forEach(own, (one) => Effect.map(Effect.result(send(one.event)), (receipt) => ({ ...one, receipt }))),
      {
        concurrency: "unbounded"
      }
    )
    return sent.flat().sort((a, b) => a.line - b.line)
  }
)

const send = Effect.fnUntraced(function*(event: AccountEvent) {
  const engine = yield* AgentEngine.AgentEngine
  // The event's own id is what makes sending it again harmless.
  const sent = engine.send(triage, { key: event.customer, event, id: event.id })
  return yield* Effect.catchTag(sent, "InboxFull", () => Effect.andThen(settle, sent))
})
