// For a merchant's server: is this webhook request from the service? The rules stand in
// docs/contract.md (Signature). Nothing but node:crypto.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { components } from './openapi.ts';

type Schemas = components['schemas'];

/**
 * An event as the service sends it. Check `type` before reading fields that only some types have;
 * deduplicate by `id`.
 */
export type WebhookEvent = Schemas['SentEvent'];

/** Headers as node:http has them (any case), as a Fetch API `Headers`, or as pairs. */
export type WebhookHeaders =
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | { get(name: string): string | null }
  | Iterable<readonly [string, string]>;

export type WebhookFault =
  | 'missing_signature'
  | 'bad_timestamp'
  | 'timestamp_out_of_tolerance'
  | 'bad_signature'
  | 'bad_body';

/** The request is not one that the service signed with this secret, now: answer it with 401. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
  readonly reason: WebhookFault;

  constructor(reason: WebhookFault, message: string) {
    super(message);
    this.reason = reason;
  }
}

const TOLERANCE_MS = 300_000;

/**
 * Checks a webhook request and returns its event. `rawBody`: the bytes (or the text) as they came
 * in, before any parser. `secret`: the endpoint's whsec_... . At least one of X-Service-Signature
 * and webhook-signature (Standard Webhooks) is required, and each present one must be valid. During
 * a rotation webhook-signature is a list, and only it is checked. The timestamp may differ by up to
 * 300 s. Throws WebhookVerificationError, or TypeError for invalid arguments.
 */
export function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string,
  now: Date = new Date(),
): WebhookEvent {
  if (typeof rawBody !== 'string' && !(rawBody instanceof Uint8Array)) {
    throw new TypeError(
      'rawBody must be the request body as it came in: a Buffer, a Uint8Array or a string, not a parsed object.',
    );
  }
  if (typeof secret !== 'string' || secret === '')
    throw new TypeError('secret must be the signing secret of the webhook endpoint.');
  const body = typeof rawBody === 'string' ? Buffer.from(rawBody, 'utf8') : rawBody;
  const read = reader(headers);
  const service = read('x-service-signature');
  const standard = read('webhook-signature');
  if (service === undefined && standard === undefined) {
    throw new WebhookVerificationError(
      'missing_signature',
      'The request has neither X-Service-Signature nor webhook-signature.',
    );
  }
  let isRotating = false;
  if (standard !== undefined) {
    const timestamp = timestampOf(read('webhook-timestamp'), now);
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    const expected = createHmac('sha256', key)
      .update(`${read('webhook-id') ?? ''}.${timestamp}.`)
      .update(body)
      .digest('base64');
    // Signed with the new secret and with the one before while it is rotated. All are compared:
    // which one fits takes no shorter.
    const listed = standard.split(' ');
    const fitting = listed.filter((signature) => same(signature, `v1,${expected}`));
    if (key.length === 0 || fitting.length === 0) throw forged('webhook-signature');
    isRotating = listed.length > 1;
  }
  if (service !== undefined && !isRotating) {
    const timestamp = timestampOf(read('x-service-timestamp'), now);
    const expected = createHmac('sha256', secret)
      .update(`${timestamp}.`)
      .update(body)
      .digest('hex');
    if (!same(service, `sha256=${expected}`)) throw forged('X-Service-Signature');
  }
  return eventOf(body);
}

function reader(headers: WebhookHeaders): (name: string) => string | undefined {
  if ('get' in headers && typeof headers.get === 'function') {
    const fetched = headers as { get(name: string): string | null };
    return (name) => fetched.get(name) ?? undefined;
  }
  const pairs =
    Symbol.iterator in headers
      ? [...(headers as Iterable<readonly [string, string]>)]
      : Object.entries(headers as Readonly<Record<string, string | readonly string[] | undefined>>);
  return (name) => {
    const values = pairs.flatMap(([given, value]): readonly string[] => {
      if (given.toLowerCase() !== name || value === undefined) return [];
      return typeof value === 'string' ? [value] : value;
    });
    // The service sends each header once: a repeated header, joined, does not verify.
    return values.length === 0 ? undefined : values.join(', ');
  };
}

/** Unix seconds, as they were signed. */
function timestampOf(text: string | undefined, now: Date): string {
  if (text === undefined || !/^\d{1,15}$/.test(text)) {
    throw new WebhookVerificationError(
      'bad_timestamp',
      'The timestamp header is missing or is not Unix time in seconds.',
    );
  }
  if (Math.abs(now.getTime() - Number(text) * 1000) > TOLERANCE_MS) {
    throw new WebhookVerificationError(
      'timestamp_out_of_tolerance',
      'The timestamp is more than 300 seconds away from the current time.',
    );
  }
  return text;
}

function same(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given, 'utf8'), Buffer.from(expected, 'utf8')];
  return one.length === other.length && timingSafeEqual(one, other);
}

function forged(header: string): WebhookVerificationError {
  return new WebhookVerificationError(
    'bad_signature',
    `${header} is not the signature of this body with this secret.`,
  );
}

function eventOf(body: Uint8Array): WebhookEvent {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as unknown;
    if (typeof event === 'object' && event !== null && 'id' in event && 'type' in event)
      return event as WebhookEvent;
  } catch {
    // Refused below, like values that are not objects.
  }
  throw new WebhookVerificationError('bad_body', 'The body is signed but is not an event.');
}
