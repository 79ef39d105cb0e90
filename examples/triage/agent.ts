/**
 * Fraud triage: one activation per account event, one key per customer. The agent reads, remembers, and asks for side effects;
 * it cannot perform any.
 */
import { DateTime, Effect, Schema } from "effect"
import { Agent, Memory } from "effect-intents"
import { AccountEvent, Verdict } from "./events.ts"
import { accountHistory, freezeAccount, pageAnalyst, refund, riskBand } from "./tools.ts"

export const triage = Agent.make(
  "triage",
  {
    event: AccountEvent,
    output: Verdict,
    memory: {
      seen: Memory.entry(Schema.Int, () => 0),
      failedLogins: Memory.entry(Schema.Int, () => 0),
      newDeviceAt: Memory.entry(Schema.NullOr(Schema.DateTimeUtc), () => null),
      frozen: Memory.entry(Schema.Boolean, () => false)
    }
  },
  Effect.fnUntraced(function*(ctx, event) {
    const customerId = event.customer
    yield* ctx.memory.update("seen", (count) => count + 1)

    // Waits for the freeze before anything else is done for this customer. The analyst is told, and nobody waits for that.
    const freeze = Effect.fnUntraced(function*(reason: string) {
      if (!(yield* ctx.memory.get("frozen"))) {
        const { caseId } = yield* ctx.request(freezeAccount({ customerId, reason }))
        yield* ctx.memory.set("frozen", true)
        yield* ctx.act(pageAnalyst({ customerId, reason: `${caseId}: ${reason}` }))
      }
      return Agent.complete("frozen")
    })

    const escalate = (reason: string) =>
      Effect.as(ctx.act(pageAnalyst({ customerId, reason })), Agent.complete("escalated"))

    switch (event.type) {
      case "login": {
        const failed = event.ok ? 0 : (yield* ctx.memory.get("failedLogins")) + 1
        yield* ctx.memory.set("failedLogins", failed)
        if (failed === 0) return Agent.complete("fine")
        if (failed < 3) return Agent.complete("watched")
        const band = yield* ctx.runTool(riskBand({ customerId }))
        return yield* band === "high" ? freeze(`${failed} failed logins`) : escalate(`${failed} failed logins`)
      }

      case "new_device": {
        yield* ctx.memory.set("newDeviceAt", event.at)
        return Agent.complete((yield* ctx.memory.get("failedLogins")) > 0 ? "watched" : "fine")
      }

      case "password_reset":
        return yield* (yield* ctx.memory.get("failedLogins")) > 1
          ? escalate("password reset after failed logins")
          : Effect.succeed(Agent.complete("fine"))

      case "transfer": {
        const { band, usual } = yield* Effect.all({
          band: ctx.runTool(riskBand({ customerId })),
          usual: ctx.runTool(accountHistory({ customerId }))
        }, { concurrency: "unbounded" })
        const deviceAt = yield* ctx.memory.get("newDeviceAt")
        const fresh = deviceAt !== null && DateTime.isGreaterThan(DateTime.add(deviceAt, { hours: 6 }), event.at)
        const large = event.cents > 5 * usual.averageTransferCents
        if (large && (fresh || band === "high")) return yield* freeze("large transfer")
        if (large) return yield* escalate("large transfer")
        return Agent.complete(event.country === usual.country ? "fine" : "watched")
      }

      case "chargeback": {
        const { chargebacks } = yield* ctx.runTool(accountHistory({ customerId }))
        if (chargebacks > 3) return yield* escalate(`chargeback number ${chargebacks + 1}`)
        return yield* ctx.request(refund({ customerId, cents: event.cents, payment: event.payment })).pipe(
          Effect.as(Agent.complete("refunded")),
          Effect.catchTags({
            AlreadyRefunded: () => Effect.succeed(Agent.complete("fine")),
            // Somebody said no, or nobody said anything in time. Either way it was certainly not paid.
            IntentNotPerformed: () => Effect.succeed(Agent.complete("declined"))
          })
        )
      }
    }
  })
)
