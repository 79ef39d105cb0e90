/**
 * The engine for tests: real engine, effector and store in memory, with the world outside replaced by `Effects`. Runs under
 * `TestClock`.
 *
 * Guarantees: an agent that stages an intent of a tool that is not given does not type-check, as with the real engine.
 *
 * @since 0.1.0
 */
import * as Layer from "effect/Layer"
import type * as Agent from "../Agent.ts"
import * as AgentEngine from "../AgentEngine.ts"
import * as AgentStore from "../AgentStore.ts"
import * as Effector from "../Effector.ts"
import * as Effects from "./Effects.ts"

/**
 * Who acts, on what.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<
  Agents extends ReadonlyArray<Agent.Any>,
  Scripts extends ReadonlyArray<Effects.Scripted<any>>
> {
  readonly agents: Agents
  /** The tools that are performed here, scripted with `Effects.on`. */
  readonly effects: Scripts
  readonly engine?: AgentEngine.Options
  readonly effector?: Effector.Options
}

/**
 * What the agents need beside the given tools: handlers of reads, and whatever was forgotten.
 *
 * @since 0.1.0
 * @category models
 */
export type Missing<
  Agents extends ReadonlyArray<Agent.Any>,
  Scripts extends ReadonlyArray<Effects.Scripted<any>>
> = Exclude<Agent.Services<Agents[number]>, Effector.IntentsOf<Scripts[number]["tool"]>>

/**
 * Engine and effector over an empty store, in a world where nothing has happened yet.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <
  const Agents extends ReadonlyArray<Agent.Any>,
  const Scripts extends ReadonlyArray<Effects.Scripted<any>>
>(
  options: Options<Agents, Scripts>
): Layer.Layer<AgentEngine.AgentEngine | AgentStore.AgentStore | Effects.Effects, never, Missing<Agents, Scripts>> =>
  Layer.provideMerge(layerProcess(options), outside) as any

/**
 * Engine and effector as they live and die with a process: over the store and the world given to them.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerProcess = <
  const Agents extends ReadonlyArray<Agent.Any>,
  const Scripts extends ReadonlyArray<Effects.Scripted<any>>
>(
  { agents, effector, effects, engine }: Options<Agents, Scripts>
): Layer.Layer<
  AgentEngine.AgentEngine,
  never,
  Missing<Agents, Scripts> | AgentStore.AgentStore | Effects.Effects
> => {
  const handlers = Layer.mergeAll(Layer.empty, ...effects.map(({ layer }): Layer.Layer<never, never, any> => layer))
  const performing = Effector.layerWith(effector ?? {})(...effects.map(({ tool }) => tool))
  // The row of the agents minus the rows of the tools, which is what `Missing` says of the erased layers.
  return AgentEngine.layerWith(engine ?? {})(...agents).pipe(Layer.provide(performing), Layer.provide(handlers)) as any
}

/**
 * What outlives a process: a store in memory, and the world outside. Give it to a test that starts several.
 *
 * @since 0.1.0
 * @category layers
 */
export const outside: Layer.Layer<AgentStore.AgentStore | Effects.Effects> = Layer.merge(
  AgentStore.layerMemory,
  Effects.layer
)
