/**
 * The moves of the ledger alone, without any store: what each does in each state, and what holds after any sequence of them.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Schema } from "effect"
import { type Intent, Ledger } from "../src/index.ts"
import { draft } from "../src/testing/contract/Fixture.ts"
import { holds } from "./fixtures/property.ts"

type Move = Ledger.Move<Ledger.StaleClaim | Ledger.LedgerRefusal>

const ttl = 100

const staged = (given: Partial<Intent.Draft> = {}) =>
  Ledger.stage(draft({ agent: "agent", key: "c1", seq: 0 }, 0, { ttl, approvalTimeout: undefined, ...given }), 0)

const gate = { approval: "required", approvalTimeout: ttl } as const

const success: Intent.Result = { _tag: "Success", value: "receipt" }
const other: Intent.Result = { _tag: "Success", value: "another receipt" }
const crashed = Ledger.unknown("Crashed", "it crashed")

const claimWith = (token: string, retryIn?: number) => Ledger.claim({ owner: "me", token, lease: 10, retryIn })

const decide = (approved: boolean, argumentsDigest?: string) =>
  Ledger.decide({ approved, by: "maria", argumentsDigest })

/** An entry after moves that are allowed, the first at 1 ms, the next at 2 ms. */
const after = (entry: Ledger.Entry, ...moves: ReadonlyArray<Move>): Ledger.Entry =>
  moves.reduce((entry, move, index) => {
    const { next, refusal } = move(entry, index + 1)
    if (next === undefined || refusal !== undefined) assert.fail(`move ${index + 1}: ${refusal?.message}`)
    return next
  }, entry)

const lapsed = (entry: Ledger.Entry): Ledger.Entry => Ledger.lapse(entry, 10_000) ?? assert.fail("nothing lapses")

/** Every state, and what differs within one. Whoever holds or held it did so with "token". */
const entries = {
  "staged": staged(),
  "waiting": staged(gate),
  "question": staged({ ...gate, kind: "approval" }),
  "approved": after(staged(gate), decide(true)),
  "between attempts": after(staged({ idempotent: true }), claimWith("token", 0), Ledger.complete("token", crashed)),
  "claimed": after(staged(), claimWith("token")),
  "unknown": after(staged(), claimWith("token"), Ledger.complete("token", crashed)),
  "unanswered": after(staged({ verify: true }), claimWith("token"), Ledger.complete("token", crashed)),
  "verifying": after(
    staged({ verify: true }),
    claimWith("first"),
    Ledger.complete("first", crashed),
    claimWith("token")
  ),
  "performed": after(staged(), claimWith("token"), Ledger.complete("token", success)),
  "expired": lapsed(staged()),
  "rejected": after(staged(), Ledger.reject("they do not fit")),
  "denied": after(staged(gate), decide(false)),
  "denied by silence": lapsed(staged(gate)),
  "cancelled": after(staged(), Ledger.cancel("maria"))
}

type Name = keyof typeof entries

/** What a report of an end comes to where nobody ever started. */
const neverStarted: { readonly [name in Name]?: string } = {
  "staged": "stale",
  "waiting": "stale",
  "question": "stale",
  "approved": "stale",
  "expired": "stale",
  "rejected": "stale",
  "denied": "stale",
  "denied by silence": "stale",
  "cancelled": "stale"
}

const names = Object.keys(entries) as ReadonlyArray<Name>

const notAllowed = "its state does not allow it"
const started = "already started"
const notUnknown = "only an unknown end can be settled"

