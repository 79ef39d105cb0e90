/**
 * Programs for agents, as data: a script says what an agent does for an event, and how the world answers. Everything the agent
 * learns goes into its outputs, so that one that takes another way shows it.
 */
import { Clock, Effect, Random, Schedule, Schema } from "effect"
import { Agent, Intent, Memory, Tool } from "../../../src/index.ts"
import { Effects } from "../../../src/testing/index.ts"

/** What an operation of a script fails with. */
class Broken extends Schema.TaggedError<Broken>()("Broken", { why: Schema.String }) {}

/** How a handler ends the first time it is called; an idempotent one succeeds from the second time on. */
const How = Schema.Literals(["succeed", "fail", "die", "hang", "slow"])

/** What somebody says to a gated call or a question, if anything. */
const Verdict = Schema.Literals(["yes", "no", "nothing"])

const Call = Schema.Struct({
  tool: Schema.Literals(["plain", "idempotent", "gated", "verified", "urgent"]),
  how: How,
  verdict: Verdict
})

type Call = typeof Call.Type

const Seconds = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 20 }))

/**
 * One instruction. `failOnce` fails the first time it is reached, `broken` until the world is repaired.
 */
export const Op = Schema.Union([
  Schema.Struct({ op: Schema.Literals(["read", "emit", "increment", "failOnce", "model", "look around"]) }),
  Schema.Struct({ op: Schema.Literals(["act", "request"]), call: Call }),
  Schema.Struct({
    op: Schema.Literal("requestAll"),
    calls: Schema.Array(Call).check(Schema.isMinLength(1), Schema.isMaxLength(3))
  }),
  Schema.Struct({ op: Schema.Literals(["sleep", "receive"]), seconds: Seconds }),
  Schema.Struct({ op: Schema.Literal("ask"), verdict: Verdict }),
  Schema.Struct({ op: Schema.Literals(["increment", "emit", "broken"]) })
])

export type Op = typeof Op.Type

export const Event = Schema.Struct({ id: Schema.String, script: Schema.Array(Op) })

/** An output: what the agent knew when it emitted it. */
export const Output = Schema.Struct({
  event: Schema.String,
  emitted: Schema.Int,
  last: Schema.Boolean,
  learned: Schema.Array(Schema.String)
})

const parameters = { n: Schema.Int, how: How, verdict: Verdict }

const definition = {
  description: "Changes something.",
  parameters,
  success: Schema.String,
  failure: Schema.String,
  timeout: "15 seconds",
  ttl: "5 minutes"
} as const

export const tools = {
  plain: Tool.sideEffect("plain", definition),
  idempotent: Tool.sideEffect("idempotent", { ...definition, idempotent: true, retry: Schedule.recurs(4) }),
  gated: Tool.sideEffect("gated", { ...definition, approval: "required", approvalTimeout: "2 minutes" }),
  verified: Tool.sideEffect("verified", { ...definition, verify: true }),
  urgent: Tool.sideEffect("urgent", { ...definition, ttl: "4 seconds" })
}

const answer = (
  { how, n }: { readonly how: Call["how"]; readonly n: number },
  { attempt }: Intent.CurrentIntent
): Effect.Effect<string, string> => {
  const receipt = Effect.succeed(`receipt ${n}`)
  if (attempt > 1) return receipt
  switch (how) {
    case "succeed":
      return receipt
    case "fail":
      return Effect.fail("no")
    case "die":
      return Effect.die(new Error("boom"))
    case "hang":
      return Effect.never
    case "slow":
      return Effect.delay(receipt, "12 seconds")
  }
}

export const effects = [
  Effects.on(tools.plain, answer),
  Effects.on(tools.idempotent, answer),
  Effects.on(tools.gated, answer),
  Effects.on(tools.verified, answer, {
    verify: ({ n }, happened) =>
      Effect.succeed(
        happened.length === 0 ? { _tag: "NotPerformed" } : { _tag: "Performed", value: `receipt ${n}, as verified` }
      )
  }),
  Effects.on(tools.urgent, answer)
] as const

/** What of the world changes while scripts run. Nothing of it is durable, so it belongs to no process. */
export class World {
  /** How often the read was called, and the model. */
  reads = 0
  replies = 0
  repaired = false
  private readonly struck = new Set<string>()

  /** Whether this is the first time. */
  strike(place: string): boolean {
    if (this.struck.has(place)) return false
    this.struck.add(place)
    return true
  }
}

