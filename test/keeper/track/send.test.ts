// The rows are read right before each send and decide what may be sent.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { RpcError, RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { readSubscriptions } from '../../../src/db/subscriptions/work.ts';
import { forceCancel, requestCancel } from '../../../src/domain/change/cancel.ts';
import type { InFlightTransaction, InFlightPayment } from '../../../src/keeper/track/in-flight.ts';
import { sendAll } from '../../../src/keeper/track/send.ts';
import { startStage, type Stage } from '../../fixtures/billing.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { planInvoice } from '../../fixtures/invoices.ts';
import { START } from '../../fixtures/keeper-subscription.ts';

/** `count` transactions of `size` claimed subscriptions each, which the chain does not have. */
async function transactions(stage: Stage, count: number, size = 1): Promise<InFlightTransaction[]> {
  const plan = await stage.plan();
  const claimId = randomUUID();
  const ids = (
    await stage.sql<{ id: string }[]>`
    with made as (
      insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours)
      select ${plan.appId}, ${plan.id}, address, address, 1, 1
      from unnest(${Array.from({ length: count * size }, randomAddress)}::text[]) as address returning id, app_id
    )
    insert into subscription_work (subscription_id, app_id, claim_id, lease_until, due_at)
    select id, app_id, ${claimId}, now() + interval '1 minute', now() from made returning subscription_id as id`
  ).map(({ id }) => id);
  const payments = (await readSubscriptions(stage.sql, ids)).map(
    (row) =>
      ({
        ...{ id: row.id, row, claimId, notices: 0, checked: 0, isStopped: false },
        attempt: { invoice: planInvoice(1n, START) },
      }) as InFlightPayment,
  );
  return Array.from(
    { length: count },
    (_, index) =>
      ({
        signature: `signature ${index}`,
        bytes: Buffer.from(String(index)),
        size,
        payments: new Map(
          payments.slice(index * size, (index + 1) * size).map((one) => [one.id, one]),
        ),
        sends: 0,
        sentAt: -Infinity,
      }) as unknown as InFlightTransaction,
  );
}

/**
 * An endpoint that answers a send once it is released. The clock is stopped, so that no check is
 * too old before `pass`.
 */
function endpoint(t: Test) {
  const pass = stopClock(t);
  const begun: string[] = [];
  const within: (number | undefined)[] = [];
  const waiting: (() => void)[] = [];
  let open = true;
  return {
    pass,
    begun,
    within,
    hold: () => (open = false),
    release: () => {
      open = true;
      for (const resolve of waiting.splice(0)) resolve();
    },
    sendTransaction: async (bytes: Uint8Array, options?: { withinMs?: number }) => {
      begun.push(`signature ${Buffer.from(bytes).toString()}`);
      within.push(options?.withinMs);
      if (!open) await new Promise<void>((resolve) => waiting.push(resolve));
      return '';
    },
  };
}

const idsOf = ({ payments }: InFlightTransaction) => [...payments.keys()];
const cancelled = (stage: Stage, id: string, cancel: typeof forceCancel = forceCancel) =>
  stage.sql.begin((tx) => cancel(tx, { id, status: 'active' }));

void t.test(
  'after a cancellation is committed neither its payment nor its transaction is sent',
  async (t) => {
    const stage = await startStage(t);
    const { begun, sendTransaction } = endpoint(t);
    const { context } = stage.parts({ sendTransaction });
    for (const cancel of [forceCancel, requestCancel]) {
      begun.length = 0;
      const [alone, pack, other] = (await transactions(stage, 3, 3)) as [
        InFlightTransaction,
        InFlightTransaction,
        InFlightTransaction,
      ];
      await cancelled(stage, idsOf(alone)[0]!, cancel);
      await cancelled(stage, idsOf(pack)[2]!, cancel);
      await sendAll(context, [alone, pack, other]);
      t.same(begun, [other.signature]);
      t.same([alone.sends, pack.sends, other.sends], [0, 0, 1]);
    }
  },
);

void t.test('a transaction with a cancelled payment is not sent again', async (t) => {
  const stage = await startStage(t);
  const [sent] = (await transactions(stage, 1, 2)) as [InFlightTransaction];
  const { begun, sendTransaction } = endpoint(t);
  const { context } = stage.parts({ sendTransaction });
  await sendAll(context, [sent]);
  await cancelled(stage, idsOf(sent)[0]!);
  await sendAll(context, [sent]);
  t.same(begun, [sent.signature]);
});