/** What each move comes to: the state it writes, or why it is refused; "kept" is a report kept beside a record. */
const table: ReadonlyArray<{
  readonly name: string
  readonly move: Move
  readonly gives: { readonly [name in Name]?: string }
  readonly else: string
}> = [
  {
    name: "claim",
    move: claimWith("next"),
    gives: { "staged": "Claimed", "approved": "Claimed", "between attempts": "Claimed", "unanswered": "Unknown" },
    else: notAllowed
  },
  {
    name: "claim, by who holds it",
    move: claimWith("token"),
    gives: {
      "staged": "Claimed",
      "approved": "Claimed",
      "between attempts": "Claimed",
      "unanswered": "Unknown",
      "claimed": "nothing",
      "verifying": "nothing"
    },
    else: notAllowed
  },
  {
    name: "renew",
    move: Ledger.renew("token", 50),
    gives: { "claimed": "Claimed", "verifying": "Unknown" },
    else: "stale"
  },
  { name: "renew, by another", move: Ledger.renew("forged", 50), gives: {}, else: "stale" },
  {
    name: "release",
    move: Ledger.release("token"),
    gives: { "claimed": "Staged", "verifying": "Unknown" },
    else: "stale"
  },
  { name: "release, by another", move: Ledger.release("forged"), gives: {}, else: "stale" },
  {
    name: "complete",
    move: Ledger.complete("token", success),
    gives: {
      ...neverStarted,
      "claimed": "Performed",
      "verifying": "Performed",
      "performed": "nothing",
      "unknown": "stale, Performed",
      "unanswered": "stale, Performed",
      "between attempts": "stale, Performed"
    },
    else: "stale, kept"
  },
  {
    name: "complete with another result",
    move: Ledger.complete("token", other),
    gives: {
      ...neverStarted,
      "claimed": "Performed",
      "verifying": "Performed",
      "unknown": "stale, Performed",
      "unanswered": "stale, Performed",
      "between attempts": "stale, Performed"
    },
    else: "stale, kept"
  },
  {
    name: "complete with an unknown end",
    move: Ledger.complete("token", Ledger.unknown("Defect", "it died")),
    gives: { "claimed": "Unknown", "verifying": "Unknown" },
    else: "stale"
  },
  { name: "complete, by another", move: Ledger.complete("forged", success), gives: neverStarted, else: "stale, kept" },
  {
    name: "complete with an unknown end, by another",
    move: Ledger.complete("forged", crashed),
    gives: {},
    else: "stale"
  },
  {
    name: "reject",
    move: Ledger.reject("they do not fit"),
    gives: {
      "staged": "Rejected",
      "waiting": "Rejected",
      "question": "Rejected",
      "approved": "Rejected",
      "between attempts": started,
      "claimed": started,
      "unknown": started,
      "unanswered": started,
      "verifying": started,
      "performed": started
    },
    else: notAllowed
  },
  {
    name: "cancel",
    move: Ledger.cancel("maria"),
    gives: {
      "staged": "Cancelled",
      "waiting": "Cancelled",
      "question": "Cancelled",
      "approved": "Cancelled",
      "between attempts": started,
      "claimed": started,
      "unknown": started,
      "unanswered": started,
      "verifying": started,
      "performed": started
    },
    else: notAllowed
  },
  ...([[true, "Staged", "Performed"], [false, "Denied", "Denied"]] as const).map(([approved, waiting, question]) => ({
    name: `decide ${approved ? "yes" : "no"}`,
    move: decide(approved),
    gives: {
      waiting,
      question,
      "approved": "already decided by maria",
      "denied": "already decided by maria",
      "denied by silence": "too late"
    },
    else: "it needs no approval"
  })),
  {
    name: "decide about other arguments",
    move: decide(true, "another digest"),
    gives: {
      "waiting": "the decision is about other arguments",
      "question": "the decision is about other arguments",
      "approved": "already decided by maria",
      "denied": "already decided by maria",
      "denied by silence": "too late"
    },
    else: "it needs no approval"
  },
  ...([
    [{ to: "Performed", result: success }, "Performed"],
    [{ to: "NotPerformed", note: "not on the account" }, "Rejected"],
    [{ to: "Again" }, "Staged"]
  ] as const).map(([settlement, state]) => ({
    name: `resolve to ${settlement.to}`,
    move: Ledger.resolve("maria", settlement),
    gives: { "unknown": state, "unanswered": state, "verifying": state },
    else: notUnknown
  }))
]

const outcomeOf = (entry: Ledger.Entry, move: Move): string => {
  const { next, refusal } = move(entry, 5)
  if (refusal === undefined) return next?.state ?? "nothing"
  assert.deepInclude(refusal, { id: entry.intent.id, tool: "charge", key: "c1", state: entry.state })
  for (const part of [entry.intent.id, "'charge'", "'c1'", entry.state]) assert.include(refusal.message, part)
  if (refusal instanceof Ledger.LedgerRefusal) {
    assert.isUndefined(next)
    assert.include(refusal.message, refusal.reason)
    return refusal.reason
  }
  if (next === undefined) return "stale"
  if (next.state !== entry.state) return `stale, ${next.state}`
  assert.deepStrictEqual({ ...next, late: undefined }, entry, "nothing but the report is kept")
  return "stale, kept"
}

