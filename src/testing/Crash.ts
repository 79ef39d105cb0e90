/**
 * Where a process is to be killed: at a named step of an activation or of an effector. `Process.ts` does the killing.
 *
 * Guarantees: the same program with the same crash dies at the same place, so that a failing case can be run again.
 *
 * @since 0.1.0
 */
import * as Activation from "../Activation.ts"
import * as Effector from "../Effector.ts"

/**
 * A step at which a process may be killed, before what the step is named after.
 *
 * @since 0.1.0
 * @category models
 */
export type Step = (typeof Activation.steps)[number] | (typeof Effector.steps)[number]

/**
 * All steps, in the order in which an intent meets them.
 *
 * @since 0.1.0
 * @category constants
 */
export const steps: ReadonlyArray<Step> = [...Activation.steps, ...Effector.steps]

/**
 * Where a process died: passing through a step, for a key or an intent, or by a `kill` from outside.
 *
 * @since 0.1.0
 * @category models
 */
export interface Place {
  readonly step: Step | "kill"
  /** The key of an activation or the id of an intent. */
  readonly id: string
}

/**
 * The passage that kills: the `nth` that fits, counted from 1 in each process.
 *
 * @since 0.1.0
 * @category models
 */
export interface Crash {
  /** `undefined` fits every step. */
  readonly step: Step | undefined
  /** `undefined` fits every key and intent. */
  readonly id: string | undefined
  readonly nth: number
}

/**
 * A crash at a step, the first time unless `nth` says otherwise; with `id` only for that key or intent.
 *
 * @since 0.1.0
 * @category constructors
 */
export const at = (step: Step, options?: { readonly nth?: number; readonly id?: string }): Crash => ({
  step,
  id: options?.id,
  nth: options?.nth ?? 1
})

/**
 * A crash at the `nth` passage through any step: with `nth` from 1 up, a test kills a process everywhere it can.
 *
 * @since 0.1.0
 * @category constructors
 */
export const after = (nth: number): Crash => ({ step: undefined, id: undefined, nth })

/**
 * Whether a passage counts for a crash.
 *
 * @since 0.1.0
 * @category guards
 */
export const fits = (crash: Crash, place: Place): boolean =>
  (crash.step === undefined || crash.step === place.step) && (crash.id === undefined || crash.id === place.id)
