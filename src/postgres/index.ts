/**
 * @since 0.1.0
 */
export * as PostgresAgentStore from "../sql/PostgresAgentStore.ts"
