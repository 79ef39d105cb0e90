/**
 * Testing agents: the engine in memory, the effects that really happened, and processes that can be killed at any step.
 */
export * as Crash from "./Crash.ts"
export * as Effects from "./Effects.ts"
export * as Process from "./Process.ts"
export * as TestEngine from "./TestEngine.ts"