describe("every move in every state", () => {
  for (const { else: otherwise, gives, move, name } of table) {
    it(name, () => {
      const found = names.map((name) => [name, outcomeOf(entries[name], move)])
      assert.deepStrictEqual(found, names.map((name) => [name, gives[name] ?? otherwise]))
    })
  }

  it("time, when everything is long due", () => {
    const gives: { readonly [name in Name]?: string } = {
      "staged": "Expired",
      "waiting": "Denied",
      "question": "Denied",
      "approved": "Expired",
      "between attempts": "Unknown",
      "claimed": "Unknown",
      "unanswered": "Unknown",
      "verifying": "Unknown"
    }
    const found = names.map((name) => [name, Ledger.lapse(entries[name], 10_000)?.state ?? "nothing"])
    assert.deepStrictEqual(found, names.map((name) => [name, gives[name] ?? "nothing"]))
    for (const name of names) assert.isUndefined(Ledger.lapse(entries[name], 5), `${name}: nothing is due yet`)
    assert.isUndefined(entries.unanswered.answer)
    assert.isDefined(lapsed(entries.unanswered).answer, "a verify that nobody asks for is waited for no longer")
    assert.isUndefined(lapsed(entries.verifying).claim, "a verify that never came back may be asked again")
  })

  it("what an effector could not read is noted once, in any state", () => {
    for (const name of names) {
      const entry = entries[name]
      const noted = after(entry, Ledger.mismatched("me", "other contract"))
      assert.deepStrictEqual(noted, { ...entry, mismatch: { owner: "me", contract: "other contract" } })
      assert.isUndefined(Ledger.mismatched("you", "other contract")(noted, 5).next)
    }
  })

  it("covers every state there is", () => {
    const states: ReadonlyArray<Ledger.State> = [
      "Staged",
      "Claimed",
      "Performed",
      "Unknown",
      "Expired",
      "Rejected",
      "Denied",
      "Cancelled"
    ]
    assert.sameMembers(Array.from(new Set(names.map((name) => entries[name].state))), [...states])
  })
})

/** The intent of a run. */
interface Kind {
  readonly idempotent: boolean
  readonly verify: boolean
  readonly gated: boolean
  readonly question: boolean
}

/** One step of a run. `n` says how long, with which of the last tokens, or which way. */
interface Command {
  readonly op: (typeof ops)[number]
  readonly n: number
}

const lively = [
  "wait",
  "wait",
  "claim",
  "claim",
  "claim",
  "lose",
  "lose",
  "lapse",
  "lapse",
  "renew",
  "release"
] as const

// What makes a run long comes often, what ends it seldom. A failing run shrinks towards the first.
const ops = [
  ...lively,
  ...lively,
  ...lively,
  ...(["approve", "approve", "again", "again", "succeed", "succeed", "deny", "cancel", "reject", "settle"] as const)
] as const

/** The reference: what somebody would keep who had a pencil and the guarantees. */
interface Model {
  state: Ledger.State
  starts: number
  holder: string | undefined
  /** The lease. */
  until: number
  last: string | undefined
  /** How the last attempt ended, to know a report that is sent twice. */
  report: string | undefined
  told: boolean
  decided: "person" | "silence" | undefined
  /** Not to be started before. */
  free: number
  /** The first start is due by then. */
  firstBy: number
  lostAt: number
}

type Says = "done" | "nothing" | "stale" | "refused"

const lease = 10
const retryIn = 5

const valueOf = (n: number): Intent.Result => ({ _tag: "Success", value: n % 2 })

const lossOf = (n: number): Intent.Result => Ledger.unknown("Crashed", `loss ${n % 2}`)

