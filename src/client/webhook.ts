// For a merchant's server: checks that a webhook request comes from the service. docs/contract.md
// (Signature) has the rules. The only module that this file imports is node:crypto.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { components } from './openapi.ts';

type Schemas = components['schemas'];

/**
 * An event as the service sends it. Check `type` before you read fields that only some types have.
 * Deduplicate events by `id`.
 */
export type WebhookEvent = Schemas['SentEvent'];

/**
 * The headers of a request: an object as in node:http (names in any case), a `Headers` of the Fetch
 * API, or pairs of name and value.
 */
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

/**
 * Thrown when the check of a webhook request fails; `reason` says why. Respond to the request with
 * status 401.
 */
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
 * Checks a webhook request and returns its event. `rawBody` is the body as received, before any
 * parser. `secret` is the endpoint's signing secret (whsec_...). Throws WebhookVerificationError,
 * or TypeError for invalid arguments.
 *
 * A request has the header X-Service-Signature, the header webhook-signature (Standard Webhooks),
 * or both. If both are present, both must be valid, except during a rotation of the secret. In a
 * rotation, webhook-signature lists several signatures. Then one of these signatures must be valid,
 * and X-Service-Signature is not checked. The timestamp may differ from `now` by up to 300 s.
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
    // During a rotation of the secret, the header has two signatures: one with the new secret and
    // one with the previous secret. All signatures are compared, so that the duration of the check
    // does not reveal which signature is valid.
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
    // A header that the request repeats is joined to one text, which is never a valid signature.
    // The service itself sends each header only once.
    return values.length === 0 ? undefined : values.join(', ');
  };
}

/**
 * Returns the timestamp (Unix seconds) as the text of the header, because the signature covers that
 * text. Throws WebhookVerificationError when the timestamp is missing or too far from `now`.
 */
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
    // Invalid JSON is reported like JSON that is not an event, by the error below.
  }
  throw new WebhookVerificationError('bad_body', 'The body is signed but is not an event.');
}
