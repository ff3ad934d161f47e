// Cache of endpoint URLs, signing keys and settings. A claim returns the time of the endpoint's
// last change. An older cache entry is read again. The URL of an endpoint never changes.
import type { ClaimedDelivery } from '../db/delivering/delivery-queue.ts';
import { readEndpoints, type SealedEndpoint } from '../db/delivering/endpoints.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { SecretBox } from '../domain/accounts/secrets.ts';
import { openHeaders } from '../domain/outbox/endpoints.ts';
import { signingKeys, type SigningKeys } from '../webhooks/sign.ts';

export interface SendingEndpoint {
  origin: string;
  /** The host name of the URL, without the port. */
  host: string;
  path: string;
  keys: SigningKeys;
  /**
   * The keys of the previous secret. Requests are also signed with these keys until the time
   * `until` (Unix ms of the database's clock).
   */
  previous: { keys: SigningKeys; until: number } | undefined;
  /** The merchant's own headers: name, value, name, value. */
  headers: string[];
  maxPerSecond: number | null;
  changedAt: number | null;
}

const MAX_KEPT = 10_000;

export class EndpointCache {
  /** Entries in order of last use, oldest first. */
  readonly #cache = new Map<string, SendingEndpoint>();
  readonly #sql: Sql;
  readonly #secrets: SecretBox;
  readonly #onUnusable: (endpointId: string, error: unknown) => void;

  /**
   * `onUnusable` is called for each endpoint with a secret that cannot be decrypted. If only the
   * previous secret cannot be decrypted, requests are signed with the current secret alone.
   */
  constructor(
    sql: Sql,
    secrets: SecretBox,
    onUnusable: (endpointId: string, error: unknown) => void,
  ) {
    this.#sql = sql;
    this.#secrets = secrets;
    this.#onUnusable = onUnusable;
  }

  /**
   * Returns the endpoints of these claims. Endpoints whose current secret cannot be decrypted are
   * missing in the result.
   */
  async read(
    claimed: readonly Pick<ClaimedDelivery, 'endpointId' | 'changedAt'>[],
  ): Promise<ReadonlyMap<string, SendingEndpoint>> {
    const changedAtById = new Map(
      claimed.map(({ endpointId, changedAt }) => [endpointId, changedAt]),
    );
    const missing = [...changedAtById].flatMap(([id, changedAt]) => {
      const cached = this.#cache.get(id);
      return cached === undefined || (cached.changedAt ?? 0) < (changedAt ?? 0) ? [id] : [];
    });
    for (const id of missing) this.#cache.delete(id);
    for (const sealed of missing.length === 0 ? [] : await readEndpoints(this.#sql, missing)) {
      try {
        this.#cache.set(sealed.id, this.#open(sealed));
      } catch (error) {
        this.#onUnusable(sealed.id, error);
      }
    }
    const found = new Map<string, SendingEndpoint>();
    for (const id of changedAtById.keys()) {
      const endpoint = this.#cache.get(id);
      if (endpoint === undefined) continue;
      found.set(id, endpoint);
      this.#cache.delete(id);
      this.#cache.set(id, endpoint);
    }
    for (const id of this.#cache.keys()) {
      if (this.#cache.size <= MAX_KEPT) break;
      this.#cache.delete(id);
    }
    return found;
  }

  #open(sealed: SealedEndpoint): SendingEndpoint {
    const { id, url, secret, previousSecret, previousUntil, headers, ...rest } = sealed;
    const { origin, hostname, pathname, search } = new URL(url);
    const keysOf = (bytes: Buffer) => signingKeys(this.#secrets.open(bytes, id));
    const previousOf = (bytes: Buffer, until: number) => {
      try {
        return { keys: keysOf(bytes), until };
      } catch (error) {
        this.#onUnusable(id, error);
        return undefined;
      }
    };
    return {
      origin,
      host: hostname,
      path: `${pathname}${search}`,
      keys: keysOf(secret),
      previous:
        previousSecret === null || previousUntil === null
          ? undefined
          : previousOf(previousSecret, previousUntil),
      headers: headers === null ? [] : openHeaders(this.#secrets, headers, id),
      maxPerSecond: rest.maxPerSecond,
      changedAt: rest.changedAt,
    };
  }
}
