import { defaultServerConditions } from "vite"
import { defineConfig } from "vitest/config"

const conditions = ["effect-intents-source", ...defaultServerConditions]

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/fixtures/postgres-setup.ts"],
    // Child processes that a test starts inherit it with `process.execArgv`.
    execArgv: ["--conditions=effect-intents-source"],
    testTimeout: 30_000,
    hookTimeout: 30_000
  }
})
