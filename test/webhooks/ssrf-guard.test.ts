import type { LookupAddress } from 'node:dns';
import t, { type Test } from 'tap';
import { WebhookClient } from '../../src/webhooks/http.ts';
import { createSsrfGuard, type SsrfGuardOptions } from '../../src/webhooks/ssrf-guard.ts';
import { startNameServer, type Zone } from '../fixtures/name-server.ts';

const blocked = { code: 'BLOCKED_ADDRESS' };

const guardOf = (options: Partial<SsrfGuardOptions> = {}) =>
  createSsrfGuard({ enabled: true, allow: [], deny: [], nameServers: [], ...options });

/** Checks the host of a URL, as normalized by the URL parser, as a literal address. */
function literal(url: string, options: Partial<SsrfGuardOptions> = {}): void {
  guardOf(options).checkLiteral(new URL(url).hostname);
}

void t.test('allowed ports are 80, 443 and above 1023, also as the scheme’s default', async (t) => {
  const guard = guardOf();
  for (const port of ['', '80', '443', '1024', '65535']) guard.checkPort(port);
  for (const port of ['1', '22', '25', '1023'])
    t.throws(() => guard.checkPort(port), blocked, port);
  const client = new WebhookClient(guardOf({ allow: ['127.0.0.0/8'] }));
  t.teardown(() => client.close());
  const request = { origin: 'http://127.0.0.1:25', path: '/', headers: [], body: '{}' };
  t.match(await client.post(request), { error: 'blocked', address: null });
});

async function lookup(
  t: Test,
  zone: Zone,
  name: string,
  options: Partial<SsrfGuardOptions> = {},
): Promise<LookupAddress[]> {
  const guard = guardOf({ nameServers: [await startNameServer(t, zone)], ...options });
  return new Promise((resolve, reject) =>
    guard.lookup?.(name, { all: true }, (error, addresses) => {
      if (error === null) resolve(addresses as LookupAddress[]);
      else reject(error);
    }),
  );
}

void t.test(
  'a non-public IPv4 address is refused in every spelling that a URL allows',
  async (t) => {
    const spellings = [
      'http://127.0.0.1/',
      'http://2130706433/',
      'http://0x7f.1/',
      'http://0x7f000001/',
      'http://0177.0.0.1/',
      'http://127.1/',
      'http://127.0.0.1./',
      'http://%31%32%37.0.0.1/',
      'http://127。0。0。1/',
      'http://0/',
      'http://10.1.2.3/',
      'http://172.16.0.1/',
      'http://172.31.255.255/',
      'http://192.168.0.1/',
      'http://169.254.169.254/',
      'http://100.64.0.1/',
      'http://192.0.0.1/',
      'http://192.0.2.1/',
      'http://198.18.0.1/',
      'http://203.0.113.7/',
      'http://224.0.0.1/',
      'http://240.0.0.1/',
      'http://255.255.255.255/',
    ];
    for (const url of spellings) t.throws(() => literal(url), blocked, url);
  },
);

void t.test(
  'an IPv6 address that is not public, or that maps an IPv4 address, is refused',
  async (t) => {
    const addresses = [
      '::',
      '::1',
      '0:0:0:0:0:0:0:1',
      '::ffff:127.0.0.1',
      '::ffff:8.8.8.8',
      '::127.0.0.1',
      '::8.8.8.8',
      '::ffff:0:127.0.0.1',
      '64:ff9b::7f00:1',
      '64:ff9b::8.8.8.8',
      '64:ff9b:1::7f00:1',
      '2002:7f00:1::',
      '2002:808:808::1',
      '2001::1',
      'fc00::1',
      'fd00:ec2::254',
      'fe80::1',
      'fec0::1',
      'ff02::1',
      '100::1',
      '2001:db8::1',
      '4000::1',
    ];
    for (const address of addresses)
      t.throws(() => literal(`http://[${address}]/`), blocked, address);
  },
);

