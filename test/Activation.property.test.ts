/**
 * Random scripts: what an activation does segment by segment is what the script says in one go, and nobody goes another way
 * through what is committed without being told.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Result, Schema } from "effect"
import * as ActivationRun from "../src/ActivationRun.ts"
import { type Activation, Agent, type Journal } from "../src/index.ts"
import { inTime, success } from "./fixtures/activations.ts"
import { seed } from "./fixtures/property.ts"
import * as Scripts from "./fixtures/scripts.ts"

type Script = ReadonlyArray<Scripts.Op>

const runs = Number(process.env["PROPERTY_RUNS"] ?? 300)

/** Fails with the smallest script for which the property gives a reason, and with how to run it again. */
const holds = <A>(
  name: string,
  arbitrary: Arbitrary.Arbitrary<A>,
  property: (value: A) => Effect.Effect<string | undefined>
) =>
  Effect.gen(function*() {
    const result = yield* Arbitrary.checkEffect(
      arbitrary,
      (value) =>
        Effect.flatMap(property(value), (reason) => reason === undefined ? Effect.succeed(true) : Effect.fail(reason)),
      { runs, seed }
    )
    const failure = Arbitrary.formatCheckFailure(result)
    if (failure !== undefined) assert.fail(`${name}: ${failure.slice(0, 6000)}\nPROPERTY_SEED=${seed}`)
  })

/** What an activation is answered: an approval says by whom, and every other intent gives a text. */
const answersOf = ({ journal, outcome }: Activation.Activated) => {
  const isApproval = (step: number) =>
    journal.rows.some(({ row }) => row.type === "step" && row.step === step && row.kind === "approval")
  const answer = ({ step, type }: Activation.Waiting): Journal.Answer => {
    const value = Scripts.answerOf(step)
    if (type === "timer") return { type: "slept" }
    if (type === "message") return { type: "message", message: value, offset: 1 }
    return isApproval(step)
      ? { type: "decision", approved: true, by: String(value) }
      : { type: "intent", result: success(String(value)) }
  }
  const waiting = outcome._tag === "Suspended" ? outcome.continuation.waiting : []
  return Object.fromEntries(waiting.map((wait) => [wait.step, answer(wait)]))
}

/** The next activation of a run, `index` segments having been committed. */
const next = (subject: ReturnType<typeof Scripts.agentOf>, from: Activation.Activated | undefined, index: number) => {
  const resume = from === undefined ? {} : { resume: { from, answers: answersOf(from) } }
  return inTime(Agent.activate(subject, { key: "k", event: "e", now: index * 1000, ...resume }))
}

const runAll = (subject: ReturnType<typeof Scripts.agentOf>) =>
  Effect.gen(function*() {
    const activated: Array<Activation.Activated> = [yield* next(subject, undefined, 0)]
    while (activated.at(-1)!.outcome._tag === "Suspended") {
      activated.push(yield* next(subject, activated.at(-1), activated.length))
    }
    return activated
  })

/** What an activation left of its segment, in the words of the reference. */
const seen = (
  activated: Activation.Activated,
  segment: number
): Pick<Scripts.Segment, "steps" | "emitted" | "memory" | "end"> => {
  const args = new Map(activated.intents.map(({ arguments: given, step }) => [step, JSON.parse(given)]))
  const steps = activated.journal.rows.flatMap(({ row }) => {
    if (row.type !== "step" || row.segment !== segment) return []
    const { amountCents, body, title } = args.get(row.step) ?? {}
    const detail = row.kind === "act" || row.kind === "request"
      ? `${row.name} ${amountCents ?? body}`
      : row.kind === "approval"
      ? title
      : row.kind === "model"
      ? "m"
      : row.digest
    return [`${row.step} ${row.kind} ${detail}`]
  })
  const { outcome } = activated
  const end = outcome._tag === "Complete"
    ? `completes with ${outcome.output}`
    : outcome.continuation.base.segment === segment + 1
    ? "suspends"
    : "waits"
  return { steps, emitted: [...activated.emitted] as Array<string>, memory: activated.memory, end }
}

const expected = ({ emitted, end, memory, steps }: Scripts.Segment) => ({
  // The request to a model is no intent: only its digest is recorded.
  steps: steps.map((step) => step.replace(/^(\d+ model m) .*/, "$1")),
  emitted,
  memory,
  end
})

