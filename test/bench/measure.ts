// How long things take: whole batches are timed, after a warm-up, so that one garbage collection is one slow batch.
import * as Effect from "effect/Effect"
import { availableParallelism, cpus } from "node:os"

export interface Timing {
  /** Microseconds for one operation, in the middle batch and in the slowest but one in a hundred. */
  readonly p50: number
  readonly p99: number
}

export const machine = {
  cpu: cpus()[0]?.model.trim() ?? "unknown",
  cores: availableParallelism(),
  node: process.version
}

export interface Batches {
  readonly size: number
  readonly count: number
  readonly warmup: number
}

const batches: Batches = { size: 200, count: 200, warmup: 100 }

/** Times several operations in turn, batch by batch, so that whatever the machine does meets all of them. */
export const time = async <Name extends string>(
  operations: Record<Name, Effect.Effect<unknown, unknown>>,
  { count, size, warmup } = batches
): Promise<Record<Name, Timing>> => {
  const names = Object.keys(operations) as Array<Name>
  const samples = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<Name, Array<number>>
  for (let batch = 0; batch < warmup + count; batch++) {
    for (const name of names) {
      const started = process.hrtime.bigint()
      await Effect.runPromise(Effect.repeat(operations[name], { times: size - 1 }))
      const micros = Number(process.hrtime.bigint() - started) / 1000 / size
      if (batch >= warmup) samples[name].push(micros)
    }
  }
  return Object.fromEntries(names.map((name) => [name, quantiles(samples[name])])) as Record<Name, Timing>
}

const quantiles = (samples: Array<number>): Timing => {
  samples.sort((a, b) => a - b)
  const at = (share: number) => samples[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? NaN
  return { p50: at(0.5), p99: at(0.99) }
}