void t.test('public IP addresses and host names are allowed', async (t) => {
  for (const url of [
    'https://8.8.8.8/',
    'https://1.1.1.1/',
    'https://[2606:4700:4700::1111]/',
    'https://example.com/',
    'https://10.example.com/',
  ]) {
    t.doesNotThrow(() => literal(url), url);
  }
});

void t.test('an operator can allow ranges, of each family by itself', async (t) => {
  t.doesNotThrow(() => literal('http://10.1.2.3/', { allow: ['10.0.0.0/8'] }));
  t.throws(() => literal('http://127.0.0.1/', { allow: ['10.0.0.0/8'] }), blocked);
  t.doesNotThrow(() => literal('http://[fd00::1]/', { allow: ['fd00::/8'] }));
  t.throws(() => literal('http://[::ffff:10.1.2.3]/', { allow: ['10.0.0.0/8'] }), blocked);
});

void t.test('an operator can deny ranges, also public and allowed ones', async (t) => {
  t.throws(() => literal('http://8.8.8.8/', { deny: ['8.8.8.0/24'] }), blocked);
  t.doesNotThrow(() => literal('http://8.8.4.4/', { deny: ['8.8.8.0/24'] }));
  const options = { allow: ['10.0.0.0/8'], deny: ['10.1.0.0/16'] };
  t.throws(() => literal('http://10.1.2.3/', options), blocked);
  t.doesNotThrow(() => literal('http://10.2.3.4/', options));
  await t.rejects(
    lookup(t, () => ['1.1.1.1'], 'denied.example', { deny: ['1.1.1.1/32'] }),
    blocked,
  );
});

void t.test('the public address by which Azure reaches the host is refused', async (t) => {
  t.throws(() => literal('http://168.63.129.16/metadata'), blocked);
  await t.rejects(
    lookup(t, () => ['168.63.129.16'], 'azure.example'),
    blocked,
  );
});

void t.test(
  'with the guard off every address is allowed, and the system resolves names',
  async (t) => {
    const guard = createSsrfGuard({ enabled: false, allow: [], deny: [], nameServers: [] });
    t.doesNotThrow(() => guard.checkLiteral('127.0.0.1'));
    t.equal(guard.lookup, undefined);
  },
);

void t.test('a name resolves to all of its addresses if all of them are public', async (t) => {
  t.same(await lookup(t, () => ['8.8.8.8', '2606:4700:4700::1111'], 'public.example'), [
    { address: '8.8.8.8', family: 4 },
    { address: '2606:4700:4700::1111', family: 6 },
  ]);
});

void t.test(
  'one private address of a name, of either family, makes the guard refuse it',
  async (t) => {
    for (const mixed of [
      ['8.8.8.8', '10.0.0.1'],
      ['10.0.0.1', '8.8.8.8'],
      ['8.8.8.8', '::1'],
      ['8.8.8.8', '2606:4700:4700::1111', 'fd00:ec2::254'],
      ['8.8.8.8', '64:ff9b::7f00:1'],
      ['8.8.8.8', '::ffff:127.0.0.1'],
    ]) {
      await t.rejects(
        lookup(t, () => mixed, 'mixed.example'),
        blocked,
        mixed.join(),
      );
    }
  },
);

void t.test('localhost resolves to loopback without a DNS query', async (t) => {
  for (const name of ['localhost', 'LOCALHOST', 'billing.localhost']) {
    await t.rejects(
      lookup(t, () => ['8.8.8.8'], name),
      blocked,
      name,
    );
  }
});

void t.test('a name that does not exist or has no address is a DNS error', async (t) => {
  await t.rejects(
    lookup(t, () => undefined, 'missing.example'),
    { code: 'ENOTFOUND' },
  );
  await t.rejects(
    lookup(t, () => [], 'empty.example'),
    { code: 'ENODATA' },
  );
});