const differs = (actual: unknown, wanted: unknown, what: string): string | undefined =>
  JSON.stringify(actual) === JSON.stringify(wanted)
    ? undefined
    : `${what}\n  is     ${JSON.stringify(actual)}\n  not    ${JSON.stringify(wanted)}`

describe("any script", () => {
  it.effect(
    "does segment by segment what it says in one go, asks every read once, and replays to the same end",
    () =>
      holds("segments", Scripts.script, (script) =>
        Effect.gen(function*() {
          const calls: Array<string> = []
          const subject = Scripts.agentOf(script, Scripts.makeLookup(calls))
          const activated = yield* runAll(subject)
          const wanted = Scripts.reference(script)
          const broken = differs(activated.map(seen), wanted.map(expected), "the segments")
            ?? differs(calls.toSorted(), wanted.flatMap(({ reads }) => reads).toSorted(), "the reads")
          if (broken !== undefined) return broken
          const last = activated.at(-1)!
          const replayed = yield* inTime(ActivationRun.replay(subject.definition, {
            key: "k",
            seq: 0,
            offset: 0,
            event: "e",
            now: 99,
            memory: {},
            continuation: undefined,
            answers: [],
            rows: last.journal.rows
          }, last.replay))
          return differs(replayed.outcome, last.outcome, "the replay")
            ?? differs([replayed.intents, replayed.emitted, replayed.journal.rows], [[], [], []], "what a replay does")
            ?? differs(calls.length, wanted.flatMap(({ reads }) => reads).length, "the reads after a replay")
        }).pipe(Effect.catchCause((cause) => Effect.succeed(String(cause))))),
    120_000
  )

  const change: Arbitrary.Arbitrary<{ script: Script; at: number; how: number; op: Scripts.Op; stop: number }> =
    Arbitrary.all({
      script: Scripts.script,
      at: Arbitrary.schema(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 8 })))),
      how: Arbitrary.schema(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2 })))),
      op: Scripts.op,
      stop: Arbitrary.schema(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 4 }))))
    })

  it.effect("changed in a committed segment is NonDeterminism, or nobody can see the change", () => {
    const told = { loud: 0, unseen: 0 }
    return holds("changes", change, ({ at, how, op, script, stop }) =>
      Effect.gen(function*() {
        // An explicit Suspend starts a new run: what lies before it is not replayed.
        const before = script.filter(({ op }) => op !== "suspend")
        const place = at % (before.length + 1)
        const after = before.toSpliced(place, how === 0 ? 0 : 1, ...(how === 1 || op.op === "suspend" ? [] : [op]))
        const [was, is] = [Scripts.reference(before), Scripts.reference(after)]
        const committed = Math.min(stop, was.length - 1)
        if (committed === 0) return undefined
        const calls: Array<string> = []
        const lookup = Scripts.makeLookup(calls)
        let last = yield* next(Scripts.agentOf(before, lookup), undefined, 0)
        for (let index = 1; index < committed; index++) last = yield* next(Scripts.agentOf(before, lookup), last, index)
        const asked = calls.length
        const resumed = yield* Effect.result(next(Scripts.agentOf(after, lookup), last, committed))
        const tag = Result.isSuccess(resumed)
          ? "goes on"
          : resumed.failure._tag === "ActivationFailed"
          ? resumed.failure.reason.tag
          : resumed.failure._tag
        const isSame = was.slice(0, committed).every((segment, index) =>
          index < is.length - 1 && differs({ ...is[index], reads: [] }, { ...segment, reads: [] }, "") === undefined
          && hasAll(segment.reads, is[index]!.reads)
        )
        if (!isSame) {
          told.loud++
          return differs(tag, "NonDeterminism", "a change that can be seen")
            ?? differs(calls.length, asked, "the reads of a run that was refused")
        }
        told.unseen++
        return Result.isSuccess(resumed)
          ? differs(
            seen(resumed.success, committed),
            expected(is[committed]!),
            "the segment after a change nobody sees"
          )
          : tag
      }).pipe(Effect.catchCause((cause) => Effect.succeed(String(cause))))).pipe(
        Effect.andThen(Effect.sync(() => assert.isAbove(Math.min(told.loud, told.unseen), 0, JSON.stringify(told))))
      )
  }, 120_000)

  it.effect("killed before its commit and run again, as it was or changed, does what it says by then", () => {
    const told = { same: 0, changed: 0, cached: 0 }
    return holds("kills", change, ({ at, how, op, script, stop }) =>
      Effect.gen(function*() {
        const before = distinct(script.filter(({ op }) => op !== "suspend"), 0)
        const place = at % (before.length + 1)
        const changed = before.toSpliced(
          place,
          how === 0 ? 0 : 1,
          ...(how === 1 || op.op === "suspend" ? [] : distinct([op], 100))
        )
        const [was, is] = [Scripts.reference(before), Scripts.reference(changed)]
        const calls: Array<string> = []
        const lookup = Scripts.makeLookup(calls)
        const index = Math.min(stop - 1, was.length - 1)
        let last: Activation.Activated | undefined
        for (let segment = 0; segment < index; segment++) {
          last = yield* next(Scripts.agentOf(before, lookup), last, segment)
        }
        // A change in what is committed is another test's. Reads side by side, of which some are known and some are not, come
        // in another order than they did first.
        const isAside = was.slice(0, index).some((segment, number) =>
          JSON.stringify(segment) !== JSON.stringify(is[number])
        ) || is.length <= index || changed.slice(place).some(({ op }) => op === "all")
        const again = isAside ? before : changed
        const wanted = isAside ? was : is
        let stored: ReadonlyArray<Journal.Stored> = last?.journal.rows ?? []
        const run = (script: Script) =>
          inTime(ActivationRun.run(Scripts.agentOf(script, lookup).definition, {
            key: "k",
            seq: 0,
            offset: 0,
            event: "e",
            now: index * 1000,
            memory: {},
            continuation: last?.outcome._tag === "Suspended" ? last.outcome.continuation : undefined,
            rows: stored,
            answers: Object.entries(last === undefined ? {} : answersOf(last)).map(([step, answer]) => ({
              step: Number(step),
              answer
            }))
          }, {
            append: (from, rows, known) =>
              Effect.sync(() => {
                if (stored.at(-1)?.check !== known) return stored.slice(from)
                stored = [...stored.slice(0, from), ...rows]
                return rows
              })
          })) as Effect.Effect<Activation.Activated, ActivationRun.RunError>
        const first = yield* run(before)
        const asked = calls.length
        if (stored.length > (last?.journal.rows.length ?? 0)) told.cached++
        const second = yield* run(again)
        if (again === before) {
          told.same++
          const wasAsked = stored.slice(last?.journal.rows.length ?? 0).filter(({ row }) => row.type === "read").length
          return differs(second.outcome, first.outcome, "the outcome") ??
            differs(second.intents, first.intents, "the intents")
            ?? differs(second.journal, first.journal, "the journal")
            ?? differs(calls.length - asked + wasAsked, wanted[index]!.reads.length, "the reads that were asked again")
        }
        told.changed++
        const committed = {
          ...second,
          journal: { from: 0, rows: [...(last?.journal.rows ?? []), ...second.journal.rows] }
        }
        const broken = differs(seen(second, index), expected(wanted[index]!), "the segment")
        if (broken !== undefined || second.outcome._tag !== "Suspended") return broken
        // What was committed is a journal that its script can be replayed from.
        const resumed = yield* next(Scripts.agentOf(again, lookup), committed, index + 1)
        return differs(seen(resumed, index + 1), expected(wanted[index + 1]!), "the segment after it")
      }).pipe(Effect.catchCause((cause) => Effect.succeed(String(cause))))).pipe(
        Effect.andThen(
          Effect.sync(() => assert.isAbove(Math.min(told.same, told.changed, told.cached), 0, JSON.stringify(told)))
        )
      )
  }, 120_000)
})

/** Reads that no two places share: one that is known from another place comes sooner than it would have. */
const distinct = (script: Script, first: number): Script =>
  script.map((op, index) =>
    op.op === "all"
      ? { ...op, branches: op.branches.map((branch) => ({ ...branch, id: branch.id + 1000 * (first + index) })) }
      : op
  )

const hasAll = (had: ReadonlyArray<string>, has: ReadonlyArray<string>): boolean => {
  const left = [...had]
  return has.every((read) => {
    const index = left.indexOf(read)
    if (index >= 0) left.splice(index, 1)
    return index >= 0
  })
}
