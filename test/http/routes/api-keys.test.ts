// docs/contract.md, API key: POST and DELETE /merchant/api-keys.
import { createHash } from 'node:crypto';
import bs58 from 'bs58';
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';

interface Key {
  id: string;
  key?: string;
  prefix: string;
  revokedAt?: string | null;
  lastUsedAt?: string | null;
}

void t.test(
  'POST /merchant/api-keys with Content-Type: application/json and no body creates a key',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    for (const headers of [
      { 'content-type': 'application/json' },
      { 'content-type': 'application/json; charset=utf-8' },
      {},
    ]) {
      const { status, body } = await api.call<Key>('POST', '/merchant/api-keys', {
        token,
        headers,
      });
      t.equal(status, 201);
      t.same(Object.keys(body.data).sort(), ['id', 'key', 'prefix'], 'fields id, key, prefix');
    }
    t.equal(
      (await api.call('POST', '/merchant/api-keys', { token, body: {} })).status,
      201,
      'an empty object is no body either',
    );
    t.match(await api.call('POST', '/merchant/api-keys', { token, body: { name: 'x' } }), {
      status: 400,
      body: { error: { details: [{ path: 'name' }] } },
    });
  },
);

void t.test(
  'a key is a marker and 256 random bits in Base58, and only its SHA-256 is stored',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const { body } = await api.call<Required<Key>>('POST', '/merchant/api-keys', { token });
    const { id, key, prefix } = body.data;
    t.match(key, /^sk_test_/);
    t.equal(bs58.decode(key.slice('sk_test_'.length)).length, 32);
    t.equal(prefix, key.slice(0, 'sk_test_'.length + 6));
    const [row] = await api.sql<Record<string, unknown>[]>`select * from api_keys where id = ${id}`;
    t.same(row!.hash, createHash('sha256').update(key).digest());
    t.notOk(JSON.stringify(row).includes(key));
  },
);

void t.test(
  'the list shows id, prefix, createdAt, lastUsedAt, revokedAt and never the key; several keys exist at once',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('merchant');
    const made: Required<Key>[] = [];
    for (let n = 0; n < 3; n += 1)
      made.push((await api.call<Required<Key>>('POST', '/merchant/api-keys', { token })).body.data);
    for (const { key } of made)
      t.equal((await api.call('GET', '/merchant/profile', { token: key })).status, 200);
    const listed = await api.call<Key[]>('GET', '/merchant/api-keys', { token });
    t.same(
      listed.body.data.map(({ id }) => id),
      made.map(({ id }) => id).reverse(),
      'newest first',
    );
    for (const key of listed.body.data)
      t.same(Object.keys(key).sort(), ['createdAt', 'id', 'lastUsedAt', 'prefix', 'revokedAt']);
    for (const { key } of made) t.notOk(listed.text.includes(key));
    t.ok(listed.body.data[2]!.lastUsedAt !== null, 'its use is noted');
  },
);

void t.test(
  'revoking a key is permanent and repeatable; another merchant’s key gets 403, an unknown key 404',
  async (t) => {
    const api = await testApi(t);
    const [mine, other] = [await api.merchant(), await api.merchant()];
    const [theirs] = (await api.call<Key[]>('GET', '/merchant/api-keys', { token: other.token }))
      .body.data;
    const remove = (id: string) =>
      api.call<Key>('DELETE', `/merchant/api-keys/${id}`, { token: mine.token });
    t.equal((await remove(theirs!.id)).status, 403);
    t.equal(
      (await api.call('GET', '/merchant/profile', { token: other.key })).status,
      200,
      'and it still works',
    );
    t.equal((await remove('01999999-0000-7000-8000-000000000000')).status, 404);
    t.equal((await remove('malformed')).status, 404);
    const [own] = (await api.call<Key[]>('GET', '/merchant/api-keys', { token: mine.token })).body
      .data;
    const first = await remove(own!.id);
    t.equal(first.status, 200);
    t.type(first.body.data.revokedAt, 'string');
    t.equal((await api.call('GET', '/merchant/profile', { token: mine.key })).status, 401);
    t.same((await remove(own!.id)).body.data, first.body.data, 'revoking again changes nothing');
    t.equal(
      (
        await api.call('DELETE', `/merchant/api-keys/${own!.id}`, {
          token: mine.token,
          headers: { 'content-type': 'application/json' },
        })
      ).status,
      200,
    );
  },
);
