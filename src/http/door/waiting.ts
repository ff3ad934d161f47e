// Limits how many requests wait at the same time, so that most connections stay free for other
// requests. Each kind of waiting request has its own limit, so that long polls for events do not
// use up the places of payments.
import { finished } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../../errors.ts';
import { networksOf } from './addresses.ts';

/**
 * - `paying`: sends a signed transaction and waits until it is confirmed.
 * - `polling`: waits for the progress of a sponsored transaction, if the query asks for it.
 * - `events`: waits for events, if the query asks for it.
 * - `servers`: waits for a merchant's server.
 */
export type PlaceKind = 'paying' | 'polling' | 'events' | 'servers';

/** Share of the process's connections that each kind may use. */
const PARTS: Record<PlaceKind, number> = {
  paying: 1 / 8,
  polling: 1 / 8,
  events: 1 / 4,
  servers: 1 / 16,
};
/** Share of a kind's places that one address may use. */
const MAX_SHARE_PER_ADDRESS = 1 / 4;

export class Places {
  readonly #limits: { connections: number; perAddress: number };
  /** Number of places in use, by kind, and by kind and network. */
  readonly #taken = new Map<string, number>();

  /**
   * `connections`: maximum connections of the process. `perAddress`: maximum connections of one
   * address. Waiting requests of one kind may use at most half of `perAddress`.
   */
  constructor(limits: { connections: number; perAddress: number }) {
    this.#limits = limits;
  }

  /**
   * Reserves a place for a client's address. Returns the function that releases it. Returns
   * undefined if the process or a network of the address has no place left. An IPv6 /56 counts as
   * one address, its /48 as two.
   */
  take(kind: PlaceKind, ip: string): (() => void) | undefined {
    const { connections, perAddress } = this.#limits;
    const all = connections * PARTS[kind];
    const ofAddress = Math.max(
      1,
      Math.floor(Math.min(perAddress / 2, all * MAX_SHARE_PER_ADDRESS)),
    );
    const networks = networksOf(ip);
    const limitedNames = [
      [kind, Math.max(1, Math.floor(all))] as const,
      ...networks.map(
        (network, index) => [`${kind} ${network}`, ofAddress * (networks.length - index)] as const,
      ),
    ];
    const taken = (name: string) => this.#taken.get(name) ?? 0;
    if (limitedNames.some(([name, max]) => taken(name) >= max)) return undefined;
    for (const [name] of limitedNames) this.#taken.set(name, taken(name) + 1);
    return () => {
      for (const [name] of limitedNames) {
        const left = taken(name) - 1;
        if (left > 0) this.#taken.set(name, left);
        else this.#taken.delete(name);
      }
    };
  }
}

/**
 * If the route lets the request wait, reserves a place until its response closes. Without a free
 * place, a `polling` request is answered at once with the current state, and any other request gets
 * RATE_LIMITED.
 */
export function takePlace(
  request: FastifyRequest,
  reply: FastifyReply,
  places: Places,
): ServiceError | undefined {
  const { waits } = request.routeOptions.config;
  const { wait = 0 } = request.query as { wait?: number };
  const isAsked = waits === 'polling' || waits === 'events';
  if (waits === undefined || (isAsked && wait === 0)) return undefined;
  const release = places.take(waits, request.ip);
  if (release !== undefined) {
    // finished() calls `release` even if the client has disconnected before this call.
    finished(reply.raw, release);
    return undefined;
  }
  reply.header('retry-after', 1);
  if (waits === 'polling') {
    request.mayWait = false;
    return undefined;
  }
  return new ServiceError(
    'RATE_LIMITED',
    'Too many requests of this address or server wait: try again in a moment.',
  );
}
