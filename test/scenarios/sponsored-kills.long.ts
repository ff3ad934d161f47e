// Processes killed with SIGKILL while a sponsored sign-up or change of plan is under way: the
// keeper after each step, and serve after the POST. There is one subscription and one payment, or
// none, told to the page. After a change, exactly one of two subscriptions runs.
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { generateKeypair, keypairFromSecret } from '../../src/chain/keypair.ts';
import { subscriptionIn } from '../../src/chain/program/accounts.ts';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { silent } from '../fixtures/billing.ts';
import type { Running } from '../fixtures/command.ts';
import { HANDLED, startRpcProxy } from '../fixtures/rpc-server.ts';
import { publish, startChainServe } from '../fixtures/serve.ts';
import type { OfferMade, ProgressMade } from '../fixtures/sponsor-stage.ts';

/** What the RPC endpoint does with a request: the keeper is killed before or after it. */
interface Step {
  method: string;
  when: 'before' | 'after';
  /** Whether the keeper is to be killed at this result. */
  at?: (result: string) => boolean;
}

const steps: Record<string, Step> = {
  'before it has signed': { method: 'simulateTransaction', when: 'before' },
  'after the commit, before it has sent': { method: 'sendTransaction', when: 'before' },
  'after it has sent': { method: 'sendTransaction', when: 'after' },
  'after the confirmation': {
    method: 'getSignatureStatuses',
    when: 'after',
    at: (result) => result.includes('"confirmed"'),
  },
  'before it settles': { method: 'getBlockTime', when: 'before' },
};

/** A transaction that a page hands over, and what there must be once it is final. */
interface Prepared {
  offerId: string;
  post: () => Promise<ProgressMade>;
  read: (known: string) => Promise<ProgressMade>;
  isDoneOnce: () => Promise<void>;
}

