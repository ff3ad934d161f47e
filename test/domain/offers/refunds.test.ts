// Refunds on a real chain: recorded once, when the transfer is final. No other transaction that
// names the reference counts as the refund.
import { pino } from 'pino';
import t from 'tap';
import { generateKeypair, type Keypair } from '../../../src/chain/keypair.ts';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { refundTransaction } from '../../../src/chain/transactions/refund.ts';
import { reconcile } from '../../../src/cli/operate/reconcile/compare.ts';
import { readStatementDays } from '../../../src/db/money/statements.ts';
import { recordRefunds } from '../../../src/domain/offers/refunds.ts';
import { startRewritingEndpoint } from '../../fixtures/bad-endpoint.ts';
import type { Stage } from '../../fixtures/billing.ts';
import {
  ask,
  flood,
  lookNow,
  priced,
  refunds,
  send,
  startPaid,
} from '../../fixtures/refund-stage.ts';

const DAY_MS = 86_400_000;

/** Everything that `billing reconcile` names. */
async function differences({ sql, rpc, net, keeper }: Stage) {
  const reconciler = { sql, rpc, programId: net.programId, keepers: [keeper.address] };
  const range = { since: new Date(0), until: new Date(4e12), repair: false };
  return (await reconcile(reconciler, range)).differences;
}

const refunded = async (stage: Stage) =>
  (await stage.sql<{ amountRefunded: bigint }[]>`select amount_refunded from payments`)[0]!
    .amountRefunded;

void t.test(
  'a refund is recorded with one event when its transfer is finalized; later look-ups change nothing',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { context } = stage.parts();
    const { refund, offer } = await ask(stage, subscription, 1_000_000n);
    await recordRefunds(context);
    t.match(await refunds(stage), [{ status: 'pending' }], 'not sent yet');
    const before = await stage.balance(subscription.wallet.address);
    const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
    t.equal((await stage.balance(subscription.wallet.address)) - before, 1_000_000n);
    await lookNow(stage);
    await recordRefunds(context);
    t.match(await refunds(stage), [{ status: 'succeeded', txSignature, lookAt: Date }]);
    t.equal(await refunded(stage), 1_000_000n);
    await lookNow(stage);
    await recordRefunds(context);
    t.equal(await refunded(stage), 1_000_000n, 'once');
    await stage.sql`update refunds set created_at = now() - interval '6 minutes'`;
    for (const isDead of [false, true]) {
      if (isDead) stage.net.mineBlocks(200);
      await lookNow(stage);
      await recordRefunds(context);
      const lookAt = isDead ? null : Date;
      t.match(await refunds(stage), [{ status: 'succeeded', lookAt }], 'until it cannot repeat');
    }
    const told = (await stage.events(subscription)).filter(
      ({ type }) => type === 'refund_recorded',
    );
    t.equal(told.length, 1);
    t.match(told[0]!.data, { refundId: refund.id, amount: '1000000', txSignature });
  },
);

