import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Result, Schema } from "effect"
import { Memory } from "../src/index.ts"

const entries = {
  count: Memory.entry(Schema.Int, () => 0),
  since: Memory.entry(Schema.Date, () => new Date(0)),
  log: Memory.list(Schema.String, { maxItems: 3 })
}

const open = (options: Partial<Parameters<typeof Memory.working>[0]> = {}) => {
  const working = Memory.working({
    key: "k",
    entries,
    stored: {},
    maxBytes: 1000,
    compact: undefined,
    ...options
  })
  return { ...working, memory: working.memory as Memory.Memory<typeof entries> }
}

const endOf = (working: Pick<Memory.Working, "end">) => Result.getOrThrow(working.end())

const failureOf = (working: Pick<Memory.Working, "end">) => {
  const ended = working.end()
  return Result.isFailure(ended) ? ended.failure : assert.fail("it ended")
}

describe("entries", () => {
  it.effect("start with their initial values, and are stored as JSON once they are written", () =>
    Effect.gen(function*() {
      const working = open()
      assert.strictEqual(yield* working.memory.get("count"), 0)
      assert.isUndefined(endOf(working))
      yield* working.memory.update("count", (count) => count + 1)
      yield* working.memory.set("since", new Date(7))
      assert.deepStrictEqual(endOf(working)?.stored, { count: 1, since: "1970-01-01T00:00:00.007Z" })
      assert.deepStrictEqual(working.stored(), { count: 1, since: "1970-01-01T00:00:00.007Z" })
      assert.isUndefined(endOf(working))
    }))

  it.effect("are read as their types from what is stored; what is not written stays as it is", () =>
    Effect.gen(function*() {
      const working = open({ stored: { since: "1970-01-01T00:00:00.009Z", gone: [1] } })
      assert.deepStrictEqual(yield* working.memory.get("since"), new Date(9))
      yield* working.memory.set("count", 2)
      assert.deepStrictEqual(endOf(working)?.stored, { since: "1970-01-01T00:00:00.009Z", gone: [1], count: 2 })
    }))

  it.effect("a write that is undone is a write; one of an earlier segment is no write of this one", () =>
    Effect.gen(function*() {
      const working = open({ stored: { count: 1 } })
      yield* working.memory.set("count", 1)
      assert.deepStrictEqual(endOf(working)?.stored, { count: 1 })
      assert.isUndefined(endOf(working))
    }))

  it.effect("a name that is none is a defect, those of Object.prototype too", () =>
    Effect.gen(function*() {
      const working = open()
      for (const name of ["nope", "toString", "__proto__"] as ReadonlyArray<string> as ReadonlyArray<"count">) {
        for (
          const use of [
            working.memory.get(name),
            working.memory.set(name, 1),
            working.memory.update(name, (a) => a)
          ]
        ) {
          const exit = yield* Effect.exit(use)
          assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "", `no memory entry '${name}'`)
        }
      }
      assert.isUndefined(endOf(working))
    }))

  it.effect("an update that throws is a defect and changes nothing", () =>
    Effect.gen(function*() {
      const working = open({ stored: { count: 1 } })
      const exit = yield* Effect.exit(working.memory.update("count", () => {
        throw new Error("no")
      }))
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(yield* working.memory.get("count"), 1)
      assert.isUndefined(endOf(working))
    }))

  it.effect("a stored value that fits its schema no more is a defect where it is read, and nowhere else", () =>
    Effect.gen(function*() {
      const working = open({ stored: { count: "many" } })
      yield* working.memory.append("log", "a")
      assert.deepStrictEqual(endOf(working)?.stored, { count: "many", log: ["a"] })
      assert.isTrue(Exit.isFailure(yield* Effect.exit(working.memory.get("count"))))
    }))

  it.effect("the digest is that of the content, whatever the order of the writes", () =>
    Effect.gen(function*() {
      const [one, other, third] = [open(), open(), open()]
      yield* one.memory.set("count", 1)
      yield* one.memory.append("log", "a")
      yield* other.memory.append("log", "a")
      yield* other.memory.set("count", 1)
      yield* third.memory.set("count", 1)
      const digests = [one, other, third].map((working) => endOf(working)?.digest)
      assert.strictEqual(digests[0], digests[1])
      assert.notStrictEqual(digests[0], digests[2])
    }))
})

