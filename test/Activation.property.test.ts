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
          const calls: Array<number> = []
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
        const calls: Array<number> = []
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
})

const hasAll = (had: ReadonlyArray<number>, has: ReadonlyArray<number>): boolean => {
  const left = [...had]
  return has.every((id) => {
    const index = left.indexOf(id)
    if (index >= 0) left.splice(index, 1)
    return index >= 0
  })
}
