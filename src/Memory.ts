/**
 * The working memory of a key: named entries and bounded lists, each with a schema and an initial value, committed with the
 * activation that wrote them.
 *
 * Guarantees: what an activation wrote and did not commit is never seen. Refuses: more bytes than the cap
 * (`MemoryLimitExceeded`), after the compaction hook had its chance.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as CanonicalJson from "./CanonicalJson.ts"

/**
 * One entry of a memory. `maxItems` is set for lists: the oldest items give way.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry<in out A> {
  readonly schema: Schema.Codec<A, CanonicalJson.Json>
  readonly initial: () => A
  readonly maxItems: number | undefined
}

/**
 * The entries of a memory by name.
 *
 * @since 0.1.0
 * @category models
 */
export type Entries = { readonly [name: string]: Entry<any> }

/**
 * The value type of an entry.
 *
 * @since 0.1.0
 * @category models
 */
export type Value<E> = E extends Entry<infer A> ? A : never

/**
 * The memory an activation works on.
 *
 * @since 0.1.0
 * @category models
 */
export interface Memory<M> {
  get<Name extends keyof M & string>(name: Name): Effect.Effect<Value<M[Name]>>
  set<Name extends keyof M & string>(name: Name, value: Value<M[Name]>): Effect.Effect<void>
  update<Name extends keyof M & string>(name: Name, f: (value: Value<M[Name]>) => Value<M[Name]>): Effect.Effect<void>
  /** Adds to the end of a list; the oldest items beyond its bound are dropped. */
  append<Name extends ListNames<M>>(name: Name, item: Item<Value<M[Name]>>): Effect.Effect<void>
}

/**
 * What a memory may do when it is over its cap: given the entries as JSON and the bytes over it, the entries to keep.
 *
 * @since 0.1.0
 * @category models
 */
export type Compact = (entries: Stored, bytesOver: number) => Stored

/**
 * A memory as it is stored: JSON by entry name.
 *
 * @since 0.1.0
 * @category models
 */
export type Stored = { readonly [name: string]: CanonicalJson.Json }

/**
 * A value with a schema; `initial` is what a key starts with.
 *
 * @since 0.1.0
 * @category constructors
 */
export const entry = <S extends Schema.Codec<any, any, never, never>>(
  schema: S,
  initial: () => S["Type"]
): Entry<S["Type"]> => ({ schema: Schema.toCodecJson(schema) as any, initial, maxItems: undefined })

/**
 * A list that keeps its newest `maxItems` items, empty at first.
 *
 * @since 0.1.0
 * @category constructors
 */
export const list = <S extends Schema.Codec<any, any, never, never>>(
  item: S,
  options: { readonly maxItems: number }
): Entry<ReadonlyArray<S["Type"]>> => ({
  schema: Schema.toCodecJson(Schema.Array(item)) as any,
  initial: () => [],
  maxItems: options.maxItems
})

/**
 * A memory being worked on, segment by segment.
 *
 * @since 0.1.0
 * @category models
 */
export interface Working {
  readonly memory: Memory<any>
  /** Ends a segment: the memory to commit, `undefined` where nothing was written. Dies where a value does not fit its schema. */
  readonly end: () => Result.Result<Stored | undefined, MemoryLimitExceeded>
  /** The memory as of the last ended segment. */
  readonly stored: () => Stored
}

/**
 * A working copy of a stored memory. Entries are decoded when first read and encoded when the segment ends.
 *
 * @since 0.1.0
 * @category constructors
 */
export const working = (options: {
  readonly key: string
  readonly entries: Entries
  readonly stored: Stored
  readonly maxBytes: number
  readonly compact: Compact | undefined
}): Working => {
  const { compact, entries, key, maxBytes } = options
  let stored = options.stored
  const values = new Map<string, unknown>()
  const written = new Set<string>()
  const of = (name: string): Entry<any> => {
    if (Object.hasOwn(entries, name)) return entries[name]!
    throw new TypeError(`no memory entry '${name}'`)
  }
  const get = (name: string): any => {
    if (!values.has(name)) {
      const { initial, schema } = of(name)
      values.set(name, Object.hasOwn(stored, name) ? Schema.decodeUnknownSync(schema)(stored[name]) : initial())
    }
    return values.get(name)
  }
  const set = (name: string, value: any): void => {
    const { maxItems } = of(name)
    values.set(name, maxItems !== undefined && value.length > maxItems ? value.slice(-maxItems) : value)
    written.add(name)
  }
  return {
    memory: {
      get: (name) => Effect.sync(() => get(name)),
      set: (name, value) => Effect.sync(() => set(name, value)),
      update: (name, f) => Effect.sync(() => set(name, f(get(name)))),
      append: (name, item) => Effect.sync(() => set(name, [...get(name), item]))
    },
    end: () => {
      if (written.size === 0) return Result.succeed(undefined)
      const next: Record<string, CanonicalJson.Json> = { ...stored }
      for (const name of written) next[name] = Schema.encodeUnknownSync(of(name).schema)(values.get(name))
      written.clear()
      const bytes = size(next)
      const kept = bytes <= maxBytes || compact === undefined ? next : compact(next, bytes - maxBytes)
      const left = kept === next ? bytes : size(kept)
      if (left > maxBytes) return Result.fail(new MemoryLimitExceeded({ key, bytes: left, maxBytes }))
      if (kept !== next) values.clear()
      stored = kept
      return Result.succeed(kept)
    },
    stored: () => stored
  }
}

/**
 * The memory of a key is over its cap and compaction did not bring it below. Nothing was committed.
 *
 * @since 0.1.0
 * @category errors
 */
export class MemoryLimitExceeded extends Schema.TaggedError<MemoryLimitExceeded>()("MemoryLimitExceeded", {
  key: Schema.String,
  bytes: Schema.Number,
  maxBytes: Schema.Number
}) {
  override get message() {
    return `the memory of key '${this.key}' has ${this.bytes} bytes, the limit is ${this.maxBytes}; give 'compact' or raise 'memoryBytes'`
  }
}

// internal

type ListNames<M> = {
  [Name in keyof M & string]: Value<M[Name]> extends ReadonlyArray<any> ? Name : never
}[keyof M & string]

type Item<List> = List extends ReadonlyArray<infer A> ? A : never

const size = (stored: Stored): number => Buffer.byteLength(JSON.stringify(stored))
