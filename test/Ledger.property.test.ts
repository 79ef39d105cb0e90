/**
 * Random rows of moves and clock steps, against a model that knows only who may do what.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Arbitrary from "effect/Arbitrary"
import { Ledger } from "../src/index.ts"
import { claim, crashed, decision, draft, failure, success } from "./fixtures/ledger.ts"
import { holds } from "./fixtures/property.ts"

const Draft = Schema.Struct({
  idempotent: Schema.Boolean,
  verify: Schema.Boolean,
  approval: Schema.Literals(["none", "required"])
})

// Claims lapse after 100, decisions are due after 500, starts after 1000.
const Action = Schema.Struct({
  wait: Schema.Literals([0, 0, 1, 30, 100, 500, 1000]),
  move: Schema.Literals([
    "sweep",
    "sweep",
    "claim",
    "claim",
    "claim",
    "renew",
    "release",
    "succeed",
    "fail",
    "crash",
    "crash",
    "reject",
    "approve",
    "approve",
    "deny",
    "cancel",
    "settle",
    "again"
  ]),
  token: Schema.Literals(["a", "b", "c"]),
  retry: Schema.Boolean
})

type Action = typeof Action.Type

const rows = Arbitrary.all({
  draft: Arbitrary.schema(Draft),
  actions: Arbitrary.array(Arbitrary.schema(Action), { minLength: 1, maxLength: 40 })
})

const moveOf = ({ move, retry, token }: Action): Ledger.Move<Ledger.LedgerRefusal | Ledger.StaleClaim> => {
  switch (move) {
    case "sweep":
      return (entry, now) => ({ next: Ledger.lapse(entry, now), refusal: undefined })
    case "claim":
      return claim(token, retry ? 20 : undefined)
    case "renew":
      return Ledger.renew(token, 100)
    case "release":
      return Ledger.release(token)
    case "succeed":
      return Ledger.complete(token, success)
    case "fail":
      return Ledger.complete(token, failure)
    case "crash":
      return Ledger.complete(token, crashed, retry)
    case "reject":
      return Ledger.reject("arguments")
    case "approve":
      return decision(true)
    case "deny":
      return decision(false)
    case "cancel":
      return Ledger.cancel("tom")
    case "settle":
      return Ledger.resolve(
        "tom",
        retry
          ? { to: "Performed", result: { _tag: "Success", value: "seen" } }
          : { to: "NotPerformed", note: "not seen" }
      )
    case "again":
      return Ledger.resolve("tom", { to: "Again" })
  }
}

/** What is known without looking at the entry: who holds the claim, how often it was started, and who allowed the next start. */
class Model {
  holder: string | undefined
  last: string | undefined
  starts = 0
  allowed = 1
  retry = false
  readonly idempotent: boolean
  constructor(idempotent: boolean) {
    this.idempotent = idempotent
  }

  /** Follows a move that was written, and gives the rule it broke, if it broke one. */
  follow(action: Action, before: Ledger.Entry, next: Ledger.Entry): string | undefined {
    const owned = action.token === this.holder
    switch (action.move) {
      case "claim":
        this.holder = action.token
        if (before.state === "Unknown") return undefined
        this.retry = action.retry
        return ++this.starts > this.allowed ? "started again without leave" : undefined
      case "release":
        this.holder = undefined
        if (before.state === "Claimed") this.starts--
        return owned ? undefined : "released by somebody else"
      case "renew":
        return owned ? undefined : "renewed by somebody else"
      case "succeed":
      case "fail":
        if (owned && before.state === "Claimed") this.last = action.token
        if (owned) this.holder = undefined
        return owned || before.state !== "Claimed" || next.state === "Claimed" ? undefined : "recorded by somebody else"
      case "crash":
        this.lose(before)
        return owned ? undefined : "given up by somebody else"
      case "sweep":
        if (next.claim === undefined) this.lose(before)
        return next.state === "Expired" && this.starts > 0 ? "expired after a start" : undefined
      case "again":
        this.holder = undefined
        this.allowed = this.starts + 1
        return undefined
      case "settle":
        this.holder = undefined
        return undefined
      default:
        return undefined
    }
  }

  private lose(before: Ledger.Entry): void {
    if (before.state === "Claimed" && this.idempotent && this.retry) this.allowed = this.starts + 1
    if (before.state === "Claimed") this.last = this.holder
    if (before.claim !== undefined) this.holder = undefined
  }
}

