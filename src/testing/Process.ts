/**
 * A process that can be killed: layers built in a scope of their own, over a store that outlives them.
 *
 * Guarantees: from the instant of the crash nothing of the process goes on: no store operation is sent or answered, no sleep
 * ends, no finalizer runs, no effect happens. What it held it loses by the clock alone, as after `kill -9`.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scheduler from "effect/Scheduler"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Activation from "../Activation.ts"
import * as AgentStore from "../AgentStore.ts"
import * as Crash from "./Crash.ts"
import * as Effects from "./Effects.ts"

/**
 * A process and the services it runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface Process<in out Services, out E = never> {
  /** Runs an effect with the services of the process. Fails with `Killed` when the process dies first. */
  run<A, E2, R>(effect: Effect.Effect<A, E2, R>): Effect.Effect<A, E2 | Killed, Exclude<R, Services>>
  /** Waits for its crash, and says where that was. */
  readonly crashed: Effect.Effect<Crash.Place>
  /** Whether it still lives. */
  readonly isAlive: Effect.Effect<boolean>
  /** Kills it here and now. */
  readonly kill: Effect.Effect<void>
  /** Shuts it down in good order: grace times, finalizers, released claims. */
  readonly stop: Effect.Effect<void>
  /** Kills it, where it still lives, and starts another one from the same layers over the same store. */
  restart(options?: Options): Effect.Effect<Process<Services, E>, E, Scope.Scope>
}

/**
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Where to kill the process. Default: nowhere. */
  readonly crash?: Crash.Crash | undefined
}

/**
 * Starts a process. The end of the scope kills it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const start = <A, E, R>(
  layer: Layer.Layer<A, E, R>,
  options: Options = {}
): Effect.Effect<Process<A, E>, E, R | AgentStore.AgentStore | Scope.Scope> =>
  Effect.flatMap(Effect.context<R | AgentStore.AgentStore>(), (outside) => startIn(outside, layer, options))

/**
 * The process died first.
 *
 * @since 0.1.0
 * @category errors
 */
export class Killed extends Schema.TaggedError<Killed>()("Killed", { step: Schema.String, id: Schema.String }) {
  override get message() {
    return `the process was killed at '${this.step}' (${this.id})`
  }
}

// internal

const startIn = <A, E, R>(
  outside: Context.Context<R | AgentStore.AgentStore>,
  layer: Layer.Layer<A, E, R>,
  options: Options
): Effect.Effect<Process<A, E>, E, Scope.Scope> =>
  Effect.gen(function*() {
    const life = new Life(options.crash)
    const scope = yield* Scope.make()
    const services = yield* Deferred.make<Context.Context<A>, E | Killed>()
    const build = Effect.provideContext(
      Layer.buildWithMemoMap(layer, Layer.makeMemoMapUnsafe(), scope),
      inside(outside, life)
    )
    // A worker may meet the crash while the layers are being built, which then never ends: it is not waited for.
    yield* Effect.forkDetach(Effect.onExit(build, (exit) => Deferred.done(services, exit)), { startImmediately: true })
    const killed = Effect.flatMap(Deferred.await(life.died), (place) => Effect.fail(new Killed(place)))
    const built = Effect.raceFirst(Deferred.await(services), killed)
    const kill = Effect.sync(() => life.end({ step: "kill", id: "from outside" }))
    yield* Effect.addFinalizer(() => kill)
    yield* Effect.catchIf(built, (error) => error instanceof Killed, () => Effect.void)
    return {
      run: (effect) =>
        Effect.raceFirst(
          Effect.flatMap(Deferred.await(services), (context) => Effect.provideContext(effect, context)),
          killed
        ),
      crashed: Deferred.await(life.died),
      isAlive: Effect.sync(() => life.isAlive),
      kill,
      stop: Effect.forkDetach(Effect.andThen(Scope.close(scope, Exit.void), kill)).pipe(
        // A process that dies while it shuts down never ends its finalizers.
        Effect.andThen(Deferred.await(life.died)),
        Effect.asVoid
      ),
      restart: (options = {}) => Effect.andThen(kill, startIn(outside, layer, options))
    } as Process<A, E>
  })

class Life {
  readonly died = Deferred.makeUnsafe<Crash.Place>()
  isAlive = true
  private passed = 0
  private readonly crash: Crash.Crash | undefined
  constructor(crash: Crash.Crash | undefined) {
    this.crash = crash
  }

  end(place: Crash.Place): void {
    if (!this.isAlive) return
    this.isAlive = false
    Deferred.doneUnsafe(this.died, Effect.succeed(place))
  }

  pass(place: Crash.Place): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.crash !== undefined && Crash.fits(this.crash, place) && ++this.passed === this.crash.nth) this.end(place)
      return this.isAlive ? Effect.void : Effect.never
    })
  }

  /** Neither starts nor ends once the process is dead. */
  bind<B, E, R>(effect: Effect.Effect<B, E, R>): Effect.Effect<B, E, R> {
    const living = Effect.flatMap(Effect.exit(effect), (exit) => this.isAlive ? exit : Effect.never)
    return Effect.suspend(() => this.isAlive ? living : Effect.never)
  }
}

/** The world as a mortal process sees it. */
const inside = <R>(outside: Context.Context<R>, life: Life): Context.Context<R> => {
  const bound = <S extends object>(service: S): S =>
    // A service is methods and effects, and both are bound to the life of the process.
    new Proxy(service, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (Effect.isEffect(member)) return life.bind(member)
        return typeof member === "function"
          ? (...args: ReadonlyArray<unknown>) => life.bind(member.apply(target, args))
          : member
      }
    })
  const clock = Context.get(outside, Clock.Clock)
  const effects = Context.getOrUndefined(outside as Context.Context<R | Effects.Effects>, Effects.Effects)
  return outside.pipe(
    Context.add(AgentStore.AgentStore, bound(Context.getUnsafe(outside, AgentStore.AgentStore))),
    effects === undefined ? (context) => context : Context.add(Effects.Effects, bound(effects)),
    Context.add(
      Activation.Checkpoint,
      (step: string, id: string) => life.pass({ step: step as Crash.Step, id })
    ),
    Context.add(
      Clock.Clock,
      Object.assign(Object.create(clock), { sleep: (duration: Duration.Duration) => life.bind(clock.sleep(duration)) })
    ),
    Context.add(Scheduler.Scheduler, mortalScheduler(Context.get(outside, Scheduler.Scheduler), life))
  ) as Context.Context<R>
}

/** What was scheduled before the crash does not run after it. */
const mortalScheduler = (scheduler: Scheduler.Scheduler, life: Life): Scheduler.Scheduler => ({
  executionMode: scheduler.executionMode,
  shouldYield: (fiber) => scheduler.shouldYield(fiber),
  makeDispatcher: () => {
    const dispatcher = scheduler.makeDispatcher()
    return {
      scheduleTask: (task, priority) =>
        dispatcher.scheduleTask(() => {
          if (life.isAlive) task()
        }, priority),
      flush: () => dispatcher.flush()
    }
  }
})
