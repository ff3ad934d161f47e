// Client addresses: tells whether an address is a trusted proxy, and returns the name under which
// the rate limits count an address.
import { BlockList } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * Returns a function that tells whether `list`, a list of addresses and CIDRs, contains an address.
 * Some proxies append a port to the address. The port is ignored.
 */
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

/**
 * Returns the name under which requests of an address are counted. Internet providers give each
 * customer an IPv6 /56, so a whole /56 counts as one address. siteOf (db/offers/sponsor-budgets.ts)
 * reads the /48 from the name.
 */
export function addressSubject(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) return `address:${text}`;
  if (!(address instanceof ipaddr.IPv6)) return `address:${address.toString()}`;
  const [first = 0, second = 0, third = 0, fourth = 0] = address.parts;
  const groups = [first, second, third, fourth & 0xff00].map((group) => group.toString(16));
  return `address:${groups.join(':')}::/56`;
}

/**
 * Returns the networks of an address, widest first: the address itself for IPv4, the /48 and the
 * /56 for IPv6. One customer may have all addresses of such a network.
 */
export function networksOf(text: string): string[] {
  const address = parseAddress(text);
  if (address === undefined) return [text];
  if (address.kind() === 'ipv4') return [address.toString()];
  const groups = address.toNormalizedString().split(':', 4);
  const [wide, fourth = '0'] = [groups.slice(0, 3).join(':'), groups[3]];
  const narrow = ((parseInt(fourth, 16) >> 8) << 8).toString(16);
  return [`${wide}::/48`, `${wide}:${narrow}::/56`];
}

/**
 * Parses `192.0.2.1`, `192.0.2.1:443`, `2001:db8::1` or `[2001:db8::1]:443`. An IPv4 address in
 * IPv6 form becomes an IPv4 address.
 */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  const bare = /^\[(.+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  return ipaddr.isValid(bare) ? ipaddr.process(bare) : undefined;
}
