// Parsers for the values of variables. A parser throws an Error whose message states the expected
// form. The caller adds the variable's name before the message.
import bs58 from 'bs58';
import ipaddr from 'ipaddr.js';

/** Accepts any text and returns it unchanged. */
export const text = (value: string) => value;

/** Accepts one of the given values. */
export const oneOf =
  <const T extends string>(...options: readonly T[]) =>
  (value: string): T => {
    const found = options.find((option) => option === value);
    if (found === undefined) throw new Error(`must be one of ${options.join(', ')}`);
    return found;
  };

/** Accepts a whole number in decimal digits. */
export const integer = (min: number, max: number) => (value: string) => {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < min || number > max)
    throw new Error(`must be a whole number from ${min} to ${max}`);
  return number;
};

/** Accepts a URL with one of the given protocols (such as "https:") and returns it unchanged. */
export const url =
  (...protocols: string[]) =>
  (value: string): string => {
    const parsed = URL.canParse(value) ? new URL(value) : undefined;
    if (parsed === undefined || !protocols.includes(parsed.protocol)) {
      throw new Error(
        `must be a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`,
      );
    }
    return value;
  };

/**
 * Accepts a base URL: http or https, a host, and perhaps a path. Links are built by appending to
 * it. Returns it without slashes at its end.
 */
export const baseUrl = (value: string): string => {
  const { username, password } = new URL(url('http:', 'https:')(value));
  const form = 'give scheme, host and perhaps a path alone';
  if (username !== '' || password !== '') throw new Error(`has a user name or a password: ${form}`);
  if (/[?#]/.test(value)) throw new Error(`has a query or a fragment: ${form}`);
  return value.replace(/\/+$/, '');
};

/** Accepts an origin: a base URL without a path. Returns it as browsers name it. */
export const origin = (value: string): string => {
  const { pathname, origin: named } = new URL(baseUrl(value));
  if (pathname !== '/') throw new Error(`has a path: give the origin alone, such as ${named}`);
  return named;
};

/** Accepts an https URL that contains the placeholder `{address}` and optionally `{amount}`. */
export const onrampUrl = (value: string): string => {
  const filled = value.replace('{address}', 'a').replace('{amount}', '1');
  if (!value.includes('{address}') || /[{}]/.test(filled))
    throw new Error('must be a URL with {address} and, if the site takes one, {amount}');
  url('https:')(filled);
  return value;
};

/** Accepts an https:// URL or a mailto: address. */
export const contact = (value: string): string => {
  const parsed = URL.canParse(value) ? new URL(value) : undefined;
  const isMail = parsed?.protocol === 'mailto:' && /^[^\s@?]+@[^\s@?]+$/.test(parsed.pathname);
  if (parsed?.protocol !== 'https:' && !isMail)
    throw new Error('must be an https:// URL or an address such as mailto:abuse@example.com');
  return value;
};

/** Accepts an e-mail address, bare or behind a name: `Billing <billing@example.com>`. */
export const sender = (value: string): string => {
  if (!/^(?:[^<>\r\n]*<[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+)$/.test(value))
    throw new Error('must be an address such as billing@example.com, or Name <address>');
  return value;
};

/** Parses a comma-separated list. Empty items are skipped. */
export const list =
  <T>(parse: (item: string) => T) =>
  (value: string): T[] =>
    value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '')
      .map(parse);

/** Parses a comma-separated list of `min` to `max` distinct items. */
export const listOf =
  <T>(min: number, max: number, parse: (item: string) => T) =>
  (value: string): T[] => {
    const items = list(parse)(value);
    if (items.length < min || items.length > max)
      throw new Error(`must have ${min} to ${max} entries, and has ${items.length}`);
    if (new Set(items).size < items.length) throw new Error('names the same twice');
    return items;
  };

/** Accepts a Solana address: 32 bytes in Base58. */
export const address = (value: string): string => {
  if (bs58.decodeUnsafe(value)?.length !== 32)
    throw new Error('must be a Solana address: Base58 of 32 bytes');
  return value;
};

/** Accepts a range of IPv4 or IPv6 addresses in CIDR notation. */
export const cidr = (value: string): string => {
  if (!ipaddr.isValidCIDR(value))
    throw new Error(`has "${value}", which is not a CIDR such as 10.0.0.0/8 or fd00::/8`);
  return value;
};

/** Accepts the IP address of a name server, with an optional port. */
export const nameServer = (value: string): string => {
  const [, host = value] = /^\[?([^\]]+?)\]?(?::\d+)?$/.exec(value) ?? [];
  if (!ipaddr.isValid(value) && !ipaddr.isValid(host))
    throw new Error(`has "${value}", which is not an address such as 9.9.9.9 or 127.0.0.1:53`);
  return value;
};

/**
 * Parses a list of secrets. Each secret has at least 64 hex digits, or at least 32 bytes of other
 * text.
 */
export const secrets = (value: string): string[] => {
  const all = list(text)(value);
  const bytes = (item: string) => Buffer.byteLength(item) / (/^[0-9a-f]+$/i.test(item) ? 2 : 1);
  if (all.length === 0 || all.some((item) => bytes(item) < 32)) {
    throw new Error(
      'must be at least 32 bytes (64 digits in hex; several, newest first, separated by commas, to rotate); try "openssl rand -base64 32"',
    );
  }
  return all;
};

/** Accepts "true" or "false". */
export const flag = (value: string): boolean => oneOf('true', 'false')(value) === 'true';