const late = [
  { title: 'the whole refund is excess', lost: null, other: null, excess: 4_950_000n },
  { title: 'a part of it is excess', lost: 2_500_000n, other: 3_000_000n, excess: 550_000n },
  { title: 'it still fits', lost: 2_500_000n, other: 2_450_000n, excess: 0n },
];
for (const { title, lost, other, excess } of late)
  void t.test(
    `the transfer of an expired refund is found after another refund: ${title}`,
    async (t) => {
      const { stage, subscription } = await startPaid(t);
      const { context } = stage.parts();
      const { merchant } = subscription.plan;
      const asked = await ask(stage, subscription, lost);
      await stage.sql`update refunds set status = 'expired', look_at = null`;
      const second = await ask(stage, subscription, other);
      await send(stage, merchant, second.offer.transaction);
      await lookNow(stage);
      await recordRefunds(context);
      const txSignature = await send(stage, merchant, asked.offer.transaction);
      await stage.sql`update refunds set look_at = now() where id = ${asked.refund.id}`;
      await recordRefunds(context);
      await recordRefunds(context);
      const [row] = await stage.sql<{ amount: bigint }[]>`
        select amount, status, tx_signature, excess from refunds where id = ${asked.refund.id}`;
      t.match(row, { status: 'succeeded', txSignature, excess });
      const moved = row!.amount + second.refund.amount;
      t.equal(await refunded(stage), moved - excess, 'at most the net amount');
      const told = (await stage.events(subscription)).filter(
        ({ type }) => type === 'refund_recorded',
      );
      t.equal(told.length, 2);
      t.equal(told[1]?.data.amount, String(row!.amount), 'with what was moved');
      const { values } = await context.metrics.alerts.get();
      const raised = values.find(({ labels }) => labels.reason === 'refund_excess')?.value;
      t.equal(raised, excess === 0n ? 0 : 1);
      t.same(
        (await differences(stage)).map(({ kind, signature }) => [kind, signature]),
        excess === 0n ? [] : [['refund_excess', txSignature]],
        'and no other difference',
      );
      const [app] = await stage.sql<{ appId: string }[]>`select app_id from payments`;
      const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
      const range = { from: new Date(today - DAY_MS), to: new Date(today + 2 * DAY_MS) };
      const days = await readStatementDays(stage.sql, app!.appId, range);
      const stated = days.reduce((sum, day) => sum + BigInt(day.refunded), 0n);
      t.equal(stated, moved, 'the statement has what was moved');
    },
  );

const repeated = [
  { title: 'all of it is excess', asked: null, excess: 4_950_000n },
  { title: 'a part of it is excess', asked: 3_000_000n, excess: 1_050_000n },
  { title: 'it fits', asked: 1_000_000n, excess: 0n },
];
for (const { title, asked, excess } of repeated)
  void t.test(
    `a second transfer of a recorded refund is recorded separately: ${title}`,
    async (t) => {
      const { stage, subscription } = await startPaid(t);
      const { context } = stage.parts();
      const { merchant } = subscription.plan;
      const { refund, offer } = await ask(stage, subscription, asked);
      const { amount, reference } = refund;
      const look = async () => {
        await lookNow(stage);
        await recordRefunds(context);
      };
      const first = await send(stage, merchant, offer.transaction);
      await look();
      const second = await send(stage, merchant, priced(offer.transaction, 30_000n));
      await Promise.all([look(), look()]);
      await look();
      t.match(
        await stage.sql`
        select amount, reference, status, tx_signature, excess, repeats from refunds order by id`,
        [
          { status: 'succeeded', txSignature: first, excess: 0n, repeats: null },
          { ...{ amount, reference, excess }, txSignature: second, repeats: refund.id },
        ],
      );
      t.equal(await refunded(stage), 2n * amount - excess);
      const told = (await stage.events(subscription)).filter(
        ({ type }) => type === 'refund_recorded',
      );
      t.match(
        told.map(({ data }) => data),
        [{ refundId: refund.id }, { amount: String(amount), txSignature: second }],
      );
      const { values } = await context.metrics.alerts.get();
      const raised = values.find(({ labels }) => labels.reason === 'refund_excess')?.value;
      t.equal(raised, excess === 0n ? 0 : 1);
      t.same(
        (await differences(stage)).map(({ kind, signature }) => [kind, signature]),
        excess === 0n ? [] : [['refund_excess', second]],
      );
    },
  );

void t.test(
  'if part of a payment became credit, a late transfer of an expired refund counts it as excess',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { context } = stage.parts();
    const { offer } = await ask(stage, subscription, null);
    await stage.sql`
      insert into credit_notes (invoice_id, payment_id, subscription_pda, reason, amount,
        takes_time_from)
      select invoice_id, id, subscription_pda, 'change_of_plan', 4000000, period_start
      from payments`;
    await send(stage, subscription.plan.merchant, offer.transaction);
    await lookNow(stage);
    await recordRefunds(context);
    t.match(await stage.sql`select status, excess from refunds`, [
      { status: 'succeeded', excess: 4_000_000n },
    ]);
    t.equal(await refunded(stage), 950_000n);
  },
);