const broken = (given: typeof Draft.Type, actions: ReadonlyArray<Action>): string | undefined => {
  let now = 0
  let entry = Ledger.stage(draft(given), now)
  const model = new Model(given.idempotent)
  for (const [index, action] of actions.entries()) {
    now += action.wait
    const { next, refusal } = moveOf(action)(entry, now)
    const fault = next === undefined
      ? undefined
      : refusal === undefined
      ? model.follow(action, entry, next)
      : late(action, model, entry, next)
    const reason = fault ?? (next === undefined ? undefined : changed(entry, next))
    if (reason !== undefined) return `${reason}: move ${index} of ${JSON.stringify(actions.slice(0, index + 1))}`
    entry = next ?? entry
    if (entry.claim?.token !== model.holder) {
      return `held by ${entry.claim?.token}, not ${model.holder}, after move ${index}`
    }
    if (entry.attempt !== model.starts) return `${entry.attempt} attempts, ${model.starts} starts, after move ${index}`
  }
  return ends(entry, now)
}

/** What a stale owner reports may be kept, and may settle an end nobody knows; it takes nothing from an owner. */
const late = (action: Action, model: Model, entry: Ledger.Entry, next: Ledger.Entry): string | undefined => {
  if (action.token === model.holder) return "an owner was told that its claim is stale"
  if (entry.state === "Claimed" && next.state !== "Claimed") return "recorded by somebody else"
  if (next.state === entry.state) return undefined
  model.holder = undefined
  return action.token === model.last ? undefined : "settled by one who was not the last owner"
}

/** What no move may do. */
const changed = (entry: Ledger.Entry, next: Ledger.Entry): string | undefined => {
  if (entry.answer !== undefined && next.answer !== entry.answer) return "the answer changed"
  if (Ledger.isTerminal(entry) && (next.state !== entry.state || next.result !== entry.result)) return "a second record"
  if (entry.decision !== undefined && next.decision !== entry.decision) return "a second decision"
  if (Ledger.isTerminal(next) && next.answer === undefined) return "ended without an answer"
  if (next.history.length < entry.history.length) return "the history shrank"
  return undefined
}

/** Left alone, everything comes to an end and whoever waits is told. */
const ends = (entry: Ledger.Entry, now: number): string | undefined => {
  let left = entry
  for (let step = 0; step < 10; step++) {
    const due = Ledger.dueAt(left, now)
    if (due === undefined || due === Infinity) break
    now = Math.max(now, due) + 1
    left = Ledger.lapse(left, now) ?? left
    if (left.state === "Expired" && left.attempt > 0) return "expired after a start"
  }
  return left.answer === undefined || Ledger.dueAt(left, now) !== undefined
    ? `left alone, it stays ${left.state} for ever`
    : undefined
}

it.effect("any row of moves keeps one record, one answer, one start per leave, and the claim to its owner", () =>
  holds(
    "moves of the ledger",
    rows,
    ({ actions, draft }) => broken(draft, actions),
    3000
  ), 60_000)

it.effect("the rows reach every state and every kind of end", () =>
  Effect.gen(function*() {
    const seen = new Set<string>()
    const sample = yield* Arbitrary.sampleEffect(rows, { count: 3000, size: 40, seed: 1 })
    for (const { actions, draft: given } of sample) {
      let now = 0
      let entry = Ledger.stage(draft(given), 0)
      for (const action of actions) {
        now += action.wait
        entry = moveOf(action)(entry, now).next ?? entry
        seen.add(entry.state)
        if (entry.attempt > 1) seen.add("started twice")
        if (entry.late !== undefined) seen.add(`late, ${entry.state}`)
        if (entry.resolution !== undefined) seen.add(`settled by ${entry.resolution.by}`)
      }
    }
    for (
      const state of [
        "Staged",
        "Claimed",
        "Performed",
        "Unknown",
        "Expired",
        "Rejected",
        "Denied",
        "Cancelled",
        "started twice",
        "late, Performed",
        "settled by tom",
        "settled by verify",
        "settled by late evidence"
      ]
    ) {
      assert.isTrue(seen.has(state), `${state}: the rows prove nothing about it`)
    }
  }), 60_000)
