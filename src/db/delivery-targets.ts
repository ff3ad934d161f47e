// Where deliveries go: an endpoint's URL and sealed secret never change, so a dispatcher reads them once.
import { literal } from './arrays.ts';
import type { Queryable } from './connect.ts';

export interface DeliveryTarget {
  id: string;
  url: string;
  /** As domain/secrets.ts sealed it, for this id. */
  secret: Buffer;
}

/** The endpoints with these ids, deleted ones too. */
export function readTargets(sql: Queryable, ids: string[]): Promise<DeliveryTarget[]> {
  return sql<DeliveryTarget[]>`select id, url, secret from webhook_endpoints where id = any(${literal(ids)}::uuid[])`;
}