void t.test(
  'a refund expires, and can be requested again, only when both endpoints show its blockhash as expired',
  async (t) => {
    const { stage, subscription } = await startPaid(t, { lagPort: 0 });
    const rpc = createRpc({
      urls: [stage.net.rpcUrl, stage.net.lagUrl!],
      log: pino({ enabled: false }),
    });
    t.teardown(() => rpc.close());
    const { context } = stage.parts(rpc);
    await ask(stage, subscription, null);
    await stage.sql`update refunds set created_at = now() - interval '6 minutes'`;
    // Its last valid block height alone does not decide.
    await stage.sql`update refunds set last_valid_block_height = 1`;
    const look = async () => {
      await lookNow(stage);
      await recordRefunds(context);
      return (await refunds(stage))[0]?.status;
    };
    t.equal(await look(), 'pending', 'it may land');
    await t.rejects(ask(stage, subscription, null), { code: 'CONFLICT' });
    stage.net.mineBlocks(200);
    await stage.net.rpc('localnet_setFault', { kind: 'status', status: 500, endpoint: 'lagging' });
    t.equal(await look(), 'pending', 'one endpoint does not answer');
    await stage.net.rpc('localnet_clearFaults');
    await stage.until('both endpoints are heard', async () => (await look()) === 'expired');
  },
);

void t.test(
  'a transfer with another amount, receiver or sender does not count as the refund',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { context } = stage.parts();
    const { refund } = await ask(stage, subscription, 1_000_000n);
    const { reference } = refund;
    const { merchant } = subscription.plan;
    const stranger = stage.wallet();
    const { mint } = stage.net;
    const right = { mint, merchant: merchant.address, subscriber: subscription.wallet.address };
    const wrong: [Keypair, Parameters<typeof refundTransaction>[0]][] = [
      [merchant, { ...right, amount: 999_999n, reference }],
      [merchant, { ...right, subscriber: stranger.address, amount: 1_000_000n, reference }],
      [stranger, { ...right, merchant: stranger.address, amount: 1_000_000n, reference }],
      [merchant, { ...right, amount: 1_000_000n, reference: generateKeypair().address }],
    ];
    for (const [keypair, transfer] of wrong) {
      const { blockhash } = await stage.rpc.getLatestBlockhash();
      const given = { hasTokenAccount: true, blockhash };
      await send(stage, keypair, refundTransaction(transfer, given));
    }
    await lookNow(stage);
    await recordRefunds(context);
    t.match(await refunds(stage), [{ status: 'pending', txSignature: null }]);
    t.equal(await refunded(stage), 0n);
  },
);

void t.test(
  'a refund is found behind any number of later transactions with its reference',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { context } = stage.parts();
    for (const [count, amount] of [
      [60, 1_000_000n],
      [1_010, 2_000_000n],
    ] as const) {
      const { refund, offer } = await ask(stage, subscription, amount);
      const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
      await flood(stage, refund.reference, count);
      await stage.sql`update refunds set created_at = now() - interval '6 minutes' where id = ${refund.id}`;
      await lookNow(stage);
      await recordRefunds(context);
      t.match((await refunds(stage)).at(-1), { status: 'succeeded', txSignature });
    }
    t.equal(await refunded(stage), 3_000_000n);
  },
);

