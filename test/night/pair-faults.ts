// The faults of the night on a primary with an asynchronous standby: a failover that loses commits,
// and two primaries at once.
import { setTimeout as pause } from 'node:timers/promises';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { pollUntil } from '../../src/local/sandbox/merchants.ts';
import { seeded } from '../../src/local/sandbox/random.ts';
import type { Supervised } from '../../src/local/sandbox/supervise.ts';
import { type Fault, isHeld, repair, succeed } from './faults.ts';
import type { Ground } from './ground.ts';
import type { Pair } from './postgres.ts';

type PairGround = Ground & Pair;

const random = seeded(21);
const mostLostMs = 2000;
/** A keeper holds collection for payments that are older than ten minutes. */
const lateMinutes = 11;
/** Both keepers have signed before a transaction of either lands. */
const heldBlocks = 60;

/** Two payments fit in one period: the program on chain would let a second one pass. */
const halvePrices = async ({ sql }: Ground): Promise<void> => {
  await sql()`update subscriptions set discount_percent = 60, discount_id = uuid_v7()`;
};

/**
 * The standby falls behind while payments are collected, then it takes over from a primary that is
 * dead.
 */
async function failOver({ pair, sql }: PairGround): Promise<void> {
  await pair.detach();
  const replicated = await countCommits(sql());
  await pollUntil(
    'the standby lacks commits',
    async () => (await countCommits(sql())) > replicated,
  );
  await pause(random.below(mostLostMs));
  await pair.promote(random.pick(['before', 'after']));
}

/**
 * The standby has the claims of the round and nothing that is signed under them. Then the keeper
 * dies with the primary, and minutes pass on the chain before the standby takes over: until the
 * claims pass, no keeper can book these payments.
 */
async function failOverLate({ pair, sql, chain, cheat, daemons }: PairGround): Promise<void> {
  const signing = await blockSigning(sql());
  await pollUntil('payments are claimed', async () => (await countClaims(sql())) > 0);
  await pair.detach();
  const replicated = await countPaid(sql());
  await signing.release();
  await pollUntil('the standby lacks payments', async () => (await countPaid(sql())) > replicated);
  await pause(random.below(mostLostMs));
  daemons.keeper.kill();
  await pair.promote('after', async () => {
    const later = Number(await chain.now()) + lateMinutes * 60;
    await cheat('surfnet_timeTravel', { absoluteTimestamp: later * 1000 });
  });
}

/** Payments are claimed and wait to be committed until this is released. */
async function blockSigning(sql: Sql): Promise<{ release(): Promise<void> }> {
  const own = await sql.reserve();
  await own`begin`;
  await own`lock table payment_attempts in share row exclusive mode`;
  return {
    async release() {
      await own`commit`;
      own.release();
    },
  };
}

const countOf = (rows: readonly Record<string, unknown>[]) => Number(rows[0]?.['count'] ?? 0);

const countClaims = async (sql: Sql) =>
  countOf(await sql`select count(*)::int from subscription_work where claim_id is not null`);

const countPaid = async (sql: Sql) => countOf(await sql`select count(*)::int from payments`);

/** Signed and settled payments. */
const countCommits = async (sql: Sql) =>
  (await countPaid(sql)) + countOf(await sql`select count(*)::int from payment_attempts`);

/** The keeper that stays at the old primary. */
let second: Supervised | undefined;

/** Both servers are primaries, and at each a keeper signs. */
async function split(ground: PairGround): Promise<void> {
  const { pair } = ground;
  await halvePrices(ground);
  second = await ground.startSecondKeeper(pair.port());
  await pair.split();
  await signsAgain(ground);
}

/** Resolves when the wait after the promotion is over. */
async function signsAgain({ sql }: Ground): Promise<void> {
  for (;;) {
    const open = await sql()`
      select from installation
      where timeline = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) and collects_after_height is null`.catch(
      () => [],
    );
    if (open.length > 0) return;
    await pause(100);
  }
}

/**
 * The old primary and its keeper are shut down, and the chain is booked, as docs/runbook.md has it
 * (BillingChargedTwice).
 */
async function fence(ground: PairGround): Promise<void> {
  await ground.cheat('localnet_clearFaults');
  await second?.stop();
  await ground.pair.fence();
  await repair(ground);
  await ground.pair.renew();
}

export const pairFaults: readonly Fault<PairGround>[] = [
  {
    name: 'failover with loss',
    prepare: halvePrices,
    begin: failOver,
    end: ({ pair }) => pair.renew(),
    heals: {
      seconds: 180,
      because: 'a keeper looks up 32 payments that the books lack, and the next after 30 s',
    },
  },
  {
    name: 'failover with loss, and the keeper holds collection',
    prepare: halvePrices,
    begin: failOverLate,
    by: /is held/,
    sees: { seconds: 45, because: 'books and chain are compared after 150 blocks' },
    end: async (ground) => {
      await isHeld(ground);
      await repair(ground);
      await succeed(ground, 'collection', 'resume', '--reason', 'reconciled');
      await ground.pair.renew();
    },
    heals: { seconds: 90, because: 'payments that are held are looked at every minute' },
  },
  {
    name: 'two primaries without fencing',
    prepare: split,
    begin: ({ cheat }) => cheat('localnet_setFault', { kind: 'hold', blocks: heldBlocks }),
    by: /BillingChargedTwice/,
    sees: {
      seconds: 60,
      because: 'a pull is looked up once it is final, and scrapes are 15 s apart',
    },
    end: fence,
    doubles: true,
  },
];
