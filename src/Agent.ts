/**
 * An agent: a named program, event in, outcome out. Its function gets a context and may need nothing but what the context
 * gives: reads, intents, memory, a model.
 *
 * Guarantees: an agent whose code needs anything else does not type-check. Refuses: names that could not be part of an
 * intent's id.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import * as ActivationRun from "./ActivationRun.ts"
import type * as Intent from "./Intent.ts"
import type * as Memory from "./Memory.ts"
import type * as Tool from "./Tool.ts"

/**
 * A named program. `R` is what it requires: the handlers of its reads and the rows of its intents.
 *
 * @since 0.1.0
 * @category models
 */
export interface Agent<Name extends string, in out Event, out Output, out R> {
  readonly name: Name
  readonly definition: Activation.Definition
  /** When an activation that failed is run again, from its journal. Without one, its event becomes a dead letter at once. */
  readonly retry: Schedule.Schedule<unknown, unknown> | undefined
  readonly Types: {
    readonly Event: (event: Event) => Event
    readonly Output: Output
    readonly R: R
  }
}

/**
 * @since 0.1.0
 * @category models
 */
export type Any = Agent<string, any, unknown, any>

/**
 * What an agent requires.
 *
 * @since 0.1.0
 * @category models
 */
export type Services<A extends Any> = A["Types"]["R"]

/**
 * The schemas of an agent, and how it is run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Schemas {
  readonly event: Schema.Codec<any, any, never, never>
  readonly output: Schema.Codec<any, any, never, never>
  /** The entries of its working memory, by names of its choice. */
  readonly memory?: Memory.Entries
  /** What `Agent.suspend` may leave. Without it an agent cannot. */
  readonly state?: Schema.Codec<any, any, never, never>
  /** Stored with every event, journal, state and memory. Default "1". */
  readonly version?: string
  /** How long one activation may run, reads included; a durable wait is none of it. Positive; default 5 minutes. */
  readonly timeout?: Duration.Input
  /** When a failed activation runs again. Durable: the attempts are counted in the store. Default: never. */
  readonly retry?: Schedule.Schedule<unknown, unknown, never, never>
  /** The cap of the working memory as JSON, in bytes. Default 256 KiB. */
  readonly memoryBytes?: number
  /** What to keep when the memory is over its cap: pure, it runs again on every replay. */
  readonly compact?: Memory.Compact
  /** The limit of an event, output, state, argument or result as JSON, in bytes. Default 1 MiB. */
  readonly maxBytes?: number
}

/**
 * The type of the states of an agent with these schemas.
 *
 * @since 0.1.0
 * @category models
 */
export type StateOf<S> = S extends { readonly state: infer State extends Schema.Constraint } ? State["Type"] : never

/**
 * The memory entries of an agent with these schemas.
 *
 * @since 0.1.0
 * @category models
 */
export type EntriesOf<S> = S extends { readonly memory: infer Entries extends Memory.Entries } ? Entries : {}

/**
 * Defines an agent. Throws `AgentDefinitionError` for a name that does not match `[A-Za-z0-9_-]{1,64}`, and for options that
 * could only be wrong.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <const Name extends string, S extends Schemas, E, R extends Activation.Capabilities>(
  name: Name,
  schemas: S,
  activate: (
    ctx: Activation.Context<S["output"]["Type"], EntriesOf<S>, StateOf<S>>,
    event: S["event"]["Type"]
  ) => Effect.Effect<Activation.Outcome<S["output"]["Type"], StateOf<S>>, E, R>
): Agent<Name, S["event"]["Type"], S["output"]["Type"], R> => {
  const definition: Activation.Definition = {
    name,
    version: schemas.version ?? "1",
    event: Activation.codec(schemas.event),
    output: Activation.codec(schemas.output),
    state: Activation.codec(schemas.state ?? Schema.Never as any),
    entries: schemas.memory ?? {},
    memoryBytes: schemas.memoryBytes ?? 256 * 1024,
    compact: schemas.compact,
    timeout: Duration.fromInputUnsafe(schemas.timeout ?? "5 minutes"),
    maxBytes: schemas.maxBytes ?? 1024 * 1024,
    activate
  }
  const reason = definitionIssue(definition)
  if (reason !== undefined) throw new AgentDefinitionError({ agent: String(name).slice(0, 80), reason })
  // The types are carried in the signature only.
  return { name, definition, retry: schemas.retry, Types: undefined as any }
}

/**
 * Ends the event with its output.
 *
 * @since 0.1.0
 * @category outcomes
 */
