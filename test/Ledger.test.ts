/**
 * Every move from every state: what it leads to, or how it is refused.
 */
import { assert, describe, it } from "@effect/vitest"
import { Ledger } from "../src/index.ts"
import { after, claim, crashed, decision, draft, failure, success } from "./fixtures/ledger.ts"

const staged = Ledger.stage(draft(), 0)
const idempotent = Ledger.stage(draft({ idempotent: true }), 0)
const verifiable = Ledger.stage(draft({ verify: true }), 0)
const gated = Ledger.stage(draft({ approval: "required" }), 0)
const question = Ledger.stage(draft({ kind: "approval", approval: "required" }), 0)

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

const moves = {
  claim: claim("new"),
  claimAgain: claim("own"),
  renew: Ledger.renew("own", 200),
  release: Ledger.release("own"),
  succeed: Ledger.complete("own", success),
  crash: Ledger.complete("own", crashed),
  forged: Ledger.complete("forged", failure),
  reject: Ledger.reject("arguments"),
  mismatch: Ledger.mismatched("other", "another contract"),
  approve: decision(true),
  deny: decision(false),
  decideOther: decision(true, "another digest"),
  cancel: Ledger.cancel("tom"),
  settle: Ledger.resolve("tom", { to: "Performed", result: { _tag: "Success", value: "seen at the bank" } }),
  deny_: Ledger.resolve("tom", { to: "NotPerformed", note: "not at the bank" }),
  again: Ledger.resolve("tom", { to: "Again" })
} satisfies Record<string, Ledger.Move<Ledger.LedgerRefusal | Ledger.StaleClaim>>

type Row = { readonly [Move in keyof typeof moves]: string }

const no = "its state does not allow it"
const started = "already started"
const notUnknown = "only an unknown end can be settled"

// A state after an arrow is written; "stale" is told to an owner without a claim, beside what its report led to.
const refusals: Row = {
  claim: no,
  claimAgain: no,
  renew: "stale",
  release: "stale",
  succeed: "stale, kept",
  crash: "stale",
  forged: "stale, kept",
  reject: no,
  mismatch: "noted",
  approve: "it needs no approval",
  deny: "it needs no approval",
  decideOther: "it needs no approval",
  cancel: no,
  settle: notUnknown,
  deny_: notUnknown,
  again: notUnknown
}

const ofStaged: Row = {
  ...refusals,
  claim: "-> Claimed 1",
  claimAgain: "-> Claimed 1",
  reject: "-> Rejected 0",
  cancel: "-> Cancelled 0"
}

const ofClaimed: Row = {
  ...refusals,
  claimAgain: "unchanged",
  renew: "-> Claimed 1",
  release: "-> Staged 0",
  succeed: "-> Performed 1",
  crash: "-> Unknown 1",
  reject: started,
  cancel: started
}

const ofUnknown: Row = {
  ...refusals,
  succeed: "stale, -> Performed 1",
  crash: "unchanged",
  reject: started,
  cancel: started,
  settle: "-> Performed 1",
  deny_: "-> Rejected 1",
  again: "-> Staged 1"
}

const ofStagedAgain: Row = {
  ...refusals,
  claim: "-> Claimed 2",
  claimAgain: "-> Claimed 2",
  succeed: "stale, -> Performed 1",
  crash: "unchanged",
  reject: started,
  cancel: started
}

const decidedBefore = {
  approve: "already decided by maria",
  deny: "already decided by maria",
  decideOther: "already decided by maria"
}

