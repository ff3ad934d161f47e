// Checkouts and a renewal while a stranger holds the heads of all queues: long polls and wallets of
// one address behind the proxy, signed offers, offers that stay put off, and refunds of one
// merchant. What a buyer waits for is counted in requests and decisions that are not its own, not
// in time. What others do while the buyer waits for blocks delays nobody, and is not counted.
import { setTimeout as pause } from 'node:timers/promises';
import { VersionedTransaction } from '@solana/web3.js';
import bs58 from 'bs58';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { crowdMerchants } from '../../test/fixtures/crowd.ts';
import { type Checkouts, startCheckouts, type Wallet } from '../checkout/checkouts.ts';
import { type Database, startServer } from '../dispatch/harness.ts';
import { rpcRequests } from '../keeper/keeper-process.ts';
import { type Chain, startChain } from '../keeper/scene.ts';
import { Stranger, tokensOf } from './stranger.ts';

/** Buyers that are sponsored, and buyers that pay with their own SOL. */
const [BUYERS, OWN] = [3, 2];
const [POLLS, WALLETS, OFFERS] = [200, 100, 12];
/** RPC requests a second of `serve`, so that its callers wait for turns. */
const SERVE_RATE = '10';
/** The address of the long polls and reads. */
const STRANGER = '203.0.113.7';
/** At most as many of these are not the buyer's own (bench/README.md). */
const [MAX_TURNS, MAX_DECISIONS] = [20, 1];

/** What one buyer had to wait for. */
interface Waited {
  /** Requests of `serve` to the chain, while the buyer waited for `serve`. */
  requests: number;
  /** Offers of others that a keeper took from the hand-over until it took the buyer's. */
  decisions: number;
  confirmedMs: number;
}

/** Repeats requests of the stranger, `atOnce` at a time, until it is stopped. */
function flood(atOnce: number, work: () => Promise<number>) {
  const away = new AbortController();
  const run = async () => {
    while (!away.signal.aborted) if ((await work().catch(() => 0)) !== 200) await pause(200);
  };
  for (let count = 0; count < atOnce; count += 1) void run();
  return () => away.abort();
}

