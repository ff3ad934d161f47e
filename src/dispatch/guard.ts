// Keeps webhooks away from addresses inside the operator's network: a merchant chooses the URL, and DNS answers are the merchant's too. An address
// is checked where it is used: literals when the connection is made, names by the very look-up whose answer is connected to, so that there is no
// second answer that could differ.
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { BlockedAddress } from './failure.ts';

export interface Guard {
  /** Throws BlockedAddress when `hostname` (as a URL has it, already normalised by it) is an address that is refused. */
  checkLiteral(hostname: string): void;
  /** For net.connect: gives vetted addresses only. Absent when there is nothing to check: the system's own look-up then. */
  lookup: LookupFunction | undefined;
}

export interface GuardOptions {
  /** false lets everything pass (development). */
  enabled: boolean;
  /** CIDRs that are allowed nevertheless. */
  allow: readonly string[];
  /** Name servers as address or address:port; those of the system when empty. */
  nameServers: readonly string[];
}

type Address = ReturnType<typeof ipaddr.parse>;
type Cidr = ReturnType<typeof ipaddr.parseCIDR>;

const globalUnicast = ipaddr.parseCIDR('2000::/3');

/** Refuses whatever is not a public unicast address: one that embeds an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) is none. */
export function createGuard({ enabled, allow, nameServers }: GuardOptions): Guard {
  if (!enabled) return { checkLiteral: () => undefined, lookup: undefined };
  const allowed = allow.map((cidr) => ipaddr.parseCIDR(cidr));
  // c-ares rather than getaddrinfo: that one blocks a thread of four for as long as a slow name server likes, and so every other endpoint.
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (nameServers.length > 0) resolver.setServers(nameServers);

  const check = (text: string) => {
    const address = ipaddr.parse(text);
    if (!isPublic(address) && !allowed.some((cidr) => within(address, cidr))) {
      throw new BlockedAddress(`${text} is not a public address`);
    }
  };
  const vetted = async (hostname: string, family: number) => {
    const found = await resolve(resolver, hostname, family);
    // One bad answer condemns the name: its owner decides which answer comes first next time.
    for (const { address } of found) check(address);
    return found;
  };

  return {
    checkLiteral(hostname) {
      const bare = hostname.replace(/^\[(.*)\]$/, '$1');
      if (isIP(bare) !== 0) check(bare);
    },
    lookup(hostname, options, callback) {
      const family = options.family === 4 || options.family === 'IPv4' ? 4 : options.family === 6 || options.family === 'IPv6' ? 6 : 0;
      vetted(hostname, family).then(
        (found) => {
          const [first] = found;
          if (first === undefined) callback(notFound(hostname), '', 0);
          else if (options.all === true) callback(null, found);
          else callback(null, first.address, first.family);
        },
        (error: unknown) => callback(error as NodeJS.ErrnoException, '', 0),
      );
    },
  };
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv4' || within(address, globalUnicast);
}

function within(address: Address, [network, bits]: Cidr): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

async function resolve(resolver: Resolver, hostname: string, family: number): Promise<{ address: string; family: number }[]> {
  // RFC 6761: never asked of a name server.
  if (/^(.*\.)?localhost\.?$/i.test(hostname)) return [{ address: '127.0.0.1', family: 4 }];
  const [v4, v6] = await Promise.allSettled([
    family === 6 ? [] : resolver.resolve4(hostname),
    family === 4 ? [] : resolver.resolve6(hostname),
  ]);
  const found = [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 })),
  ];
  // No address of one family is an everyday answer; a failure counts only when neither has any.
  if (found.length === 0 && v4.status === 'rejected') throw v4.reason;
  if (found.length === 0 && v6.status === 'rejected') throw v6.reason;
  return found;
}

function notFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
}
