/**
 * What holds after every case, whatever died in between. Each invariant gives what it found wrong.
 */
import { Intent, Ledger } from "../../../src/index.ts"
import type { Outcome } from "./Run.ts"
import { type Op, stepsOf, tellOf } from "./Script.ts"

export const violations = (outcome: Outcome): ReadonlyArray<string> => [
  ...outcome.wrong,
  ...eventsEndOnce(outcome),
  ...outputsOnceAndInOrder(outcome),
  ...memoryCounts(outcome),
  ...seqGapless(outcome),
  ...noIntentLost(outcome),
  ...performedOnce(outcome),
  ...performedInOrder(outcome),
  ...approvedFirst(outcome),
  ...oneAnswer(outcome),
  ...messagesOnce(outcome)
]

type SentEvent = Outcome["events"][number]

const place = (agent: string, key: string) => `${agent}/${key}`

const completed = ({ events }: Outcome) => events.filter(({ status }) => status.state === "Completed")

/** Every event ends once: with one last output, or cancelled and with none; and nothing is left behind. */
const eventsEndOnce = ({ events, keys, letters, outputs }: Outcome) => [
  ...events.flatMap(({ event, offset, status }) => {
    const last = outputs.filter(({ output }: any) => output.event === event.id && output.last).length
    return [
      ...(status.state === "Completed" || status.state === "Cancelled" ? [] : [`event ${offset} is ${status.state}`]),
      ...(last === (status.state === "Completed" ? 1 : 0) ? [] : [`event ${offset}, ${status.state}, has ${last} ends`])
    ]
  }),
  ...keys.flatMap(({ agent, blocked, current, inbox, key, waiting }) =>
    blocked === undefined && current === undefined && inbox === 0 && waiting.length === 0
      ? []
      : [`${place(agent, key)} is not at rest`]
  ),
  ...letters.flatMap(({ driven, id, offset }) =>
    driven !== undefined || events.find((event) => event.offset === offset)?.status.state === "Cancelled"
      ? []
      : [`letter ${id} is left`]
  )
]

/** Outputs are there once, in the order of their events and within them; what they say of the past never changes. */
const outputsOnceAndInOrder = (outcome: Outcome) => {
  const { events, keys, outputs } = outcome
  const wrong: Array<string> = []
  for (const { agent, key } of keys) {
    const ofKey = outputs.filter((output) => output.agent === agent && output.key === key)
    for (const [index, { offset, seq }] of ofKey.entries()) {
      const before = ofKey[index - 1]
      if (before !== undefined && (before.offset >= offset || before.seq > seq)) wrong.push(`output ${offset} is late`)
    }
  }
  for (const { event, status } of events) {
    const said = outputs.map(({ output }) => output as any).filter((output) => output.event === event.id)
    const emits = event.script.filter(({ op }) => op === "emit").length
    const enough = status.state === "Completed" ? said.length === emits + 1 : said.length <= emits
    if (!enough) wrong.push(`${event.id} has ${said.length} outputs of ${emits} emissions, ${status.state}`)
    for (const [index, { emitted, learned }] of said.entries()) {
      const next = said[index + 1]?.learned
      const goesOn = next === undefined || JSON.stringify(next.slice(0, learned.length)) === JSON.stringify(learned)
      if (emitted !== index || !goesOn) wrong.push(`outputs of ${event.id}: ${JSON.stringify(said)}`)
    }
  }
  return wrong
}

/** A counter in memory is the number of increments that committed. */
const memoryCounts = ({ events, keys }: Outcome) =>
  keys.flatMap(({ agent, key, memory }) => {
    const increments = (state: string) =>
      events.filter((event) => event.agent === agent && event.key === key && event.status.state === state)
        .flatMap(({ event }) => event.script)
        .filter(({ op }) => op === "increment").length
    const count = Number(memory["count"] ?? 0)
    const least = increments("Completed")
    return count >= least && count <= least + increments("Cancelled")
      ? []
      : [`${place(agent, key)} counts ${count}, committed were ${least}`]
  })

