// The relay sends a refund only if two endpoints show that no other transaction has paid it.
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createRpc } from '../../../src/chain/rpc/client.ts';
import { addSignature } from '../../../src/chain/transactions/message.ts';
import { refusePaidRefund } from '../../../src/domain/offers/paid-refund.ts';
import type { ServiceError } from '../../../src/errors.ts';
import { startApiStage } from '../../fixtures/api-stage.ts';
import { type Rewrite, rewritingRpc, startRewritingEndpoint } from '../../fixtures/bad-endpoint.ts';
import { ask, flood, priced, send, startPaid } from '../../fixtures/refund-stage.ts';
import { merchantOf, paid } from '../../fixtures/shown-terms.ts';

type Relayed = Parameters<typeof refusePaidRefund>[2];

const honest: Rewrite = (_method, _params, result) => result;
const listsNone: Rewrite = (method, _params, result) =>
  method === 'getSignaturesForAddress' ? [] : result;
const returnsNone: Rewrite = (method, _params, result) =>
  method === 'getTransaction' ? null : result;
const returnsAnother: Rewrite = (method, _params, result) => {
  if (method !== 'getTransaction' || result === null) return result;
  const { transaction, ...rest } = result as { transaction: { message: object } };
  const message = { ...transaction.message, instructions: [] };
  return { ...rest, transaction: { ...transaction, message } };
};
const keepsFew: Rewrite = (method, _params, result) =>
  method === 'getFirstAvailableBlock' ? 1_000_000 : result;

/** A refund that the merchant is about to relay. `isPaid`: it has sent another transfer of it. */
async function scene(t: Test, { isPaid = false } = {}) {
  const { stage, subscription } = await startPaid(t);
  const { offer, refund } = await ask(stage, subscription, null);
  const { merchant } = subscription.plan;
  const first = isPaid ? await send(stage, merchant, offer.transaction) : null;
  const [row] = await stage.sql<[{ blockhashSlot: bigint }]>`
    select blockhash_slot from offers where id = ${offer.offerId}`;
  const relayed = { offer: { id: offer.offerId, ...row }, signature: 'the second' } as Relayed;
  const refusal = async (...endpoints: Rewrite[]) => {
    const rpc = await rewritingRpc(t, stage.net.rpcUrl, endpoints);
    try {
      await refusePaidRefund(stage.sql, rpc, relayed);
      return null;
    } catch (error) {
      return (error as ServiceError).code;
    }
  };
  return { stage, refund, first, refusal, relayed };
}

void t.test('a refund that another transaction has paid is refused', async (t) => {
  const { refusal, stage, first, relayed } = await scene(t, { isPaid: true });
  for (const [what, ...endpoints] of [
    ['one endpoint', honest],
    ['one of two does not list it', listsNone, honest],
    ['one of two returns it as another one', returnsAnother, honest],
    ['one of two does not return it', honest, returnsNone],
  ] as const)
    t.equal(await refusal(...endpoints), 'CONFLICT', what);
  await refusePaidRefund(stage.sql, stage.rpc, { ...relayed, signature: first! });
});

void t.test(
  'a refund is not sent if only one of two endpoints shows that no transaction has paid it',
  async (t) => {
    const { refusal } = await scene(t, { isPaid: true });
    const both = [returnsAnother, returnsNone];
    t.equal(await refusal(...both), 'INTERNAL_ERROR', 'what the transaction is');
  },
);

void t.test(
  'a refund is sent when the histories of two endpoints show that no transaction has paid it',
  async (t) => {
    const { refusal, stage, refund } = await scene(t);
    t.equal(await refusal(honest), null, 'the only endpoint');
    t.equal(await refusal(honest, honest), null);
    t.equal(await refusal(honest, keepsFew), 'INTERNAL_ERROR', 'one history is too short');
    t.equal(await refusal(honest, keepsFew, honest), null, 'one of three is');
    await flood(stage, refund.reference, 1);
    t.equal(await refusal(honest, returnsNone), 'INTERNAL_ERROR', 'one returns what is listed');
    t.equal(await refusal(honest, honest), null, 'two do');
  },
);

void t.test('a refund is sent after a short rate limit of an endpoint is over', async (t) => {
  const { stage, relayed } = await scene(t);
  let refused = 0;
  const busy = await startRewritingEndpoint(stage.net.rpcUrl, honest, (method) => {
    if (method !== 'getSignaturesForAddress' || refused > 0) return undefined;
    refused += 1;
    return { code: 429, message: 'Too many requests' };
  });
  const urls = [stage.net.rpcUrl, busy.url];
  const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    busy.close();
  });
  await refusePaidRefund(stage.sql, rpc, relayed);
  t.equal(refused, 1);
});

void t.test(
  'while one of two endpoints is down, the relay sends no second transfer of a refund',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const { path, token } = await merchantOf(stage, plan);
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    await buyer.buy();
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    await stage.quiet();
    await keeper.stop();
    const { merchant: seller } = plan;
    stage.net.fund(seller.address, { usdc: 50_000_000n, lamports: 1_000_000_000n });
    stage.net.mineBlocks(2);
    const [payment] = await stage.sql<[{ id: string; amountNet: bigint }]>`
    select id, amount_net from payments`;
    const before = await stage.balance(buyer.wallet);
    const { body } = await stage.api.call<{ transaction: string; offerId: string }>(
      'POST',
      `${path}/transactions/${payment.id}/refunds`,
      { token, body: {} },
    );
    const { transaction, offerId } = body.data;
    const lacking = await startRewritingEndpoint(stage.net.rpcUrl, listsNone);
    const down = await startRewritingEndpoint(stage.net.rpcUrl, honest, () => ({
      code: 429,
      message: 'Too many requests',
    }));
    const urls = [lacking.url, down.url];
    const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
    t.teardown(async () => {
      await rpc.close();
      lacking.close();
      down.close();
    });
    await stage.land(seller, transaction);
    Object.assign(stage.api.deps.chain, rpc);
    const second = await stage.api.call('POST', '/merchant/transactions', {
      token,
      body: { offerId, transaction: addSignature(seller, priced(transaction, 30_000n)) },
    });
    t.match(second, { status: 503, body: { error: { message: /nothing was sent.*Try again/ } } });
    stage.net.mineBlocks(2);
    t.equal((await stage.balance(buyer.wallet)) - before, payment.amountNet, 'paid once');
  },
);
