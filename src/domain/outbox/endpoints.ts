// Webhook endpoints: which URLs are allowed, and how requests to an endpoint are signed.
import { hkdfSync, randomBytes } from 'node:crypto';
import { findEndpointSecrets } from '../../db/delivering/endpoints.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { isWebhookPort } from '../../sockets.ts';
import type { SecretBox } from '../accounts/secrets.ts';
import { flatHeaders, type Headers } from './headers.ts';

const MAX_URL_LENGTH = 2048;

/**
 * Creates a signing secret in the format of the Standard Webhooks specification: whsec_, followed
 * by 32 random bytes in Base64.
 */
export function generateWebhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/**
 * Returns the decrypted signing secrets of an endpoint and the headers that the merchant has added,
 * or undefined when the endpoint is deleted. During a rotation of the signing secret, the result
 * also has the previous secret. A previous secret that no configured key decrypts is left out, so
 * that a merchant can replace a secret whose encryption key is lost.
 */
export async function openSecrets(
  sql: Queryable,
  secrets: SecretBox,
  endpointId: string,
): Promise<{ secret: string; previousSecret?: string; headers?: string[] } | undefined> {
  const sealed = await findEndpointSecrets(sql, endpointId);
  if (sealed === undefined) return undefined;
  const opened = {
    secret: secrets.open(sealed.secret, endpointId),
    ...(sealed.headers !== null && { headers: openHeaders(secrets, sealed.headers, endpointId) }),
  };
  if (sealed.previousSecret === null) return opened;
  try {
    return { ...opened, previousSecret: secrets.open(sealed.previousSecret, endpointId) };
  } catch {
    // secrets-watch.ts counts and logs the secrets that cannot be decrypted.
    return opened;
  }
}

export function sealHeaders(
  secrets: SecretBox,
  headers: Headers,
  endpointId: string,
): { sealed: Buffer | null; names: string[] } {
  const names = Object.keys(headers);
  const sealed = names.length === 0 ? null : secrets.seal(JSON.stringify(headers), endpointId);
  return { sealed, names };
}

/**
 * Decrypts the headers that the merchant has added. Returns one list, in which each name precedes
 * its value.
 */
export function openHeaders(secrets: SecretBox, sealed: Buffer, endpointId: string): string[] {
  return flatHeaders(JSON.parse(secrets.open(sealed, endpointId)) as Headers);
}

/**
 * Returns the signing secret for `billing listen`, which cannot read the endpoint's own secret. The
 * secret is derived from the API key and the app, so each run has the same secret. The API key
 * cannot be derived from it.
 */
export function listenSecret(apiKey: string, appId: string): string {
  return `whsec_${Buffer.from(hkdfSync('sha256', apiKey, '', `billing listen ${appId}`, 32)).toString('base64')}`;
}

/**
 * Returns the reason why no events can be sent to this URL, as a message to the merchant, or
 * undefined when the URL is allowed. Production requires HTTPS and limits the port
 * (docs/contract.md).
 */
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
  if (url.port === '0') return 'must have a port from 1 to 65535: nothing can listen on port 0';
  if (environment === 'production' && !isWebhookPort(url.port))
    return 'must have the port 80, 443 or one above 1023 in production';
  const { length } = calledUrl(text);
  if (length > MAX_URL_LENGTH)
    return `must have at most ${MAX_URL_LENGTH} characters as it is called; encoded, it has ${length}`;
  return undefined;
}

/**
 * Returns a URL in the form that is stored and called. The URL is normalized (case, default port,
 * dots, encoding). Its fragment is removed, because a fragment is never sent.
 */
export function calledUrl(text: string): string {
  const { origin, pathname, search } = new URL(text);
  return `${origin}${pathname}${search}`;
}
