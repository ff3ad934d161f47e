// Which address a request comes from: the peer's, or what a trusted proxy says of it.
import { BlockList } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Tells whether an address is one of these addresses and CIDRs. Some proxies write a port behind it, which is ignored. */
export function createTrust(list: readonly string[]): (address: string) => boolean {
  const trusted = new BlockList();
  for (const entry of list) {
    const [network = '', bits] = entry.split('/');
    const family = ipaddr.parse(network).kind();
    if (bits === undefined) trusted.addAddress(network, family);
    else trusted.addSubnet(network, Number(bits), family);
  }
  return (address) => {
    const parsed = parseAddress(address);
    return parsed !== undefined && trusted.check(parsed.toString(), parsed.kind());
  };
}

/** Subject of an address's rate limit. An IPv6 network of /64 is one customer's, and counts as one address. */
export function addressSubject(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return `address:${text}`;
  return address.kind() === 'ipv4'
    ? `address:${address.toString()}`
    : `address:${address.toNormalizedString().split(':', 4).join(':')}::/64`;
}

/** `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1` or `[2001:db8::1]:443`; an IPv4 address in IPv6 form becomes IPv4. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
}
