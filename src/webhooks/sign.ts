// Creates the two signatures of a webhook request: billing's own (docs/webhooks.md), and the
// signature of the Standard Webhooks specification.
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** The two HMAC keys that are derived from one secret. */
export interface SigningKeys {
  /** Key of billing's own signature: the UTF-8 bytes of the whole secret string. */
  service: KeyObject;
  /** Key of the Standard Webhooks signature: the 32 bytes encoded after whsec_. */
  standard: KeyObject;
}

/** Derives the keys from a secret in the form whsec_<base64>. */
export function signingKeys(secret: string): SigningKeys {
  return {
    service: createSecretKey(Buffer.from(secret, 'utf8')),
    standard: createSecretKey(Buffer.from(secret.replace(/^whsec_/, ''), 'base64')),
  };
}

/**
 * Returns the headers of one request as name, value, name, value. `id` is the event's id, which is
 * the same for every attempt. `timestamp` is in Unix seconds. `previous` is given only during a
 * secret rotation. webhook-signature then has two signatures, one with each secret.
 * X-Service-Signature always has only the signature with the newest secret.
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
