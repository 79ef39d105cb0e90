import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { Journal } from "../src/index.ts"

const read = (segment: number, digest: string, outcome: Journal.Outcome, occurrence = 0): Journal.Row => ({
  type: "read",
  segment,
  tool: "lookup",
  digest,
  occurrence,
  outcome
})
const step = (segment: number, step: number, name = "charge"): Extract<Journal.Row, { readonly type: "step" }> => ({
  type: "step",
  segment,
  step,
  kind: "act",
  name,
  digest: `digest of ${name}`
})
const answer = (segment: number, step: number): Journal.Row => ({
  type: "answer",
  segment,
  step,
  answer: { type: "slept" }
})
const emit = (segment: number, index: number, digest = `${index}`): Journal.Row => ({
  type: "emit",
  segment,
  index,
  digest
})
const found: Journal.Outcome = { _tag: "Success", value: "found" }

/** Rows as they are stored. */
const sealed = (...rows: ReadonlyArray<Journal.Row>): ReadonlyArray<Journal.Stored> =>
  rows.reduce<Array<Journal.Stored>>(
    (stored, row) => [...stored, Journal.seal(stored.at(-1)?.check ?? "", stored.length, row)],
    []
  )

const open = (rows: ReadonlyArray<Journal.Stored>, options: Partial<Journal.Options> = {}) =>
  Result.getOrThrow(
    Journal.open({ agent: "a", key: "k", rows, committed: rows.length, since: 0, segment: 1, ...options })
  )

const rowsOf = (journal: Journal.Journal) => journal.pending().rows.map(({ row }) => row)

const placeOf = (result: Result.Result<unknown, Journal.NonDeterminism>) =>
  Result.isFailure(result) ? `${result.failure.place}: ${result.failure.recorded} / ${result.failure.asked}` : "same"

describe("a stored journal", () => {
  const rows = sealed({ type: "time", segment: 0, at: 1 }, read(0, "x", found), step(0, 0), answer(1, 0))
  const damage = (rows: ReadonlyArray<Journal.Stored>, options: Partial<Journal.Options> = {}) => {
    const opened = Journal.open({ agent: "a", key: "k", rows, committed: 3, since: 0, segment: 1, ...options })
    return Result.isFailure(opened) ? opened.failure : undefined
  }

  it("opens where it is whole, and may hold more than what is committed", () => {
    assert.isUndefined(damage(rows))
    assert.isUndefined(damage(rows.slice(0, 3)))
    assert.isUndefined(damage([], { committed: 0 }))
  })

  const damages: ReadonlyArray<readonly [name: string, rows: ReadonlyArray<Journal.Stored>, position: number]> = [
    ["doubled", [...rows.slice(0, 2), rows[1]!, ...rows.slice(2)], 2],
    ["doubled and renumbered", [...rows.slice(0, 2), { ...rows[1]!, position: 2 }], 2],
    ["missing at the start", rows.slice(1), 0],
    ["missing in the middle", rows.toSpliced(1, 1), 1],
    ["missing at the end", rows.slice(0, 2), 2],
    ["missing altogether", [], 0],
    ["swapped", [rows[0]!, rows[2]!, rows[1]!, rows[3]!], 1],
    ["swapped and renumbered", [rows[0]!, { ...rows[2]!, position: 1 }, { ...rows[1]!, position: 2 }, rows[3]!], 1],
    ["changed in its row", rows.with(1, { ...rows[1]!, row: read(0, "y", found) }), 1],
    ["changed in its check", rows.with(3, { ...rows[3]!, check: "0" }), 3]
  ]
  it.each(damages)("K78 with a row %s is damaged, naming agent, key and position", (_, rows, position) => {
    const damaged = damage(rows)
    assert.deepInclude(damaged, { _tag: "JournalDamaged", agent: "a", key: "k", position })
    assert.include(damaged?.message, `the journal of 'a' for key 'k' is damaged at position ${position}: `)
  })

  it("is looked at from its last Suspend on; before it the places have to be right", () => {
    const old = rows.with(0, { ...rows[0]!, row: { type: "time", segment: 0, at: 2 } })
    assert.strictEqual(damage(old)?.position, 0)
    assert.isUndefined(damage(old, { since: 1 }))
    assert.strictEqual(damage(old.toSpliced(0, 1), { since: 2 })?.position, 0)
    assert.strictEqual(damage(old.with(2, { ...rows[2]!, check: "0" }), { since: 1 })?.position, 2)
  })

  it("has checks that cover everything before them", () => {
    const other = sealed({ type: "time", segment: 0, at: 2 }, ...rows.slice(1).map(({ row }) => row))
    for (const [index, { check }] of rows.entries()) assert.notStrictEqual(check, other[index]!.check)
  })
})

