/**
 * What was done, read from the store after the fact: traces of the events, the ledger, the dead letters.
 */
import { Effect } from "effect"
import { AgentEngine, AgentStore } from "effect-intents"
import { triage } from "./agent.ts"
import type { run } from "./run.ts"
import { accountHistory, freezeAccount, pageAnalyst, refund, riskBand } from "./tools.ts"

export type Summary = Effect.Success<ReturnType<typeof run>>

export const countUp = Effect.fnUntraced(function*(offsets: ReadonlyArray<number>) {
  const engine = yield* AgentEngine.AgentEngine
  const store = yield* AgentStore.AgentStore
  const traces = (yield* Effect.forEach(offsets, store.trace)).flat()
  const intents = yield* engine.intents({ agent: triage.name })
  const letters = yield* engine.deadLetters

  const traced = (type: string) => traces.filter((trace) => trace.type === type).length
  const reads = [riskBand, accountHistory].map(({ name }) => ({
    tool: name,
    calls: traces.filter((trace) => trace.type === "ToolCall" && trace.tool === name).length
  }))
  const sideEffects = [freezeAccount, pageAnalyst, refund].map(({ name }) => {
    const own = intents.filter(({ intent }) => intent.tool === name)
    const performed = own.filter(({ state }) => state === "Performed")
    return {
      tool: name,
      staged: own.length,
      performed: performed.length,
      /** Performed, and answered with the tool's own failure. */
      failed: performed.filter(({ result }) => result?._tag === "Failure").length,
      asked: own.filter(({ intent }) => intent.approval === "required").length,
      denied: own.filter(({ state }) => state === "Denied").length
    }
  })
  const ended = (state: string) => intents.filter((entry) => entry.state === state).length
  return {
    /** One for each event and one for each resume; those that failed left nothing but a dead letter. */
    activations: traced("Completed") + traced("Suspended"),
    completed: traced("Completed"),
    suspended: traced("Suspended"),
    reads: reads.reduce((sum, { calls }) => sum + calls, 0),
    intents: {
      staged: intents.length,
      performed: ended("Performed"),
      denied: ended("Denied"),
      unknown: ended("Unknown"),
      open: ended("Staged") + ended("Claimed")
    },
    deadLetters: letters.map(({ key, reason }) => ({ customer: key, problem: `${reason.tag}: ${reason.message}` })),
    tools: { reads, sideEffects }
  }
})