/** Two agents that do what the script of their event says. */
export const agentsOf = (world: World) => {
  const look = Tool.readOnly("look", {
    description: "Looks, and sees something else each time.",
    success: Schema.String,
    handler: () => Effect.sync(() => `read ${++world.reads}`)
  })
  const model = Effect.sync(() => `reply ${++world.replies}`)
  const make = <Name extends string>(name: Name) =>
    Agent.make(
      name,
      {
        event: Event,
        output: Output,
        memory: { count: Memory.entry(Schema.Int, () => 0) },
        retry: Schedule.max([Schedule.spaced("1 second"), Schedule.recurs(2)])
      },
      Effect.fnUntraced(function*(ctx, { id, script }) {
        const learned: Array<string> = []
        let emitted = 0
        for (const [index, op] of script.entries()) {
          switch (op.op) {
            case "read":
              learned.push(yield* look())
              break
            case "model":
              learned.push(
                yield* ctx.callModel({ model: "M", request: { index }, reply: Schema.String, call: model })
              )
              break
            case "look around":
              learned.push(`at ${yield* Clock.currentTimeMillis}, by chance ${yield* Random.nextInt}`)
              break
            case "emit":
              yield* ctx.emit({ event: id, emitted: emitted++, last: false, learned: [...learned] })
              break
            case "increment":
              yield* ctx.memory.update("count", (count) => count + 1)
              break
            case "failOnce":
              if (world.strike(`${name} ${ctx.key} ${id} ${index}`)) return yield* new Broken({ why: "failed once" })
              break
            case "broken":
              if (!world.repaired) return yield* new Broken({ why: "broken" })
              break
            case "act":
              learned.push(yield* ctx.act(callOf(op.call, index)))
              break
            case "request":
              learned.push(yield* told(ctx.request(callOf(op.call, index))))
              break
            case "requestAll": {
              const calls = op.calls.map((call, nth) => [`call ${nth}`, callOf(call, index)] as const)
              const results = Effect.map(
                ctx.requestAll(Object.fromEntries(calls)),
                (results) => Object.values(results).join(", ")
              )
              learned.push(yield* told(results))
              break
            }
            case "sleep":
              yield* ctx.sleep(`${op.seconds} seconds`)
              learned.push("slept")
              break
            case "receive": {
              const message = ctx.receive(Schema.String, { timeout: `${op.seconds} seconds` })
              learned.push(
                yield* Effect.catchTag(message, "MessageTimeout", () => Effect.succeed("no message"))
              )
              break
            }
            case "ask": {
              const question = { title: "?", details: { verdict: op.verdict }, timeout: "2 minutes" } as const
              const { approved, by } = yield* ctx.requestApproval(question)
              learned.push(`${approved} by ${by}`)
            }
          }
        }
        return Agent.complete({ event: id, emitted, last: true, learned })
      })
    )
  return { a: make("a"), b: make("b") }
}

/** How many steps an instruction takes. */
export const stepsOf = (op: Op): number => {
  switch (op.op) {
    case "act":
    case "request":
    case "sleep":
    case "receive":
    case "ask":
    case "model":
      return 1
    case "requestAll":
      return op.calls.length
    default:
      return 0
  }
}

/** What an agent is told of a result, as it writes it down. */
export const tellOf = (result: Intent.Result | undefined): string => {
  switch (result?._tag) {
    case "Success":
      return String(result.value)
    case "Failure":
      return `failed: ${result.error}`
    case "NotPerformed":
    case "OutcomeUnknown":
      return `${result._tag}: ${result.reason}`
    default:
      return `nothing an agent is told: ${result?._tag}`
  }
}

const callOf = ({ how, tool, verdict }: Call, n: number) => tools[tool]({ n, how, verdict })

const told = <E, R>(result: Effect.Effect<string, E, R>): Effect.Effect<string, E, R> =>
  Effect.catch(result, (error): Effect.Effect<string, E> => {
    if (typeof error === "string") return Effect.succeed(`failed: ${error}`)
    if (error instanceof Intent.IntentNotPerformed) return Effect.succeed(`NotPerformed: ${error.reason}`)
    if (error instanceof Intent.IntentOutcomeUnknown) return Effect.succeed(`OutcomeUnknown: ${error.reason}`)
    return Effect.fail(error)
  })
