/**
 * What can be wrong with a tool or a call. A refusal at run time says the same sentence as its twin in the types.
 *
 * Guarantees: messages name the tool and never repeat its arguments.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A SideEffect call was run, or handed to `ctx.runTool`. Nothing happened outside.
 *
 * @since 0.1.0
 * @category errors
 */
export class SideEffectToolError extends Schema.TaggedError<SideEffectToolError>()("SideEffectToolError", {
  tool: Schema.String
}) {
  override get message() {
    return `'${this.tool}' is a SideEffect tool and runs in the effector only; stage it with ctx.act or ctx.request`
  }
}

/**
 * A ReadOnly call was handed to `ctx.act` or `ctx.request`. Nothing was staged.
 *
 * @since 0.1.0
 * @category errors
 */
export class ReadOnlyToolError extends Schema.TaggedError<ReadOnlyToolError>()("ReadOnlyToolError", {
  tool: Schema.String
}) {
  override get message() {
    return `'${this.tool}' is a ReadOnly tool and is never staged; run it with ctx.runTool`
  }
}

/**
 * The arguments do not fit the tool's schema. Messages never repeat the arguments.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolArgumentError extends Schema.TaggedError<ToolArgumentError>()("ToolArgumentError", {
  tool: Schema.String,
  issues: Schema.Array(Schema.Struct({ path: Schema.String, message: Schema.String }))
}) {
  override get message() {
    return `arguments of '${this.tool}': ${
      this.issues.map(({ message, path }) => path === "" ? message : `${path}: ${message}`).join("; ")
    }`
  }
}

/**
 * A tool cannot be defined as asked: its name, an option, or the part of its schema at a path that `reason` names.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolDefinitionError extends Schema.TaggedError<ToolDefinitionError>()("ToolDefinitionError", {
  tool: Schema.String,
  reason: Schema.String
}) {
  override get message() {
    return `tool '${this.tool}': ${this.reason}`
  }
}

/**
 * No tool of that name.
 *
 * @since 0.1.0
 * @category errors
 */
export class ToolNotFoundError extends Schema.TaggedError<ToolNotFoundError>()("ToolNotFoundError", {
  tool: Schema.String,
  available: Schema.Array(Schema.String)
}) {
  override get message() {
    return `no tool '${this.tool}'; known: ${this.available.length === 0 ? "none" : this.available.join(", ")}`
  }
}

/**
 * What stands in a message for a name that came from outside: a part of it if it is text, else its type.
 *
 * @since 0.1.0
 * @category formatting
 */
export const nameOf = (value: unknown): string =>
  typeof value === "string" ? value.slice(0, 80).toWellFormed() : typeof value