/** The events of a key that committed are numbered from 0, without a gap. */
const seqGapless = ({ events, keys }: Outcome) =>
  keys.flatMap(({ agent, key, seq }) => {
    const seqs = events
      .filter((event) => event.agent === agent && event.key === key && event.status.seq !== undefined)
      .map(({ status }) => status.seq!)
      .sort((a, b) => a - b)
    return seqs.length === seq && seqs.every((number, index) => number === index)
      ? []
      : [`${place(agent, key)} is at ${seq}, its events have ${seqs}`]
  })

interface Expected {
  readonly id: string
  readonly tool: string
  readonly step: number
}

/** The intents a script stages, if it runs to its end. */
const intentsOf = ({ agent, event, key, status }: SentEvent): ReadonlyArray<Expected> => {
  const expected: Array<Expected> = []
  let step = 0
  for (const op of event.script) {
    for (const [nth, tool] of toolsOf(op).entries()) {
      expected.push({ id: Intent.makeId(agent, key, status.seq ?? -1, step + nth), tool, step: step + nth })
    }
    step += stepsOf(op)
  }
  return expected
}

const toolsOf = (op: Op): ReadonlyArray<string> =>
  op.op === "act" || op.op === "request" ?
    [op.call.tool]
    : op.op === "requestAll" ?
    op.calls.map(({ tool }) => tool)
    : op.op === "ask" ?
    ["approval"]
    : []

/** Every intent that was staged is in the ledger, once, and has ended; and no other is there. */
const noIntentLost = ({ entries, events }: Outcome) => {
  const wrong: Array<string> = []
  const ids = new Set<string>()
  for (const { agent, event, key, status, trace } of events) {
    const here = entries.filter(({ intent }) =>
      intent.agent === agent && intent.key === key && intent.seq === status.seq
    )
    for (const { intent } of here) ids.add(intent.id)
    const found = here.map(({ intent: { id, step, tool } }) => ({ id, tool, step }))
    const expected = status.seq === undefined ? [] : intentsOf({ agent, event, key, status, trace } as SentEvent)
    const wanted = status.state === "Completed" ? expected : expected.slice(0, found.length)
    if (JSON.stringify(found) !== JSON.stringify(wanted)) wrong.push(`${event.id} staged ${JSON.stringify(found)}`)
    const traced = trace.flatMap((row) => row.type === "IntentStaged" ? [row.id] : [])
    if (JSON.stringify(traced) !== JSON.stringify(found.map(({ id }) => id))) wrong.push(`${event.id} traced ${traced}`)
  }
  for (const { answer, intent, state } of entries) {
    if (!ids.has(intent.id)) wrong.push(`intent ${intent.id} belongs to no event`)
    const isOver = state !== "Staged" && state !== "Claimed" && answer !== undefined
    if (!isOver) wrong.push(`intent ${intent.id} is ${state}`)
  }
  return wrong
}

/** What happened outside is what the ledger says: once, or up to the attempts of an idempotent tool, or not at all. */
const performedOnce = ({ effects, entries }: Outcome) => {
  const wrong: Array<string> = []
  for (const entry of entries) {
    const { attempt, intent, state } = entry
    const happened = effects.filter(({ id }) => id === intent.id)
    const limit = intent.idempotent ? attempt : Math.min(attempt, 1)
    const least = state === "Performed" && intent.kind === "tool" ? 1 : 0
    if (happened.length < least || happened.length > limit) {
      wrong.push(`${intent.tool} ${intent.id}, ${state} at attempt ${attempt}, happened ${happened.length} times`)
    }
    if (attempt > 1 && !intent.idempotent) wrong.push(`${intent.tool} ${intent.id} was started ${attempt} times`)
    if (Ledger.isTerminal(entry) && state !== "Performed" && entry.resolution === undefined && attempt > 0) {
      wrong.push(`${intent.tool} ${intent.id} is ${state} after ${attempt} attempts`)
    }
    const attempts = happened.map((effect) => effect.attempt)
    if (new Set(attempts).size < attempts.length) wrong.push(`${intent.id} happened at the attempts ${attempts}`)
    for (const effect of happened) {
      const same = effect.tool === intent.tool && effect.key === intent.key && effect.agent === intent.agent
        && effect.seq === intent.seq && effect.step === intent.step
        && canonical(effect.arguments) === canonical(JSON.parse(intent.arguments))
      if (!same) wrong.push(`${intent.id} is ${JSON.stringify(intent)}, what happened is ${JSON.stringify(effect)}`)
    }
  }
  const known = new Set<string>(entries.map(({ intent }) => intent.id))
  return [...wrong, ...effects.filter(({ id }) => !known.has(id)).map(({ id }) => `${id} happened, and nobody asked`)]
}

