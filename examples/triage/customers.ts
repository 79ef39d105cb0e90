/**
 * The bank's customers, `cust-001` to `cust-200`. A real bank has a database; here a profile is made from the number.
 */
export interface Customer {
  readonly id: string
  readonly country: string
  readonly band: "high" | "normal"
  readonly averageTransferCents: number
  readonly chargebacks: number
}

const countries = ["AT", "CH", "DE", "FR", "IT", "NL"] as const

export const customers: ReadonlyArray<Customer> = Array.from({ length: 200 }, (_, index) => ({
  id: `cust-${String(index + 1).padStart(3, "0")}`,
  country: countries[index % countries.length] ?? "DE",
  band: index % 9 === 4 ? "high" : "normal",
  averageTransferCents: 2_000 + (index * 37) % 80 * 250,
  chargebacks: index % 11 === 0 ? 4 : index % 3
}))

export const findCustomer = (id: string): Customer | undefined => customers.find((customer) => customer.id === id)
