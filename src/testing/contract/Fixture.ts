/**
 * What the contract suite does to a store, in few words: events sent, activations committed, intents claimed.
 *
 * Guarantees: everything goes through the methods of `AgentStore`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Activation from "../../Activation.ts"
import * as AgentStore from "../../AgentStore.ts"
import type * as CanonicalJson from "../../CanonicalJson.ts"
import * as Intent from "../../Intent.ts"
import type * as Journal from "../../Journal.ts"
import * as Ledger from "../../Ledger.ts"

/**
 * Where and how fast the tests run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Bench {
  /** Declares a test over a new, empty store. */
  readonly test: (name: string, body: Effect.Effect<void, unknown, AgentStore.AgentStore | Scope.Scope>) => void
  /** Lets so many ticks of time pass. */
  readonly advance: (ticks: number) => Effect.Effect<void>
  /** Milliseconds. */
  readonly tick: number
  readonly inboxLimit: number
}

/**
 * The key of a test that needs only one.
 *
 * @since 0.1.0
 * @category constants
 */
export const alone: AgentStore.Target = { agent: "agent", key: "key" }

/**
 * Another key of the same agent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const keyOf = (key: string | number): AgentStore.Target => ({ agent: "agent", key: String(key) })

/**
 * Sends an event.
 *
 * @since 0.1.0
 * @category operations
 */
export const send = (event: Partial<AgentStore.Sent> = {}) =>
  AgentStore.AgentStore.use((store) =>
    store.send({ ...alone, version: "1", eventId: undefined, event: "event", ...event })
  )

/**
 * Every key of an agent that can be run now.
 *
 * @since 0.1.0
 * @category operations
 */
export const ready = (agent = alone.agent) =>
  AgentStore.AgentStore.use((store) => store.ready({ agents: [agent], limit: 10_000, busy: () => false }))

/**
 * The snapshot of a key, which has to be ready.
 *
 * @since 0.1.0
 * @category operations
 */
export const load = ({ agent, key }: AgentStore.Target = alone) =>
  Effect.flatMap(ready(agent), (snapshots) => {
    const found = snapshots.find((snapshot) => snapshot.key === key)
    return found === undefined ? Effect.die(new Error(`key '${key}' is not ready`)) : Effect.succeed(found)
  })

/**
 * Whether a key can be run now.
 *
 * @since 0.1.0
 * @category operations
 */
export const isReady = ({ agent, key }: AgentStore.Target = alone) =>
  Effect.map(ready(agent), (snapshots) => snapshots.some((snapshot) => snapshot.key === key))

/**
 * What an activation leaves beside its outcome.
 *
 * @since 0.1.0
 * @category models
 */
export interface Left {
  readonly intents?: ReadonlyArray<Intent.Draft>
  readonly emitted?: ReadonlyArray<CanonicalJson.Json>
  readonly remembered?: Activation.Activated["remembered"]
  readonly memory?: { readonly [name: string]: CanonicalJson.Json }
  readonly rows?: ReadonlyArray<Journal.Row>
  readonly trace?: ReadonlyArray<Activation.Trace>
}

/**
 * Commits an activation that ends its event.
 *
 * @since 0.1.0
 * @category operations
 */
export const complete = (
  snapshot: AgentStore.Snapshot,
  left: Left & { readonly output?: CanonicalJson.Json } = {}
) => commit(snapshot, { _tag: "Complete", output: left.output ?? "output" }, left)

/**
 * Commits an activation that suspends.
 *
 * @since 0.1.0
 * @category operations
 */
export const suspend = (
  snapshot: AgentStore.Snapshot,
  waiting: ReadonlyArray<Activation.Waiting>,
  left: Left = {}
) => {
  const before = snapshot.continuation
  const rows = (before?.rows ?? 0) + (left.rows?.length ?? 0)
  const segment = (before?.segment ?? 0) + 1
  return commit(snapshot, {
    _tag: "Suspended",
    continuation: { version: "1", segment, rows, waiting, base: baseOf(snapshot) }
  }, left)
}

/**
 * What an activation waits for that waits for intents.
 *
 * @since 0.1.0
 * @category constructors
 */
export const waitingFor = (...intents: ReadonlyArray<Pick<Intent.Draft, "id" | "step">>) =>
  intents.map(({ id, step }): Activation.Waiting => ({ type: "intent", id, step }))

/**
 * An intent of the tool "charge", as an activation stages it. It may wait for a day.
 *
 * @since 0.1.0
 * @category constructors
 */
export const draft = (
  { agent, key, seq }: AgentStore.Target & { readonly seq: number },
  step: number,
  given: Partial<Intent.Draft> = {}
): Intent.Draft => ({
  id: Intent.makeId(agent, key, seq, step),
  agent,
  key,
  seq,
  step,
  kind: "tool",
  tool: "charge",
  contract: "contract",
  arguments: `{"amountCents":${step}}`,
  argumentsDigest: `digest of ${step}`,
  sealed: undefined,
  ttl: day,
  approval: "none",
  approvalTimeout: given.approval === "required" ? day : undefined,
  idempotent: false,
  verify: false,
  transactional: false,
  escalation: [],
  signature: undefined,
  traceId: Intent.traceId(agent, key, seq),
  ...given
})

/**
 * Has an event stage intents, one per given difference from `draft`, and complete.
 *
 * @since 0.1.0
 * @category operations
 */
