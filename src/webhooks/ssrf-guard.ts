// Keeps webhooks away from addresses inside the operator's network. Merchants choose the URLs and
// control their DNS, so each address is checked at connect time. A host name is checked in the
// look-up for the connection itself, because a second look-up could return another address.
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import type { Config } from '../config/config.ts';
import { isWebhookPort } from '../sockets.ts';
import { BlockedAddress } from './errors.ts';

export interface SsrfGuard {
  /**
   * Throws BlockedAddress when `hostname` is an IP address that the guard refuses. `hostname` has
   * the form of a URL's hostname.
   */
  checkLiteral(hostname: string): void;
  /** Throws BlockedAddress for a port that webhooks must not use (isWebhookPort). */
  checkPort(port: string): void;
  /**
   * Look-up function for net.connect that returns only allowed addresses. Undefined when the guard
   * is off. net.connect then uses the system's look-up.
   */
  lookup: LookupFunction | undefined;
}

export interface SsrfGuardOptions {
  /** False turns the guard off (development only). */
  enabled: boolean;
  /** Non-public CIDRs that are allowed as targets. */
  allow: readonly string[];
  /** CIDRs that are refused, even if they are public or allowed. */
  deny: readonly string[];
  /**
   * Name servers as address or address:port. An empty list means the name servers of the system.
   */
  nameServers: readonly string[];
}

/** The configuration fields that the guard and the client need. */
export type GuardConfig = Pick<
  Config,
  'webhookGuard' | 'webhookAllowCidrs' | 'webhookDenyCidrs' | 'webhookNameServers'
> &
  Partial<Pick<Config, 'webhookProxy'>>;

export function guardOptions(config: GuardConfig): SsrfGuardOptions {
  return {
    enabled: config.webhookGuard,
    allow: config.webhookAllowCidrs,
    deny: config.webhookDenyCidrs,
    nameServers: config.webhookNameServers,
  };
}

type Address = ReturnType<typeof ipaddr.parse>;
type Cidr = ReturnType<typeof ipaddr.parseCIDR>;

const off: SsrfGuard = {
  checkLiteral: () => undefined,
  checkPort: () => undefined,
  lookup: undefined,
};

const globalUnicast = ipaddr.parseCIDR('2000::/3');

/** Public addresses by which a virtual machine reaches its host, such as Azure's wire server. */
const hostAddresses = ['168.63.129.16/32'].map((cidr) => ipaddr.parseCIDR(cidr));

/**
 * Creates the guard. The guard refuses the machine's own addresses and every address that is not
 * public unicast. It also refuses IPv6 addresses that embed an IPv4 address (mapped, compatible,
 * NAT64, 6to4, Teredo).
 */
export function createSsrfGuard({
  enabled,
  allow,
  deny,
  nameServers,
}: SsrfGuardOptions): SsrfGuard {
  if (!enabled) return off;
  const allowed = allow.map((cidr) => ipaddr.parseCIDR(cidr));
  const denied = deny.map((cidr) => ipaddr.parseCIDR(cidr));
  const check = (text: string) => {
    const address = ipaddr.parse(text);
    const isIn = (cidrs: readonly Cidr[]) => cidrs.some((cidr) => within(address, cidr));
    if (isIn(denied)) throw new BlockedAddress(`${text} is denied`);
    if (isIn(allowed)) return;
    if (!isPublic(address) || isIn(hostAddresses) || isOwn(address))
      throw new BlockedAddress(`${text} is not a public address`);
  };
  const vetted = async (hostname: string, family: number) => {
    const found = await resolve(createResolver(nameServers), hostname, family);
    // One refused address is enough to refuse the whole name, because the owner of the name
    // controls the order of its addresses.
    for (const { address } of found) check(address);
    return found;
  };

  return {
    checkLiteral(hostname) {
      const bare = hostname.replace(/^\[(.*)\]$/, '$1');
      if (isIP(bare) !== 0) check(bare);
    },
    checkPort(port) {
      if (!isWebhookPort(port))
        throw new BlockedAddress(`port ${port} is not 80, 443 or above 1023`);
    },
    lookup(hostname, options, callback) {
      const family =
        options.family === 4 || options.family === 'IPv4'
          ? 4
          : options.family === 6 || options.family === 'IPv6'
            ? 6
            : 0;
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

/**
 * Creates a resolver for one look-up, because a resolver reads /etc/resolv.conf only when it is
 * created. The resolver uses c-ares, because getaddrinfo would block one of libuv's four threads
 * until the name server answers.
 */
function createResolver(nameServers: readonly string[]): Resolver {
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (nameServers.length > 0) resolver.setServers(nameServers);
  return resolver;
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  return address.kind() === 'ipv4' || within(address, globalUnicast);
}

/** Tells whether a network interface of this machine has the address. */
function isOwn(address: Address): boolean {
  return Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some((own) => ipaddr.parse(own.address).toString() === address.toString()),
  );
}

function within(address: Address, [network, bits]: Cidr): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

async function resolve(
  resolver: Resolver,
  hostname: string,
  family: number,
): Promise<{ address: string; family: number }[]> {
  // RFC 6761: the name localhost must not be sent to a name server.
  if (/^(.*\.)?localhost\.?$/i.test(hostname)) return [{ address: '127.0.0.1', family: 4 }];
  const [v4, v6] = await Promise.allSettled([
    family === 6 ? [] : resolver.resolve4(hostname),
    family === 4 ? [] : resolver.resolve6(hostname),
  ]);
  const found = [
    ...(v4.status === 'fulfilled' ? v4.value : []).map((address) => ({ address, family: 4 })),
    ...(v6.status === 'fulfilled' ? v6.value : []).map((address) => ({ address, family: 6 })),
  ];
  // Many names have only IPv4 or only IPv6 addresses. A failed look-up is therefore an error only
  // when no address is found at all.
  if (found.length === 0 && v4.status === 'rejected') throw v4.reason;
  if (found.length === 0 && v6.status === 'rejected') throw v6.reason;
  return found;
}

function notFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND' });
}
