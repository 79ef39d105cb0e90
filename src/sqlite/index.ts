/**
 * @since 0.1.0
 */
export * as SqliteAgentStore from "../sql/SqliteAgentStore.ts"
export * as SqliteClient from "../sql/SqliteClient.ts"
