/**
 * Runs a case: events, messages and operators come, processes die and are started again, time passes, until all is at rest.
 */
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { AgentEngine, AgentStore, Ledger } from "../../../src/index.ts"
import { Crash, Effects, Process, TestEngine } from "../../../src/testing/index.ts"
import { agentsOf, effects, type Event, Op, World } from "./Script.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

// Few keys, so that events meet.
const target = { agent: Schema.Literals(["a", "a", "b"]), key: Schema.Literals(["k1", "k1", "k2"]) }

const Send = Schema.Struct({
  do: Schema.Literal("send"),
  ...target,
  script: Schema.Array(Op).check(Schema.isMaxLength(7)),
  /** Sent twice, as a sender does that did not hear back. */
  twice: Schema.Boolean,
  seconds: between(0, 10)
})

const Other = Schema.Struct({
  do: Schema.Literals(["message", "message", "cancel", "cancelIntent", "kill", "stop"]),
  ...target,
  seconds: between(0, 15)
})

export const Case = Schema.Struct({
  commands: Schema.Array(Schema.Union([Send, Send, Send, Other])).check(Schema.isMinLength(1), Schema.isMaxLength(10)),
  /** One per process, in the order in which processes are started; the later ones live. */
  crashes: Schema.Array(Schema.Union([
    Schema.Struct({ step: Schema.Literals(Crash.steps), nth: between(1, 4) }),
    Schema.Struct({ step: Schema.Literal("any"), nth: between(1, 40) })
  ])).check(Schema.isMaxLength(8)),
  /** How many processes work side by side, and how long one that died is missed. */
  processes: between(1, 2),
  downtime: between(0, 15)
})

export type Case = typeof Case.Type

/** Everything that can be seen after a case. */
export type Outcome = Effect.Success<ReturnType<typeof run>>

