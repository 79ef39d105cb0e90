/**
 * The working memory of a key: named entries and bounded lists, each with a schema and an initial value, committed with the
 * activation that wrote them.
 *
 * Guarantees: what an activation wrote and did not commit is never seen. Refuses: more bytes than the cap
 * (`MemoryLimitExceeded`), after the compaction hook had its chance, and values that do not fit (`MemoryMisfit`).
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as CanonicalJson from "./CanonicalJson.ts"

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
 * The memory an activation works on. A value that was read and changed in place is kept only when it is set. An entry whose
 * stored value fits its schema no more is a defect where it is read.
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
 * What a memory does when it is over its cap: given the entries as JSON and the bytes over it, the entries to keep. Runs at
 * the end of a segment, before its commit, and again on every replay: it looks at nothing but what it is given.
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
 * A list that keeps its newest `maxItems` items, at least 1, empty at first.
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
  /** Ends a segment: the memory to commit, `undefined` where nothing was written. */
  readonly end: () => Result.Result<Ended | undefined, MemoryLimitExceeded | MemoryMisfit>
  /** The memory as of the last ended segment. */
  readonly stored: () => Stored
}

/**
 * The memory a segment leaves, and the digest of its canonical text.
 *
 * @since 0.1.0
 * @category models
 */
export interface Ended {
  readonly stored: Stored
  readonly digest: string
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
    const { initial, schema } = of(name)
    if (!values.has(name)) {
      values.set(name, Object.hasOwn(stored, name) ? Schema.decodeUnknownSync(schema)(stored[name]) : initial())
    }
    return values.get(name)
  }

  const set = (name: string, value: any): void => {
    const { maxItems } = of(name)
    values.set(name, maxItems !== undefined && value.length > maxItems ? value.slice(-maxItems) : value)
    written.add(name)
  }

  const misfit = (entry: string, detail: string) => new MemoryMisfit({ key, entry, detail })

  const textOf = (json: unknown) =>
    Result.mapError(CanonicalJson.encode(json), ({ path, reason }) => misfit(path, reason))

  const compacted = (next: Stored, bytes: number): Result.Result<string, MemoryLimitExceeded | MemoryMisfit> =>
    Result.gen(function*() {
      const kept = yield* Result.try({
        try: () => compact?.(next, bytes - maxBytes) ?? next,
        catch: (error) => misfit("compact", String(error))
      })
      const left = yield* textOf(kept)
      if (size(left) > maxBytes) {
        return yield* Result.fail(new MemoryLimitExceeded({ key, bytes: size(left), maxBytes }))
      }
      values.clear()
      stored = kept
      return left
    })

  const ended = (text: string): Ended => ({ stored, digest: CanonicalJson.digest(text) })

  return {
    memory: {
      get: (name) => Effect.sync(() => get(name)),
      set: (name, value) => Effect.sync(() => set(name, value)),
      update: (name, f) => Effect.sync(() => set(name, f(get(name)))),
      append: (name, item) => Effect.sync(() => set(name, [...get(name), item]))
    },

    end: () =>
      Result.gen(function*() {
        if (written.size === 0) return undefined
        const next: Record<string, CanonicalJson.Json> = { ...stored }
        for (const name of written) {
          next[name] = yield* Result.mapError(
            Schema.encodeUnknownResult(of(name).schema)(values.get(name)),
            ({ message }) => misfit(name, message)
          )
        }
        written.clear()
        const text = yield* textOf(next)
        if (size(text) > maxBytes) return ended(yield* compacted(next, size(text)))
        stored = next
        return ended(text)
      }),

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

/**
 * A memory entry holds a value that does not fit its schema, or `compact` failed. Nothing was committed.
 *
 * @since 0.1.0
 * @category errors
 */
export class MemoryMisfit extends Schema.TaggedError<MemoryMisfit>()("MemoryMisfit", {
  key: Schema.String,
  entry: Schema.String,
  detail: Schema.String
}) {
  override get message() {
    return `memory entry '${this.entry}' of key '${this.key}': ${this.detail}`
  }
}

// internal

type ListNames<M> = {
  [Name in keyof M & string]: Value<M[Name]> extends ReadonlyArray<any> ? Name : never
}[keyof M & string]

type Item<List> = List extends ReadonlyArray<infer A> ? A : never

const size = (text: string): number => Buffer.byteLength(text)
