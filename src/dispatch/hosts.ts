// The hosts of the endpoints, by the host names in their URLs. Endpoints of different merchants may
// have the same host. The limit per host covers all of them, so that a merchant with many endpoints
// cannot aim all requests of the dispatchers at another server.

/** The deliveries of a dispatcher to one host that are claimed or in flight. */
export interface Host {
  readonly name: string;
  /** Requests in flight. */
  inFlight: number;
  /** Claimed but unsent deliveries. */
  ready: number;
}

export class Hosts {
  readonly #hosts = new Map<string, Host>();

  /**
   * Returns the host with this name. While the host has deliveries, each call returns the same
   * object.
   */
  get(name: string): Host {
    const host = this.#hosts.get(name) ?? { name, inFlight: 0, ready: 0 };
    this.#hosts.set(name, host);
    return host;
  }

  /** Drops the hosts without claimed deliveries and requests in flight. */
  forget(): void {
    for (const { name, inFlight, ready } of this.#hosts.values())
      if (inFlight === 0 && ready === 0) this.#hosts.delete(name);
  }
}
