// A child process that runs one of the compared servers: `ours` is the API, `bare` is Fastify with
// one statement per request.
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { openReports } from '../../src/db/postgres/reports.ts';
import { daemonLimits } from '../../src/db/postgres/settings.ts';
import { secretBox } from '../../src/domain/accounts/secrets.ts';
import { buildApp } from '../../src/http/app.ts';
import { createLog } from '../../src/log.ts';

/** A rate limit (requests per minute) that the load cannot reach. */
const PLENTY = 100_000_000;

export interface Subject {
  kind: 'ours' | 'bare';
  databaseUrl: string;
}

function ours(sql: Sql, databaseUrl: string) {
  const log = createLog('bench', { level: 'warn', pretty: false, stream: 'stderr' });
  const address = '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDSGYdLVL9zYtAWWM';
  return buildApp({
    sql,
    reports: openReports(databaseUrl, { name: 'bench' }),
    log,
    chain: createRpc({ urls: ['http://127.0.0.1:1'], log }),
    network: { programId: address, mint: address, puller: address, treasury: address },
    cluster: 'localnet',
    environment: 'development',
    publicUrl: 'http://bench.test',
    jwtSecrets: ['a secret for the benchmark, 32 bytes'],
    secretBox: secretBox(['a key for the benchmark, of 32 bytes']),
    planMinimumAmount: 1n,
    requestsPerMinute: { free: PLENTY, pro: PLENTY },
    corsOrigins: [],
    dashboardOrigins: [],
    trustProxy: [],
    connectionsPerAddress: 2000,
    ping: () => Promise.reject(new Error('no ping here')),
    readSmallFile: () => Promise.reject(new Error('no website here')),
    checkWebhookHost: () => undefined,
    onResponse: () => undefined,
    wakeDispatchers: () => undefined,
    wakeKeepers: () => undefined,
    wakeReplays: () => undefined,
  });
}

function bare(sql: Sql) {
  const app = Fastify();
  app.get<{ Params: { id: string } }>('/lookup/:id', async ({ params: { id } }) => {
    const [row] =
      await sql`select id, wallet, name, email, tier, created_at from merchants where id = ${id}`;
    return { success: true, data: row };
  });
  app.get<{ Params: { id: string } }>('/list/:id', async ({ params: { id } }) => {
    // Reads the columns of the API's response, without business rules.
    const rows = await sql`
      select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, m.wallet as merchant_wallet, s.status, s.amount::text as amount,
        s.period_hours, s.trial_ends_at, w.paid_through, s.next_payment_due, s.discount_percent, s.discount_amount, s.discount_periods, s.paused_at,
        s.period_anchor, p.grace_hours, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at, s.delegation_revoked_at,
        s.end_reason, s.external_id, s.metadata::text as metadata, s.created_at, s.updated_at
      from subscriptions s join subscription_work w on w.subscription_id = s.id join plans p on p.id = s.plan_id join apps a on a.id = s.app_id join merchants m on m.id = a.merchant_id
      where s.app_id = ${id} order by s.id desc limit 20`;
    return { success: true, data: rows };
  });
  return app;
}

process.once('message', (subject: Subject) => {
  // The same connection options as in `billing serve`.
  const sql = connect(subject.databaseUrl, {
    max: 10,
    name: 'bench',
    planning: 'serve',
    limits: daemonLimits,
  });
  const app = subject.kind === 'ours' ? ours(sql, subject.databaseUrl) : bare(sql);
  void app.listen({ host: '127.0.0.1', port: 0 }).then(() => {
    process.send?.({ port: (app.server.address() as AddressInfo).port });
  });
});
