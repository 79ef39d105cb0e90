/**
 * The world outside, where effects really happen: handlers of the tools, and an append-only list of what they did. Everything
 * else here could be restarted and replayed; this list could not, so it is what tells whether something was done twice.
 */
import { Context, Effect, Layer } from "effect"
import { Intent } from "effect-intents"
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

export class Outside extends Context.Service<Outside, { readonly effects: Array<RealEffect> }>()("triage/Outside") {
  static readonly layer = Layer.sync(Outside, () => ({ effects: [] }))
}

const happens = Effect.fnUntraced(function*(tool: string, customerId: string) {
  const { effects } = yield* Outside
  const { id } = yield* Intent.Current
  effects.push({ tool, customerId, intent: id })
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
    Effect.map(happens("freeze_account", customerId), (count) => ({ caseId: `case-${count}` }))
  ),
  pageAnalyst.toLayer(({ customerId }) => Effect.asVoid(happens("page_analyst", customerId))),
  refund.toLayer(({ customerId, payment }) =>
    payment.endsWith("-refunded")
      ? Effect.fail(new AlreadyRefunded({ payment }))
      : Effect.map(happens("refund", customerId), (count) => ({ receipt: `receipt-${count}` }))
  )
)
