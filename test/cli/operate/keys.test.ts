// billing keys, beside a running serve that the keys are for.
import t from 'tap';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { encryptionKey, seedApp } from '../../fixtures/webhooks.ts';

const served = await startServe(t);
const { sql } = served;
const env = { DATABASE_URL: served.databaseUrl };
const newKey = 'n'.repeat(32);
const otherKey = 'o'.repeat(32);
const reads = (key: string) =>
  fetch(`${served.url}/merchant/profile`, { headers: { authorization: `Bearer ${key}` } }).then(
    ({ status }) => status,
  );

void t.test(
  'keys create prints a key once on stdout, and the API accepts the key until keys revoke',
  async (t) => {
    const merchant = await insertMerchant(sql);
    const made = await runShared(['keys', 'create', merchant.wallet], env);
    t.equal(made.code, 0);
    const key = made.stdout;
    t.match(key, /^sk_test_[1-9A-HJ-NP-Za-km-z]{40,44}$/);
    t.notOk(made.stderr.includes(key));
    t.match(
      made.stderr,
      /^Key [0-9a-f-]{36} of \S+, for development\. It is shown this once; revoke it with: billing keys revoke [0-9a-f-]{36}\n$/,
    );
    t.equal(await reads(key), 200);

    const [stored] = await sql<
      { id: string; prefix: string }[]
    >`select * from api_keys where merchant_id = ${merchant.id}`;
    t.notOk(JSON.stringify(stored).includes(key.slice(14)), 'it is stored nowhere');
    const list = await runShared(['keys', 'list', merchant.id], env);
    t.match(
      list.stdout,
      new RegExp(
        `^ID.*\\n${stored!.id} {2}${key.slice(0, 14)} {2}${merchant.wallet} {2}\\S+Z {2}\\S+ +-$`,
      ),
    );
    t.notOk(list.stdout.includes(key));

    t.match(await runShared(['keys', 'revoke', stored!.id.toUpperCase()], env), {
      code: 0,
      stdout: /^Revoked sk_test_\w{6}\.\.\. /,
    });
    t.equal(await reads(key), 401, 'the very next request');
    const [{ revokedAt }] = await sql<
      [{ revokedAt: Date }]
    >`select revoked_at from api_keys where id = ${stored!.id}`;
    const again = await runShared(['keys', 'revoke', stored!.id], env);
    t.match(again, {
      code: 1,
      stdout: '',
      stderr: `billing: Key ${stored!.id} was already revoked, at ${revokedAt.toISOString()}. Nothing was changed.\n`,
    });
    t.same(await sql`select revoked_at from api_keys where id = ${stored!.id}`, [{ revokedAt }]);
  },
);

void t.test(
  'keys --json prints one JSON object per key, and production keys have the production prefix',
  async (t) => {
    const merchant = await insertMerchant(sql);
    const made = await runShared(['keys', 'create', merchant.id, '--json'], {
      ...env,
      BILLING_ENV: 'production',
    });
    const { id, key, prefix, ...rest } = JSON.parse(made.stdout) as Record<string, string>;
    t.match(key, /^sk_live_/);
    t.equal(prefix, key!.slice(0, 14));
    t.same(rest, { merchantId: merchant.id, wallet: merchant.wallet });
    t.notOk(made.stderr.includes(key!));
    t.match(JSON.parse((await runShared(['keys', 'revoke', id!, '--json'], env)).stdout), {
      id,
      prefix,
      revokedAt: String,
    });
    const listed = (await runShared(['keys', 'list', merchant.id, '--json'], env)).stdout;
    t.match(JSON.parse(listed), { id, prefix, wallet: merchant.wallet, lastUsedAt: null });
    t.match(await runShared(['keys', 'list', (await insertMerchant(sql)).id], env), {
      code: 0,
      stdout: 'There are no keys.',
    });
  },
);

void t.test(
  'keys reseal re-encrypts secrets with the newest key, once; an undecipherable secret is listed and kept',
  async (t) => {
    const { sql, url: DATABASE_URL } = await testDatabase(t);
    const [one, two, lost] = [
      await seedApp(sql, 'http://a'),
      await seedApp(sql, 'http://b'),
      await seedApp(sql, 'http://c'),
    ];
    const sealedElsewhere = secretBox([otherKey]).seal(lost.secret, lost.endpointId);
    await sql`update webhook_endpoints set secret = ${sealedElsewhere} where id = ${lost.endpointId}`;
    const reseal = (ENCRYPTION_KEY: string) =>
      runShared(['keys', 'reseal', '--json'], { DATABASE_URL, ENCRYPTION_KEY });

    const first = await reseal(`${newKey},${encryptionKey}`);
    t.equal(first.code, 1);
    t.same(JSON.parse(first.stdout), { resealed: 2, current: 0, unreadable: [lost.endpointId] });
    for (const { endpointId, secret } of [one, two]) {
      const [row] = await sql<
        { secret: Buffer }[]
      >`select secret from webhook_endpoints where id = ${endpointId}`;
      t.equal(
        secretBox([newKey]).open(row?.secret ?? Buffer.alloc(0), endpointId),
        secret,
        'the new key alone opens it',
      );
    }
    const [left] = await sql<
      { secret: Buffer }[]
    >`select secret from webhook_endpoints where id = ${lost.endpointId}`;
    t.same(left?.secret, sealedElsewhere);

    const second = await reseal(`${newKey},${otherKey}`);
    t.equal(second.code, 0);
    t.same(JSON.parse(second.stdout), { resealed: 1, current: 2, unreadable: [] });
  },
);

void t.test('keys reseal without ENCRYPTION_KEY names the missing variable', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const { code, stderr } = await runShared(['keys', 'reseal'], { DATABASE_URL });
  t.equal(code, 2);
  t.match(stderr, /^billing: ENCRYPTION_KEY is required: .+\n$/);
});
