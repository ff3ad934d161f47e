// Both signatures of a webhook request: ours (service.md, Signature) and that of the Standard Webhooks specification.
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** The two keys of one secret. */
export interface SigningKeys {
  /** The whole string's UTF-8 bytes. */
  service: KeyObject;
  /** The 32 bytes that the Base64 after whsec_ stands for. */
  standard: KeyObject;
}

/** `secret` is whsec_<base64>. */
export function signingKeys(secret: string): SigningKeys {
  return {
    service: createSecretKey(Buffer.from(secret, 'utf8')),
    standard: createSecretKey(Buffer.from(secret.replace(/^whsec_/, ''), 'base64')),
  };
}

/** The headers of one request, as name, value, name, value. `timestamp` in Unix seconds; `id` is the event's, the same on every attempt. */
export function signedHeaders(keys: SigningKeys, id: string, timestamp: number, body: Buffer): string[] {
  const service = createHmac('sha256', keys.service).update(`${timestamp}.`).update(body).digest('hex');
  const standard = createHmac('sha256', keys.standard).update(`${id}.${timestamp}.`).update(body).digest('base64');
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
    `v1,${standard}`,
  ];
}
