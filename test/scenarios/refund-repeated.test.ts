// One refund whose transfer the merchant signs twice, each time with another priority fee: the
// relay sends one of them, and every transfer that lands is booked.
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import { priced } from '../fixtures/refund-stage.ts';
import { merchantOf, paid } from '../fixtures/shown-terms.ts';

/** A refund of a payment's whole net amount, for the merchant to sign. */
async function asked(t: Test) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const { path, token } = await merchantOf(stage, plan);
  await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  const { merchant: seller } = plan;
  stage.net.fund(seller.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
  stage.net.mineBlocks(2);
  const [payment] = await stage.sql<[{ id: string; amountNet: bigint }]>`
    select id, amount_net from payments`;
  const before = await stage.balance(buyer.wallet);
  const { status, body } = await stage.api.call<{ transaction: string; offerId: string }>(
    'POST',
    `${path}/transactions/${payment.id}/refunds`,
    { token, body: {} },
  );
  t.equal(status, 201);
  const { transaction, offerId } = body.data;
  const send = (unsigned: string) =>
    stage.api.call<{ status: string; signature: string }>('POST', '/merchant/transactions', {
      token,
      body: { offerId, transaction: addSignature(seller, unsigned) },
    });
  const given = async () => (await stage.balance(buyer.wallet)) - before;
  return { stage, seller, payment, transaction, send, given };
}

const rowsOf = (stage: ApiStage) =>
  stage.sql<{ amount: bigint; excess: bigint; txSignature: string }[]>`
    select amount, excess, tx_signature from refunds where status = 'succeeded' order by id`;

const booked = (stage: ApiStage, count: number) =>
  stage.until('it is booked', async () => (await rowsOf(stage)).length === count);

for (const first of ['relayed', 'sent by the wallet'] as const)
  void t.test(
    `the relay refuses a second transfer of a refund if the first is ${first}`,
    async (t) => {
      const { stage, seller, payment, transaction, send, given } = await asked(t);
      if (first === 'relayed') {
        t.match((await send(transaction)).body.data, { status: 'confirmed' });
        t.match((await send(transaction)).body.data, { status: 'confirmed' }, 'the same bytes');
      } else await stage.land(seller, transaction);
      const second = await send(priced(transaction, 30_000n));
      t.match(second, { status: 409, body: { error: { code: 'CONFLICT' } } });
      await booked(stage, 1);
      t.match(await send(priced(transaction, 40_000n)), { status: 409 }, 'it is booked');
      t.equal(await given(), payment.amountNet);
      t.match(await rowsOf(stage), [{ amount: payment.amountNet, excess: 0n }]);
      if (first === 'relayed')
        t.match((await send(transaction)).body.data, { status: 'confirmed' }, 'the same bytes');
    },
  );

void t.test('of concurrent relays of one refund only one transfer is sent', async (t) => {
  const { stage, payment, transaction, send, given } = await asked(t);
  const sent = await Promise.all(
    [30_000n, 40_000n, 50_000n].map((p) => send(priced(transaction, p))),
  );
  t.same(sent.map(({ status }) => status).sort(), [200, 409, 409]);
  await booked(stage, 1);
  t.equal(await given(), payment.amountNet);
});

void t.test(
  'two transfers of one refund that the wallet sends itself are both recorded',
  async (t) => {
    const { stage, seller, payment, transaction, given } = await asked(t);
    await stage.land(seller, transaction);
    await stage.land(seller, priced(transaction, 30_000n));
    await booked(stage, 2);
    const { amountNet } = payment;
    t.equal(await given(), 2n * amountNet);
    t.match(await rowsOf(stage), [
      { amount: amountNet, excess: 0n },
      { amount: amountNet, excess: amountNet },
    ]);
  },
);
