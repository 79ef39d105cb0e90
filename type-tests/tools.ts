// The tools of the type tests, one of each sort.
import { Effect, Schema } from "effect"
import { Tool } from "effect-intents"

export class CardDeclined extends Schema.TaggedError<CardDeclined>()("CardDeclined", { code: Schema.String }) {}

export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", { host: Schema.String }) {}

/** ReadOnly, with its handler in place. */
export const lookup = Tool.readOnly("lookup", {
  description: "Look up a customer.",
  parameters: { id: Schema.String },
  success: Schema.String,
  handler: ({ id }) => Effect.succeed(id)
})

/** ReadOnly, its handler comes from a layer. */
export const risk = Tool.readOnly("risk", {
  description: "Rate the risk of a customer.",
  parameters: { id: Schema.String },
  success: Schema.Literals(["high", "low"]),
  failure: Unreachable
})

export const charge = Tool.sideEffect("charge", {
  description: "Charge a customer.",
  parameters: { customerId: Schema.String, amountCents: Schema.Int },
  success: Schema.Struct({ receipt: Schema.String }),
  failure: CardDeclined
})

export const sendEmail = Tool.sideEffect("sendEmail", {
  description: "Send an email.",
  parameters: { to: Schema.String, body: Schema.String }
})

/** The arguments that the tests call with. */
export const customer = { id: "c1" }
export const order = { customerId: "c1", amountCents: 500 }
export const mail = { to: "a@b.c", body: "hello" }