export const complete = <const Output>(output: Output): Activation.Complete<Output> => ({ _tag: "Complete", output })

/**
 * Waits for the intents staged with `ctx.act`, and goes on with this state and their results in `ctx.resume`.
 *
 * @since 0.1.0
 * @category outcomes
 */
export const suspend = <const State>(state: State): Activation.Suspend<State> => ({ _tag: "Suspend", state })

/**
 * What `activate` may be given beside the event.
 *
 * @since 0.1.0
 * @category models
 */
export interface ActivateOptions<Event> {
  readonly key: string
  readonly event: Event
  /** Default 0. */
  readonly seq?: number
  /** The memory of the key, as JSON by entry name. Default: empty. */
  readonly memory?: Memory.Stored
  /** The time the activation reads, in milliseconds. Default 0. */
  readonly now?: number
  /**
   * The suspended activation to go on from, and what it is answered, by step. While an answer is missing it keeps waiting,
   * and no code of the agent runs.
   */
  readonly resume?: {
    readonly from: Activation.Activated
    readonly answers: { readonly [step: number]: Intent.Result | Activation.StepAnswer["answer"] }
  }
}

/**
 * The pure step, for tests: runs one activation and gives its outcome, intents, trace, memory and journal. Nothing is stored
 * and nothing performed; only the handlers of its reads are required. Dies for a resume that does not fit what is resumed.
 *
 * @since 0.1.0
 * @category testing
 */
export const activate = <Name extends string, Event, Output, R>(
  agent: Agent<Name, Event, Output, R>,
  options: ActivateOptions<Event>
): Effect.Effect<Activation.Activated, ActivationRun.RunError, Exclude<R, Tool.Intents<any>>> => {
  const { definition } = agent
  const { event, key, memory = {}, now = 0, resume, seq = 0 } = options
  const outcome = resume?.from.outcome
  const continuation = outcome?._tag === "Suspended" ? outcome.continuation : undefined
  const rows = resume?.from.journal.rows ?? []
  const answers = Object.entries(resume?.answers ?? {}).map(([step, answer]): Activation.StepAnswer => ({
    step: Number(step),
    answer: "_tag" in answer ? { type: "intent", result: answer } : answer
  }))
  const stray = answers.find(({ step }) => continuation?.waiting.every((waiting) => waiting.step !== step))
  const issue = resume !== undefined && continuation === undefined ?
    `'${agent.name}' did not suspend`
    : stray !== undefined ?
    `'${agent.name}' does not wait at step ${stray.step}`
    : undefined
  return Effect.gen(function*() {
    if (issue !== undefined) return yield* Effect.die(new Error(issue))
    const activated = yield* ActivationRun.run(definition, {
      key,
      seq,
      offset: seq,
      event: yield* Effect.orDie(Effect.fromResult(definition.event.encode(event))),
      now,
      memory,
      continuation,
      rows,
      answers
    })
    // The whole journal, so that the next resume needs nothing but this result.
    return { ...activated, journal: { from: 0, rows: [...rows, ...activated.journal.rows] } }
  })
}

/**
 * An agent cannot be defined as asked.
 *
 * @since 0.1.0
 * @category errors
 */
export class AgentDefinitionError extends Schema.TaggedError<AgentDefinitionError>()("AgentDefinitionError", {
  agent: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `agent '${this.agent}': ${this.reason}`
  }
}

// internal

const definitionIssue = (definition: Activation.Definition): string | undefined => {
  const { entries, maxBytes, memoryBytes, name, timeout, version } = definition
  const unbounded = Object.keys(entries).find((entry) => {
    const { maxItems } = entries[entry]!
    return maxItems !== undefined && !(Number.isInteger(maxItems) && maxItems > 0)
  })
  return typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name) ?
    "a name matches [A-Za-z0-9_-]{1,64}"
    : version === "" ?
    "'version' is empty"
    : Duration.toMillis(timeout) <= 0 ?
    "'timeout' is not positive"
    : !(memoryBytes > 0) || !(maxBytes > 0) ?
    "'memoryBytes' and 'maxBytes' are positive"
    : unbounded === undefined ?
    undefined
    : `'maxItems' of the list '${unbounded}' is a whole number from 1 up`
}
