// URLs as libpq reads them. The table has the examples of libpq's documentation:
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
import { existsSync } from 'node:fs';
import { userInfo } from 'node:os';
import fc from 'fast-check';
import t from 'tap';
import {
  describeDatabase,
  parsePostgresUrl,
  primaryUrl,
  withUser,
} from '../../src/config/postgres-url.ts';
import { messageOf } from '../../src/errors.ts';

const local = existsSync('/var/run/postgresql') ? '/var/run/postgresql' : 'localhost';
const me = userInfo().username;

/** URL: hosts, user, password, database, and what else differs from the defaults. */
const table: Record<string, [string[], string, string | undefined, string, object?]> = {
  'postgresql://': [[`${local}:5432`], me, undefined, me],
  'postgresql://localhost': [['localhost:5432'], me, undefined, me],
  'postgresql://localhost:5433': [['localhost:5433'], me, undefined, me],
  'postgresql://localhost/mydb': [['localhost:5432'], me, undefined, 'mydb'],
  'postgresql://user@localhost': [['localhost:5432'], 'user', undefined, 'user'],
  'postgresql://user:secret@localhost': [['localhost:5432'], 'user', 'secret', 'user'],
  'postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp': [
    ['localhost:5432'],
    'other',
    undefined,
    'otherdb',
    { connectMs: 10_000, applicationName: 'myapp' },
  ],
  'postgresql://host1:123,host2:456/somedb?target_session_attrs=any&application_name=myapp': [
    ['host1:123', 'host2:456'],
    me,
    undefined,
    'somedb',
    { target: 'any', applicationName: 'myapp' },
  ],
  'postgresql:///mydb?host=localhost&port=5433': [['localhost:5433'], me, undefined, 'mydb'],
  'postgresql://[2001:db8::1234]/database': [['2001:db8::1234:5432'], me, undefined, 'database'],
  'postgresql:///dbname?host=/var/lib/postgresql': [
    ['/var/lib/postgresql:5432'],
    me,
    undefined,
    'dbname',
  ],
  'postgresql://%2Fvar%2Flib%2Fpostgresql/dbname': [
    ['/var/lib/postgresql:5432'],
    me,
    undefined,
    'dbname',
  ],
  'postgresql://user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff': [
    ['localhost:5433'],
    'user',
    undefined,
    'mydb',
    { options: '-c synchronous_commit=off' },
  ],
  'postgres://a:5432,b:5433/db?target_session_attrs=read-write': [
    ['a:5432', 'b:5433'],
    me,
    undefined,
    'db',
    { target: 'read-write' },
  ],
  'postgres://u:p@db1,db2/billing': [
    ['db1:5432', 'db2:5432'],
    'u',
    'p',
    'billing',
    { target: 'primary' },
  ],
  'postgres://u@db1,[fd00::2]:5434,db3/x': [
    ['db1:5432', 'fd00::2:5434', 'db3:5432'],
    'u',
    undefined,
    'x',
    { target: 'primary' },
  ],
  'postgres://u@/x?host=db1,db2&port=5440': [
    ['db1:5440', 'db2:5440'],
    'u',
    undefined,
    'x',
    { target: 'primary' },
  ],
  'postgres://u@/x?host=db1,/tmp&port=5440,': [
    ['db1:5440', '/tmp:5432'],
    'u',
    undefined,
    'x',
    { target: 'primary' },
  ],
  'postgres://ignored/x?host=db1&user=u&password=a%26b%3D&dbname=y': [
    ['db1:5432'],
    'u',
    'a&b=',
    'y',
  ],
  'postgres://[fe80::1%25eth0]/x': [['fe80::1%eth0:5432'], me, undefined, 'x'],
  // Not percent-encoded, but unambiguous to libpq.
  'postgres://u:p?a#b%40c:d@db1/x': [['db1:5432'], 'u', 'p?a#b@c:d', 'x'],
};

void t.test('a Postgres URL has the same meaning as for libpq', (t) => {
  for (const [url, [hosts, user, password, database, others]] of Object.entries(table)) {
    const parsed = parsePostgresUrl(url);
    const { tls, ...rest } = parsed;
    t.equal(tls.mode, 'disable', url);
    t.same(
      { ...rest, hosts: rest.hosts.map(({ name, port }) => `${name}:${port}`) },
      {
        hosts,
        user,
        password,
        database,
        target: 'any',
        connectMs: 5000,
        applicationName: undefined,
        options: undefined,
        ...others,
      },
      url,
    );
  }
  t.end();
});

