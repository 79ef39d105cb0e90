/**
 * The world outside, where effects really happen: handlers of the tools, and an append-only list of what they did. Everything
 * else here could be restarted and replayed; this list could not, so it is what tells whether something was done twice.
 */
import { Context, Effect, Layer } from "effect"
import { Intent } from "effect-intents"
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs"
import { dirname } from "node:path"
import { findCustomer } from "./customers.ts"
import {
  accountHistory,
  AlreadyRefunded,
  freezeAccount,
  pageAnalyst,
  refund,
  riskBand,
  UnknownCustomer
} from "./tools.ts"

export interface RealEffect {
  readonly tool: string
  readonly customerId: string
  readonly intent: Intent.Id
}

export class Outside extends Context.Service<Outside, {
  readonly effects: ReadonlyArray<RealEffect>
  /** How many had happened when this process started. */
  readonly before: number
  readonly happens: (effect: RealEffect) => void
}>()("triage/Outside") {}

/** The world as a file tells it; without one it begins and ends with this process. The effect number `crashAt` kills the process. */
export const layer = (file: string | undefined, crashAt: number | undefined) =>
  Layer.sync(Outside, () => {
    const effects: Array<RealEffect> = file !== undefined && existsSync(file)
      ? readFileSync(file, "utf8").split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
      : []
    const before = effects.length
    if (file !== undefined) mkdirSync(dirname(file), { recursive: true })
    return {
      effects,
      before,
      happens: (effect) => {
        effects.push(effect)
        if (file !== undefined) appendFileSync(file, `${JSON.stringify(effect)}\n`)
        // The worst place: it has happened, and nobody has recorded it.
        if (effects.length - before === crashAt) process.kill(process.pid, "SIGKILL")
      }
    }
  })

/** Does something outside, and gives its number there. Who honours the key does nothing a second time. */
const happens = Effect.fnUntraced(function*(tool: string, customerId: string, key: "honoured" | "ignored") {
  const { effects, happens } = yield* Outside
  const { id: intent } = yield* Intent.Current
  const known = key === "honoured" ? effects.findIndex((effect) => effect.intent === intent) : -1
  if (known >= 0) return known + 1
  happens({ tool, customerId, intent })
  return effects.length
})

const customer = Effect.fnUntraced(function*(customerId: string) {
  return findCustomer(customerId) ?? (yield* new UnknownCustomer({ customerId }))
})

export const Reads = Layer.mergeAll(
  riskBand.toLayer(({ customerId }) => Effect.map(customer(customerId), ({ band }) => band)),
  accountHistory.toLayer(({ customerId }) => customer(customerId))
)

export const SideEffects = Layer.mergeAll(
  freezeAccount.toLayer(({ customerId }) =>
    Effect.map(happens("freeze_account", customerId, "honoured"), (count) => ({ caseId: `case-${count}` }))
  ),
  pageAnalyst.toLayer(({ customerId }) => Effect.asVoid(happens("page_analyst", customerId, "ignored"))),
  refund.toLayer(({ customerId, payment }) =>
    payment.endsWith("-refunded")
      ? Effect.fail(new AlreadyRefunded({ payment }))
      : Effect.map(happens("refund", customerId, "honoured"), (count) => ({ receipt: `receipt-${count}` }))
  )
)
