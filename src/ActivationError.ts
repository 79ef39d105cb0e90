/**
 * What an agent may meet while it runs, and why an activation fails.
 *
 * Guarantees: messages name agent and key, and never repeat a value.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * Why an activation failed, as data that outlives the process.
 *
 * @since 0.1.0
 * @category models
 */
export const Reason = Schema.Struct({
  kind: Schema.Literals(["Failure", "Defect", "TimedOut", "Interrupted"]),
  /** The `_tag` of the error, or its name. */
  tag: Schema.String,
  message: Schema.String
})

/**
 * @since 0.1.0
 * @category models
 */
export type Reason = typeof Reason.Type

/**
 * A step was taken beside another one, so that its number would depend on scheduling.
 *
 * @since 0.1.0
 * @category errors
 */
export class ConcurrentStepError extends Schema.TaggedError<ConcurrentStepError>()("ConcurrentStepError", {
  agent: Schema.String,
  key: Schema.String,
  step: Schema.String
}) {
  override get message() {
    return `'${this.agent}' for key '${this.key}' took the step '${this.step}' in a concurrent fiber; take steps one after the `
      + `other, or several requests with ctx.requestAll`
  }
}

/**
 * The context was used after its activation had ended or suspended.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActivationClosed extends Schema.TaggedError<ActivationClosed>()("ActivationClosed", {
  agent: Schema.String,
  key: Schema.String,
  step: Schema.String
}) {
  override get message() {
    return `'${this.step}' was called after the activation of '${this.agent}' for key '${this.key}' had ended`
  }
}

/**
 * `Suspend` without a staged intent whose end is open: nothing would ever wake the agent.
 *
 * @since 0.1.0
 * @category errors
 */
export class NothingPending extends Schema.TaggedError<NothingPending>()("NothingPending", {
  agent: Schema.String,
  key: Schema.String
}) {
  override get message() {
    return `'${this.agent}' suspended for key '${this.key}' with nothing pending; stage an intent with ctx.act first`
  }
}

/**
 * No message came in time.
 *
 * @since 0.1.0
 * @category errors
 */
export class MessageTimeout extends Schema.TaggedError<MessageTimeout>()("MessageTimeout", {
  agent: Schema.String,
  key: Schema.String
}) {
  override get message() {
    return `no message came for key '${this.key}' of '${this.agent}' in time`
  }
}

/**
 * An event, output, state, argument or result is larger than the limit. Its content is not repeated.
 *
 * @since 0.1.0
 * @category errors
 */
export class TooLarge extends Schema.TaggedError<TooLarge>()("TooLarge", {
  what: Schema.String,
  key: Schema.String,
  bytes: Schema.Number,
  maxBytes: Schema.Number
}) {
  override get message() {
    return `${this.what} of key '${this.key}' has ${this.bytes} bytes, the limit is ${this.maxBytes}`
  }
}

/**
 * A value does not fit the agent's schema for it. The value is not repeated.
 *
 * @since 0.1.0
 * @category errors
 */
export class Misfit extends Schema.TaggedError<Misfit>()("Misfit", {
  what: Schema.String,
  key: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `${this.what} of key '${this.key}' does not fit its schema: ${this.detail}`
  }
}

/**
 * The activation failed; nothing of it lands.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActivationFailed extends Schema.TaggedError<ActivationFailed>()("ActivationFailed", {
  agent: Schema.String,
  key: Schema.String,
  reason: Reason,
  /** A failure that running again cannot change. */
  final: Schema.Boolean
}) {
  override get message() {
    return `'${this.agent}' failed for key '${this.key}' (${this.reason.tag}): ${this.reason.message}`
  }
}

/**
 * The message a waiting key was woken with does not fit what it waits for; the key keeps waiting.
 *
 * @since 0.1.0
 * @category errors
 */
export class MessageRefused extends Schema.TaggedError<MessageRefused>()("MessageRefused", {
  agent: Schema.String,
  key: Schema.String,
  offset: Schema.Number,
  detail: Schema.String
}) {
  override get message() {
    return `a message to key '${this.key}' of '${this.agent}' does not fit what it waits for: ${this.detail}`
  }
}
