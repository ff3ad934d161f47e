// A signing secret is replaced while deliveries go on: both secrets sign for a while.
import { createHmac } from 'node:crypto';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';
import { sendPing } from '../../../src/webhooks/ping.ts';
import { testApi } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startReceiver, type Received } from '../../fixtures/receiver.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { attempted, encryptionKey, runDispatcher } from '../../fixtures/webhooks.ts';

interface Rotated {
  id: string;
  secret: string;
  previousSecretExpiresAt: string | null;
}

const standard = (secret: string, { headers, body }: Received) => {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>, { jsonParse: false });
    return true;
  } catch {
    return false;
  }
};
const service = (secret: string, { headers, body }: Received) =>
  headers['x-service-signature'] ===
  `sha256=${createHmac('sha256', secret)
    .update(`${String(headers['x-service-timestamp'])}.`)
    .update(body)
    .digest('hex')}`;

void t.test(
  'during a rotation webhook-signature is made with both secrets, X-Service-Signature with the new secret',
  async (t) => {
    const database = await testDatabase(t);
    const config = {
      webhookGuard: false,
      webhookAllowCidrs: [],
      webhookDenyCidrs: [],
      webhookNameServers: [],
    };
    const api = await testApi(t, {
      database,
      secretBox: secretBox([encryptionKey]),
      ping: (target) => sendPing({ config, ...target }),
    });
    const receiver = await startReceiver(t);
    const merchant = await api.merchant();
    const token = merchant.key;
    const path = `/merchant/apps/${merchant.appId}/webhooks`;
    const created = await api.call<Rotated>('POST', path, { token, body: { url: receiver.url } });
    const { id, secret: first } = created.body.data;
    const rotate = async (overlapHours: number) =>
      (
        await api.call<Rotated>('POST', `${path}/${id}/rotate-secret`, {
          token,
          body: { overlapHours },
        })
      ).body.data;
    const subscription = await insertSubscription(api.sql, {
      appId: merchant.appId,
      planId: await insertPlan(api.sql, merchant),
    });
    await runDispatcher(t, database);
    const sent = async () => {
      const { deliveryId } = await insertEvent(api.sql, subscription);
      await attempted(api.sql, deliveryId!);
      return receiver.requests.at(-1)!;
    };
    t.ok(service(first, await sent()), 'the dispatcher knows the first secret');

    const askedAt = Date.now();
    const rotated = await rotate(1);
    const answeredAt = Date.now();
    const second = rotated.secret;
    t.match(second, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const rotatedAt = Date.parse(rotated.previousSecretExpiresAt!) - 3_600_000;
    t.ok(rotatedAt >= askedAt && rotatedAt <= answeredAt);
    const during = await sent();
    t.ok(standard(first, during) && standard(second, during));
    t.ok(service(second, during) && !service(first, during));
    t.match(during.headers['webhook-signature'], /^v1,\S+ v1,\S+$/);
    await api.call('POST', `${path}/${id}/test`, { token });
    const ping = receiver.requests.at(-1)!;
    t.ok(standard(first, ping) && standard(second, ping) && service(second, ping));

    await api.sql`update webhook_endpoints set previous_until = now(), rotated_at = clock_timestamp()`;
    const after = await sent();
    t.ok(standard(second, after) && !standard(first, after));

    const { secret: third, previousSecretExpiresAt } = await rotate(0);
    t.equal(previousSecretExpiresAt, null);
    const last = await sent();
    t.ok(standard(third, last) && service(third, last) && !standard(second, last));
    t.notOk((await api.call('GET', `${path}/${id}`, { token })).text.includes('whsec_'));
  },
);

void t.test('the overlap of secrets is 0 to 168 hours, and 24 by default', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const token = merchant.key;
  const path = `/merchant/apps/${merchant.appId}/webhooks`;
  const created = await api.call<Rotated>('POST', path, {
    token,
    body: { url: 'https://a.test/' },
  });
  const rotate = (body?: unknown) =>
    api.call<Rotated>('POST', `${path}/${created.body.data.id}/rotate-secret`, { token, body });
  for (const overlapHours of [-1, 169, 1.5, '1', null])
    t.match(await rotate({ overlapHours }), {
      status: 400,
      body: { error: { details: [{ path: 'overlapHours' }] } },
    });
  for (const body of [undefined, {}]) {
    const before = Date.now();
    const { previousSecretExpiresAt } = (await rotate(body)).body.data;
    const after = Date.now();
    const rotatedAt = Date.parse(previousSecretExpiresAt!) - 24 * 3_600_000;
    t.ok(rotatedAt >= before && rotatedAt <= after);
  }
});
