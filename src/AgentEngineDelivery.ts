/**
 * One delivery of an event, or of a resume, to its agent: the activation is run and committed, or its failure is recorded.
 *
 * Guarantees: nothing lands unless all of it does; work that another owner overtook is thrown away without a word. Refuses
 * intents that nobody performs (`NoEffector`), where they are staged.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Activation from "./Activation.ts"
import * as ActivationRun from "./ActivationRun.ts"
import type * as Agent from "./Agent.ts"
import type * as AgentStore from "./AgentStore.ts"
import * as Effector from "./Effector.ts"
import { retryDelay, storeRetries } from "./internal/background.ts"
import type * as Journal from "./Journal.ts"
import * as Signing from "./Signing.ts"
import type * as Tool from "./Tool.ts"

/**
 * What the deliveries of one engine share.
 *
 * @since 0.1.0
 * @category models
 */
export interface Engine {
  readonly store: AgentStore.AgentStore["Service"]
  /** Who performs intents, and the handlers of reads. */
  readonly context: Context.Context<any>
  /** Every activation is replayed before it is committed. */
  readonly alwaysReplay: boolean
  readonly signing: Signing.Signing | undefined
}

/**
 * Runs one activation, and commits it or records its failure.
 *
 * @since 0.1.0
 * @category running
 */
export const deliver = (
  engine: Engine,
  agent: Agent.Any,
  snapshot: AgentStore.Snapshot
): Effect.Effect<void, AgentStore.StoreError, any> =>
  Effect.gen(function*() {
    const { definition, name } = agent
    const { key, offset, revision } = snapshot
    const claimed = { agent: name, key, offset, revision }
    let overtaken = false
    const append = (from: number, rows: ReadonlyArray<Journal.Stored>, known: string | undefined) =>
      engine.store.append({ ...claimed, from, rows, known }).pipe(
        Effect.retry({ schedule: storeRetries, while: (error) => error._tag === "StoreError" }),
        Effect.mapError((error) => {
          overtaken = error._tag === "CommitConflict"
          return new Activation.ActivationFailed({
            agent: name,
            key,
            reason: ActivationRun.reasonOf(error),
            final: false
          })
        })
      )
    yield* Activation.checkpoint("activation:load", key)
    const refuse = (tool: Tool.Any) => refusal(engine, tool)
    const result = yield* Effect.result(
      activate(engine, definition, snapshot, { refuse, append, signing: engine.signing })
    )
    if (overtaken) return yield* Effect.logDebug(`key '${key}' of '${name}' was overtaken by another owner`)
    yield* Activation.checkpoint("activation:commit", key)
    if (Result.isFailure(result)) {
      const { failure } = result
      return yield* failure._tag === "MessageRefused"
        ? engine.store.refuseMessage({ agent: name, key, offset: failure.offset, detail: failure.detail })
        : fail(engine, agent, snapshot, failure.reason, failure.final)
    }
    const activated = signed(engine, result.success)
    yield* engine.store.commit({ ...claimed, version: definition.version, activated }).pipe(
      Effect.retry({ schedule: storeRetries, while: (error) => error._tag === "StoreError" }),
      Effect.catchTag("CommitConflict", (error) => Effect.logDebug(error.message)),
      Effect.catchTag("IntentConflict", (error) =>
        Effect.andThen(
          Effect.logError(error.message),
          fail(engine, agent, snapshot, ActivationRun.reasonOf(error), true)
        ))
    )
    yield* Activation.checkpoint("activation:committed", key)
  })

/**
 * An agent stages an intent that nobody performs: its engine was made without the effector the types ask for.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoEffector extends Schema.TaggedError<NoEffector>()("NoEffector", { tool: Schema.String }) {
  override get message() {
    return `no effector for '${this.tool}'; provide Effector.layer or Effector.elsewhere`
  }
}

// internal

const activate = (
  engine: Engine,
  definition: Activation.Definition,
  snapshot: AgentStore.Snapshot,
  options: ActivationRun.Options
) =>
  Effect.tap(ActivationRun.run(definition, snapshot, options), (activated) => {
    if (!engine.alwaysReplay) return Effect.void
    const { from, rows } = activated.journal
    const again = ActivationRun.replay(
      definition,
      { ...snapshot, rows: [...snapshot.rows.slice(0, from), ...rows] },
      activated.replay,
      { signing: engine.signing }
    )
    return Effect.flatMap(again, ({ outcome }) => {
      const differs = outcome._tag !== activated.outcome._tag
        || (outcome._tag === "Complete" && JSON.stringify(outcome) !== JSON.stringify(activated.outcome))
      return differs ? Effect.die(new Error("a replay came to another outcome")) : Effect.void
    })
  })

const signed = ({ signing }: Engine, activated: Activation.Activated): Activation.Activated =>
  signing === undefined || signing.mode === "off" || activated.intents.length === 0 ? activated : {
    ...activated,
    intents: activated.intents.map((intent) => ({
      ...intent,
      signature: Signing.sign(signing.ring, Signing.ofIntent(intent))
    }))
  }

/** Records a failure: the agent's schedule says whether and when the event, or its resume, runs again. */
const fail = (
  engine: Engine,
  agent: Agent.Any,
  { failures, key, now, offset, revision }: AgentStore.Snapshot,
  reason: Activation.Reason,
  final: boolean
) =>
  Effect.gen(function*() {
    const retryIn = final || agent.retry === undefined ? undefined : yield* retryDelay(agent.retry, failures + 1, now)
    yield* engine.store.fail({ agent: agent.name, key, offset, revision, reason, retryIn }).pipe(
      Effect.retry({ schedule: storeRetries, while: (error) => error._tag === "StoreError" }),
      Effect.andThen(
        retryIn === undefined
          ? Effect.logWarning(`event ${offset} of key '${key}' of '${agent.name}': ${reason.message}`)
          : Effect.void
      ),
      Effect.catchTag("CommitConflict", (error) => Effect.logDebug(error.message))
    )
  })

const refusal = (engine: Engine, tool: Tool.Any): NoEffector | Effector.ContractMismatch | undefined => {
  const performer = Context.getOption(engine.context, Effector.performer(tool.name))
  if (Option.isNone(performer)) return new NoEffector({ tool: tool.name })
  const { contract } = performer.value.tool
  return contract === tool.contract
    ? undefined
    : new Effector.ContractMismatch({ tool: tool.name, contracts: [tool.contract, contract] })
}
