// Starts processes, kills them, starts them again, and looks at what is left: in the store, and outside.
import { AgentEngine, AgentStore } from "effect-intents"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { createRecords, type Done, orders, storeAt } from "./program.ts"

export interface Crash {
  readonly step: string
  readonly nth: number
}

export interface World {
  readonly db: string
  readonly effects: string
}

/** Starts a process; the end of the scope kills it. */
export const start = (
  { db, effects }: World,
  role: "both" | "engine" | "effector",
  crash?: Crash
): Effect.Effect<ChildProcess, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const args = [role, db, effects, ...(crash === undefined ? [] : [crash.step, String(crash.nth)])]
      return spawn(
        process.execPath,
        ["--conditions=effect-intents-source", join(import.meta.dirname, "worker.ts"), ...args],
        { stdio: ["ignore", "ignore", "inherit"] }
      )
    }),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )

/** Waits for the end of a process: the signal that killed it, or its exit code. */
export const ended = (child: ChildProcess): Effect.Effect<string | number | null> =>
  Effect.callback((resume) => {
    const done = () => resume(Effect.succeed(child.signalCode ?? child.exitCode))
    if (child.signalCode !== null || child.exitCode !== null) done()
    else child.once("exit", done)
  })

/** Asks a process to stop in good order, and waits until it has. */
export const stop = (child: ChildProcess) => {
  child.kill("SIGTERM")
  return ended(child)
}

export const onStore = <A, E>(
  { db }: World,
  effect: Effect.Effect<A, E, AgentStore.AgentStore | SqlClient.SqlClient>
): Effect.Effect<A, unknown> =>
  Effect.provide(effect, storeAt(db) as Layer.Layer<AgentStore.AgentStore | SqlClient.SqlClient>)

/** Makes the store, and sends so many orders to so many keys, each with an id of its own. */
export const prepare = (world: World, keys: number, events: number) =>
  onStore(
    world,
    Effect.gen(function*() {
      yield* createRecords
      const client = yield* AgentEngine.client
      yield* Effect.forEach(Array.from({ length: events }, (_, order) => order), (order) =>
        client.send(orders, { key: `k${order % keys}`, event: order, id: `order-${order}` }), {
        concurrency: "unbounded",
        discard: true
      })
    })
  )

/** Waits until every order has ended and no intent is open, at most so long. Gives how many ended. */
export const settled = (world: World, events: number, millis: number, progress: (ended: number) => void = () => {}) =>
  onStore(
    world,
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const sql = yield* SqlClient.SqlClient
      const deadline = Date.now() + millis
      while (true) {
        const [row] = yield* sql.unsafe<{ readonly n: number }>(
          "SELECT count(*) AS n FROM ei_events WHERE state IN ('Completed', 'DeadLetter', 'Cancelled')"
        )
        const ended = Number(row!.n)
        progress(ended)
        const open = ended < events ? [] : yield* client.intents({ states: ["Staged", "Claimed"] })
        if (ended >= events && open.length === 0) return ended
        if (Date.now() > deadline) return ended
        yield* Effect.sleep(100)
      }
    })
  )

export const effectsOf = ({ effects }: World): ReadonlyArray<Done> =>
  existsSync(effects)
    ? readFileSync(effects, "utf8").split("\n").filter((line) => line !== "").map((line) => JSON.parse(line))
    : []

export interface Report {
  readonly wrong: ReadonlyArray<string>
  readonly performed: number
  readonly unknown: number
  readonly effects: number
  readonly repeated: number
}

/** Everything that is promised, checked against the store and the file of effects. `kills` is how often a process was killed. */
export const inspect = (world: World, keys: number, events: number, kills: number): Effect.Effect<Report, unknown> =>
  onStore(
    world,
    Effect.gen(function*() {
      const client = yield* AgentEngine.client
      const sql = yield* SqlClient.SqlClient
      const entries = yield* client.intents()
      const records = yield* sql.unsafe<{ readonly intent: string }>("SELECT intent FROM records")
      const effects = effectsOf(world)
      const happened = Map.groupBy(effects, ({ id }) => id)
      const recorded = Map.groupBy(records, ({ intent }) => intent)
      const wrong: Array<string> = []
      const check = (holds: boolean, what: string) => {
        if (!holds) wrong.push(what)
      }
      check(entries.length === events * 4, `${entries.length} intents of ${events} orders, not ${events * 4}`)
      for (const { attempt, intent: { id, tool }, state } of entries) {
        const times = tool === "record" ? recorded.get(id)?.length ?? 0 : happened.get(id)?.length ?? 0
        const what = `${tool} ${id} is ${state} after ${attempt} attempts and happened ${times} times`
        if (tool === "pay") check(state === "Performed" && times >= 1, what)
        else if (tool === "record") check(state === "Performed" && times === 1, what)
        else check((state === "Performed" && times === 1) || (state === "Unknown" && times <= 1), what)
        happened.delete(id)
      }
      check(happened.size === 0, `${happened.size} effects of intents nobody knows`)
      const unknown = entries.filter(({ state }) => state === "Unknown")
      check(unknown.length <= kills * 16, `${unknown.length} unknown ends after ${kills} kills`)
      // An owner that was only slow may settle an unknown end later. What the agent was told stays.
      const toldUnknown = new Set(
        entries.filter(({ answer, intent }) =>
          intent.tool === "refund" && answer?.type === "intent" && answer.result._tag === "OutcomeUnknown"
        ).map(({ intent }) => JSON.parse(intent.arguments).order)
      )
      for (const { answer, intent: { id, tool }, resolution, state } of entries) {
        const wasUnknown = answer?.type === "intent" && answer.result._tag === "OutcomeUnknown"
        check(
          !wasUnknown || state === "Unknown" || resolution !== undefined,
          `${tool} ${id} is ${state}, told as unknown`
        )
        check(wasUnknown || state !== "Unknown", `${tool} ${id} is Unknown, told as something else`)
      }
      const told = yield* outputs
      check(told.length === events, `${told.length} outputs of ${events} orders`)
      for (const { count, order, refund, seq } of told) {
        check(count === seq + 1, `order ${order} counted ${count} at seq ${seq}`)
        check(toldUnknown.has(order) === (refund === "unknown"), `order ${order} was told that it is ${refund}`)
      }
      for (const [key, done] of Map.groupBy(effects, ({ key }) => key)) {
        const places = done.map(({ seq, step }) => seq * 100 + step)
        check(
          places.every((place, index) => index === 0 || places[index - 1]! <= place),
          `the effects of ${key} are out of order`
        )
      }
      for (let key = 0; key < keys; key++) {
        const { blocked, inbox, waiting } = yield* client.status(orders, `k${key}`)
        check(blocked === undefined && inbox === 0 && waiting.length === 0, `k${key} still waits`)
      }
      return {
        wrong,
        performed: entries.filter(({ state }) => state === "Performed").length,
        unknown: unknown.length,
        effects: effects.length,
        repeated: effects.length - new Set(effects.map(({ id }) => id)).size
      }
    })
  )

const outputs = Effect.gen(function*() {
  const store = yield* AgentStore.AgentStore
  const found: Array<typeof orders.Types.Output & { readonly seq: number }> = []
  let after = 0
  while (true) {
    const page = yield* store.outputs({ agent: orders.name, after, limit: 1000 })
    if (page.length === 0) return found
    for (const { output, seq } of page) found.push({ ...(output as typeof orders.Types.Output), seq })
    after = page.at(-1)!.offset
  }
})
