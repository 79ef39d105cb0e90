/**
 * Reads events from lines of JSON. A line that is no event is told apart, and the reading goes on.
 */
import { Effect, FileSystem, Result, Schema, Stdio, Stream } from "effect"
import { type AccountEvent, EventLine } from "./events.ts"

const maxCharacters = 65_536

/** The lines of a file, or of standard input for `-`. */
export const readLines = (path: string) =>
  Stream.unwrap(Effect.gen(function*() {
    const stdio = yield* Stdio.Stdio
    const files = yield* FileSystem.FileSystem
    return path === "-" ? stdio.stdin : files.stream(path)
  })).pipe(Stream.decodeText(), Stream.splitLines)

/** A line that is no event. The message never repeats the line. */
export class NoEvent extends Schema.TaggedError<NoEvent>()("NoEvent", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

export const parseLine = (text: string): Result.Result<AccountEvent, NoEvent> => {
  if (text.trim() === "") return Result.fail(new NoEvent({ problem: "empty" }))
  if (text.length > maxCharacters) {
    return Result.fail(new NoEvent({ problem: `longer than ${maxCharacters} characters` }))
  }
  return Result.mapError(decode(text), ({ message }) => new NoEvent({ problem: message.replaceAll(/\s+/g, " ") }))
}

const decode = Schema.decodeResult(EventLine)
