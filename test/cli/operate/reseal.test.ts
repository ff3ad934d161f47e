import t from 'tap';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { encryptionKey, seedApp } from '../../fixtures/webhooks.ts';

const newKey = 'n'.repeat(32);
const otherKey = 'o'.repeat(32);

void t.test(
  'secrets are re-encrypted with the newest key, once; an undecipherable secret is listed and kept',
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

void t.test('without keys it says which variable is missing', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const { code, stderr } = await runShared(['keys', 'reseal'], { DATABASE_URL });
  t.equal(code, 2);
  t.match(stderr, /^billing: ENCRYPTION_KEY is required: .+\n$/);
});
