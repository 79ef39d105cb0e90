import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { PostgresAgentStore } from "../../src/postgres/index.ts"
import { AgentStoreContract } from "../../src/testing/contract/index.ts"
import { freshDatabase } from "../fixtures/postgres.ts"

/** A store in a new database, which is dropped with it. */
const layer = Layer.unwrap(
  Effect.map(freshDatabase, (url) => PostgresAgentStore.layer({ url: Redacted.make(url), inboxLimit: 20 }))
)

AgentStoreContract.suite("Postgres", layer, { inboxLimit: 20, live: { tick: 150 } })
