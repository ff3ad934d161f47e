import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import {
  type Brake,
  holdCollection,
  holdForMissing,
  listHolds,
  lockBrake,
  readBrake,
  resumeCollection,
} from '../../../src/db/operating/collection-holds.ts';
import { endWait, recordFirstTimeline, recordTimeline } from '../../../src/db/operating/history.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { isHeld, isWaiting } from '../../../src/domain/collecting/brake.ts';
import { startEmbeddedPostgres } from '../../../src/local/sandbox/postgres.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant, insertPlan } from '../../fixtures/rows.ts';

const by = { who: 'tester', host: 'here' };
const all = { merchantId: null, planId: null, what: null, reason: 'a test', by };

void t.test(
  'a collection hold waits for attempts that are being committed, and later attempts see the hold',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const keeper = connect(asRole(url, 'keeper'), { max: 2, name: 'billing test' });
    t.teardown(() => keeper.end());
    const order: string[] = [];
    let commit: () => void = () => undefined;
    const allowed = new Promise<void>((resolve) => (commit = resolve));
    let locked: () => void = () => undefined;
    const isLocked = new Promise<void>((resolve) => (locked = resolve));
    const committing = keeper.begin(async (tx) => {
      t.equal((await lockBrake(tx)).all, false);
      locked();
      await allowed;
      order.push('committed');
    });
    await isLocked;
    const holding = holdCollection(sql, all).then(() => order.push('held'));
    const waits = async () =>
      (await sql`select 1 from pg_locks where locktype = 'advisory' and not granted`).length > 0;
    while (!(await waits())) await new Promise((resolve) => setTimeout(resolve, 20));
    const later = keeper.begin(async (tx) => (await lockBrake(tx)).all);
    commit();
    await Promise.all([committing, holding]);
    t.same(order, ['committed', 'held']);
    t.equal(await later, true, 'it queued behind the hold');
  },
);

void t.test(
  'collection holds have a scope, a reason and a record of who changed them',
  async (t) => {
    const { sql } = await testDatabase(t);
    const merchant = await insertMerchant(sql);
    const planId = await insertPlan(sql, merchant);
    const ofMerchant = { ...all, merchantId: merchant.id, what: `merchant ${merchant.wallet}` };
    t.equal(await holdCollection(sql, ofMerchant), true);
    t.equal(await holdCollection(sql, { ...ofMerchant, reason: 'another' }), false);
    t.equal(await holdCollection(sql, { ...all, planId, what: `plan ${planId}` }), true);
    t.match(await listHolds(sql), [
      { merchantWallet: merchant.wallet, planId: null, reason: 'another' },
      { merchantWallet: null, planId, reason: 'a test' },
    ]);
    const brake = await readBrake(sql);
    const other = { planId: randomUUID(), accountWallet: 'other' };
    t.equal(isHeld(brake, other), false);
    t.equal(isHeld(brake, { ...other, planId }), true);
    t.equal(isHeld(brake, { ...other, accountWallet: merchant.wallet }), true);
    t.equal(await resumeCollection(sql, all), false, 'not held as a whole');
    t.equal(await resumeCollection(sql, { ...all, planId, what: 'p' }), true);
    await holdCollection(sql, all);
    t.equal(isHeld(await readBrake(sql), other), true);
    t.match(await sql`select who, host, command, what, reason from admin_actions order by id`, [
      { who: 'tester', host: 'here', command: 'collection hold', what: ofMerchant.what },
      { reason: 'another' },
      { what: `plan ${planId}` },
      { command: 'collection resume', what: 'p' },
      { command: 'collection hold', what: null },
    ]);
  },
);

void t.test(
  'missing payments create one hold on collection, even if an operator’s hold exists',
  async (t) => {
    const { sql } = await testDatabase(t);
    await sql`
    insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds) values ('localnet', 'm', 'p', '{k}', '{t}', 100, 0)`;
    const missingUntil = new Date('2026-11-01T00:00:00Z');
    const missing = { reason: 'missing', missingUntil, by };
    t.equal(await holdForMissing(sql, missing), true);
    t.equal(await holdForMissing(sql, missing), false);
    await resumeCollection(sql, all);
    await holdCollection(sql, all);
    t.equal(await holdForMissing(sql, missing), true);
    t.match(await listHolds(sql), [{ reason: 'a test', missingUntil }]);
    await resumeCollection(sql, all);
    t.same(await listHolds(sql), []);
    t.match(await sql`select history_accepted_until as until from installation`, [
      { until: missingUntil },
    ]);
  },
);

void t.test(
  'after a failover one keeper records the block height to wait for, and this height only grows',
  async (t) => {
    const { sql } = await testDatabase(t);
    const none: Brake = await readBrake(sql);
    t.match(none, { timeline: /^[0-9A-F]{8}$/, recorded: null, collectsAfterHeight: null });
    t.equal(isWaiting(none), false, 'before the first keeper nothing can be lost');
    await sql`
    insert into installation (cluster, mint, program_id, keepers, treasuries, fee_bps, window_seconds) values ('localnet', 'm', 'p', '{k}', '{t}', 100, 0)`;
    const now = none.timeline ?? '';
    await recordFirstTimeline(sql, '000000AA');
    t.equal(isWaiting(await readBrake(sql)), true, 'at once, before a keeper has seen it');
    const change = { before: '000000AA', now, collectsAfterHeight: 500n };
    t.equal(await recordTimeline(sql, change), true);
    t.equal(await recordTimeline(sql, { ...change, collectsAfterHeight: 900n }), false);
    t.match(await readBrake(sql), { recorded: now, collectsAfterHeight: 500n });
    t.equal(isWaiting(await readBrake(sql)), true);
    await recordTimeline(sql, { before: now, now, collectsAfterHeight: 400n });
    t.match(await readBrake(sql), { collectsAfterHeight: 500n });
    await endWait(sql, { timeline: now, height: 400n, slot: 7n });
    t.match(await readBrake(sql), { collectsAfterHeight: 500n }, 'another wait began');
    await endWait(sql, { timeline: now, height: 500n, slot: 7n });
    t.match(await readBrake(sql), { collectsAfterHeight: null, readsFromSlot: 7n });
    t.equal(isWaiting(await readBrake(sql)), false);
    t.equal(isWaiting({ ...none, timeline: null }), true, 'a standby');
  },
);

void t.test('a Postgres server that is promoted has a new timeline', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'billing-timeline-'));
  t.teardown(() => rm(dataDir, { recursive: true, force: true }));
  const timeline = async (settings: Record<string, string>) => {
    const server = await startEmbeddedPostgres({
      dataDir,
      settings: { fsync: 'off', ...settings },
    });
    const sql = connect(server.url, { max: 1, name: 'billing test' });
    const read = async () => {
      const [row] = await sql<{ timeline: string | null }[]>`
        select case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline`;
      return row?.timeline ?? null;
    };
    let found = await read();
    while (found === null) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      found = await read();
    }
    await sql.end();
    await server.stop();
    return found;
  };
  t.equal(await timeline({}), '00000001');
  await writeFile(join(dataDir, 'cluster', 'recovery.signal'), '');
  t.equal(await timeline({ restore_command: 'false' }), '00000002');
});