void t.test(
  'a sign-up or a change is paid once or not at all when processes are killed',
  async (t) => {
    const { chain, served } = await startChainServe(t, {
      SPONSOR_LAMPORTS_PER_DAY: '1000000000',
      SPONSOR_ADDRESS_LAMPORTS_PER_DAY: '1000000000',
    });
    const { sql } = served;
    const proxy = await startRpcProxy(t, chain.rpcUrl);
    served.env.SOLANA_RPC_URL = proxy.url;
    const rpc = createRpc({ urls: [chain.rpcUrl], log: silent });
    t.teardown(() => rpc.close());
    const selling = chain.wallet();
    const merchant = await served.merchant(keypairFromSecret(selling.keypair.secretKey));
    const plan = await publish(served, merchant, selling, { amount: '5000000' });
    const larger = await publish(served, merchant, selling, { amount: '25000000' });

    const ends = async ({ read }: Pick<Prepared, 'read'>): Promise<ProgressMade> => {
      for (let known = 'offered'; ;) {
        const progress = await read(known);
        if (['final', 'failed', 'refused', 'lapsed'].includes(progress.state)) return progress;
        known = progress.state;
      }
    };
    const isFinal = async (prepared: Pick<Prepared, 'read'>) => {
      const end = await ends(prepared);
      t.match(end, { state: 'final', subscriptionId: String });
      return end.subscriptionId!;
    };
    /** The database rows of the wallet. */
    const books = async (wallet: string) => {
      const [row] = await sql`
      select count(distinct s.id)::int as subscriptions, count(p.id)::int as payments,
        (select count(*)::int from payment_attempts where state = 'open') as open
      from subscriptions s left join payments p on p.subscription_id = s.id
      where s.subscriber_wallet = ${wallet}`;
      return row;
    };
    const prepare = async (usdc = 5_000_000n) => {
      const wallet = generateKeypair();
      chain.fund(wallet.address, { lamports: 0n, usdc });
      chain.mineBlocks(2);
      const { offer } = await served.call<{ offer: OfferMade }>(
        'POST',
        `/checkout/plans/${plan.id}/offers`,
        { body: { wallet: wallet.address } },
      );
      const path = `/checkout/offers/${offer.offerId}`;
      const body = { transaction: addSignature(wallet, offer.transaction) };
      const { secret: token, subscriptionPda } = offer;
      const read: Prepared['read'] = (known) =>
        served.call<ProgressMade>('GET', `${path}?wait=8&known=${known}`, { token });
      const isDoneOnce = async () => {
        await isFinal({ read });
        t.match(await books(wallet.address), { subscriptions: 1, payments: 1, open: 0 });
        const history = await chain.rpc<unknown[]>('getSignaturesForAddress', subscriptionPda);
        t.equal(history.length, 1, 'one transaction on chain');
      };
      return {
        ...{ wallet, subscriptionPda, read, isDoneOnce, offerId: offer.offerId },
        post: () => served.call<ProgressMade>('POST', `${path}/transaction`, { token, body }),
      };
    };
    const stopped = async (keeper: Running) => {
      keeper.child.kill('SIGTERM');
      await keeper.ended;
    };
    const isRunning = async (pda: string) => {
      const { accounts } = await rpc.getMultipleAccounts([pda]);
      return subscriptionIn(accounts[0] ?? null, chain.programId)?.expiresAt === 0n;
    };

    /** Wallets without SOL that have subscribed, one for each test of a change. */
    const subscribed = await (async () => {
      const keeper = served.daemon('keeper');
      const tests = Array.from({ length: Object.keys(steps).length + 1 });
      const all = await Promise.all(
        tests.map(async () => {
          const first = await prepare(100_000_000n);
          const { token } = await first.post();
          return { ...first, token: token!, id: await isFinal(first) };
        }),
      );
      await stopped(keeper);
      return all;
    })();

    /** A subscribed wallet that has signed a change to the larger plan. */
    const prepareChange = async () => {
      const { token, id, ...first } = subscribed.pop()!;
      const { address } = first.wallet;
      const made = await served.call<OfferMade & { today: string }>(
        'POST',
        `/subscriber/subscriptions/${id}/change`,
        { token, body: { planId: larger.id, when: 'now', sponsored: true } },
      );
      const { offerId, transaction, subscriptionPda, today } = made;
      const path = `/subscriber/offers/${offerId}`;
      const body = { transaction: addSignature(first.wallet, transaction) };
      const read: Prepared['read'] = (known) =>
        served.call<ProgressMade>('GET', `${path}?wait=8&known=${known}`, { token });
      const running = async () => ({
        old: await isRunning(first.subscriptionPda),
        new: await isRunning(subscriptionPda),
      });
      const isDoneOnce = async () => {
        const by = await isFinal({ read });
        t.same(await running(), { old: false, new: true }, 'one of them runs');
        t.match(await books(address), { subscriptions: 2, payments: 2, open: 0 });
        const [changed] = await sql`
        select replaced_by, (select amount_gross from payments where subscription_id = ${by}) as paid
        from subscriptions where id = ${id}`;
        t.match(changed, { replacedBy: by, paid: BigInt(today) });
        const history = await chain.rpc<unknown[]>('getSignaturesForAddress', subscriptionPda);
        t.equal(history.length, 1, 'one transaction on chain');
      };
      return {
        ...{ offerId, read, isDoneOnce },
        post: () => served.call<ProgressMade>('POST', `${path}/transaction`, { token, body }),
      };
    };

    for (const [what, start] of [
      ['a sign-up', prepare],
      ['a change of plan', prepareChange],
    ] as const) {
      for (const [name, { method, when, at = () => true }] of Object.entries(steps))
        await t.test(
          `${what} is paid once or not at all when the keeper is killed ${name}`,
          async () => {
            const prepared: Prepared = await start();
            const first = served.daemon('keeper');
            const forward = proxy.behaviour();
            let isArmed = true;
            proxy.behave(async (seen, response, request) => {
              if (!isArmed || seen.method !== method) return forward(seen, response, request);
              const result = when === 'after' ? await forward(seen, response, request) : undefined;
              if (!at(JSON.stringify(result ?? ''))) return result;
              isArmed = false;
              first.child.kill('SIGKILL');
              return HANDLED;
            });
            await prepared.post();
            if (first.child.exitCode === null && first.child.signalCode === null)
              await once(first.child, 'exit');
            t.equal(first.child.signalCode, 'SIGKILL');
            proxy.behave(forward);
            const second = served.daemon('keeper');
            await prepared.isDoneOnce();
            await stopped(second);
          },
        );

      await t.test(
        `${what} is paid once or not at all when serve is killed after the POST`,
        async () => {
          const prepared: Prepared = await start();
          const posted = prepared.post().catch(() => undefined);
          for (;;) {
            const rows = await sql`
          select 1 from offers where id = ${prepared.offerId} and signed is not null`;
            if (rows.length === 1) break;
            await pause(1);
          }
          await served.stop('SIGKILL');
          await posted;
          const keeper = served.daemon('keeper');
          await served.restart();
          t.equal((await prepared.post()).token ?? null, null, 'the page posts again');
          await prepared.isDoneOnce();
          await stopped(keeper);
        },
      );
    }
  },
);