void t.test('a cancellation does not wait for a send that gets no answer', async (t) => {
  const stage = await startStage(t);
  const [one] = await transactions(stage, 1);
  const { begun, hold, release, within, sendTransaction } = endpoint(t);
  hold();
  const { context } = stage.parts({ sendTransaction });
  const sending = sendAll(context, [one!]);
  await stage.until('it is on its way', async () => begun.length === 1);
  await cancelled(stage, idsOf(one!)[0]!);
  await sending;
  release();
  t.ok(within[0]! > 0 && within[0]! <= 100, 'no endpoint is asked later than that');
  await sendAll(context, [one!]);
  t.equal(begun.length, 1, 'and it is not sent again');
});

void t.test('a check that took longer than 100 ms is repeated before a send', async (t) => {
  const stage = await startStage(t);
  const [late, fine] = (await transactions(stage, 2)) as [InFlightTransaction, InFlightTransaction];
  const { pass, begun, sendTransaction } = endpoint(t);
  const { context } = stage.parts({ sendTransaction });
  let checks = 0;
  const delayed = async (query: unknown) => {
    const rows = await query;
    checks += 1;
    if (checks === 1) {
      await cancelled(stage, idsOf(late)[0]!);
      pass(150);
    }
    return rows;
  };
  const slow = new Proxy(stage.sql, {
    apply(target, self, args: [readonly string[], ...unknown[]]) {
      const query: unknown = Reflect.apply(target, self, args);
      return args[0].join('').includes('w.notices') ? delayed(query) : query;
    },
  });
  await sendAll({ ...context, sql: slow }, [late, fine]);
  t.equal(checks, 2);
  t.same(begun, [fine.signature]);
});

void t.test('a keeper does not send a payment whose claim it lost', async (t) => {
  const stage = await startStage(t);
  const [kept, taken, split] = (await transactions(stage, 3, 2)) as [
    InFlightTransaction,
    InFlightTransaction,
    InFlightTransaction,
  ];
  const { begun, sendTransaction } = endpoint(t);
  const { context } = stage.parts({ sendTransaction });
  await stage.sql`update subscription_work set claim_id = ${randomUUID()} where subscription_id = ${idsOf(taken)[1]!}`;
  // This payment is no longer claimed here, though its transaction still carries it.
  (split.payments as Map<string, InFlightPayment>).delete(idsOf(split)[0]!);
  await sendAll(context, [kept, taken, split]);
  t.same(begun, [kept.signature]);
});

void t.test(
  'after a notification the chain is read, and a payment that it no longer allows is not sent',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan();
    const live = await stage.subscriber(plan);
    const [gone] = (await transactions(stage, 1)) as [InFlightTransaction];
    const { begun, sendTransaction } = endpoint(t);
    const { context, collector, taken, track } = stage.parts({ sendTransaction });
    await collector.turn();
    const tracker = track();
    t.teardown(() => tracker.stop(0));
    const ids = [live.id, ...idsOf(gone)];
    await stage.sql`update subscription_work set notices = notices + 1 where subscription_id = any(${ids})`;
    await sendAll(context, [gone]);
    t.same(begun, []);
    const [standing] = tracker.inFlight.add(taken);
    await sendAll(context, [standing!]);
    t.equal(begun.length, 1, 'what stands is sent');
  },
);

void t.test(
  'a refused transaction version is reported, and a send to an unreachable endpoint is repeated',
  async (t) => {
    const stage = await startStage(t);
    const [refused, lost] = (await transactions(stage, 2)) as [
      InFlightTransaction,
      InFlightTransaction,
    ];
    const told: string[] = [];
    stopClock(t);
    const { context } = stage.parts({
      sendTransaction: async (bytes) => {
        if (Buffer.from(bytes).toString() === '1') throw new RpcUnreachable('sendTransaction', []);
        throw new RpcError('http://a', 'sendTransaction', -32602, 'failed to deserialize');
      },
    });
    const listening = { refused: ({ message }: RpcError) => void told.push(message) };
    await sendAll({ ...context, versions: listening }, [refused, lost]);
    t.match(told, [/failed to deserialize/]);
    t.same([refused.sends, lost.sends], [1, 1], 'either may have arrived');
  },
);
