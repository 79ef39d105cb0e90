/**
 * Agents as Effect programs, whose side effects the compiler keeps apart.
 */
export * as Activation from "./Activation.ts"
export * as Agent from "./Agent.ts"
export * as AgentEngine from "./AgentEngine.ts"
export * as AgentStore from "./AgentStore.ts"
export * as CanonicalJson from "./CanonicalJson.ts"
export * as Effector from "./Effector.ts"
export * as Intent from "./Intent.ts"
export * as Journal from "./Journal.ts"
export * as Ledger from "./Ledger.ts"
export * as Memory from "./Memory.ts"
export * as Signing from "./Signing.ts"
export * as Tool from "./Tool.ts"
export * as Toolkit from "./Toolkit.ts"
export * as ToolSchema from "./ToolSchema.ts"