const refer = (kind: Kind, model: Model, { n, op }: Command, token: string, now: number): Says => {
  const waits = kind.gated && model.state === "Staged" && model.decided === undefined
  const startBy = model.starts === 0 ? model.firstBy : model.free + ttl
  const unheard = model.state === "Unknown" && kind.verify && !model.told
  const end = (state: Ledger.State): Says => {
    Object.assign(model, { state, told: true, holder: undefined })
    return "done"
  }
  const lose = (tellNow: boolean): Says => {
    const again = kind.idempotent
    Object.assign(model, { holder: undefined, state: again ? "Staged" : "Unknown", lostAt: now })
    if (again) model.free = now + retryIn
    else model.told ||= tellNow
    return "done"
  }
  switch (op) {
    case "wait":
      return "done"
    case "claim": {
      const isVerify = unheard && (model.holder === undefined || model.until <= now)
      const isStart = model.state === "Staged" && !kind.question && !waits && model.free <= now && startBy > now
      if (!isVerify && !isStart) return "refused"
      Object.assign(model, { holder: token, until: now + lease })
      if (isStart) Object.assign(model, { state: "Claimed", starts: model.starts + 1 })
      return "done"
    }
    case "renew":
      if (model.holder !== token) return "stale"
      model.until = now + lease
      return "done"
    case "release":
      if (model.holder !== token) return "stale"
      model.holder = undefined
      if (model.state === "Claimed") Object.assign(model, { state: "Staged", starts: model.starts - 1 })
      return "done"
    case "succeed":
    case "lose": {
      const report = JSON.stringify(op === "lose" ? lossOf(n) : valueOf(n))
      if (model.holder === token) {
        if (model.state === "Claimed") Object.assign(model, { last: token, report })
        else if (op === "succeed") model.report = report
        if (op === "succeed") return end("Performed")
        if (model.state === "Claimed") return lose(!kind.verify)
        Object.assign(model, { told: true, holder: undefined })
        return "done"
      }
      if (model.last !== token) return "stale"
      if (model.holder === undefined && model.report === report) return "nothing"
      if (op === "succeed" && (model.state === "Unknown" || model.state === "Staged")) {
        model.report = report
        end("Performed")
      }
      return "stale"
    }
    case "lapse":
      if (model.holder !== undefined) {
        if (model.until > now) return "nothing"
        if (model.state !== "Claimed") {
          model.holder = undefined
          return "done"
        }
        Object.assign(model, { last: model.holder, report: undefined })
        return lose(!kind.verify)
      }
      if (waits) {
        if (now < ttl) return "nothing"
        model.decided = "silence"
        return end("Denied")
      }
      if (model.state === "Staged") {
        if (model.free > now || startBy > now) return "nothing"
        if (model.starts === 0) return end("Expired")
        Object.assign(model, { state: "Unknown", lostAt: now })
        model.told ||= !kind.verify
        return "done"
      }
      if (!unheard || model.lostAt + ttl > now) return "nothing"
      model.told = true
      return "done"
    case "approve":
    case "deny":
      if (!waits || now >= ttl) return "refused"
      model.decided = "person"
      if (op === "deny") return end("Denied")
      if (kind.question) return end("Performed")
      model.firstBy = now + ttl
      return "done"
    case "cancel":
    case "reject":
      return model.state === "Staged" && model.starts === 0
        ? end(op === "cancel" ? "Cancelled" : "Rejected")
        : "refused"
    case "settle":
      if (model.state !== "Unknown") return "refused"
      model.report = JSON.stringify(valueOf(n))
      return end("Performed")
    case "again":
      if (model.state !== "Unknown") return "refused"
      Object.assign(model, { state: "Staged", holder: undefined, free: now })
      return "done"
  }
}

const moveOf = ({ n, op }: Command, token: string): Move => {
  switch (op) {
    case "claim":
      return Ledger.claim({ owner: "me", token, lease, retryIn })
    case "renew":
      return Ledger.renew(token, lease)
    case "release":
      return Ledger.release(token)
    case "succeed":
      return Ledger.complete(token, valueOf(n))
    case "lose":
      return Ledger.complete(token, lossOf(n))
    case "approve":
    case "deny":
      return decide(op === "approve")
    case "cancel":
      return Ledger.cancel("maria")
    case "reject":
      return Ledger.reject("they do not fit")
    case "settle":
      return Ledger.resolve("maria", {
        to: "Performed",
        result: valueOf(n) as Extract<Intent.Result, { _tag: "Success" }>
      })
    case "again":
      return Ledger.resolve("maria", { to: "Again" })
    case "lapse":
      return (entry, now) => ({ next: Ledger.lapse(entry, now), refusal: undefined })
    case "wait":
      return (entry) => ({ next: entry, refusal: undefined })
  }
}

/** Why a step from one entry to the next breaks a guarantee, whatever the reference says. */
const broken = (
  before: Ledger.Entry,
  next: Ledger.Entry,
  { op }: Command,
  token: string,
  run: { effects: number; allowed: number }
): string | undefined => {
  if (before.answer !== undefined && next.answer !== before.answer) return "an answer changed"
  if (Ledger.isTerminal(before) && (next.state !== before.state || next.result !== before.result)) {
    return "a terminal record changed"
  }
  if (Ledger.isTerminal(next) && (next.answer === undefined || next.claim !== undefined)) return "an end half recorded"
  if (next.state === "Claimed" && before.state !== "Claimed") {
    run.effects++
    if (run.effects > 1 && !next.intent.idempotent && run.effects > run.allowed) return "a second start nobody allowed"
  }
  if (op === "release" && before.state === "Claimed" && next.state === "Staged") run.effects--
  if (op === "again" && next !== before) run.allowed = run.effects + 1
  if (["Expired", "Denied", "Cancelled"].includes(next.state) && run.effects > 0) return `${next.state} after a start`
  const usesToken = op === "renew" || op === "release" || op === "succeed" || op === "lose"
  if (usesToken && before.claim !== undefined && before.claim.token !== token) {
    if (next.claim !== before.claim || next.state !== before.state || next.result !== before.result) {
      // Late evidence of the attempt whose end a `verify` is asked about settles it.
      const evidence = before.state === "Unknown" && before.lastToken === token && next.state === "Performed"
      if (!evidence) return "somebody without the claim moved it"
    }
  }
  return undefined
}

