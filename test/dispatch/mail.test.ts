// E-mails to merchants, over a real SMTP server on loopback, with the rights of the dispatcher.
import t, { type Test } from 'tap';
import { queueMails } from '../../src/db/mails.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { startMails } from '../../src/dispatch/mail.ts';
import { mailText } from '../../src/domain/outbox/mail-text.ts';
import { testApi } from '../fixtures/http.ts';
import { asRole } from '../fixtures/postgres.ts';
import { insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';
import { startSmtp } from '../fixtures/smtp-server.ts';

const silent = { info: () => undefined, warn: () => undefined };

/** A merchant with an address, and another one without. */
async function scene(t: Test) {
  const api = await testApi(t);
  const [mine, other] = [await api.merchant(), await api.merchant()];
  const [appId, plan] = [mine.appId, await insertPlan(api.sql, mine)];
  await api.call('PATCH', '/merchant/profile', {
    token: mine.key,
    body: { email: 'ada@example.test' },
  });
  const own = connect(asRole(api.databaseUrl, 'dispatch'), { max: 2, name: 'billing test' });
  t.teardown(() => own.end());
  const smtp = await startSmtp(t);
  const start = () => {
    const loop = startMails(own, {
      smtpUrl: smtp.url,
      from: 'Billing <billing@example.test>',
      publicUrl: 'http://billing.test',
      log: silent,
      idleMs: 50,
      digestHour: 0,
    });
    t.teardown(() => loop.stop());
    return loop;
  };
  return { api, sql: api.sql, mine, other, appId, plan, smtp, start };
}

async function addEndpoint(sql: Sql, appId: string, failingMinutes: number) {
  const [row] = await sql<{ id: string }[]>`
    insert into webhook_endpoints (app_id, url, secret)
    values (${appId}, 'https://shop.test/a-secret-path', '') returning id`;
  await sql`
    insert into endpoint_health (endpoint_id, last_failure_at, failing_since, last_error)
    values (${row!.id}, now(), now() - make_interval(mins => ${failingMinutes}), 'HTTP 503')`;
  return row!.id;
}

/** A message without the line breaks that its encoding added. */
const unfolded = (raw: string) =>
  raw
    .replaceAll('=\r\n', '')
    .replaceAll(/ \r\n(?=\S)/g, ' ')
    .replaceAll(/\r\n +/g, ' ');

const block = (sql: Sql, reason: string | null) =>
  sql`update plans set collection_blocked_reason = ${reason}, status = 'active', chain_created_at = now()`;

void t.test('each failure is told once, with a link that ends the e-mails', async (t) => {
  const { sql, appId, other, plan, smtp, start, api } = await scene(t);
  const endpoint = await addEndpoint(sql, appId, 60);
  await addEndpoint(sql, other.appId, 60);
  const id = await insertSubscription(sql, { appId, planId: plan }, { externalId: 'alice' });
  const [yesterday] = await sql<{ at: Date }[]>`select now() - interval '1 day' as at`;
  for (const number of [1, 2])
    await insertPayment(sql, id, yesterday!.at.toISOString(), {
      failureReason: 'insufficient_funds',
      attempt: number,
    });
  await block(sql, 'receiver_frozen');
  const loop = start();
  await smtp.until(() => smtp.messages.length === 3);
  const mails = smtp.messages.map(({ raw }) => unfolded(raw));
  const about = (subject: RegExp) => mails.find((raw) => subject.test(raw)) ?? '';
  t.match(about(/Subject: .*your webhook fails/), /shop\.test fail since .* "HTTP 503"/);
  t.notMatch(mails.join(), /a-secret-path/, 'the path of an endpoint may have a secret');
  t.match(about(/Subject: .*nothing is collected/), /frozen by the issuer/);
  t.match(about(/Subject: .*2 payments failed on/), /alice: 10\.00 USDC\. .*less USDC/);
  for (const raw of mails) {
    t.match(raw, /List-Unsubscribe: <http:\/\/billing\.test\/mails\/unsubscribe\/[\w-]+>/);
    t.match(raw, /List-Unsubscribe-Post: List-Unsubscribe=One-Click/);
  }
  t.same([...new Set(smtp.messages.map(({ to }) => to))], ['ada@example.test']);
  t.equal(smtp.messages[0]?.from, 'billing@example.test');

  // The same failures are not told again; a new one is.
  await block(sql, null);
  await queueMails(sql);
  await block(sql, 'receiver_frozen');
  await smtp.until(() => smtp.messages.length === 4);
  await sql`update webhook_endpoints set disabled_at = now(), disabled_reason = 'failing' where id = ${endpoint}`;
  await smtp.until(() => smtp.messages.length === 5);
  t.match(smtp.messages[4]?.raw, /Subject: .*your webhook is disabled/);

  // Opening the link changes nothing; the one click of a mail program ends the e-mails.
  const [, path = ''] = /billing\.test(\/mails\/unsubscribe\/[\w-]+)/.exec(mails[0] ?? '') ?? [];
  const read = async () =>
    (await sql<{ mails: boolean }[]>`select mails from merchants where email is not null`)[0]
      ?.mails;
  const opened = await api.app.inject({ method: 'GET', url: path });
  t.equal(opened.statusCode, 200);
  t.match(opened.body, /Send me no more/);
  t.match(opened.headers['content-security-policy'], /form-action 'self'/);
  t.equal(await read(), true);
  const click = await api.app.inject({
    method: 'POST',
    url: path,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: 'List-Unsubscribe=One-Click',
  });
  t.equal(click.statusCode, 200);
  t.equal(await read(), false);
  for (const token of ['none', endpoint])
    t.equal(
      (await api.app.inject({ method: 'POST', url: `/mails/unsubscribe/${token}` })).statusCode,
      404,
    );
  await loop.stop();
  await block(sql, null);
  await queueMails(sql);
  await block(sql, 'receiver_frozen');
  t.equal(await queueMails(sql), 0, 'nothing is queued for who wants none');
});

void t.test('an e-mail is tried again, and given up where its address is refused', async (t) => {
  const { sql, appId, smtp, start } = await scene(t);
  await addEndpoint(sql, appId, 60);
  smtp.answer = () => '451 later';
  start();
  await smtp.until(() => smtp.asked === 1);
  const state = async () =>
    (
      await sql<{ state: string; attempts: number; later: boolean; error: string | null }[]>`
        select state, attempts, due_at > now() as later, error from mails`
    )[0];
  const settled = async (holds: (row: Awaited<ReturnType<typeof state>>) => boolean) => {
    for (let row = await state(); ; row = await state()) if (holds(row)) return row;
  };
  t.match(await settled((row) => typeof row?.error === 'string'), {
    state: 'queued',
    attempts: 1,
    later: true,
    error: /451/,
  });
  smtp.answer = () => '550 no such user';
  await sql`update mails set due_at = now()`;
  t.match(await settled((row) => row?.state !== 'queued'), { state: 'failed', attempts: 2 });
  await sql`update mails set state = 'queued', due_at = now()`;
  smtp.answer = () => undefined;
  t.match(await settled((row) => row?.state === 'sent'), { attempts: 3 });
  t.equal(smtp.messages.length, 1);
});

void t.test('an endpoint that fails for a moment is not told of', async (t) => {
  const { sql, appId, mine, api } = await scene(t);
  await addEndpoint(sql, appId, 5);
  t.equal(await queueMails(sql), 0);
  await sql`update endpoint_health set failing_since = now() - interval '11 minutes'`;
  await api.call('PATCH', '/merchant/profile', { token: mine.key, body: { mails: false } });
  t.equal(await queueMails(sql), 0, 'nor who wants none');
  await api.call('PATCH', '/merchant/profile', { token: mine.key, body: { mails: true } });
  t.equal(await queueMails(sql), 1);
  t.equal(await queueMails(sql), 0, 'once');
});

void t.test('a digest says how many payments it does not name', async (t) => {
  const { subject, text } = mailText(
    {
      id: 'one',
      kind: 'payments_failed',
      day: '2026-11-25',
      data: {
        appName: 'Coffee',
        count: 12,
        amount: '12500000',
        payments: [{ customer: 'alice', amount: '2500000', reason: 'authority_closed' }],
      },
      attempts: 1,
      email: 'ada@example.test',
      unsubscribeToken: 'token',
    },
    'https://billing.test',
  );
  t.equal(subject, 'Coffee: 12 payments failed on 2026-11-25');
  t.match(text, /12 attempts to collect 12\.50 USDC failed:/);
  t.match(text, /- alice: 2\.50 USDC\. .*closed.*\n- and 11 more\n/);
});
