/**
 * Models of `effect/ai`.
 */
export * as AiToolkit from "./AiToolkit.ts"
