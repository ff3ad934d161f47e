// A process of its own for each server that is compared: `ours` is the API, `bare` is Fastify with one statement per request.
import type { AddressInfo } from 'node:net';
import Fastify from 'fastify';
import { createRpc } from '../../src/chain/rpc.ts';
import { connect, type Sql } from '../../src/db/connect.ts';
import { secretBox } from '../../src/domain/secrets.ts';
import { buildApp } from '../../src/http/app.ts';
import { createLog } from '../../src/log.ts';

/** Requests that the load makes in a minute at the very most. */
const plenty = 100_000_000;

export interface Subject {
  kind: 'ours' | 'bare';
  databaseUrl: string;
}

function ours(sql: Sql) {
  const log = createLog('bench', { level: 'warn', pretty: false, stream: 'stderr' });
  const address = '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDSGYdLVL9zYtAWWM';
  return buildApp({
    sql,
    reports: sql,
    log,
    chain: createRpc({ urls: ['http://127.0.0.1:1'], log }),
    network: { programId: address, mint: address, puller: address, treasury: address },
    cluster: 'localnet',
    environment: 'development',
    publicUrl: 'http://bench.test',
    jwtSecrets: ['a secret for the benchmark, 32 bytes'],
    secretBox: secretBox(['a key for the benchmark, of 32 bytes']),
    planMinimumAmount: 1n,
    requestsPerMinute: { free: plenty, pro: plenty },
    corsOrigins: [],
    trustProxy: [],
    ping: () => Promise.reject(new Error('no ping here')),
    checkWebhookHost: () => undefined,
    onAnswer: () => undefined,
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
    const rows = await sql`
      select id, app_id, plan_id, subscription_pda, subscriber_wallet, status, amount::text as amount, period_hours, paid_through, next_payment_due,
        cancel_requested_at, cancel_requested_by, cancelled_at, delegation_revoked_at, end_reason, created_at, updated_at
      from subscriptions where app_id = ${id} order by id desc limit 20`;
    return { success: true, data: rows };
  });
  return app;
}

process.once('message', (subject: Subject) => {
  const sql = connect(subject.databaseUrl, { max: 10, name: 'bench' });
  const app = subject.kind === 'ours' ? ours(sql) : bare(sql);
  void app.listen({ host: '127.0.0.1', port: 0 }).then(() => {
    process.send?.({ port: (app.server.address() as AddressInfo).port });
  });
});
