// Cache of endpoint URLs and signing keys. An entry is valid until a claim shows a later rotation
// of the endpoint's secret. The URL of an endpoint never changes.
import type { ClaimedDelivery } from '../db/delivery-queue.ts';
import { readEndpoints, type SealedEndpoint } from '../db/endpoints.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { SecretBox } from '../domain/accounts/secrets.ts';
import { signingKeys, type SigningKeys } from '../webhooks/sign.ts';

export interface SendingEndpoint {
  origin: string;
  path: string;
  keys: SigningKeys;
  /**
   * The keys of the previous secret, which also sign until the time `until` (Unix ms of the
   * database's clock).
   */
  previous: { keys: SigningKeys; until: number } | undefined;
  rotatedAt: number | null;
}

const MAX_KEPT = 10_000;

export class EndpointCache {
  /** Entries in order of last use, oldest first. */
  readonly #known = new Map<string, SendingEndpoint>();
  readonly #sql: Sql;
  readonly #secrets: SecretBox;
  readonly #onUnusable: (endpointId: string, error: unknown) => void;

  /**
   * `onUnusable` is called for each endpoint with a secret that cannot be decrypted. If this is the
   * previous secret, the endpoint is used with its current secret only.
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
    claimed: readonly Pick<ClaimedDelivery, 'endpointId' | 'rotatedAt'>[],
  ): Promise<ReadonlyMap<string, SendingEndpoint>> {
    const wanted = new Map(claimed.map(({ endpointId, rotatedAt }) => [endpointId, rotatedAt]));
    const missing = [...wanted].flatMap(([id, rotatedAt]) => {
      const known = this.#known.get(id);
      return known === undefined || (known.rotatedAt ?? 0) < (rotatedAt ?? 0) ? [id] : [];
    });
    for (const id of missing) this.#known.delete(id);
    for (const sealed of missing.length === 0 ? [] : await readEndpoints(this.#sql, missing)) {
      try {
        this.#known.set(sealed.id, this.#open(sealed));
      } catch (error) {
        this.#onUnusable(sealed.id, error);
      }
    }
    const found = new Map<string, SendingEndpoint>();
    for (const id of wanted.keys()) {
      const endpoint = this.#known.get(id);
      if (endpoint === undefined) continue;
      found.set(id, endpoint);
      this.#known.delete(id);
      this.#known.set(id, endpoint);
    }
    for (const id of this.#known.keys()) {
      if (this.#known.size <= MAX_KEPT) break;
      this.#known.delete(id);
    }
    return found;
  }

  #open({ id, url, secret, previousSecret, previousUntil, rotatedAt }: SealedEndpoint) {
    const { origin, pathname, search } = new URL(url);
    const keysOf = (sealed: Buffer) => signingKeys(this.#secrets.open(sealed, id));
    const previousOf = (sealed: Buffer, until: number) => {
      try {
        return { keys: keysOf(sealed), until };
      } catch (error) {
        this.#onUnusable(id, error);
        return undefined;
      }
    };
    return {
      origin,
      path: `${pathname}${search}`,
      keys: keysOf(secret),
      previous:
        previousSecret === null || previousUntil === null
          ? undefined
          : previousOf(previousSecret, previousUntil),
      rotatedAt,
    };
  }
}
