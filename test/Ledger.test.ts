/**
 * What the moves of the ledger mean, one by one; `LedgerMoves.test.ts` tries each in every state and any in any order.
 */
import { assert, describe, it } from "@effect/vitest"
import { type Intent, Ledger } from "../src/index.ts"
import { draft } from "../src/testing/contract/Fixture.ts"

const success: Intent.Result = { _tag: "Success", value: "receipt" }
const failure: Intent.Result = { _tag: "Failure", error: "declined" }
const crashed = Ledger.unknown("Crashed", "it was cut off")

const claim = (token: string, retryIn?: number) =>
  Ledger.claim({ owner: `owner of ${token}`, token, lease: 100, retryIn })

const decision = (approved: boolean) => Ledger.decide({ approved, by: "maria", argumentsDigest: undefined })

/** The entry after a row of moves, each of which has to be allowed. */
const after = (
  entry: Ledger.Entry,
  now: number,
  ...moves: ReadonlyArray<Ledger.Move<Ledger.LedgerRefusal | Ledger.StaleClaim>>
): Ledger.Entry =>
  moves.reduce((entry, move) => {
    const { next, refusal } = move(entry, now)
    assert.isUndefined(refusal)
    return next ?? entry
  }, entry)

const stage = (given: Partial<Intent.Draft> = {}) =>
  Ledger.stage(draft({ agent: "desk", key: "c1", seq: 0 }, 0, { ttl: 1000, approvalTimeout: undefined, ...given }), 0)

const gate = { approval: "required", approvalTimeout: 500 } as const

const staged = stage()
const idempotent = stage({ idempotent: true })
const verifiable = stage({ verify: true })
const gated = stage(gate)
const question = stage({ ...gate, kind: "approval" })

/** Entries as they come about: claims are held with the token "own" and lapse at 100. */
const states = {
  staged,
  gated,
  question,
  approved: after(gated, 0, decision(true)),
  claimed: after(staged, 0, claim("own")),
  retryable: after(idempotent, 0, claim("own", 0)),
  between: after(idempotent, 0, claim("own", 50), Ledger.complete("own", crashed)),
  performed: after(staged, 0, claim("own"), Ledger.complete("own", success)),
  unknown: after(staged, 0, claim("own"), Ledger.complete("own", crashed)),
  unverified: after(verifiable, 0, claim("own"), Ledger.complete("own", crashed)),
  verifying: after(verifiable, 0, claim("first"), Ledger.complete("first", crashed), claim("own")),
  again: after(staged, 0, claim("own"), Ledger.complete("own", crashed), Ledger.resolve("maria", { to: "Again" })),
  expired: Ledger.lapse(staged, 1000)!,
  rejected: after(staged, 0, Ledger.reject("arguments")),
  denied: after(gated, 0, decision(false)),
  cancelled: after(staged, 0, Ledger.cancel("maria"))
}

describe("a claim", () => {
  it("is refused to whoever comes too late or too early, in the same write", () => {
    const at = (entry: Ledger.Entry, now: number) => claim("new")(entry, now).next?.state
    assert.strictEqual(at(staged, 999), "Claimed")
    assert.isUndefined(at(staged, 1000), "expiresAt <= now is expired")
    assert.isUndefined(at(states.between, 49), "not before the retry is due")
    assert.strictEqual(at(states.between, 50), "Claimed")
    assert.strictEqual(at(states.between, 1049), "Claimed")
    assert.isUndefined(at(states.between, 1050), "a further start has as long as the first had")
    assert.isUndefined(at(states.verifying, 99), "somebody is asking already")
    assert.strictEqual(at(states.verifying, 100), "Unknown")
  })

  it("is named by its owner, and starts the clock", () => {
    const claimed = after(staged, 7, claim("own", 30))
    assert.deepStrictEqual(claimed.claim, { owner: "owner of own", token: "own", until: 107, retryIn: 30 })
    assert.strictEqual(claimed.startedAt, 7)
    assert.strictEqual(after(claimed, 60, Ledger.renew("own", 100)).claim?.until, 160)
  })

  it("that is given back uses nothing up", () => {
    const released = after(staged, 5, claim("own"), Ledger.release("own"))
    assert.deepStrictEqual({ ...released, history: [] }, { ...staged, history: [] })
    const verifying = after(states.verifying, 5, Ledger.release("own"))
    assert.isTrue(Ledger.isVerifiable(verifying, 5), "another effector asks")
  })
})

