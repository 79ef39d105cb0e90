/**
 * An agent as a state machine. `Agent.suspend(state)` ends an activation and waits for what was staged with `ctx.act`; the next
 * one starts with that state and the results in `ctx.resume`, and replays nothing.
 */
import { Console, Effect, Layer, Schema } from "effect"
import { Agent, AgentEngine, AgentStore, Effector, Intent, Tool } from "effect-intents"

class SoldOut extends Schema.TaggedError<SoldOut>()("SoldOut", { flight: Schema.String }) {}

const holdSeat = Tool.sideEffect("hold_seat", {
  description: "Hold a seat for a few minutes.",
  parameters: { flight: Schema.String },
  success: Schema.String,
  failure: SoldOut
})

const charge = Tool.sideEffect("charge", {
  description: "Charge the traveller.",
  parameters: { seat: Schema.String, cents: Schema.Int },
  success: Schema.String
})

const Booking = Schema.Struct({ flight: Schema.String, cents: Schema.Int })

const State = Schema.Union([
  Schema.TaggedStruct("Holding", { booking: Booking, hold: Intent.Id }),
  Schema.TaggedStruct("Charging", { seat: Schema.String, charge: Intent.Id })
])

const bookings = Agent.make(
  "bookings",
  { event: Booking, output: Schema.String, state: State },
  Effect.fnUntraced(
    function*(ctx, booking) {
      if (ctx.resume === undefined) {
        const hold = yield* ctx.act(holdSeat({ flight: booking.flight }))
        return Agent.suspend({ _tag: "Holding", booking, hold })
      }
      const { result, state } = ctx.resume
      switch (state._tag) {
        case "Holding": {
          const seat = yield* result(holdSeat, state.hold)
          return Agent.suspend({
            _tag: "Charging",
            seat,
            charge: yield* ctx.act(charge({ seat, cents: state.booking.cents }))
          })
        }
        case "Charging":
          return Agent.complete(`seat ${state.seat}, ${yield* result(charge, state.charge)}`)
      }
    },
    Effect.catchTag("SoldOut", ({ flight }) => Effect.succeed(Agent.complete(`${flight} is sold out`)))
  )
)

const Airline = Layer.mergeAll(
  holdSeat.toLayer(({ flight }) => flight === "LX2" ? Effect.fail(new SoldOut({ flight })) : Effect.succeed("14A")),
  charge.toLayer(({ cents }) => Effect.succeed(`paid ${cents} cents`))
)

const program = Effect.gen(function*() {
  const engine = yield* AgentEngine.AgentEngine
  const book = (key: string, flight: string) => engine.call(bookings, { key, event: { flight, cents: 9900 } })
  yield* Console.log(yield* book("traveller-1", "LX1"))
  yield* Console.log(yield* book("traveller-2", "LX2"))
})

const Live = AgentEngine.layer(bookings).pipe(
  Layer.provide(Effector.layer(holdSeat, charge)),
  Layer.provide(Airline),
  Layer.provide(AgentStore.layerMemory)
)

await Effect.runPromise(Effect.provide(program, Live))