describe("a bounded list", () => {
  it.effect("keeps its newest items, appended or set", () =>
    Effect.gen(function*() {
      const working = open()
      for (const item of ["a", "b", "c"]) yield* working.memory.append("log", item)
      assert.deepStrictEqual(yield* working.memory.get("log"), ["a", "b", "c"])
      yield* working.memory.append("log", "d")
      assert.deepStrictEqual(yield* working.memory.get("log"), ["b", "c", "d"])
      yield* working.memory.set("log", ["1", "2", "3", "4", "5"])
      assert.deepStrictEqual(endOf(working)?.stored, { log: ["3", "4", "5"] })
    }))

  it.effect("does not change a value that was read before", () =>
    Effect.gen(function*() {
      const working = open()
      yield* working.memory.append("log", "a")
      const before = yield* working.memory.get("log")
      yield* working.memory.append("log", "b")
      assert.deepStrictEqual(before, ["a"])
    }))
})

describe("the cap", () => {
  // {"log":["aaa"]} has 15 bytes, {"log":["äää"]} 18.
  it.effect("counts bytes of JSON in UTF-8, and holds exactly as much as it says", () =>
    Effect.gen(function*() {
      for (const [text, bytes] of [["aaa", 15], ["äää", 18]] as const) {
        const fits = open({ maxBytes: bytes })
        yield* fits.memory.append("log", text)
        assert.isDefined(endOf(fits))
        const over = open({ maxBytes: bytes - 1 })
        yield* over.memory.append("log", text)
        assert.deepInclude(failureOf(over), { _tag: "MemoryLimitExceeded", key: "k", bytes, maxBytes: bytes - 1 })
      }
    }))

  it.effect("compaction is asked only over it, is told by how much, and its word is what is kept", () =>
    Effect.gen(function*() {
      const asked: Array<readonly [Memory.Stored, number]> = []
      const working = open({
        stored: { count: 1 },
        maxBytes: 20,
        compact: (entries, bytesOver) => {
          asked.push([entries, bytesOver])
          return { count: entries["count"]! }
        }
      })
      yield* working.memory.set("count", 2)
      endOf(working)
      assert.deepStrictEqual(asked, [])
      yield* working.memory.append("log", "0123456789")
      assert.deepStrictEqual(endOf(working)?.stored, { count: 2 })
      assert.deepStrictEqual(asked, [[{ count: 2, log: ["0123456789"] }, 12]])
      assert.deepStrictEqual(yield* working.memory.get("log"), [])
    }))

  it.effect("compaction that changes in place what it is given is measured again, and read again", () =>
    Effect.gen(function*() {
      const working = open({
        maxBytes: 20,
        compact: (entries: any) => {
          entries.log = entries.log.slice(1)
          return entries
        }
      })
      yield* working.memory.append("log", "0123456789")
      yield* working.memory.append("log", "a")
      assert.deepStrictEqual(endOf(working)?.stored, { log: ["a"] })
      assert.deepStrictEqual(yield* working.memory.get("log"), ["a"])
    }))

  it.effect("compaction that drops too little is MemoryLimitExceeded, with what was left", () =>
    Effect.gen(function*() {
      const working = open({ maxBytes: 20, compact: () => ({ log: ["0123456789", "0123456789"] }) })
      yield* working.memory.append("log", "x".repeat(100))
      assert.deepInclude(failureOf(working), { _tag: "MemoryLimitExceeded", bytes: 35, maxBytes: 20 })
    }))

  it.effect("compaction that throws, or gives no JSON, is MemoryMisfit", () =>
    Effect.gen(function*() {
      const compacts = [() => assert.fail("compact bug"), () => ({ log: undefined }), () => ({ log: [new Date(0)] })]
      for (const compact of compacts as unknown as ReadonlyArray<Memory.Compact>) {
        const working = open({ maxBytes: 20, compact })
        yield* working.memory.append("log", "x".repeat(100))
        assert.strictEqual(failureOf(working)._tag, "MemoryMisfit")
      }
    }))
})

describe("a value that does not fit", () => {
  it.effect("is MemoryMisfit at the end of the segment, naming the entry and not the value", () =>
    Effect.gen(function*() {
      const wrong = open()
      yield* wrong.memory.set("count", "secret" as unknown as number)
      assert.deepInclude(failureOf(wrong), { _tag: "MemoryMisfit", key: "k", entry: "count" })
      assert.notInclude(failureOf(wrong).message, "secret")
      const surrogate = open()
      yield* surrogate.memory.append("log", "\ud800")
      assert.deepInclude(failureOf(surrogate), { _tag: "MemoryMisfit", entry: "log[0]" })
    }))
})