describe("a committed segment is law", () => {
  const journal = () =>
    open(
      sealed(
        { type: "time", segment: 0, at: 1 },
        step(0, 0),
        emit(0, 0),
        { type: "memory", segment: 0, digest: "m" },
        step(0, 1)
      )
    )

  it("the same is the same, and writes nothing", () => {
    const same = journal()
    assert.strictEqual(same.time(0, 99), 1)
    assert.strictEqual(placeOf(same.step(step(0, 0))), "same")
    assert.strictEqual(placeOf(same.emit(0, 0, "0")), "same")
    assert.strictEqual(placeOf(same.step(step(0, 1))), "same")
    assert.strictEqual(placeOf(same.end(0, 1, "m")), "same")
    assert.deepStrictEqual(rowsOf(same), [])
  })

  const recorded = "act 'charge' (arguments digest of charge, segment 0)"
  it.each([
    ["another tool", step(0, 0, "mail"), `step 0: ${recorded} / act 'mail' (arguments digest of mail, segment 0)`],
    [
      "another kind",
      { ...step(0, 0), kind: "request" as const },
      `step 0: ${recorded} / request 'charge' (arguments digest of charge, segment 0)`
    ],
    [
      "other arguments",
      { ...step(0, 0), digest: "other" },
      `step 0: ${recorded} / act 'charge' (arguments other, segment 0)`
    ],
    ["another segment", step(1, 0), `step 0: ${recorded} / act 'charge' (arguments digest of charge, segment 1)`],
    ["one more", step(0, 2), "step 2: nothing / act 'charge' (arguments digest of charge, segment 0)"]
  ])("a step with %s differs, showing both sides", (_, place, differs) => {
    assert.strictEqual(placeOf(journal().step(place)), differs)
  })

  it("emissions and memory differ, showing both sides", () => {
    assert.strictEqual(placeOf(journal().emit(0, 0, "x")), "emission 0 of segment 0: 0 / x")
    assert.strictEqual(placeOf(journal().emit(0, 1, "x")), "emission 1 of segment 0: nothing / x")
    const ended = (emissions: number, memory: string | undefined) => {
      const ending = journal()
      ending.step(step(0, 0))
      ending.step(step(0, 1))
      return placeOf(ending.end(0, emissions, memory))
    }
    assert.strictEqual(ended(1, "m"), "same")
    assert.strictEqual(ended(0, "m"), "emission 0 of segment 0: 0 / nothing")
    assert.strictEqual(ended(1, "other"), "the memory of segment 0: m / other")
    assert.strictEqual(ended(1, undefined), "the memory of segment 0: m / unchanged")
  })

  it("does not end before its steps were taken", () => {
    const ending = journal()
    ending.step(step(0, 0))
    assert.strictEqual(placeOf(ending.end(0, 1, "m")), `step 1: ${recorded} / nothing`)
  })
})

describe("a read", () => {
  it("has its place by tool, arguments and occurrence, whatever was asked before it", () => {
    const rows = sealed(
      read(0, "x", { _tag: "Success", value: 2 }, 1),
      read(0, "y", found),
      read(0, "x", { _tag: "Success", value: 1 })
    )
    const journal = open(rows)
    const at = (segment: number, digest: string) => {
      const { occurrence, recorded } = journal.read(segment, "lookup", digest)
      return [occurrence, recorded?.row.outcome]
    }
    assert.deepStrictEqual(at(0, "x"), [0, { _tag: "Success", value: 1 }])
    assert.deepStrictEqual(at(0, "x"), [1, { _tag: "Success", value: 2 }])
    assert.deepStrictEqual(at(0, "x"), [2, undefined])
    assert.deepStrictEqual(at(0, "y"), [0, found])
    assert.deepStrictEqual(at(1, "x"), [0, undefined])
    assert.deepStrictEqual(journal.read(0, "other", "x").recorded, undefined)
  })
})

describe("the order of a segment", () => {
  it("is that of answers, steps and emissions; what was interrupted or suspended has no turn", () => {
    const rows = sealed(
      { type: "time", segment: 0, at: 1 },
      read(0, "a", { _tag: "Interrupted" }),
      read(0, "b", found),
      step(0, 0),
      read(0, "c", found),
      read(0, "d", { _tag: "Suspended" }),
      read(1, "e", found)
    )
    const journal = open(rows, { segment: 2 })
    const next = () => rows.flatMap((stored) => journal.isNext(stored) ? [stored.position] : [])
    assert.deepStrictEqual(next(), [2, 6])
    journal.pass(rows[2]!)
    assert.deepStrictEqual(next(), [3, 6])
    journal.step(step(0, 0))
    assert.deepStrictEqual(next(), [4, 6])
    assert.strictEqual(journal.passed(), 2)
  })
})

