// Returns the host of a URL, and merges the responses of URLs with the same host. Such URLs lead to
// one provider, so they count as one endpoint.
import ipaddr from 'ipaddr.js';

/** Names and addresses of this machine. */
const LOOPBACK = /^(.*\.)?localhost$|^127(\.\d+){3}$|^0\.0\.0\.0$|^::1?$/;

/**
 * Returns host and port of a URL. Different forms of one host give the same result: a trailing dot
 * is removed, an IPv4-mapped IPv6 address becomes the IPv4 address, and all loopback addresses are
 * equal.
 */
export function hostOf({ hostname, port, protocol }: URL): string {
  const bare = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const name = ipaddr.isValid(bare) ? ipaddr.process(bare).toString() : bare;
  return `${LOOPBACK.test(name) ? 'localhost' : name}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

/** The response of one URL. `host` is its host and port. */
export interface Answer<T> {
  readonly host: string;
  readonly value: T;
}

/** Returns one value per host. `merge` joins the values of two URLs of one host. */
export function perHost<T>(
  answers: readonly Answer<T>[],
  merge: (value: T, other: T) => T,
): readonly T[] {
  const byHost = new Map<string, T>();
  for (const { host, value } of answers) {
    const earlier = byHost.get(host);
    byHost.set(host, earlier === undefined ? value : merge(earlier, value));
  }
  return [...byHost.values()];
}
