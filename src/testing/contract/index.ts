/**
 * The contract suites of this package's interfaces, for implementations of your own. Needs vitest and @effect/vitest.
 */
export * as AgentStoreContract from "./AgentStoreContract.ts"