export const run = Effect.fnUntraced(function*(given: Case, { alwaysReplay } = { alwaysReplay: false }) {
  const store = yield* AgentStore.AgentStore
  const client = yield* AgentEngine.client
  const world = new World()
  const agents = agentsOf(world)
  const layer = TestEngine.layerProcess({
    agents: [agents.a, agents.b],
    effects,
    engine: { alwaysReplay },
    effector: { owner: "effector", lease: "10 seconds", grace: "2 seconds" }
  })
  const crashes = given.crashes.map(({ nth, step }) => step === "any" ? Crash.after(nth) : Crash.at(step, { nth }))
  const places: Array<Crash.Place> = []
  type Running = Effect.Success<ReturnType<typeof Process.start<AgentEngine.AgentEngine, never, any>>>
  const slots: Array<{ process: Running | undefined; from: number }> = Array.from(
    { length: given.processes },
    () => ({ process: undefined, from: 0 })
  )
  const sent: Array<{ agent: "a" | "b"; key: string; offset: number; event: typeof Event.Type }> = []
  const wrong: Array<string> = []
  let second = 0
  let started = 0
  let messages = 0

  const tend = Effect.gen(function*() {
    for (const slot of slots) {
      if (slot.process !== undefined && !(yield* slot.process.isAlive)) {
        places.push(yield* slot.process.crashed)
        slot.process = undefined
        slot.from = second + given.downtime
      }
      if (slot.process === undefined && second >= slot.from) {
        slot.process = yield* Process.start(layer, { crash: crashes[started++] })
      }
    }
  })

  const decideAll = Effect.gen(function*() {
    for (const { decision, intent } of yield* store.entries({ states: ["Staged"] })) {
      if (intent.approval === "none" || decision !== undefined) continue
      const args = JSON.parse(intent.arguments)
      const verdict = args.verdict ?? args.details.verdict
      if (verdict === "nothing") continue
      yield* client.decide({ id: intent.id, approved: verdict === "yes", by: "maria" })
    }
  })

  const pass = Effect.fnUntraced(function*(seconds: number, step = 1) {
    for (let passed = 0; passed < seconds; passed += step) {
      yield* tend
      yield* TestClock.adjust(`${step} seconds`)
      second += step
      if (second % 5 === 0) yield* decideAll
    }
    yield* tend
  })

  const atRest = Effect.gen(function*() {
    for (const { agent, key, offset } of sent) {
      const state = (yield* store.event(offset))?.state
      const isBlocked = (yield* store.key({ agent, key })).blocked !== undefined
      if ((state === "Waiting" || state === "Suspended") && !isBlocked) return false
    }
    const entries = yield* store.entries({})
    return entries.every((entry) =>
      Ledger.isTerminal(entry) || (entry.state === "Unknown" && !Ledger.isUnanswered(entry))
    )
  })

  const settle = Effect.gen(function*() {
    for (let round = 0; round < 200; round++) {
      if (yield* atRest) return
      yield* round < 60 ? pass(5) : pass(60, 10)
    }
    wrong.push("it did not come to rest in two hours")
  })

  yield* tend
  for (const [index, command] of given.commands.entries()) {
    const { key } = command
    const agent = agents[command.agent] as typeof agents.a
    switch (command.do) {
      case "send": {
        const event = { id: `e${index}`, script: command.script }
        const { offset } = yield* client.send(agent, { key, event, id: event.id })
        sent.push({ agent: command.agent, key, offset, event })
        if (!command.twice) break
        const again = yield* client.send(agent, { key, event, id: event.id })
        if (!again.duplicate || again.offset !== offset) wrong.push(`event ${offset} was taken twice`)
        break
      }
      case "message":
        yield* client.message(agent, { key, message: `message ${++messages}` })
        break
      case "cancel":
        yield* client.cancel(agent, { key, by: "maria" })
        break
      case "cancelIntent": {
        const [staged] = yield* store.entries({ agent: command.agent, key, states: ["Staged"] })
        if (staged?.attempt === 0) yield* client.cancelIntent(staged.intent.id, "maria")
        break
      }
      case "kill":
        yield* slots[0]!.process?.kill ?? Effect.void
        break
      case "stop":
        yield* Effect.forkChild(slots[0]!.process?.stop ?? Effect.void)
    }
    yield* pass(command.seconds)
  }
  yield* settle

  // The world is repaired, and an operator drives what had failed.
  world.repaired = true
  for (let rounds = 0; rounds < 10; rounds++) {
    const letters = (yield* store.deadLetters).filter(({ driven }) => driven === undefined)
    for (const { id } of letters) yield* Effect.ignore(client.redrive(id, { by: "maria" }))
    yield* settle
  }

  const events = yield* Effect.forEach(sent, (sent) =>
    Effect.gen(function*() {
      const trace = yield* store.trace(sent.offset)
      return { ...sent, status: (yield* store.event(sent.offset))!, trace }
    }))
  const outside = yield* Effects.Effects
  const keys = yield* Effect.forEach(
    ["a", "b"].flatMap((agent) => ["k1", "k2"].map((key) => ({ agent, key }))),
    (target) => store.key(target)
  )
  const outputs = [
    ...(yield* store.outputs({ agent: "a", after: 0, limit: 10_000 })),
    ...(yield* store.outputs({ agent: "b", after: 0, limit: 10_000 }))
  ]
  const outcome = {
    wrong,
    places,
    events,
    outputs,
    keys,
    entries: yield* store.entries({}),
    letters: yield* store.deadLetters,
    effects: yield* outside.all
  }

  // A process that never saw any of it replays every run that completed, and calls nobody.
  for (const slot of slots) yield* slot.process?.kill ?? Effect.void
  const fresh = yield* Process.start(layer)
  const before = { reads: world.reads, replies: world.replies }
  for (const { agent, offset, status } of events) {
    if (status.state !== "Completed") continue
    const replayed = yield* Effect.result(
      fresh.run(AgentEngine.AgentEngine.use((engine) => engine.replay(agents[agent], offset)))
    )
    if (replayed._tag === "Failure") wrong.push(`replay of ${offset}: ${replayed.failure.message}`)
    else if (JSON.stringify(replayed.success.outcome) !== JSON.stringify({ _tag: "Complete", output: status.output })) {
      wrong.push(`replay of ${offset} came to ${JSON.stringify(replayed.success.outcome)}`)
    }
  }
  const asked = world.reads - before.reads + world.replies - before.replies
  if (asked > 0 || (yield* outside.all).length > outcome.effects.length) wrong.push("a replay called a handler")
  return outcome
})
