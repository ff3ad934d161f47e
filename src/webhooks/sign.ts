// The two signatures of a webhook request: billing's own (docs/webhooks.md) and that of the
// Standard Webhooks specification.
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** The two keys of one secret. */
export interface SigningKeys {
  /** The whole string's UTF-8 bytes. */
  service: KeyObject;
  /** The 32 bytes whose Base64 follows whsec_. */
  standard: KeyObject;
}

/** `secret` is whsec_<base64>. */
export function signingKeys(secret: string): SigningKeys {
  return {
    service: createSecretKey(Buffer.from(secret, 'utf8')),
    standard: createSecretKey(Buffer.from(secret.replace(/^whsec_/, ''), 'base64')),
  };
}

/**
 * The headers of one request, as name, value, name, value. `timestamp` is Unix seconds; `id` is the
 * event's id, the same for every attempt. After a rotation the previous secret also signs in
 * webhook-signature, which is a list; X-Service-Signature only uses the newest secret.
 */
export function signedHeaders(
  [newest, previous]: readonly [SigningKeys, (SigningKeys | undefined)?],
  id: string,
  timestamp: number,
  body: string,
): string[] {
  const service = createHmac('sha256', newest.service)
    .update(`${timestamp}.`)
    .update(body)
    .digest('hex');
  const standard = ({ standard: key }: SigningKeys) =>
    `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
  return [
    'content-type',
    'application/json',
    'user-agent',
    'billing-webhooks',
    'x-service-signature',
    `sha256=${service}`,
    'x-service-timestamp',
    String(timestamp),
    'webhook-id',
    id,
    'webhook-timestamp',
    String(timestamp),
    'webhook-signature',
    previous === undefined ? standard(newest) : `${standard(newest)} ${standard(previous)}`,
  ];
}
