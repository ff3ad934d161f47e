import t from 'tap';
import { countReaders } from '../../../src/db/delivering/event-readers.ts';
import { runShared, start } from '../../fixtures/command.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { startServe } from '../../fixtures/serve.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test('trigger reports the number of listeners of all serve processes', async (t) => {
  const served = await startServe(t);
  const other = start(t, ['serve'], { ...served.env, PORT: '0' });
  const { address } = JSON.parse(await other.line('"listening"')) as { address: string };
  const merchant = await served.merchant();
  const stranger = await served.merchant();
  const at = (url: string, { key }: { key: string } = merchant) => ({
    BILLING_API_KEY: key,
    BILLING_API_URL: url,
  });
  const receiver = await startReceiver(t);
  const listen = async (env: Record<string, string>) => {
    const listening = start(t, ['listen', '--forward-to', receiver.url], env);
    await listening.line(/^whsec_/);
    return listening;
  };
  const listeners = async () => {
    const sample = await served.call<{ listeners: number }>(
      'POST',
      `/merchant/apps/${merchant.appId}/events/sample`,
      { token: merchant.key, body: { type: 'ping' } },
    );
    return sample.listeners;
  };

  // One that asks no more.
  await served.sql`insert into event_readers (id, app_id, until) values (gen_random_uuid(), ${merchant.appId}, now())`;
  const none = await runShared(['trigger', 'ping'], at(served.url));
  t.match(none.stdout, /: the app has no webhook endpoint; 0 listeners get it\.$/);
  t.match(none.stderr, /To receive it here: billing listen/);

  const [first] = await Promise.all([
    listen(at(served.url)),
    listen(at(address)),
    listen(at(address, stranger)),
  ]);
  for (const [url, got] of [
    [served.url, 2],
    [address, 4],
  ] as const) {
    const both = await runShared(['trigger', 'ping'], at(url));
    t.match(both, { code: 0, stderr: '', stdout: /; 2 listeners get it\.$/ });
    await receiver.got(got);
  }
  await first.line(/ping \(sample\)/);

  first.child.kill('SIGKILL');
  // Killed between two requests, it counts for the 30 s in which it may ask again.
  await until(async () => (await countReaders(served.sql, merchant.appId)) === 1);
  const left = await runShared(['trigger', 'ping'], at(served.url));
  t.match(left.stdout, /; 1 listener gets it\.$/);

  // Its listener continues with its cursor at the same address, and still counts as one.
  other.child.kill('SIGKILL');
  await other.ended;
  // However long the next start takes.
  await served.sql`update event_readers set until = until + interval '1 hour' where app_id = ${merchant.appId} and until > clock_timestamp()`;
  t.equal(await listeners(), 1, 'it may come back');
  start(t, ['serve'], { ...served.env, PORT: new URL(address).port });
  const before = receiver.requests.length;
  await receiver.got(before + 1);
  t.equal(await listeners(), 1);
});

void t.test('trigger names the fields of --data that the sample does not have', async (t) => {
  const served = await startServe(t);
  const { key } = await served.merchant();
  const env = { BILLING_API_KEY: key, BILLING_API_URL: served.url };
  const trigger = (data: object) =>
    runShared(['trigger', 'payment_success', '--data', JSON.stringify(data)], env);
  t.match(await trigger({ externalID: 'a', amountGross: '1', seats: 2 }), {
    code: 0,
    stderr:
      /A payment_success of the service has no "externalID", "seats": sent as --data has it\./,
  });
  t.notMatch((await trigger({ externalId: 'a', amountGross: '1' })).stderr, /has no/);
});

void t.test("control characters in a merchant's name do not reach the terminal", async (t) => {
  const served = await startServe(t);
  const { key, appId } = await served.merchant();
  // As it was stored before such names were refused.
  const evil = '\u001b[31mred\u009b2J\u202egnp';
  await served.sql`update apps set name = ${evil} where id = ${appId}`;
  const env = { BILLING_API_KEY: key, BILLING_API_URL: served.url };
  const { code, stdout, stderr } = await runShared(['trigger', 'payment_success'], env);
  t.equal(code, 0, stderr);
  t.match(stdout, /of \\x1b\[31mred\\x9b2J\\u202egnp:/);
  t.notMatch(stdout + stderr, /[\u001b\u0080-\u009f\u202a-\u202e]/);
  await t.rejects(
    served.judge(),
    /data.0.name.*must match format/,
    'the API would not have stored it',
  );
});
