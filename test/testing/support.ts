/**
 * The tools of the cases, and the passing of time.
 */
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import { AgentStore, Tool } from "../../src/index.ts"
import { type Process } from "../../src/testing/index.ts"

export const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String
})

export const gatedCharge = Tool.sideEffect("charge", {
  description: "Charge a customer, if somebody approves.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.String,
  approval: "required",
  approvalTimeout: "48 hours"
})

export const sendEmail = Tool.sideEffect("sendEmail", {
  description: "Send an email.",
  parameters: { to: Schema.String, body: Schema.String }
})

/**
 * Lets time pass, second by second, until the event has ended. A process that died is followed by another one, which is
 * never killed. Gives the event as it ended and the process that saw it.
 */
export const untilEnded = Effect.fnUntraced(function*<A, E>(first: Process.Process<A, E>, offset: number) {
  const store = yield* AgentStore.AgentStore
  let process = first
  for (let second = 0; second < 300; second++) {
    if (!(yield* process.isAlive)) process = yield* process.restart()
    const event = yield* store.event(offset)
    if (event !== undefined && event.state !== "Waiting" && event.state !== "Suspended") return { event, process }
    yield* TestClock.adjust("1 second")
  }
  return yield* Effect.die(new Error(`event ${offset} did not end in five minutes`))
})

/** Lets time pass, second by second, until what is looked for is there. */
export const until = Effect.fnUntraced(function*<A, E, R>(find: Effect.Effect<A | undefined, E, R>) {
  for (let second = 0; second < 300; second++) {
    const found = yield* find
    if (found !== undefined) return found
    yield* TestClock.adjust("1 second")
  }
  return yield* Effect.die(new Error("it was not there after five minutes"))
})

/** The intent that waits for somebody's approval. */
export const pendingApproval = Effect.gen(function*() {
  const store = yield* AgentStore.AgentStore
  const staged = yield* store.entries({ states: ["Staged"] })
  return staged.find(({ decision, intent }) => intent.approval === "required" && decision === undefined)
})

export const outputsOf = (agent: { readonly name: string }) =>
  Effect.flatMap(
    AgentStore.AgentStore,
    (store) =>
      Effect.map(
        store.outputs({ agent: agent.name, after: 0, limit: 1000 }),
        (outputs) => outputs.map(({ output }) => output)
      )
  )
