/**
 * The world outside, for tests: an append-only ledger of the effects that really happened. It belongs to no process, so it
 * survives their crashes, and what it counts is what a customer would have seen on the account.
 *
 * Guarantees: an effect is written down before its handler answers, whatever the answer then is.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Intent from "../Intent.ts"
import type * as Tool from "../Tool.ts"

/**
 * What happened outside.
 *
 * @since 0.1.0
 * @category services
 */
export class Effects extends Context.Service<Effects, {
  /** Every effect so far, in the order in which they happened. */
  readonly all: Effect.Effect<ReadonlyArray<Performed>>
  readonly append: (performed: Performed) => Effect.Effect<void>
}>()("effect-intents/testing/Effects") {}

/**
 * One effect: what was done, for which intent, at which attempt. `at` is in milliseconds.
 *
 * @since 0.1.0
 * @category models
 */
export interface Performed<out Input = unknown> extends Intent.CurrentIntent {
  readonly tool: string
  readonly arguments: Input
  readonly at: number
}

/**
 * A world in which nothing has happened yet.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<Effects> = Layer.sync(Effects, () => {
  const performed: Array<Performed> = []
  return {
    all: Effect.sync(() => [...performed]),
    append: (effect) => Effect.sync(() => void performed.push(effect))
  }
})

/**
 * The effects of one tool, in order. Its length is how often the effect really happened.
 *
 * @since 0.1.0
 * @category accessors
 */
export const of = <Name extends string, Input, A, E>(
  tool: Tool.SideEffect<Name, Input, A, E>
): Effect.Effect<ReadonlyArray<Performed<Input>>, never, Effects> =>
  Effect.flatMap(Effects, ({ all }) =>
    // An effect under the name of a tool was written by its handler, with the input the tool's schema decoded.
    Effect.map(all, (effects) => effects.filter(({ tool: name }) => name === tool.name) as Array<Performed<Input>>))

/**
 * A tool with a handler that writes its effects down.
 *
 * @since 0.1.0
 * @category models
 */
export interface Scripted<in out Name extends string> {
  readonly tool: Tool.SideEffect<Name, any, any, any>
  readonly layer: Layer.Layer<Tool.Handler<Name>, never, Effects>
}

/**
 * Scripts the handler of a tool: the effect happens and is written down, then `answer` says how the handler goes on. Succeed,
 * fail, die, never answer (`Effect.never`) or answer late (`Effect.delay`) as the test needs; `intent.attempt` tells one start
 * from the next.
 *
 * @since 0.1.0
 * @category constructors
 */
export const on = <Name extends string, Input, A, E>(
  tool: Tool.SideEffect<Name, Input, A, E>,
  answer: (input: Input, intent: Intent.CurrentIntent) => Effect.Effect<A, E>,
  options?: {
    /** Runs before the effect happens: a delay, or a failure that prevents it. */
    readonly before?: (input: Input, intent: Intent.CurrentIntent) => Effect.Effect<void, E>
    /** The `verify` of the tool, which may look at what happened for the intent. */
    readonly verify?: (
      input: Input,
      happened: ReadonlyArray<Performed>
    ) => Effect.Effect<Tool.Verdict<A, E>>
  }
): Scripted<Name> => {
  const handler = Effect.fnUntraced(function*(input: Input) {
    const effects = yield* Effects
    const intent = yield* Intent.Current
    if (options?.before !== undefined) yield* options.before(input, intent)
    const at = yield* Clock.currentTimeMillis
    const { agent, attempt, id, key, seq, step } = intent
    yield* effects.append({ tool: tool.name, id, agent, key, seq, step, attempt, arguments: input, at })
    return yield* answer(input, intent)
  })
  const { verify } = options ?? {}
  const asked = verify && Effect.fnUntraced(function*(input: Input) {
    const effects = yield* Effects
    const { id } = yield* Intent.Current
    const all = yield* effects.all
    return yield* verify(input, all.filter((effect) => effect.id === id))
  })
  return { tool, layer: tool.toLayer(handler, asked && { verify: asked }) }
}
