// Endpoints as they are needed for sending, read once and kept: neither URL nor secret of an endpoint ever changes.
import type { Sql } from '../db/connect.ts';
import { readTargets } from '../db/delivery-targets.ts';
import type { SecretBox } from '../domain/secrets.ts';
import { signingKeys, type SigningKeys } from './sign.ts';

export interface SendingTarget {
  origin: string;
  path: string;
  keys: SigningKeys;
}

export interface Targets {
  /** Reads those that are not known yet. One whose secret cannot be opened is told to `onUnusable` and stays unknown. */
  load(endpointIds: Iterable<string>): Promise<void>;
  get(endpointId: string): SendingTarget | undefined;
}

const keptAtMost = 10_000;

export function createTargets(sql: Sql, secrets: SecretBox, onUnusable: (endpointId: string, error: unknown) => void): Targets {
  const known = new Map<string, SendingTarget>();
  return {
    async load(endpointIds) {
      const missing = [...new Set(endpointIds)].filter((id) => !known.has(id));
      if (missing.length === 0) return;
      for (const { id, url, secret } of await readTargets(sql, missing)) {
        try {
          const { origin, pathname, search } = new URL(url);
          known.set(id, { origin, path: `${pathname}${search}`, keys: signingKeys(secrets.open(secret, id)) });
        } catch (error) {
          onUnusable(id, error);
        }
      }
      // The oldest go; they are read again when they are needed again.
      for (const id of known.keys()) {
        if (known.size <= keptAtMost || missing.includes(id)) break;
        known.delete(id);
      }
    },
    get: (endpointId) => known.get(endpointId),
  };
}