const canonical = (value: any) => JSON.stringify(value, Object.keys(value).sort())

/** The intents of a key start in the order of (seq, step), each after the one before has ended; gated ones when approved. */
const performedInOrder = ({ entries, keys }: Outcome) =>
  keys.flatMap(({ agent, key }) => {
    const started = entries
      .filter(({ intent, startedAt }) => intent.agent === agent && intent.key === key && startedAt !== undefined)
      .filter(({ intent }) => intent.approval === "none")
    return started.flatMap((entry, index) => {
      const before = started[index - 1]
      return before === undefined || before.endedAt! <= firstStart(entry)
        ? []
        : [
          `${entry.intent.tool} of step ${entry.intent.step} started before the one of ${before.intent.step} had ended`
        ]
    })
  })

const firstStart = ({ history }: Ledger.Entry) => history.find(({ state }) => state === "Claimed")!.at

/** Nothing that is gated starts without a yes. */
const approvedFirst = ({ entries }: Outcome) =>
  entries.flatMap(({ attempt, decision, intent }) =>
    intent.approval === "none" || attempt === 0 || decision?.approved === true ? [] : [`${intent.id} was not approved`]
  )

/** A message is heard once, and after those that were sent before it. */
const messagesOnce = ({ events, keys }: Outcome) =>
  keys.flatMap(({ agent, key }) => {
    const heard = events
      .filter((event) => event.agent === agent && event.key === key && event.status.state === "Completed")
      .sort((a, b) => a.status.seq! - b.status.seq!)
      .flatMap(({ status }) => (status.output as { readonly learned: ReadonlyArray<string> }).learned)
      .flatMap((learned) => /^message (\d+)$/.exec(learned)?.[1] ?? [])
      .map(Number)
    const inOrder = heard.every((message, index) => index === 0 || heard[index - 1]! < message)
    return inOrder ? [] : [`${place(agent, key)} heard the messages ${heard}`]
  })

/** What the agent wrote down of each step is what the ledger answered. */
const oneAnswer = (outcome: Outcome) => {
  const entryOf = new Map<string, Ledger.Entry>(outcome.entries.map((entry) => [entry.intent.id, entry]))
  return completed(outcome).flatMap((sent) => {
    const { learned } = sent.status.output as { readonly learned: ReadonlyArray<string> }
    const intents = intentsOf(sent)
    const wanted: Array<string | RegExp> = []
    let step = 0
    for (const op of sent.event.script) {
      const here = intents.filter((intent) => intent.step >= step && intent.step < step + stepsOf(op))
      const tells = here.map(({ id }) => tell(entryOf.get(id)))
      step += stepsOf(op)
      switch (op.op) {
        case "act":
          wanted.push(here[0]!.id)
          break
        case "request":
        case "ask":
          wanted.push(tells[0]!)
          break
        case "requestAll":
          wanted.push(tells.find((tell) => !tell.startsWith("receipt")) ?? tells.join(", "))
          break
        case "read":
          wanted.push(/^read \d+$/)
          break
        case "model":
          wanted.push(/^reply \d+$/)
          break
        case "look around":
          wanted.push(/^at \d+, by chance -?\d+$/)
          break
        case "sleep":
          wanted.push("slept")
          break
        case "receive":
          wanted.push(/^(message \d+|no message)$/)
      }
    }
    const fits = wanted.length === learned.length
      && wanted.every((want, index) => typeof want === "string" ? want === learned[index] : want.test(learned[index]!))
    return fits ? [] : [`${sent.event.id} learned ${JSON.stringify(learned)}, not ${wanted.map(String).join(" | ")}`]
  })
}

const tell = (entry: Ledger.Entry | undefined): string => {
  const answer = entry?.answer
  if (answer?.type === "decision") return `${answer.approved} by ${answer.by}`
  const result = answer?.type === "intent" ? answer.result : undefined
  // A question that was cancelled is a no.
  return entry?.intent.kind === "approval" ? "false by policy:cancelled" : tellOf(result)
}
