// The hosts of the endpoints, by the host names in their URLs. Endpoints of different merchants may
// have the same host. The limit per host covers all of them, so that a merchant with many endpoints
// cannot aim all requests of the dispatchers at another server.

/** What a dispatcher has under way for one host. */
export interface Host {
  readonly name: string;
  /** Requests in flight. */
  inFlight: number;
  /** Claimed but unsent deliveries. */
  ready: number;
}

export class Hosts {
  readonly #known = new Map<string, Host>();

  /** Returns the host with this name, the same object while it has anything under way. */
  get(name: string): Host {
    const known = this.#known.get(name) ?? { name, inFlight: 0, ready: 0 };
    this.#known.set(name, known);
    return known;
  }

  /** Drops the hosts that have nothing under way. */
  forget(): void {
    for (const { name, inFlight, ready } of this.#known.values())
      if (inFlight === 0 && ready === 0) this.#known.delete(name);
  }
}
