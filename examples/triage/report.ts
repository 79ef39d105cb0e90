/**
 * What people see: a line that counts up on a terminal, and the summary as a table.
 */
import { Effect, Stdio, Stream } from "effect"
import type { Summary } from "./summary.ts"

/** Counts the lines on a terminal, in a line that the next output overwrites. Says nothing in a pipe. */
export const progress = Effect.map(Stdio.Stdio, ({ stderr, stderrIsTerminal }) => (lines: number) =>
  lines % 100 === 0
    ? Stream.succeed(`${number(lines)} lines read\r`).pipe(
      Stream.run(stderr({ endOnDone: false })),
      Effect.when(stderrIsTerminal),
      Effect.ignore
    )
    : Effect.void)

export const report = (summary: Summary): string => {
  const { badLines, deadLetters, elapsedMillis, events, intents, outside, sentAgain, tools } = summary
  return [
    ...columns([
      ["events", number(events)],
      ["  seen before", number(summary.seenBefore)],
      ["customers", number(summary.customers)],
      ["bad lines", number(badLines.length)],
      ["activations", number(summary.activations)],
      ["  suspended", number(summary.suspended)],
      ["  completed", number(summary.completed)],
      ["dead letters", number(deadLetters.length)],
      ["reads", number(summary.reads)],
      ["intents staged", number(intents.staged)],
      ["  performed", number(intents.performed)],
      ["  denied", number(intents.denied)],
      ["  unknown", number(intents.unknown)],
      ["  still open", number(intents.open)],
      ["seconds", (elapsedMillis / 1000).toFixed(2)]
    ]),
    "",
    ...columns([
      ["read", "calls"],
      ...tools.reads.map(({ calls, tool }) => [tool, number(calls)])
    ]),
    "",
    ...columns([
      ["side effect", "staged", "performed", "failed", "asked", "denied"],
      ...tools.sideEffects.map(({ asked, denied, failed, performed, staged, tool }) => [
        tool,
        ...[staged, performed, failed, asked, denied].map(number)
      ])
    ]),
    "",
    `Sent again: ${number(sentAgain.events)} events, ${number(sentAgain.recognised)} recognised as duplicates, `
    + `${number(sentAgain.performed)} more effects.`,
    `Outside: ${number(outside.effects)} effects happened, ${number(outside.now)} of them in this run, `
    + `${number(outside.twice)} of them twice.`,
    ...(intents.unknown === 0 ? [] : [
      `${
        number(intents.unknown)
      } may or may not have happened: nobody recorded the end. Look outside, then settle each with `
      + `engine.resolve.`
    ]),
    ...some("Bad lines", badLines.map(({ line, problem }) => `line ${line}: ${problem}`)),
    ...some("Dead letters", deadLetters.map(({ customer, problem }) => `${customer}: ${problem}`))
  ].join("\n")
}

const number = (value: number): string => value.toLocaleString("en-US")

/** Names to the left, numbers to the right. */
const columns = (rows: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const width = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  return rows.map((row) =>
    row.map((cell, column) => column === 0 ? cell.padEnd(width(0)) : cell.padStart(width(column) + 3)).join("")
  )
}

const some = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length === 0 ? [] : [
    "",
    `${title}:`,
    ...lines.slice(0, 5).map((line) => `  ${line}`),
    ...(lines.length > 5 ? [`  and ${lines.length - 5} more`] : [])
  ]
