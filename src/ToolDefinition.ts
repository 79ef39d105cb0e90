/**
 * What a tool is defined with: a description, schemas, and for a SideEffect tool how its intents live.
 *
 * Guarantees: what was defined can be carried out. Refuses (`ToolDefinitionError`): names no provider takes, durations that
 * never end or end at once, and options that would be ignored.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import { nameOf, ToolDefinitionError } from "./ToolError.ts"

/**
 * The fields of a parameter schema: any schemas that need no services.
 *
 * @since 0.1.0
 * @category models
 */
export type Fields = { readonly [name: string]: Schema.ConstraintCodec<any, any, never, never> }

/**
 * What `parameters` may be: the fields of a struct, or a schema.
 *
 * @since 0.1.0
 * @category models
 */
export type Parameters = Fields | Schema.ConstraintCodec<any, any, never, never>

/**
 * The decoded type of `parameters`.
 *
 * @since 0.1.0
 * @category models
 */
export type InputOf<P> = P extends Schema.Constraint ? P["Type"] : P extends Fields ? Schema.Struct.Type<P> : {}

/**
 * What every tool is defined with.
 *
 * @since 0.1.0
 * @category models
 */
export interface Definition<P extends Parameters, S extends Schema.Constraint, F extends Schema.Constraint> {
  readonly description: string
  readonly parameters?: P
  readonly success?: S
  readonly failure?: F
}

/**
 * What a SideEffect tool is defined with.
 *
 * @since 0.1.0
 * @category models
 */
export interface SideEffectDefinition<P extends Parameters, S extends Schema.Constraint, F extends Schema.Constraint>
  extends Definition<P, S, F>, Omit<Options, "approval">
{
  readonly approval?: "required" | ((input: NoInfer<InputOf<P>>) => Effect.Effect<boolean, unknown>)
}

/**
 * How an intent of a tool lives. Durations are finite and at least a millisecond; see `docs/guarantees.md`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** The handler passes the idempotency key on, so an intent whose end is unknown may be performed again. */
  readonly idempotent?: boolean
  /** `"required"`, or a rule over the arguments: only an explicit `false` lets a call through unasked. */
  readonly approval?: "required" | ((input: any) => Effect.Effect<boolean, unknown>)
  /** How long somebody may take to decide. Default 24 hours. */
  readonly approvalTimeout?: Duration.Input
  /** Who is asked next, in order, each for `approvalTimeout`, when nobody has decided; after the last it is a no. At most 10. */
  readonly escalation?: ReadonlyArray<string>
  /**
   * The handler changes nothing but the store's own database, through its `SqlClient`: it runs in the transaction that records
   * its end, so its effect is there exactly once. Needs a `timeout` of at most a minute, and a store that has a database.
   */
  readonly transactional?: boolean
  /** How long the handler may run. Default 5 minutes. */
  readonly timeout?: Duration.Input
  /** How long an intent may wait to be started. Default 24 hours. */
  readonly ttl?: Duration.Input
  /** When an idempotent intent whose end is unknown is performed again. Default: at once, three times. */
  readonly retry?: Schedule.Schedule<unknown, unknown, never, never>
  /** The handler's layer brings a `verify`; it is asked before a waiting agent is told that the outcome is unknown. */
  readonly verify?: boolean
  /** How many handlers of this tool one effector runs at a time. Default: as many as the effector. */
  readonly concurrency?: number
  /** How many handlers of this tool one effector starts within a span of time. Default: no limit. */
  readonly rate?: { readonly limit: number; readonly every: Duration.Input }
}

/**
 * The options of a tool, its definition checked. Throws `ToolDefinitionError`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const optionsOf = (
  kind: "ReadOnly" | "SideEffect",
  name: string,
  definition: SideEffectDefinition<any, any, any>
): Options => {
  const check = (holds: boolean, reason: string) => {
    if (!holds) throw new ToolDefinitionError({ tool: nameOf(name), reason })
  }
  check(typeof name === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(name), "a name matches [A-Za-z0-9_-]{1,64}")
  const { approval, approvalTimeout, description, escalation, idempotent, retry, timeout, transactional } = definition
  check(typeof description === "string" && description.isWellFormed(), "'description' is not well-formed text")
  const options: Record<string, unknown> = {}
  for (const [option, [holds, expected]] of Object.entries(rules)) {
    const value = definition[option as keyof Options]
    if (value === undefined) continue
    check(kind === "SideEffect", `'${option}' is only for SideEffect tools; a read is neither staged nor decided on`)
    check(holds(value), `'${option}' is not ${expected}`)
    options[option] = value
  }
  check(kind === "ReadOnly" || !("handler" in definition), "no handler in place for a SideEffect tool; use toLayer")
  check(
    retry === undefined || idempotent === true || transactional === true,
    "'retry' without 'idempotent: true' or 'transactional: true'; it would never be used"
  )
  check(
    transactional !== true || (timeout !== undefined && isShort(timeout)),
    "'transactional: true' without a 'timeout' of at most a minute; its transaction holds others up"
  )
  check(
    transactional !== true || definition.verify !== true,
    "'verify' with 'transactional: true'; its end is always known"
  )
  check(
    approvalTimeout === undefined || approval !== undefined,
    "'approvalTimeout' without 'approval'; nobody is asked"
  )
  check(escalation === undefined || approval !== undefined, "'escalation' without 'approval'; nobody is asked")
  return options
}

/**
 * Whether a list of names may say who is asked next.
 *
 * @since 0.1.0
 * @category guards
 */
export const isEscalation = (value: unknown): boolean =>
  Array.isArray(value) && value.length <= 10
  && value.every((channel) => typeof channel === "string" && channel !== "" && channel.isWellFormed())

// internal

const isBoolean = (value: unknown): boolean => typeof value === "boolean"

const isSpan = (value: unknown): boolean =>
  Option.match(Duration.fromInput(value as Duration.Input), {
    onNone: () => false,
    onSome: (duration) => Duration.isFinite(duration) && Duration.toMillis(duration) >= 1
  })

const isShort = (duration: Duration.Input): boolean => Duration.toMillis(Duration.fromInputUnsafe(duration)) <= 60_000

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) > 0

const isRate = (value: unknown): boolean =>
  typeof value === "object" && value !== null && "limit" in value && "every" in value && isCount(value.limit)
  && isSpan(value.every)

const aSpan = "a finite duration of at least 1 millisecond"

// What each option must be, as its type says it; the types of JavaScript callers say nothing.
const rules: { readonly [Name in keyof Options]-?: readonly [holds: (value: unknown) => boolean, expected: string] } = {
  idempotent: [isBoolean, "a boolean"],
  approval: [(value) => value === "required" || typeof value === "function", `"required" or a rule over the arguments`],
  approvalTimeout: [isSpan, aSpan],
  escalation: [isEscalation, "a list of at most 10 names"],
  transactional: [isBoolean, "a boolean"],
  timeout: [isSpan, aSpan],
  ttl: [isSpan, aSpan],
  retry: [Schedule.isSchedule, "a Schedule"],
  verify: [isBoolean, "a boolean"],
  concurrency: [isCount, "a positive integer"],
  rate: [isRate, "a positive integer 'limit' and, as 'every', a finite duration of at least 1 millisecond"]
}
