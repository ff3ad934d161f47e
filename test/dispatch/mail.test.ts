// E-mails to merchants, over a real SMTP server on loopback, with the rights of the dispatcher.
import t, { type Test } from 'tap';
import { queueConfirmations } from '../../src/db/delivering/mail-addresses.ts';
import { queueMails } from '../../src/db/delivering/mails.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { startMails } from '../../src/dispatch/mail.ts';
import { dispatchTimes } from '../../src/dispatch/times.ts';
import { mailText } from '../../src/domain/outbox/mail-text.ts';
import { testApi } from '../fixtures/http.ts';
import { asRole } from '../fixtures/postgres.ts';
import { insertPayment, insertPlan, insertSubscription } from '../fixtures/rows.ts';
import { startSmtp } from '../fixtures/smtp-server.ts';

const silent = { info: () => undefined, warn: () => undefined };

const ada = 'ada@example.test';

/** The path of a link in a message. */
const linkIn = (raw: string, what: 'confirm' | 'unsubscribe') =>
  new RegExp(`billing\\.test(/mails/${what}/[\\w-]+)`).exec(unfolded(raw))?.[1] ?? '';

/** A merchant with an address, and another one without. */
async function scene(t: Test, { isConfirmed = true } = {}) {
  const api = await testApi(t);
  const [mine, other] = [await api.merchant(), await api.merchant()];
  const [appId, plan] = [mine.appId, await insertPlan(api.sql, mine)];
  const give = (email: string | null, { key } = mine) =>
    api.call<{ emailConfirmed: boolean }>('PATCH', '/merchant/profile', {
      token: key,
      body: { email },
    });
  await give(ada);
  const own = connect(asRole(api.databaseUrl, 'dispatch'), { max: 2, name: 'billing test' });
  t.teardown(() => own.end());
  const smtp = await startSmtp(t);
  const start = () => {
    const loop = startMails(own, {
      smtpUrl: smtp.url,
      from: 'Billing <billing@example.test>',
      publicUrl: 'http://billing.test',
      log: silent,
      times: { ...dispatchTimes.mail, idleMs: 50 },
      digestHour: 0,
    });
    t.teardown(() => loop.stop());
    return loop;
  };
  const post = (path: string) => api.app.inject({ method: 'POST', url: path });
  if (isConfirmed) {
    const loop = start();
    await smtp.until(() => smtp.messages.length === 1);
    await loop.stop();
    await post(linkIn(smtp.messages.pop()!.raw, 'confirm'));
  }
  return { api, sql: api.sql, mine, other, appId, plan, smtp, start, give, post };
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

/** A message without the line breaks that its encoding added, its subject decoded. */
const unfolded = (raw: string) =>
  raw
    .replaceAll(/\?=\r\n =\?UTF-8\?Q\?/g, '')
    .replaceAll(/=\?UTF-8\?Q\?(.*?)\?=/g, (_, text: string) =>
      decodeURIComponent(text.replaceAll('_', ' ').replaceAll(/=([0-9A-F]{2})/g, '%$1')),
    )
    .replaceAll('=\r\n', '')
    .replaceAll(/ \r\n(?=\S)/g, ' ')
    .replaceAll(/\r\n +/g, ' ');

const block = (sql: Sql, reason: string | null) =>
  sql`update plans set collection_blocked_reason = ${reason}, status = 'active', chain_created_at = now()`;

void t.test('each failure causes one e-mail, and its unsubscribe link works', async (t) => {
  const { sql, appId, other, plan, smtp, start, api, post } = await scene(t);
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
  t.match(about(/Subject: Your webhook fails: "Coffee"/), /shop\.test fail since .* "HTTP 503"/);
  t.notMatch(mails.join(), /a-secret-path/, 'the path of an endpoint may have a secret');
  t.match(about(/Subject: Nothing is collected for a plan: "/), /frozen by the issuer/);
  t.match(
    about(/Subject: 2 payments failed on [\d-]+: "Coffee"/),
    /"alice": 10\.00 USDC\. .*less USDC/,
  );
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
  t.match(unfolded(smtp.messages[4]!.raw), /Subject: Your webhook is disabled: "Coffee"/);

  // Opening the link changes nothing; the one click of a mail program ends the e-mails.
  const path = linkIn(mails[0] ?? '', 'unsubscribe');
  const opened = await api.app.inject({ method: 'GET', url: path });
  t.equal(opened.statusCode, 200);
  t.match(opened.body, /Send me no more/);
  t.match(opened.headers['content-security-policy'], /form-action 'self'/);
  t.match((await api.app.inject({ method: 'GET', url: path })).body, /Send me no more/);
  const click = await api.app.inject({
    method: 'POST',
    url: path,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: 'List-Unsubscribe=One-Click',
  });
  t.equal(click.statusCode, 200);
  t.match((await api.app.inject({ method: 'GET', url: path })).body, /no more e-mails/);
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
  t.equal((await post(path.replace('unsubscribe', 'allow'))).statusCode, 200);
  t.equal(await queueMails(sql), 1, 'until its owner allows it again');
});

void t.test(
  'an e-mail address gets only a confirmation until the link in it is opened',
  async (t) => {
    const { api, sql, appId, smtp, start, mine, post } = await scene(t, { isConfirmed: false });
    await sql`update apps set name = 'WARNING: your account'`;
    await api.call('PATCH', '/merchant/profile', { token: mine.key, body: { name: 'Your bank' } });
    await addEndpoint(sql, appId, 60);
    start();
    await smtp.until(() => smtp.messages.length === 1);
    const [{ raw } = { raw: '' }] = smtp.messages;
    t.match(raw, /Subject: Confirm your e-mail address/);
    t.notMatch(unfolded(raw), /WARNING|Your bank|Coffee/, 'fixed words');
    const path = linkIn(raw, 'confirm');
    const page = await api.app.inject({ method: 'GET', url: path });
    t.match(page.body, /Send them to me/);
    const confirmed = async () =>
      (await api.call('GET', '/merchant/profile', { token: mine.key })).body.data.emailConfirmed;
    t.equal(await confirmed(), false, 'a mail server that opens the link confirms nothing');
    t.match((await post(path)).body, /is confirmed/);
    t.equal(await confirmed(), true);
    await smtp.until(() => smtp.messages.length === 2);
    t.match(
      unfolded(smtp.messages[1]!.raw),
      /Subject: Your webhook fails: "WARNING/,
      'what lasts is told then',
    );
    t.equal((await post(path.replace(/.{4}$/, '0000'))).statusCode, 404);
  },
);

void t.test(
  'a confirmation link confirms only the address and merchant that it was sent for',
  async (t) => {
    const { sql, smtp, start, give, post, other } = await scene(t, { isConfirmed: false });
    start();
    await smtp.until(() => smtp.messages.length === 1);
    const first = linkIn(smtp.messages[0]!.raw, 'confirm');
    t.equal((await give('victim@example.test')).body.data.emailConfirmed, false);
    t.equal((await post(first)).statusCode, 404, 'another address was given since');
    await smtp.until(() => smtp.messages.length === 2);
    t.equal(smtp.messages[1]?.to, 'victim@example.test');
    await give(ada);
    t.equal((await post(first)).statusCode, 404, 'given back, it needs its own link');
    await smtp.until(() => smtp.messages.length === 3);
    t.match((await post(linkIn(smtp.messages[2]!.raw, 'confirm'))).body, /is confirmed/);
    t.equal((await give(ada)).body.data.emailConfirmed, true, 'the same address stays confirmed');
    t.equal((await give(ada, other)).body.data.emailConfirmed, false, 'not another merchant’s');
    t.equal((await give('ADA2@example.test')).body.data.emailConfirmed, false);
    const [row] = await sql<{ count: number }[]>`
    select count(*)::int from merchants where email_confirmed_at is not null`;
    t.equal(row?.count, 0);
  },
);

void t.test(
  'an address gets at most three confirmations a day, from all merchants together',
  async (t) => {
    const { api, sql, smtp, start, give, post, other } = await scene(t, { isConfirmed: false });
    const own = connect(asRole(api.databaseUrl, 'dispatch'), { max: 2, name: 'billing test' });
    t.teardown(() => own.end());
    const strangers = await Promise.all(Array.from({ length: 6 }, () => api.merchant()));
    const spellings = ['ADA@example.test', 'ada+1@example.test', 'Ada+shop@Example.test'];
    for (const [n, stranger] of strangers.entries()) await give(spellings[n % 3]!, stranger);
    const counts = await Promise.all([queueConfirmations(own), queueConfirmations(own)]);
    t.same(counts.sort(), [0, 3], 'two dispatchers at once');
    t.equal(await queueConfirmations(own), 0);
    await give('bob@example.test', other);
    t.equal(await queueConfirmations(own), 1, 'another address is not concerned');
    await sql`update mails set created_at = created_at - interval '25 hours'`;
    await sql`update merchants set email_given_at = email_given_at - interval '26 hours'`;
    t.equal(await queueConfirmations(own), 3, 'others on the next day');

    const loop = start();
    await smtp.until(() => smtp.messages.length === 7);
    const raw = smtp.messages.find(({ to }) => to !== 'bob@example.test')?.raw ?? '';
    await post(linkIn(raw, 'unsubscribe'));
    await loop.stop();
    await sql`update mails set created_at = created_at - interval '25 hours', open = false`;
    await give('carol@example.test', strangers[1]);
    t.equal(await queueConfirmations(own), 2, 'bob again and carol: none to who unsubscribed');
  },
);

void t.test('a suspended merchant’s address gets no confirmation', async (t) => {
  const { sql, mine } = await scene(t, { isConfirmed: false });
  await sql`
    insert into suspensions (role, wallet, reason) values ('merchant', ${mine.wallet}, 'spam')`;
  t.equal(await queueConfirmations(sql), 0);
});

void t.test('setting the same address again sends another confirmation', async (t) => {
  const { sql, give } = await scene(t, { isConfirmed: false });
  t.equal(await queueConfirmations(sql), 1);
  t.equal(await queueConfirmations(sql), 0);
  await give(ada);
  t.equal(await queueConfirmations(sql), 1);
});

void t.test(
  'an e-mail is retried after an error, and dropped if the mail server refuses the address',
  async (t) => {
    const { sql, appId, smtp, start } = await scene(t);
    await addEndpoint(sql, appId, 60);
    smtp.answer = () => '451 later';
    start();
    await smtp.until(() => smtp.asked === 2);
    const state = async () =>
      (
        await sql<{ state: string; attempts: number; later: boolean; error: string | null }[]>`
        select state, attempts, due_at > now() as later, error from mails
        where kind <> 'confirm_address'`
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
    await sql`update mails set due_at = now() where kind <> 'confirm_address'`;
    t.match(await settled((row) => row?.state !== 'queued'), { state: 'failed', attempts: 2 });
    await sql`
    update mails set state = 'queued', due_at = now() where kind <> 'confirm_address'`;
    smtp.answer = () => undefined;
    t.match(await settled((row) => row?.state === 'sent'), { attempts: 3 });
    t.equal(smtp.messages.length, 1);
  },
);

void t.test('no e-mail is sent for an endpoint that fails for less than ten minutes', async (t) => {
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

void t.test('a digest states how many payments it does not list', async (t) => {
  const { subject, text } = mailText(
    {
      id: 'one',
      kind: 'payments_failed',
      day: '2026-11-25',
      data: {
        appName: 'Coffee "& tea"',
        count: 12,
        amount: '12500000',
        payments: [{ customer: 'alice', amount: '2500000', reason: 'authority_closed' }],
      },
      attempts: 1,
      email: ada,
      confirmToken: null,
      unsubscribeToken: 'token',
    },
    'https://billing.test',
  );
  t.equal(subject, `12 payments failed on 2026-11-25: "Coffee '& tea'"`);
  t.match(text, /12 attempts to collect 12\.50 USDC failed:/);
  t.match(text, /- "alice": 2\.50 USDC\. .*closed.*\n- and 11 more\n/);
});
