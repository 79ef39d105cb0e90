/**
 * What happens to an account, as it arrives: one JSON object per line.
 */
import { Schema } from "effect"

const common = { id: Schema.NonEmptyString, at: Schema.DateTimeUtc, customer: Schema.NonEmptyString }

const Cents = Schema.Int.check(Schema.isGreaterThan(0))

export const AccountEvent = Schema.Union([
  Schema.Struct({ ...common, type: Schema.Literal("login"), ok: Schema.Boolean, country: Schema.String }),
  Schema.Struct({ ...common, type: Schema.Literal("new_device"), device: Schema.String }),
  Schema.Struct({ ...common, type: Schema.Literal("password_reset") }),
  Schema.Struct({ ...common, type: Schema.Literal("transfer"), cents: Cents, country: Schema.String }),
  Schema.Struct({ ...common, type: Schema.Literal("chargeback"), cents: Cents, payment: Schema.String })
]).annotate({ expected: "an account event of a known type" })

export type AccountEvent = typeof AccountEvent.Type

export const Verdict = Schema.Literals(["fine", "watched", "escalated", "frozen", "refunded", "declined"])

/** An event and its line of text. */
export const EventLine = Schema.fromJsonString(Schema.toCodecJson(AccountEvent))