const table: { readonly [State in keyof typeof states]: Row } = {
  staged: ofStaged,
  gated: {
    ...ofStaged,
    claim: no,
    claimAgain: no,
    approve: "-> Staged 0",
    deny: "-> Denied 0",
    decideOther: "the decision is about other arguments"
  },
  question: {
    ...ofStaged,
    claim: no,
    claimAgain: no,
    approve: "-> Performed 0",
    deny: "-> Denied 0",
    decideOther: "the decision is about other arguments"
  },
  approved: { ...ofStaged, ...decidedBefore },
  claimed: ofClaimed,
  retryable: { ...ofClaimed, crash: "-> Staged 1" },
  between: { ...ofStagedAgain, claim: no, claimAgain: no },
  performed: { ...refusals, succeed: "unchanged", reject: started, cancel: started },
  unknown: ofUnknown,
  unverified: { ...ofUnknown, claim: "-> Unknown 1", claimAgain: "-> Unknown 1" },
  verifying: {
    ...ofUnknown,
    claimAgain: "unchanged",
    renew: "-> Unknown 1",
    release: "-> Unknown 1",
    succeed: "-> Performed 1",
    crash: "-> Unknown 1"
  },
  again: ofStagedAgain,
  expired: refusals,
  rejected: refusals,
  denied: { ...refusals, ...decidedBefore },
  cancelled: refusals
}

const told = (entry: Ledger.Entry, move: keyof typeof moves) => {
  const { next, refusal } = moves[move](entry, 10)
  const written = next === undefined ?
    undefined
    : next.state !== entry.state || next.claim !== entry.claim || next.decision !== entry.decision ?
    `-> ${next.state} ${next.attempt}`
    : next.late !== entry.late
    ? "kept"
    : "noted"
  const refused = refusal instanceof Ledger.StaleClaim ? "stale" : refusal?.reason
  return { next, refusal, outcome: [refused, written].filter((part) => part !== undefined).join(", ") || "unchanged" }
}

describe("a move", () => {
  for (const state of Object.keys(table) as Array<keyof typeof states>) {
    for (const move of Object.keys(moves) as Array<keyof typeof moves>) {
      it(`${move} of what is ${state}: ${table[state][move]}`, () => {
        const entry = states[state]
        const { next, outcome, refusal } = told(entry, move)
        assert.strictEqual(outcome, table[state][move])
        if (refusal !== undefined) {
          for (const part of [entry.intent.id, "charge", "c1", entry.state]) assert.include(refusal.message, part)
        }
        if (next !== undefined) {
          assert.strictEqual(next.intent.id, entry.intent.id)
          if (entry.answer !== undefined) assert.strictEqual(next.answer, entry.answer, "an answer once given stays")
          assert.isAtLeast(next.history.length, entry.history.length)
        }
      })
    }
  }
})

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
  /** When it is due, and what becomes of it then. */
  const due: { readonly [State in keyof typeof states]: readonly [number | undefined, string] } = {
    staged: [1000, "Expired 0"],
    gated: [500, "Denied 0"],
    question: [500, "Denied 0"],
    approved: [1000, "Expired 0"],
    claimed: [100, "Unknown 1"],
    retryable: [100, "Staged 1"],
    between: [1050, "Unknown 1"],
    performed: [undefined, ""],
    unknown: [undefined, ""],
    unverified: [1000, "Unknown 1, answered"],
    verifying: [100, "Unknown 1"],
    again: [1000, "Unknown 1"],
    expired: [undefined, ""],
    rejected: [undefined, ""],
    denied: [undefined, ""],
    cancelled: [undefined, ""]
  }

  for (const [state, [at, expected]] of Object.entries(due)) {
    it(`what is ${state} ${at === undefined ? "stays as it is" : `is ${expected} at ${at}`}`, () => {
      const entry = states[state as keyof typeof states]
      if (at === undefined) {
        assert.isUndefined(Ledger.dueAt(entry, 0))
        assert.isUndefined(Ledger.lapse(entry, Number.MAX_SAFE_INTEGER))
        return
      }
      assert.isUndefined(Ledger.lapse(entry, at - 1))
      const next = Ledger.lapse(entry, at)!
      assert.strictEqual(Ledger.dueAt(entry, at), at)
      const answered = entry.answer === undefined && next.answer !== undefined && next.state === entry.state
      assert.strictEqual(`${next.state} ${next.attempt}${answered ? ", answered" : ""}`, expected)
      assert.isUndefined(next.claim)
    })
  }

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