export const stage = (given: ReadonlyArray<Partial<Intent.Draft>> = [{}], target: AgentStore.Target = alone) =>
  Effect.gen(function*() {
    yield* send(target)
    const snapshot = yield* load(target)
    const intents = given.map((differs, step) => draft(snapshot, step, differs))
    yield* complete(snapshot, { intents })
    return intents.map(({ id }) => id)
  })

/**
 * Has an event stage intents and wait for all of them.
 *
 * @since 0.1.0
 * @category operations
 */
export const request = (given: ReadonlyArray<Partial<Intent.Draft>> = [{}], target: AgentStore.Target = alone) =>
  Effect.gen(function*() {
    const { offset } = yield* send(target)
    const snapshot = yield* load(target)
    const intents = given.map((differs, step) => draft(snapshot, step, differs))
    yield* suspend(snapshot, waitingFor(...intents), { intents })
    return { offset, ids: intents.map(({ id }) => id) }
  })

/**
 * Claims an intent with a token, for a lease that no test outlives unless it says so.
 *
 * @since 0.1.0
 * @category operations
 */
export const claim = (id: Intent.Id, token: string, options?: Partial<Ledger.ClaimOptions>) =>
  AgentStore.AgentStore.use((store) =>
    store.claim({ id, owner: `owner of ${token}`, token, lease: day, retryIn: undefined, ...options })
  )

/**
 * Moves an intent.
 *
 * @since 0.1.0
 * @category operations
 */
export const move = <E>(id: string, move: Ledger.Move<E>) => AgentStore.AgentStore.use((store) => store.move(id, move))

/**
 * Reports the success of a claimed intent.
 *
 * @since 0.1.0
 * @category operations
 */
export const succeed = (id: Intent.Id, token: string, value: CanonicalJson.Json = "receipt") =>
  move(id, Ledger.complete(token, { _tag: "Success", value }))

/**
 * Claims an intent and reports how it ended.
 *
 * @since 0.1.0
 * @category operations
 */
export const end = (id: Intent.Id, result: Intent.Result) =>
  Effect.andThen(claim(id, `token of ${id}`), move(id, Ledger.complete(`token of ${id}`, result)))

/**
 * Claims an intent and reports its success.
 *
 * @since 0.1.0
 * @category operations
 */
export const perform = (id: Intent.Id, value: CanonicalJson.Json = "receipt") => end(id, { _tag: "Success", value })

/**
 * Decides on an intent.
 *
 * @since 0.1.0
 * @category operations
 */
export const decide = (id: Intent.Id, approved: boolean, by = "maria") =>
  move(id, Ledger.decide({ approved, by, argumentsDigest: undefined }))

/**
 * The ids of what could be claimed now.
 *
 * @since 0.1.0
 * @category operations
 */
export const startable = (...tools: ReadonlyArray<string>) =>
  AgentStore.AgentStore.use((store) =>
    Effect.map(
      store.startable({ tools: tools.length === 0 ? ["charge"] : tools, except: new Set(), limit: 10_000 }),
      (entries) => entries.map(({ intent }) => intent.id)
    )
  )

/**
 * The states of all entries, in the order they were staged.
 *
 * @since 0.1.0
 * @category operations
 */
export const states = AgentStore.AgentStore.use((store) =>
  Effect.map(store.entries({}), (entries) => entries.map(({ state }) => state))
)

/**
 * Records that an activation failed.
 *
 * @since 0.1.0
 * @category operations
 */
export const fail = ({ agent, key, offset, revision }: AgentStore.Snapshot, retryIn: number | undefined) =>
  AgentStore.AgentStore.use((store) => store.fail({ agent, key, offset, revision, reason, retryIn }))

/**
 * Why an activation failed.
 *
 * @since 0.1.0
 * @category constants
 */
export const reason: Activation.Reason = { kind: "Failure", tag: "LookupDown", message: "the lookup is down" }

/**
 * A journal row as it is stored. To a store its check is a word like any other.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stored = (position: number, row: Journal.Row): Journal.Stored => ({
  position,
  check: `${position} ${JSON.stringify(row)}`,
  row
})

/**
 * So many of the same, to be done at once.
 *
 * @since 0.1.0
 * @category operations
 */
export const atOnce = <A, E, R>(times: number, body: (index: number) => Effect.Effect<A, E, R>) =>
  Effect.forEach(Array.from({ length: times }, (_, index) => index), body, { concurrency: "unbounded" })

// internal

const day = 24 * 60 * 60 * 1000

const baseOf = (snapshot: AgentStore.Snapshot): Activation.Continuation["base"] =>
  snapshot.continuation?.base
    ?? { segment: 0, step: 0, rows: 0, memory: snapshot.memory, state: undefined, awaited: [] }

const commit = (
  snapshot: AgentStore.Snapshot,
  outcome: Activation.Activated["outcome"],
  { emitted = [], intents = [], memory, remembered = [], rows = [], trace = [] }: Left
) => {
  const { agent, continuation, key, offset, revision } = snapshot
  const from = continuation?.rows ?? 0
  const journal = { from, rows: rows.map((row, index) => stored(from + index, row)) }
  const replay = { base: baseOf(snapshot), segments: (continuation?.segment ?? 0) + 1 }
  const activated = { outcome, intents, emitted, remembered, memory, journal, trace, replay }
  return AgentStore.AgentStore.use((store) => store.commit({ agent, key, offset, revision, version: "1", activated }))
}
