import { assert, describe, it } from "vitest"
import { compilers, growth, limits, measure } from "./tools/typecost.ts"

describe.concurrent.each(Object.keys(compilers) as Array<keyof typeof compilers>)(
  "type-check cost on %s",
  (compiler) => {
    it("stays under its limits, grows linearly and keeps refusals short (K06)", { timeout: 180_000 }, async () => {
      const costs = await measure(compiler)
      for (const [fixture, { errors, instantiations }] of Object.entries(costs)) {
        const limit = fixture in limits ? limits[fixture as keyof typeof limits] : Infinity
        assert.isAtMost(instantiations, limit, fixture)
        if (fixture === "refused call" || fixture === "missing handler") {
          assert.match(errors[0]!, /['"]charge['"]/, errors.join("\n"))
          assert.isAtMost(errors.length, 6, errors.join("\n"))
        } else {
          assert.deepStrictEqual(errors, [], fixture)
        }
      }
      assert.isAtMost(growth(costs), limits.growth, "a tool among 200 against one among 50")
    })
  }
)
