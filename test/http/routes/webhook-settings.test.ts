// Own headers and maxPerSecond of a webhook endpoint.
import t, { type Test } from 'tap';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';
import { runShared } from '../../fixtures/command.ts';
import { encryptionKey, testApi } from '../../fixtures/http.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { runDispatcher } from '../../fixtures/webhooks.ts';

interface Endpoint {
  id: string;
  headerNames: string[];
  maxPerSecond: number | null;
}

async function stage(t: Test) {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const { token, appId } = merchant;
  const planId = await insertPlan(api.sql, merchant);
  const subscriptionId = await insertSubscription(api.sql, { appId, planId });
  const webhooks = `/merchant/apps/${appId}/webhooks`;
  const create = (body: object) => api.call<Endpoint>('POST', webhooks, { token, body });
  const patch = (id: string, body: object) =>
    api.call<Endpoint>('PATCH', `${webhooks}/${id}`, { token, body });
  const dispatch = () =>
    runDispatcher(t, { url: api.databaseUrl }, { env: { ENCRYPTION_KEY: encryptionKey } });
  return { api, token, subscriptionId, webhooks, create, patch, dispatch };
}

void t.test(
  'custom headers are sent with each request, listed by name only, and stored encrypted',
  async (t) => {
    const receiver = await startReceiver(t);
    const { api, token, subscriptionId, webhooks, create, patch, dispatch } = await stage(t);
    const made = await create({
      url: receiver.url,
      headers: { 'X-Gateway-Key': 'zanzibar-1', Authorization: 'Basic eno=' },
      maxPerSecond: 500,
    });
    t.match(made, {
      status: 201,
      body: { data: { headerNames: ['x-gateway-key', 'authorization'], maxPerSecond: 500 } },
    });
    const { id } = made.body.data;
    await dispatch();
    const requestAfter = async (count: number) => {
      await insertEvent(api.sql, subscriptionId);
      await receiver.got(count);
      return receiver.requests[count - 1]!.headers;
    };
    t.match(await requestAfter(1), {
      'x-gateway-key': 'zanzibar-1',
      authorization: 'Basic eno=',
      'x-service-signature': /^sha256=/,
    });
    const changed = await patch(id, { headers: { 'x-gateway-key': 'zanzibar-2' } });
    t.match(changed.body.data, { headerNames: ['x-gateway-key'], maxPerSecond: 500 });
    const second = await requestAfter(2);
    t.equal(second['x-gateway-key'], 'zanzibar-2', 'from the next request on');
    t.notOk('authorization' in second);
    const listed = await api.call('GET', webhooks, { token });
    for (const text of [made.text, changed.text, listed.text]) t.notMatch(text, 'zanzibar');
    const [row] = await api.sql<{ headers: Buffer }[]>`select headers from webhook_endpoints`;
    t.notMatch(row!.headers.toString('latin1'), 'zanzibar');
    const stored = secretBox([encryptionKey]).open(row!.headers, id);
    t.same(JSON.parse(stored), { 'x-gateway-key': 'zanzibar-2' });

    // A new encryption key.
    const next = 'a new encryption key of 32 bytes ....';
    const env = { DATABASE_URL: api.databaseUrl, ENCRYPTION_KEY: `${next},${encryptionKey}` };
    t.match(await runShared(['keys', 'reseal'], env), { code: 0, stdout: /^2 secrets were/ });
    const [resealed] = await api.sql<{ headers: Buffer }[]>`select headers from webhook_endpoints`;
    t.equal(secretBox([next]).open(resealed!.headers, id), stored);
    await api.sql`update webhook_endpoints set headers = ${row!.headers}`;
    const status = await runShared(['status', '--json'], { ...env, ENCRYPTION_KEY: next });
    t.match(JSON.parse(status.stdout), { undecipherableSecrets: 1 });

    t.match((await patch(id, { headers: null, maxPerSecond: null })).body.data, {
      headerNames: [],
      maxPerSecond: null,
    });
    t.match(await api.sql`select headers from webhook_endpoints`, [{ headers: null }]);
  },
);

void t.test(
  'custom headers that cannot be sent get VALIDATION_ERROR with their names',
  async (t) => {
    const { create, patch } = await stage(t);
    const made = await create({ url: 'https://tea.example' });
    t.match(made.body.data, { headerNames: [], maxPerSecond: null });
    const many = Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`x-${n}`, '1']));
    for (const [body, path] of [
      [{ headers: { 'Content-Type': 'text/plain' } }, 'headers.Content-Type'],
      [{ headers: { 'webhook-id': '1' } }, 'headers.webhook-id'],
      [{ headers: { 'x-a': 'b\r\nc: d' } }, 'headers.x-a'],
      [{ headers: { 'x-a': 5 } }, 'headers.x-a'],
      [{ headers: many }, 'headers'],
      [{ headers: ['x'] }, 'headers'],
      [{ maxPerSecond: 0 }, 'maxPerSecond'],
      [{ maxPerSecond: 1001 }, 'maxPerSecond'],
      [{ maxPerSecond: 1.5 }, 'maxPerSecond'],
    ] as const) {
      const refused = { status: 400, body: { error: { details: [{ path }] } } };
      t.match(await patch(made.body.data.id, body), refused, path);
      t.match(await create({ url: 'https://tea.example', ...body }), refused);
    }
  },
);

void t.test(
  'no second has more requests than maxPerSecond, and other endpoints are not delayed',
  async (t) => {
    const starts: number[] = [];
    const receiver = await startReceiver(t, (response) => {
      starts.push(performance.now());
      response.end();
    });
    const { api, subscriptionId, create, dispatch } = await stage(t);
    await create({ url: receiver.url, maxPerSecond: 10 });
    for (let n = 0; n < 25; n += 1) await insertEvent(api.sql, subscriptionId);
    await dispatch();
    await receiver.got(25);
    const whole = starts.at(-1)! - starts[0]!;
    t.ok(whole >= 24 * 100 - 100, `${Math.round(whole)} ms for 25 requests`);
  },
);