/** Long polls for events, and reads of the chain by many wallets: all of one address. */
async function floods(checkouts: Checkouts, { sql }: Database, planId: string) {
  const ask = (path: string, secret: string) =>
    checkouts.request(STRANGER, 'GET', path, { secret });
  const feeds = await Promise.all(
    (await crowdMerchants(sql, POLLS)).map(async ({ key, path }) => {
      const { data } = (await ask(path, key)).body as { data: { cursor: string } };
      return { key, path: `${path}?wait=15&after=${encodeURIComponent(data.cursor)}` };
    }),
  );
  const tokens = tokensOf(checkouts);
  const wallets = await Promise.all(
    Array.from({ length: WALLETS }, async () => {
      const wallet = generateKeypair().address;
      return (await tokens.issue({ wallet, role: 'subscriber', page: null })).token;
    }),
  );
  let [polls, reads] = [0, 0];
  const stops = [
    flood(POLLS, async () => {
      const { key, path } = feeds[(polls += 1) % feeds.length] ?? { key: '', path: '' };
      return (await ask(path, key)).status;
    }),
    flood(WALLETS, async () => {
      const token = wallets[(reads += 1) % WALLETS] ?? '';
      return (await ask(`/subscriber/plans/${planId}/standing`, token)).status;
    }),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

/**
 * Records the transactions of Postgres that hand an offer over or take it for a decision: its
 * look_at is then five seconds ahead.
 */
async function recordSteps({ sql }: Database): Promise<void> {
  await sql`create table bench_steps (offer_id uuid, step text, xid xid)`;
  await sql`
    create function bench_step() returns trigger security definer language plpgsql as $$
    begin
      if old.signed is null or new.look_at - now() = interval '5 seconds' then
        insert into bench_steps values (new.id,
          case when old.signed is null then 'handed over' else 'taken' end,
          pg_current_xact_id()::xid);
      end if;
      return null;
    end $$`;
  await sql`
    create trigger bench_step after update of signed, look_at on offers
    for each row execute function bench_step()`;
}

/** Counts the others' offers that a keeper took from the hand-over of an offer to its turn. */
async function takesBefore({ sql }: Database, offerId: string): Promise<number> {
  const [row] = await sql<{ count: number | null }[]>`
    with steps as (
      select offer_id, step, pg_xact_commit_timestamp(xid) as at from bench_steps
    ), own as (
      select min(at) filter (where step = 'handed over') as handed_over,
        min(at) filter (where step = 'taken') as taken
      from steps where offer_id = ${offerId}
    )
    select case when own.taken is not null then (
        select count(*)::int from steps
        where step = 'taken' and at > own.handed_over and at < own.taken
      ) end as count
    from own`;
  return row?.count ?? NaN;
}

/** Runs `work`. Adds the requests of `serve` to the chain meanwhile to `waited`. */
async function counting<T>(
  { serveMetricsPort }: Checkouts,
  waited: { requests: number },
  work: () => Promise<T>,
): Promise<T> {
  const before = await rpcRequests(serveMetricsPort);
  const result = await work();
  waited.requests += (await rpcRequests(serveMetricsPort)) - before;
  return result;
}

/** Subscribes a buyer without SOL. Throws if one of its requests is refused. */
async function buy(checkouts: Checkouts, database: Database, wallet: Wallet): Promise<Waited> {
  const waited = { requests: 0 };
  const offer = await counting(checkouts, waited, () => checkouts.offer(wallet));
  const signed = addSignature(wallet.keypair, offer.transaction);
  // A keeper sends it: from the answer to the hand-over on, nothing of `serve` is waited for.
  const before = await rpcRequests(checkouts.serveMetricsPort);
  const { confirmedMs } = await checkouts.post(wallet, offer, signed, async () => {
    waited.requests += (await rpcRequests(checkouts.serveMetricsPort)) - before;
  });
  return { ...waited, confirmedMs, decisions: await takesBefore(database, offer.offerId) };
}

/** Resolves when the chain has the transaction with one of the commitments. */
async function onChain(chain: Chain, signature: string, commitments: readonly string[]) {
  for (;;) {
    const { value } = await chain.call<{ value: [{ confirmationStatus: string } | null] }>(
      'getSignatureStatuses',
      [signature],
    );
    if (commitments.includes(value[0]?.confirmationStatus ?? '')) return;
    await pause(5);
  }
}

/** Subscribes a buyer that pays the SOL, through the relay. Throws if a request is refused. */
async function buyWithSol(
  checkouts: Checkouts,
  chain: Chain,
  { keypair, address }: Wallet,
): Promise<Omit<Waited, 'decisions'>> {
  const { token } = await tokensOf(checkouts).issue({
    ...{ wallet: keypair.address, role: 'subscriber', page: null },
  });
  const post = async <T>(path: string, body: unknown) => {
    const answer = await checkouts.request(address, 'POST', path, { secret: token, body });
    if (answer.status !== 200) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return (answer.body as { data: T }).data;
  };
  const relayed = async (signed: { transaction: string; offerId: string }) => {
    for (;;) {
      const { status, reason } = await post<{ status: string; reason: string | null }>(
        '/subscriber/transactions',
        signed,
      );
      if (status === 'confirmed') return;
      if (status !== 'pending') throw new Error(`${status}: ${reason}`);
    }
  };
  const waited = { requests: 0 };
  const startedAt = performance.now();
  const { transaction, offerId } = await counting(checkouts, waited, () =>
    post<{ transaction: string; offerId: string }>(
      `/subscriber/plans/${checkouts.planId}/subscribe`,
      {},
    ),
  );
  const signed = addSignature(keypair, transaction);
  const [first] = VersionedTransaction.deserialize(Buffer.from(signed, 'base64')).signatures;
  const signature = bs58.encode(first ?? Buffer.alloc(0));
  const { answer } = await counting(checkouts, waited, async () => {
    const relaying = relayed({ transaction: signed, offerId });
    await Promise.race([relaying, onChain(chain, signature, ['processed', 'confirmed'])]);
    return { answer: relaying };
  });
  await onChain(chain, signature, ['confirmed']);
  await counting(checkouts, waited, () => answer);
  return { ...waited, confirmedMs: performance.now() - startedAt };
}

/** Moves the chain to the next period. Resolves with the seconds until the renewal is committed. */
async function renew({ sql }: Database, chain: Chain, planId: string): Promise<number> {
  const count = async () => {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from payment_attempts p
        join subscriptions s on s.id = p.subscription_id where s.plan_id = ${planId}`;
    return row?.count ?? 0;
  };
  const before = await count();
  await chain.pass();
  const startedAt = performance.now();
  while ((await count()) === before) await pause(20);
  return (performance.now() - startedAt) / 1000;
}

/** Buys while the attacks are under way. `left`: offers that stayed put off, at least. */
async function attacked(
  { checkouts, database, chain }: { checkouts: Checkouts; database: Database; chain: Chain },
  stranger: Stranger,
  { sponsored, own }: { sponsored: readonly Wallet[]; own: readonly Wallet[] },
) {
  await (
    await stranger.signUps(OFFERS)
  )();
  const refunds = await stranger.askRefunds();
  const stop = await floods(checkouts, database, stranger.planId);
  const waited: Waited[] = [];
  const relayed: Omit<Waited, 'decisions'>[] = [];
  const left: number[] = [];
  const besideOffers = async <T>(work: () => Promise<T>): Promise<T> => {
    const handOver = await stranger.signUps(OFFERS);
    const putOff = await stranger.putOff();
    const [, found] = await Promise.all([handOver(), work()]);
    left.push(await putOff());
    return found;
  };
  for (const wallet of own)
    relayed.push(await besideOffers(() => buyWithSol(checkouts, chain, wallet)));
  for (const wallet of sponsored)
    waited.push(await besideOffers(() => buy(checkouts, database, wallet)));
  const renewalSeconds = await besideOffers(() => renew(database, chain, checkouts.planId));
  stop();
  return { waited, relayed, refunds, left: Math.min(...left.slice(0, -1)), renewalSeconds };
}

/**
 * The figures of buyers and a renewal under attack, beside those of a buyer alone. Throws if a
 * buyer has waited for more turns or decisions than the bounds allow.
 */
export async function underAttack(): Promise<Record<string, number>> {
  const server = await startServer({ track_commit_timestamp: 'on' });
  const chain = await startChain(400);
  const database = await server.database('attacks');
  const more = { SOLANA_SERVE_RATE: SERVE_RATE };
  const checkouts = await startCheckouts(chain, database, { more, renewals: 1 });
  await recordSteps(database);
  const stranger = await Stranger.open(chain, database, checkouts, BUYERS + OWN + 1);
  const [warm, alone, ...sponsored] = (await checkouts.fund(BUYERS + 2)) as [Wallet, Wallet];
  const [first, ...own] = (await checkouts.fund(OWN + 1)) as [Wallet];
  for (const { keypair } of [first, ...own])
    await chain.call('requestAirdrop', keypair.address, 1_000_000_000);
  await chain.call('localnet_mineBlocks', 2);
  // The first checkout is not measured: the processes then load modules on demand.
  await buy(checkouts, database, warm);
  const unattacked = await buy(checkouts, database, alone);
  const relayedAlone = await buyWithSol(checkouts, chain, first);
  const found = await attacked({ checkouts, database, chain }, stranger, { sponsored, own });
  await checkouts.stop();
  chain.stop();
  await database.drop();
  await server.stop();
  const most = (pick: (one: Waited) => number) => Math.max(...found.waited.map(pick));
  const figures = {
    attackedTurnsMost: most(({ requests }) => requests) - unattacked.requests,
    attackedOwnSolTurnsMost:
      Math.max(...found.relayed.map(({ requests }) => requests)) - relayedAlone.requests,
    attackedOwnSolConfirmedMs: Math.max(...found.relayed.map(({ confirmedMs }) => confirmedMs)),
    aloneOwnSolConfirmedMs: relayedAlone.confirmedMs,
    aloneOwnSolRequests: relayedAlone.requests,
    attackedDecisionsMost: most(({ decisions }) => decisions),
    attackedConfirmedMs: most(({ confirmedMs }) => confirmedMs),
    aloneConfirmedMs: unattacked.confirmedMs,
    attackedRenewalSeconds: found.renewalSeconds,
    putOffLeast: found.left,
    openRefunds: found.refunds,
  };
  refuseSlow(figures);
  return figures;
}

function refuseSlow(figures: Readonly<Record<string, number>>): void {
  const { attackedTurnsMost = NaN, attackedOwnSolTurnsMost = NaN, putOffLeast = 0 } = figures;
  if (putOffLeast === 0) throw new Error('no offer stayed put off');
  const turns = Math.max(attackedTurnsMost, attackedOwnSolTurnsMost);
  if (!(turns <= MAX_TURNS && (figures['attackedDecisionsMost'] ?? NaN) <= MAX_DECISIONS))
    throw new Error(`a buyer has waited too long: ${JSON.stringify(figures)}`);
}
