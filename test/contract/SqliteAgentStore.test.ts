import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SqliteAgentStore } from "../../src/sqlite/index.ts"
import { AgentStoreContract } from "../../src/testing/contract/index.ts"

/** A store in a new file, which is removed with it. */
const layer = Layer.unwrap(
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "effect-intents-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
    ),
    (folder) => SqliteAgentStore.layer({ filename: join(folder, "agents.db"), synchronous: "normal", inboxLimit: 20 })
  )
)

AgentStoreContract.suite("SQLite", layer, { inboxLimit: 20 })
