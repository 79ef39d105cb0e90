/**
 * Rows that cannot be read are put aside as dead letters, so that nothing waits for them and no restart meets them again.
 *
 * Guarantees: an intent of which it is known that nobody started it ends as Rejected, any other as Unknown.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as AgentStore from "../AgentStore.ts"
import * as Rules from "../AgentStoreRules.ts"
import type { Submit } from "./SqlGroup.ts"
import * as SqlRows from "./SqlRows.ts"
import type { WorkingSet } from "./SqlWorkingSet.ts"

/**
 * Puts an intent aside that cannot be read, if it cannot.
 *
 * @since 0.1.0
 * @category rules
 */
export const discard = (set: WorkingSet, id: string, damage: string | undefined, now: number): void => {
  if (damage !== undefined) Rules.putAside(set, { id, tag: SqlRows.undecodable(damage).tag, detail: damage }, now)
}

/**
 * Puts the event of a key aside that cannot be run because something of it cannot be read.
 *
 * @since 0.1.0
 * @category rules
 */
export const park = (
  submit: Submit,
  { damage, ...target }: AgentStore.Target & { readonly damage: string }
): Effect.Effect<void, AgentStore.StoreError> =>
  submit<void, never>({
    name: "park",
    needs: { target, numbers: ["letter"] },
    isTaking: true,
    rule: (set, now) => {
      const key = set.find(target)
      const event = key && (key.current ?? key.inbox.first)
      if (key === undefined || event === undefined || key.blocked !== undefined) return
      Rules.park(set, key, event, SqlRows.undecodable(damage), now)
      set.changed(key, now)
    }
  })
