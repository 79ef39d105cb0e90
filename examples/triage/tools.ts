/**
 * What the triage agent can do. Two tools look, three change something; the tools say what they are, not how it is done.
 */
import { Effect, Schema } from "effect"
import { Tool } from "effect-intents"

export class UnknownCustomer extends Schema.TaggedError<UnknownCustomer>()("UnknownCustomer", {
  customerId: Schema.String
}) {
  override get message() {
    return `no customer '${this.customerId}'`
  }
}

export class AlreadyRefunded extends Schema.TaggedError<AlreadyRefunded>()("AlreadyRefunded", {
  payment: Schema.String
}) {}

export const riskBand = Tool.readOnly("risk_band", {
  description: "Look up a customer's risk band.",
  parameters: { customerId: Schema.String },
  success: Schema.Literals(["high", "normal"]),
  failure: UnknownCustomer
})

export const accountHistory = Tool.readOnly("account_history", {
  description: "Look up what is usual for an account.",
  parameters: { customerId: Schema.String },
  success: Schema.Struct({
    country: Schema.String,
    averageTransferCents: Schema.Int,
    chargebacks: Schema.Int
  }),
  failure: UnknownCustomer
})

export const freezeAccount = Tool.sideEffect("freeze_account", {
  description: "Freeze an account until somebody has looked at it.",
  parameters: { customerId: Schema.String, reason: Schema.String },
  success: Schema.Struct({ caseId: Schema.String }),
  // The handler passes the idempotency key on, and the bank honours it.
  idempotent: true
})

// Nobody honours a key here: after a crash it is not known whether somebody was paged.
export const pageAnalyst = Tool.sideEffect("page_analyst", {
  description: "Ask the analyst on duty to look at an account.",
  parameters: { customerId: Schema.String, reason: Schema.String }
})

export const refund = Tool.sideEffect("refund", {
  description: "Pay a disputed payment back to the customer.",
  parameters: { customerId: Schema.String, payment: Schema.String, cents: Schema.Int },
  success: Schema.Struct({ receipt: Schema.String }),
  failure: AlreadyRefunded,
  idempotent: true,
  // Small amounts are paid unasked.
  approval: ({ cents }) => Effect.succeed(cents > 20_000)
})
