// Headers that a merchant adds to the webhook requests of an endpoint, such as an authorization for
// a gateway in front of the receiver. Their values are stored encrypted and never shown.

export const MAX_HEADERS = 10;
const MAX_VALUE = 1000;

// Headers that a merchant cannot set: headers of this service, headers of the connection (RFC 9110,
// 7.6.1), and headers that describe the request's encoding.
const RESERVED = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'traceparent',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);
const RESERVED_PREFIX = /^(webhook-|x-service-|proxy-)/;
const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]{1,100}$/;
// A header value is visible ASCII. Spaces and tabs may occur inside, not at either end.
const VALUE = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

export type Headers = Readonly<Record<string, string>>;

/**
 * Returns the headers with names in lower case. For a header that cannot be sent, calls `fault`
 * with the header's name and the violated rule. `fault` throws.
 */
export function customHeaders(
  given: Headers,
  fault: (name: string, rule: string) => never,
): Headers {
  // A Map is used, because an object already has properties, such as `constructor`.
  const headers = new Map<string, string>();
  for (const [written, value] of Object.entries(given)) {
    const name = written.toLowerCase();
    if (!TOKEN.test(name)) fault(written, 'must be the name of an HTTP header');
    if (RESERVED.has(name) || RESERVED_PREFIX.test(name))
      fault(written, 'is a header of the service or of the connection');
    if (headers.has(name)) fault(written, 'is given twice');
    if (!VALUE.test(value) || value.length > MAX_VALUE)
      fault(written, `must be 1 to ${MAX_VALUE} visible ASCII characters, spaces only inside`);
    headers.set(name, value);
  }
  return Object.fromEntries(headers);
}

/** Returns the headers as one list, in which each name precedes its value. */
export const flatHeaders = (headers: Headers): string[] => Object.entries(headers).flat();
