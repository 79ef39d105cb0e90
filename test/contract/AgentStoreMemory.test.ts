import { AgentStore } from "../../src/index.ts"
import { AgentStoreContract } from "../../src/testing/contract/index.ts"

const layer = AgentStore.layerMemoryWith({ inboxLimit: 20 })

AgentStoreContract.suite("in memory", layer, { inboxLimit: 20 })

// On the real clock, as the stores on disk run it: a test of the suite, for when the suite changes.
if (process.env["CONTRACT_LIVE"] !== undefined) {
  AgentStoreContract.suite("in memory, on the real clock", layer, { inboxLimit: 20, live: { tick: 50 } })
}