/** Every number as often as any other: integers in a range come from its ends most of the time. */
const int = (max: number) => Arbitrary.schema(Schema.Literals(Array.from({ length: max + 1 }, (_, number) => number)))

const flags = Arbitrary.all({ idempotent: int(1), verify: int(1), gated: int(2), question: int(5) })

const kinds = Arbitrary.map(flags, ({ gated, idempotent, question, verify }): Kind => ({
  // A question to a person is no tool: nothing starts it.
  idempotent: idempotent === 1 && question > 0,
  verify: verify === 1 && question > 0,
  gated: gated === 1 || question === 0,
  question: question === 0
}))

const command = Arbitrary.map(
  Arbitrary.all({ op: int(ops.length - 1), n: int(7) }),
  ({ n, op }): Command => ({ n, op: ops[op]! })
)

const commands = Arbitrary.array(command, { minLength: 25, maxLength: 40 })

/** Runs commands against ledger and reference. `seen` collects what happened, to know that the runs are worth something. */
const compare = (kind: Kind, commands: ReadonlyArray<Command>, seen: Set<string>): string | undefined => {
  let entry = staged({
    idempotent: kind.idempotent,
    verify: kind.verify,
    kind: kind.question ? "approval" : "tool",
    ...(kind.gated ? gate : {})
  })
  const model: Model = {
    state: "Staged",
    starts: 0,
    holder: undefined,
    until: 0,
    last: undefined,
    report: undefined,
    told: false,
    decided: undefined,
    free: 0,
    firstBy: kind.gated ? 2 * ttl : ttl,
    lostAt: 0
  }
  const run = { effects: 0, allowed: 1 }
  let now = 0
  let tokens = 0
  for (const [index, command] of commands.entries()) {
    const { n, op } = command
    if (op === "wait") now += [11, 1, 5, 110, 3, 60, 2, 8][n]!
    // A claim brings a token of its own; everything else comes from the last owner or one before it.
    const token = op === "claim" ? `token ${tokens + 1}` : `token ${Math.max(0, tokens - n % 3)}`
    const { next = entry, refusal } = moveOf(command, token)(entry, now)
    const expected = refer(kind, model, command, token, now)
    const says = refusal instanceof Ledger.StaleClaim
      ? "stale"
      : refusal !== undefined
      ? "refused"
      : op !== "wait" && next === entry
      ? "nothing"
      : "done"
    const where = `at ${index} (${op} ${token} at ${now}, ${entry.state})`
    const is = [says, next.state, next.attempt, next.claim?.token, next.answer !== undefined].join()
    const should = [expected, model.state, model.starts, model.holder, model.told].join()
    if (is !== should) return `${where}: ${is} where the reference has ${should}`
    const reason = broken(entry, next, command, token, run)
    if (reason !== undefined) return `${where}: ${reason}`
    seen.add(`${op}: ${says}, ${entry.state} to ${next.state}`)
    if (next.state === "Claimed" && next.attempt > 1 && next !== entry) seen.add(`${op}: second start`)
    if (next.claim?.token === `token ${tokens + 1}`) tokens++
    entry = next
  }
  return undefined
}

describe("any moves in any order", () => {
  it.effect("agree with a reference, and one record, one answer, one start and the tokens are kept", () =>
    Effect.gen(function*() {
      const seen = new Set<string>()
      yield* holds(
        "moves",
        Arbitrary.all({ kind: kinds, commands }),
        ({ commands, kind }) => compare(kind, commands, seen),
        2000
      )
      const worth = [
        "claim: second start",
        "claim: done, Unknown to Unknown",
        "release: done, Claimed to Staged",
        "succeed: stale, Unknown to Performed",
        "succeed: stale, Staged to Performed",
        "succeed: stale, Claimed to Claimed",
        "lose: nothing, Unknown to Unknown",
        "lapse: done, Claimed to Unknown",
        "lapse: done, Claimed to Staged",
        "lapse: done, Staged to Unknown",
        "lapse: done, Staged to Expired",
        "lapse: done, Staged to Denied",
        "lapse: done, Unknown to Unknown",
        "approve: done, Staged to Performed",
        "again: done, Unknown to Staged"
      ]
      assert.deepStrictEqual(worth.filter((step) => !seen.has(step)), [], "steps no run made")
    }))
})
