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
  load(endpointIds: ReadonlySet<string>): Promise<void>;
  has(endpointId: string): boolean;
  /** Throws when it is unknown. */
  get(endpointId: string): SendingTarget;
}

const keptAtMost = 10_000;
/** Beyond that number, too, those that were loaded within this stay: what was read is sent within a second, or read and loaded again (lanes.ts). */
const keptMs = 5000;

export function createTargets(sql: Sql, secrets: SecretBox, onUnusable: (endpointId: string, error: unknown) => void): Targets {
  // In the order in which they were loaded last.
  const known = new Map<string, SendingTarget & { loadedAt: number }>();
  return {
    async load(endpointIds) {
      const loadedAt = performance.now();
      const missing: string[] = [];
      for (const id of endpointIds) {
        const target = known.get(id);
        known.delete(id);
        if (target === undefined) missing.push(id);
        else {
          target.loadedAt = loadedAt;
          known.set(id, target);
        }
      }
      if (missing.length === 0) return;
      for (const { id, url, secret } of await readTargets(sql, missing)) {
        try {
          const { origin, pathname, search } = new URL(url);
          known.set(id, { origin, path: `${pathname}${search}`, keys: signingKeys(secrets.open(secret, id)), loadedAt });
        } catch (error) {
          onUnusable(id, error);
        }
      }
      // Those that were not needed for longest go; they are read again when they are needed again.
      for (const [id, target] of known) {
        if (known.size <= keptAtMost || target.loadedAt > loadedAt - keptMs) break;
        known.delete(id);
      }
    },
    has: (endpointId) => known.has(endpointId),
    get(endpointId) {
      const target = known.get(endpointId);
      if (target === undefined) throw new Error(`endpoint ${endpointId} was not loaded`);
      return target;
    },
  };
}
