// Webhook endpoints: where they may point, and their secrets.
import { hkdfSync, randomBytes } from 'node:crypto';
import type { Queryable } from '../db/connect.ts';
import { findEndpointSecrets } from '../db/endpoints.ts';
import type { SecretBox } from './secrets.ts';

/** A signing secret as the Standard Webhooks specification writes it: whsec_ and the Base64 of 32 random bytes. */
export function generateWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/**
 * The secrets of a live endpoint that sign now, without a previous one that no key opens: a rotation is what helps after a key is lost. undefined
 * when the endpoint is gone.
 */
export async function openSecrets(
  sql: Queryable,
  secrets: SecretBox,
  endpointId: string,
): Promise<{ secret: string; previousSecret?: string } | undefined> {
  const sealed = await findEndpointSecrets(sql, endpointId);
  if (sealed === undefined) return undefined;
  const secret = secrets.open(sealed.secret, endpointId);
  if (sealed.previousSecret === null) return { secret };
  try {
    return { secret, previousSecret: secrets.open(sealed.previousSecret, endpointId) };
  } catch {
    // Counted and logged by secrets-watch.ts.
    return { secret };
  }
}

/**
 * The secret that `billing listen` signs with: the endpoint's own cannot be read. It follows from the API key and the app, so that a developer
 * writes it down once, and tells nothing of the key.
 */
export function listenSecret(apiKey: string, appId: string): string {
  return `whsec_${Buffer.from(hkdfSync('sha256', apiKey, '', `billing listen ${appId}`, 32)).toString('base64')}`;
}

/** Why events cannot be sent to this URL, in words for the merchant; undefined when they can. Production takes HTTPS alone (docs/contract.md). */
export function urlFault(
  text: string,
  environment: 'development' | 'production',
): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:'))
    return 'must be an absolute https:// URL';
  if (environment === 'production' && url.protocol !== 'https:')
    return 'must be an https:// URL in production';
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password';
  return undefined;
}