void t.test('TLS parameters have the same meaning as for libpq', (t) => {
  const tlsOf = (query: string) => parsePostgresUrl(`postgres://u@db1/x?${query}`).tls;
  t.match(tlsOf('sslmode=prefer'), { mode: 'prefer' });
  t.match(tlsOf('sslmode=require&sslrootcert=/ca'), { mode: 'verify-ca', rootCert: '/ca' });
  t.match(tlsOf('sslrootcert=system'), { mode: 'verify-full', rootCert: undefined });
  t.same(tlsOf('sslmode=verify-full&sslrootcert=/ca&sslcert=/c&sslkey=/k'), {
    mode: 'verify-full',
    rootCert: '/ca',
    cert: '/c',
    key: '/k',
  });
  t.end();
});

/** What follows `postgres://u:hunter2@db1/x` or is the whole URL: the words of the refusal. */
const refused: Record<string, RegExp> = {
  'channel_binding=require':
    /has the parameter channel_binding, which is not supported: remove it\. Supported are user,/,
  'sslcrl=/r': /has the parameter sslcrl, which is not supported/,
  'sslmode=full': /has sslmode, which must be one of disable, allow, prefer, require, verify-ca/,
  'sslmode=require&sslrootcert=system': /sslrootcert=system, which needs sslmode=verify-full/,
  'target_session_attrs=master': /has target_session_attrs, which must be one of any, read-write/,
  'target_session_attrs=standby': /excludes the primary.*use primary/,
  'connect_timeout=0': /has connect_timeout, which must be a number of seconds from 1 to 60/,
  'port=1,2': /has 1 hosts and 2 ports/,
  'port=65536': /has a port that is not a number from 1 to 65535/,
  'hostaddr=10.0.0.1': /has the parameter hostaddr, which is not supported/,
  'host=@socket': /abstract namespace/,
  sslmode: /has the parameter sslmode without a value/,
  'statement_timeout=5': /has the parameter statement_timeout, .*options=-c/,
  'hunter2@=5': /has a parameter, which is not supported/,
  'options=%zz': /write %25 for %/,
  'options=%00': /write %25 for %/,
};

void t.test('unsupported parameters are refused by name, without a secret in the message', (t) => {
  const urls = [
    ...Object.entries(refused).map(
      ([query, words]) => [`postgres://u:hunter2@db1/x?${query}`, words] as const,
    ),
    ['mysql://u:hunter2@db1/x', /must be a URL that starts with postgres:/] as const,
    ['u:hunter2@db1/x', /must be a URL that starts with postgres:/] as const,
    ['postgres://u:hunter2/@db1/x', /must have hosts such as .*%2F %3A %40/] as const,
    ['postgres://hun:12/ter2@db1/x', /has an @ after a \/: .*%2F/] as const,
    ['postgres://hun:12/x?ter&hunter@db1/x', /has an @ after a \/: .*%2F/] as const,
    ['postgres://u:hun@ter2:x@db1/x', /must have hosts such as/] as const,
    ['postgres://u:hunter2@db1:5432:1/x', /must have hosts such as/] as const,
    ['postgres://u:hunter2@fd00::1/x', /must have hosts such as .*\[fd00::1\]/] as const,
  ];
  for (const [url, words] of urls) {
    try {
      primaryUrl(url);
      t.fail(`${url} is accepted`);
    } catch (error) {
      t.match(messageOf(error), words, url);
      t.notMatch(messageOf(error), /hun|ter2/);
    }
  }
  t.end();
});

void t.test('the description of a URL has all hosts and no credentials', (t) => {
  t.equal(
    describeDatabase('postgres://u:hunter2@db1,[::1]:5433/led%20ger?application_name=hunter2'),
    'db1:5432, [::1]:5433, database "led ger"',
  );
  t.equal(describeDatabase('postgres:///x?host=/tmp&port=1'), '/tmp:1, database "x"');
  t.end();
});

void t.test('another user keeps the hosts and the database of the URL', (t) => {
  t.equal(
    withUser('postgres://owner:old@db1:1,db2:2/x?sslmode=require', 'billing_serve', 'p/@'),
    'postgres://billing_serve:p%2F%40@db1:1,db2:2/x?sslmode=require',
  );
  t.equal(
    withUser('postgres://db1?user=owner&password=old&host=db2,db3', 'serve', 'p'),
    'postgres://serve:p@db1/owner?host=db2,db3',
  );
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (user, password) => {
      fc.pre(!`${user}${password}`.includes('\0'));
      const made = parsePostgresUrl(withUser('postgres://a,b/x', user, password));
      t.match(made, { user, password, database: 'x', target: 'primary' });
    }),
    { numRuns: 100 },
  );
  t.end();
});