describe("the uncommitted segment is a cache", () => {
  const cached = () =>
    sealed(
      step(0, 0, "first"),
      { type: "time", segment: 1, at: 5 },
      read(1, "x", found),
      step(1, 1),
      emit(1, 0),
      read(1, "y", found),
      step(1, 2)
    )
  const journal = () => open(cached(), { committed: 1 })

  it("gives what it knows and keeps its rows where the activation takes the same way", () => {
    const same = journal()
    assert.strictEqual(same.time(1, 99), 5)
    same.pass(same.read(1, "lookup", "x").recorded!)
    assert.strictEqual(placeOf(same.step(step(1, 1))), "same")
    assert.strictEqual(placeOf(same.emit(1, 0, "0")), "same")
    same.pass(same.read(1, "lookup", "y").recorded!)
    assert.strictEqual(placeOf(same.step(step(1, 2))), "same")
    assert.strictEqual(placeOf(same.end(1, 1, undefined)), "same")
    assert.deepStrictEqual(same.pending(), { from: 1, rows: cached().slice(1) })
    assert.deepStrictEqual(same.dropped(), [])
  })

  it("is dropped from the first step that does not match, and says so; what was asked for already stays", () => {
    const other = journal()
    other.read(1, "lookup", "x")
    other.read(1, "lookup", "y")
    assert.strictEqual(placeOf(other.step(step(1, 1, "mail"))), "same")
    assert.deepStrictEqual(rowsOf(other), [
      { type: "time", segment: 1, at: 5 },
      read(1, "x", found),
      read(1, "y", found),
      step(1, 1, "mail")
    ])
    assert.isUndefined(other.stepAt(2))
    assert.lengthOf(other.dropped(), 1)
    assert.match(other.dropped()[0]!, /^3 rows from step 1: recorded act 'charge' .*, now act 'mail' /)
    // What is left is a journal again.
    assert.isTrue(Result.isSuccess(Journal.open({
      agent: "a",
      key: "k",
      rows: [...cached().slice(0, 1), ...other.pending().rows],
      committed: 1,
      since: 0,
      segment: 1
    })))
  })

  it("keeps the order of what was asked for and not given out yet, when what lies between is dropped", () => {
    const other = journal()
    const y = other.read(1, "lookup", "y").recorded!
    const x = other.read(1, "lookup", "x").recorded!
    assert.deepStrictEqual([other.isNext(y), other.isNext(x)], [false, true])
    other.step(step(1, 1, "mail"))
    assert.deepStrictEqual([other.isNext(y), other.isNext(x)], [false, true])
    other.pass(x)
    assert.deepStrictEqual([other.isNext(y), other.isNext(x)], [true, false])
  })

  it("is dropped from the first emission that does not match", () => {
    const other = journal()
    other.pass(other.read(1, "lookup", "x").recorded!)
    other.step(step(1, 1))
    assert.strictEqual(placeOf(other.emit(1, 0, "changed")), "same")
    assert.deepStrictEqual(rowsOf(other).slice(-2), [step(1, 1), emit(1, 0, "changed")])
  })

  it("stands in the order in which it was given out this time", () => {
    const other = journal()
    const y = other.read(1, "lookup", "y").recorded!
    const x = other.read(1, "lookup", "x").recorded!
    other.pass(y)
    other.pass(x)
    assert.deepStrictEqual(rowsOf(other).slice(1), [
      read(1, "y", found),
      read(1, "x", found),
      step(1, 1),
      emit(1, 0),
      step(1, 2)
    ])
    assert.deepStrictEqual(other.dropped(), [])
    assert.strictEqual(placeOf(other.step(step(1, 1))), "same")
    assert.isUndefined(
      Journal.findDamage([...cached().slice(0, 1), ...other.pending().rows], { committed: 7, since: 0 })
    )
  })

  it("loses at its end what nobody asked for", () => {
    const less = journal()
    less.read(1, "lookup", "x")
    assert.strictEqual(placeOf(less.end(1, 0, "m")), "same")
    assert.deepStrictEqual(rowsOf(less), [
      { type: "time", segment: 1, at: 5 },
      read(1, "x", found),
      { type: "memory", segment: 1, digest: "m" }
    ])
  })

  it("never touches what is committed", () => {
    const other = journal()
    assert.match(placeOf(other.step(step(0, 0, "changed"))), /^step 0: act 'first'/)
    assert.deepStrictEqual(other.pending().rows, cached().slice(1))
  })
})

describe("what lies before the last Suspend", () => {
  it("is kept and not replayed", () => {
    const rows = sealed({ type: "time", segment: 0, at: 1 }, read(0, "x", found), step(0, 0), answer(1, 0))
    const journal = open(rows, { since: 3, committed: 4 })
    assert.isUndefined(journal.stepAt(0))
    assert.isUndefined(journal.read(0, "lookup", "x").recorded)
    assert.deepStrictEqual(journal.answerAt(0)?.row, answer(1, 0))
    journal.write(step(1, 1))
    assert.deepStrictEqual(journal.pending().rows.map(({ position }) => position), [4])
  })
})
