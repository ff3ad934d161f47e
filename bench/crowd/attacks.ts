// Sponsored checkouts and a renewal while a stranger holds the heads of all queues: long polls and
// wallets of one address behind the proxy, signed offers and refunds of one merchant. What a buyer
// waits for is counted in requests and decisions that are not its own, not in time.
import { setTimeout as pause } from 'node:timers/promises';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { timeOf } from '../../src/chain/time.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { createTokens } from '../../src/domain/accounts/tokens.ts';
import { crowdMerchants } from '../../test/fixtures/crowd.ts';
import { type Checkouts, startCheckouts, type Wallet } from '../checkout/checkouts.ts';
import { type Database, startServer } from '../dispatch/harness.ts';
import { register } from '../keeper/collect.ts';
import { rpcRequests } from '../keeper/keeper-process.ts';
import { type Chain, openPlan, startChain } from '../keeper/scene.ts';

const BUYERS = 3;
const [POLLS, WALLETS, OFFERS, REFUNDS] = [200, 100, 12, 50];
/** RPC requests a second of `serve`, so that its callers wait for turns. */
const SERVE_RATE = '10';
/** The address of the long polls and reads, and that of the signed offers. */
const [STRANGER, SIGNER] = ['203.0.113.7', '203.0.113.8'];

/** What one buyer had to wait for. */
interface Waited {
  /** Requests of `serve` to the chain, from the request for the offer until its answer. */
  requests: number;
  /** Decisions about others' offers, from the hand-over until a keeper took the buyer's offer. */
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
  const tokens = createTokens(['j'.repeat(32)], checkouts.url);
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

/** Counts the others' offers that were decided between the hand-over of an offer and its turn. */
async function decisionsBefore({ sql }: Database, offerId: string): Promise<number> {
  // A keeper takes an offer for five seconds (look_at).
  const [row] = await sql<{ count: number }[]>`
    select count(s.offer_id)::int as count
    from sponsored_offers own left join sponsorships s on s.offer_id <> own.id
      and s.created_at > own.signed_at and s.created_at < own.look_at - interval '5 seconds'
    where own.id = ${offerId}`;
  return row?.count ?? NaN;
}

/** Subscribes a buyer. Throws if one of its requests is refused. */
async function buy(checkouts: Checkouts, database: Database, wallet: Wallet): Promise<Waited> {
  const before = await rpcRequests(checkouts.serveMetricsPort);
  const offer = await checkouts.offer(wallet);
  const requests = (await rpcRequests(checkouts.serveMetricsPort)) - before;
  const signed = addSignature(wallet.keypair, offer.transaction);
  const { confirmedMs } = await checkouts.post(wallet, offer, signed);
  return { requests, confirmedMs, decisions: await decisionsBefore(database, offer.offerId) };
}

/** Makes offers of the stranger's plan, all for one address. Returns what hands them over. */
async function offers(checkouts: Checkouts, planId: string): Promise<() => Promise<void>> {
  const wallets = (await checkouts.fund(OFFERS)).map((one) => ({ ...one, address: SIGNER }));
  const made = await Promise.all(
    wallets.map(async (wallet) => ({ wallet, offer: await checkouts.offer(wallet, planId) })),
  );
  return async () => {
    await Promise.all(
      made.map(({ wallet, offer: { offerId, secret, transaction } }) => {
        const body = { transaction: addSignature(wallet.keypair, transaction) };
        return checkouts.request(SIGNER, 'POST', `/checkout/offers/${offerId}/transaction`, {
          ...{ secret, body },
        });
      }),
    );
  };
}

/** Refunds of the stranger's payments that nobody signs. */
async function refunds({ sql }: Database, planId: string): Promise<void> {
  await sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference)
    select p.app_id, p.id, p.subscription_id, 1, md5(random()::text) || n from payments p
      cross join generate_series(1, ${REFUNDS}) as n
    where p.plan_id = ${planId} limit ${REFUNDS}`;
}

/** Moves the chain to the next period. Resolves with the seconds until the renewal is committed. */
async function renew({ sql }: Database, chain: Chain): Promise<number> {
  const count = async () => {
    const [row] = await sql<{ count: number }[]>`
      select count(*)::int as count from payment_attempts where offer_id is null`;
    return row?.count ?? 0;
  };
  const before = await count();
  await chain.pass();
  const startedAt = performance.now();
  while ((await count()) === before) await pause(20);
  return (performance.now() - startedAt) / 1000;
}

/** Publishes the stranger's plan; returns its id. */
async function strangersPlan(chain: Chain, { sql }: Database): Promise<string> {
  const stranger = { ...chain, merchant: generateKeypair() };
  const { address } = stranger.merchant;
  await chain.call('requestAirdrop', address, 1_000_000_000);
  await chain.call('localnet_faucet', address, '1');
  await chain.call('localnet_mineBlocks', 2);
  const plan = await openPlan(stranger, 0, 0);
  await register(sql, stranger, plan, timeOf(BigInt(await chain.now())));
  const [found] = await sql<{ id: string }[]>`select id from plans where plan_pda = ${plan.pda}`;
  if (found === undefined) throw new Error('the plan is not registered');
  return found.id;
}

/** The figures of buyers and a renewal under attack, beside those of a buyer alone. */
export async function underAttack(): Promise<Record<string, number>> {
  const server = await startServer();
  const chain = await startChain(400);
  const database = await server.database('attacks');
  const more = { SOLANA_SERVE_RATE: SERVE_RATE };
  const checkouts = await startCheckouts(chain, database, { more, renewals: 1 });
  const planId = await strangersPlan(chain, database);
  const [warm, alone, ...buyers] = await checkouts.fund(BUYERS + 2);
  if (warm === undefined || alone === undefined) throw new Error('there are no buyers');
  // The first checkout is not measured: the processes then load modules on demand.
  const first = await checkouts.offer(warm);
  await checkouts.post(warm, first, addSignature(warm.keypair, first.transaction));
  const own = await buy(checkouts, database, alone);
  await (
    await offers(checkouts, planId)
  )();
  await pause(20_000);
  await refunds(database, planId);
  const stop = await floods(checkouts, database, planId);
  const waited: Waited[] = [];
  const [, renewalSeconds] = await Promise.all([
    (await offers(checkouts, planId))(),
    renew(database, chain),
  ]);
  for (const buyer of buyers) {
    const handOver = await offers(checkouts, planId);
    const [, one] = await Promise.all([handOver(), buy(checkouts, database, buyer)]);
    waited.push(one);
  }
  stop();
  await checkouts.stop();
  chain.stop();
  await database.drop();
  await server.stop();
  const most = (pick: (one: Waited) => number) => Math.max(...waited.map(pick));
  return {
    attackedTurnsMost: most(({ requests }) => requests) - own.requests,
    attackedDecisionsMost: most(({ decisions }) => decisions),
    attackedConfirmedMs: most(({ confirmedMs }) => confirmedMs),
    aloneConfirmedMs: own.confirmedMs,
    attackedRenewalSeconds: renewalSeconds,
  };
}