void t.test('a refund does not expire because of an endpoint without history', async (t) => {
  const { stage, subscription } = await startPaid(t);
  const { refund, offer } = await ask(stage, subscription, 1_000_000n);
  const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
  const forgetful = await startRewritingEndpoint(stage.net.rpcUrl, (method, _params, result) =>
    method === 'getSignaturesForAddress' ? [] : result,
  );
  t.teardown(() => forgetful.close());
  const both = createRpc({
    urls: [forgetful.url, stage.net.rpcUrl],
    log: pino({ enabled: false }),
  });
  t.teardown(() => both.close());
  const { context } = stage.parts({
    getSignaturesForAddress: (...given) => both.getSignaturesForAddress(...given),
  });
  await stage.sql`update refunds set created_at = now() - interval '6 minutes' where id = ${refund.id}`;
  await lookNow(stage);
  await recordRefunds(context);
  t.match(await refunds(stage), [{ status: 'succeeded', txSignature }]);
});

void t.test(
  'a landed refund that one of two histories lacks stays pending while the other endpoint is rate limited or down',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const forgetful = await startRewritingEndpoint(stage.net.rpcUrl, (method, _params, result) =>
      method === 'getSignaturesForAddress' ? [] : result,
    );
    t.teardown(() => forgetful.close());
    let refusal: { code: number; message: string } | undefined;
    const whole = await startRewritingEndpoint(
      stage.net.rpcUrl,
      (_method, _params, result) => result,
      (method) => (method === 'getSignaturesForAddress' ? refusal : undefined),
    );
    t.teardown(() => whole.close());
    const rpc = createRpc({
      urls: [forgetful.url, `${forgetful.url}/?key=2`, whole.url],
      log: pino({ enabled: false }),
    });
    t.teardown(() => rpc.close());
    const { context } = stage.parts(rpc);
    const { offer } = await ask(stage, subscription, null);
    const txSignature = await send(stage, subscription.plan.merchant, offer.transaction);
    await stage.sql`update refunds set created_at = now() - interval '6 minutes'`;
    stage.net.mineBlocks(200);
    const look = async () => {
      await lookNow(stage);
      await recordRefunds(context);
      return (await refunds(stage))[0];
    };
    for (const [code, message] of [
      [-32603, 'Internal error'],
      [429, 'Too many requests'],
    ] as const) {
      refusal = { code, message };
      t.match(await look(), { status: 'pending' }, message);
      await t.rejects(ask(stage, subscription, null), { code: 'CONFLICT' });
    }
    refusal = undefined;
    await stage.until('it is found', async () => (await look())?.status === 'succeeded');
    t.match(await refunds(stage), [{ status: 'succeeded', txSignature }]);
  },
);

void t.test(
  'while its history cannot be read completely, a refund stays pending and its amount reserved',
  async (t) => {
    const { stage, subscription } = await startPaid(t);
    const { refund } = await ask(stage, subscription, null);
    await stage.sql`update refunds set created_at = now() - interval '2 days'`;
    const pending = { status: 'pending', lookAt: Date };

    const away = stage.parts({
      getSignaturesForAddress: () => Promise.reject(new Error('no endpoint answers')),
    });
    await t.rejects(recordRefunds(away.context), { message: 'no endpoint answers' });
    t.match(await refunds(stage), [pending], 'the chain is away');

    let pages = 0;
    const endless = stage.parts({
      getSignaturesForAddress: (_, { limit = 0 } = {}) => {
        pages += 1;
        const page = Array.from({ length: limit }, (_, index) => `${pages}-${index}`);
        return Promise.resolve(
          page.map((signature) => ({ signature, slot: 1n, err: 'failed', blockTime: 1n })),
        );
      },
    });
    await lookNow(stage);
    await recordRefunds(endless.context);
    t.match(await refunds(stage), [pending], 'a history without end');
    t.equal(pages, 50, 'and pages are read up to a bound');

    await flood(stage, refund.reference, 51);
    await lookNow(stage);
    const { context } = stage.parts();
    await recordRefunds(context);
    t.match(await refunds(stage), [pending], 'more transactions before it than are read');
    await t.rejects(ask(stage, subscription, null), { code: 'CONFLICT' }, 'nothing is left');
  },
);
