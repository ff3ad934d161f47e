import t from 'tap';
import {
  address,
  baseUrl,
  cidr,
  flag,
  integer,
  list,
  nameServer,
  oneOf,
  onrampUrl,
  origin,
  secrets,
  text,
  url,
} from '../../src/config/parse.ts';

void t.test('valid values of each kind of variable are parsed', (t) => {
  t.equal(text(' as it is '), ' as it is ');
  t.equal(oneOf('a', 'b')('b'), 'b');
  t.equal(integer(0, 10)('010'), 10);
  t.equal(url('http:', 'https:')('https://example.com/x?key=1'), 'https://example.com/x?key=1');
  t.same(list(integer(0, 9))(' 1, 2,,3 ,'), [1, 2, 3]);
  t.same(list(text)(''), []);
  t.equal(
    address('De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44'),
    'De1egAFMkMWZSN5rYXRj9CAdheBamobVNubTsi9avR44',
  );
  for (const range of ['10.0.0.0/8', 'fd00::/8', '192.0.2.1/32']) t.equal(cidr(range), range);
  for (const server of ['9.9.9.9', '127.0.0.1:53', '2620:fe::fe', '[2620:fe::fe]:53'])
    t.equal(nameServer(server), server);
  t.same(secrets(`${'x'.repeat(32)}, ${'b'.repeat(64)}`), ['x'.repeat(32), 'b'.repeat(64)]);
  const onramp = 'https://buy.example/?to={address}&usdc={amount}';
  t.equal(onrampUrl(onramp), onramp);
  t.same([flag('true'), flag('false')], [true, false]);
  t.end();
});

void t.test('invalid values are refused with the right form, and a secret is not repeated', (t) => {
  const wrong: [() => unknown, RegExp][] = [
    [() => oneOf('a', 'b')('c'), /^must be one of a, b$/],
    ...['-1', '11', '1.0', '1e1', '', ' 1', 'ten', '٣'].map((value): [() => unknown, RegExp] => [
      () => integer(0, 10)(value),
      /^must be a whole number from 0 to 10$/,
    ]),
    [
      () => url('http:', 'https:')('example.com'),
      /^must be a URL that starts with http:\/\/ or https:\/\/$/,
    ],
    [
      () => url('postgres:')('mysql://root:hunter2@db/x'),
      /^must be a URL that starts with postgres:\/\/$/,
    ],
    [() => address('0OIl'), /^must be a Solana address: Base58 of 32 bytes$/],
    [() => cidr('10.0.0.0'), /^has "10\.0\.0\.0", which is not a CIDR/],
    [() => cidr('10.0.0.0/33'), /which is not a CIDR/],
    [() => nameServer('dns.example'), /^has "dns\.example", which is not an address/],
    [() => secrets('hunter2'), /^must be at least 32 bytes [^]*openssl rand/],
    [() => secrets(`${'a'.repeat(32)},short`), /^must be at least 32 bytes/],
    [() => secrets(''), /^must be at least 32 bytes/],
    ...['https://buy.example', 'https://buy.example/{address}/{name}'].map(
      (value): [() => unknown, RegExp] => [
        () => onrampUrl(value),
        /^must be a URL with \{address\} and, if the site takes one, \{amount\}$/,
      ],
    ),
    [() => onrampUrl('http://buy.example/{address}'), /^must be a URL that starts with https/],
    [() => flag('yes'), /^must be one of true, false$/],
  ];
  for (const [parse, message] of wrong) {
    let said = '';
    try {
      parse();
    } catch (error) {
      said = (error as Error).message;
    }
    t.match(said, message);
    t.notMatch(said, 'hunter2');
  }
  t.end();
});

void t.test('a base URL or origin with credentials, query or fragment is refused', (t) => {
  t.equal(baseUrl('https://billing.example.com'), 'https://billing.example.com');
  t.equal(baseUrl('http://127.0.0.1:3000/billing//'), 'http://127.0.0.1:3000/billing');
  t.equal(origin('https://Shop.example:443/'), 'https://shop.example');
  for (const [value, message] of [
    ['https://x.example/?x=1', /^has a query or a fragment: give scheme, host and perhaps a path/],
    ['https://x.example/?', /^has a query or a fragment/],
    ['https://x.example/#top', /^has a query or a fragment/],
    ['https://user:hunter2@x.example', /^has a user name or a password/],
    ['https://hunter2@x.example', /^has a user name or a password/],
    ['ftp://x.example', /^must be a URL that starts with http/],
    ['x.example', /^must be a URL that starts with http/],
  ] as const)
    for (const parse of [baseUrl, origin]) {
      t.throws(() => parse(value), { message }, value);
      t.notMatch(refusalOf(parse, value), 'hunter2');
    }
  t.throws(() => origin('https://x.example/shop'), {
    message: /^has a path.*https:\/\/x\.example$/,
  });
  t.end();
});

void t.test('a secret in hex is counted in bytes, and the message says so', (t) => {
  t.same(secrets('0f'.repeat(32)), ['0f'.repeat(32)]);
  t.match(refusalOf(secrets, '0f'.repeat(16)), /^must be at least 32 bytes \(64 digits in hex/);
  t.match(refusalOf(secrets, 'x'.repeat(31)), /^must be at least 32 bytes/);
  t.end();
});

function refusalOf(parse: (value: string) => unknown, value: string): string {
  try {
    parse(value);
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}