describe("late evidence", () => {
  it("K31 of the last owner settles an unknown end, once; the answer given stays", () => {
    const { next, refusal } = Ledger.complete("own", success)(states.unknown, 10)
    assert.instanceOf(refusal, Ledger.StaleClaim)
    assert.deepInclude(next, { state: "Performed", result: success, late: success, answer: states.unknown.answer })
    assert.strictEqual(next?.resolution?.by, "late evidence")
    const twice = Ledger.complete("own", failure)(next!, 20)
    assert.deepInclude(twice.next, { state: "Performed", result: success, late: success })
  })

  it("keeps an intent from being performed again, also where an operator wished it", () => {
    for (const state of [states.between, states.again]) {
      const settled = Ledger.complete("own", success)(state, 10).next!
      assert.deepInclude(settled, { state: "Performed", attempt: 1 })
      assert.isFalse(Ledger.isStartable(settled, 100))
    }
  })

  it("changes no record of whoever ran the intent again", () => {
    const running = after(states.again, 10, claim("next"))
    assert.deepInclude(Ledger.complete("own", success)(running, 20).next, { state: "Claimed", late: success })
    const failed = after(running, 20, Ledger.complete("next", failure))
    assert.deepInclude(Ledger.complete("own", success)(failed, 30).next, {
      state: "Performed",
      result: failure,
      late: success
    })
  })

  it("is still that of the last owner where the next one gave its claim back", () => {
    const released = after(states.again, 10, claim("next"), Ledger.release("next"))
    assert.deepInclude(Ledger.complete("own", success)(released, 20).next, { state: "Performed", result: success })
  })
})

describe("what time does", () => {
  it("wakes whoever would try again when the delay is over", () => {
    assert.strictEqual(Ledger.dueAt(states.between, 0), 50)
    assert.isUndefined(Ledger.lapse(states.between, 50), "there is nothing to write: it may be claimed")
  })

  it("says of a decision that came too late that it is too late, swept or not", () => {
    const late = decision(true)(gated, 500)
    assert.strictEqual(late.refusal?.reason, "too late")
    const swept = Ledger.lapse(gated, 500)!
    assert.deepInclude(swept.decision, { approved: false, by: "policy:timeout" })
    assert.strictEqual(decision(true)(swept, 600).refusal?.reason, "too late")
  })

  it("counts from the decision where one was needed", () => {
    const approved = after(gated, 400, decision(true))
    assert.strictEqual(approved.intent.expiresAt, 1400)
    assert.isTrue(Ledger.isStartable(approved, 1399))
    assert.isFalse(Ledger.isStartable(approved, 1400))
  })

  it("tells an unknown end to whoever waits, unless the tool's verify is asked first", () => {
    assert.deepStrictEqual(Ledger.lapse(states.claimed, 100)?.answer, {
      type: "intent",
      result: Ledger.unknown("Crashed", "the lease of owner of own lapsed after the start")
    })
    assert.isUndefined(Ledger.lapse(after(verifiable, 0, claim("own")), 100)?.answer)
    assert.isDefined(
      after(verifiable, 0, claim("own"), (entry, now) => Ledger.complete("own", crashed, true)(entry, now)).answer
    )
  })

  it("ends a claim without a retry left as unknown, idempotent or not", () => {
    assert.strictEqual(Ledger.lapse(after(idempotent, 0, claim("own")), 100)?.state, "Unknown")
  })
})

describe("a settled unknown end", () => {
  const settled = (entry: Ledger.Entry) =>
    after(entry, 10, Ledger.resolve("tom", { to: "Performed", result: { _tag: "Success", value: "x" } }))

  it("is a resolution where the agent had been told, and its answer where it had not", () => {
    assert.deepInclude(Ledger.resolved(states.unknown, settled(states.unknown)), { by: "tom", at: 10 })
    const first = settled(states.unverified)
    assert.isUndefined(Ledger.resolved(states.unverified, first))
    assert.deepStrictEqual(first.answer, { type: "intent", result: { _tag: "Success", value: "x" } })
  })

  it("that is performed again is resolved twice: when that is asked for, and when it has ended", () => {
    const again = states.again
    assert.deepInclude(Ledger.resolved(states.unknown, again), { by: "maria", result: undefined })
    const running = after(again, 20, claim("next"))
    const ended = after(running, 30, Ledger.complete("next", success))
    assert.isUndefined(Ledger.resolved(again, running))
    assert.deepStrictEqual(Ledger.resolved(running, ended), { by: "maria", at: 30, result: success })
  })

  it("may be settled anew where performing it again came to another unknown end", () => {
    const unknown = after(states.again, 20, claim("next"), Ledger.complete("next", crashed))
    assert.deepInclude(unknown, { state: "Unknown", resolution: undefined, answer: states.unknown.answer })
    assert.strictEqual(settled(unknown).state, "Performed")
  })
})

describe("the order of a key", () => {
  it("is held by what is under way or about to be, not by what waits for people", () => {
    const holding = Object.entries(states).filter(([, entry]) => Ledger.holdsOrder(entry)).map(([state]) => state)
    assert.deepStrictEqual(holding, ["staged", "approved", "claimed", "retryable", "between", "again"])
  })
})
