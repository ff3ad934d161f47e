// The merchant has sent the transfer of a refund itself, and signs it again for the relay. One of
// two endpoints does not list the first transfer, the other one does not answer.
import { pino } from 'pino';
import t from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { priced } from '../fixtures/refund-stage.ts';
import { merchantOf, paid } from '../fixtures/shown-terms.ts';

void t.test('the relay believes one endpoint alone that nothing has paid the refund', async (t) => {
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
  const send = (unsigned: string) =>
    stage.api.call<{ status: string }>('POST', '/merchant/transactions', {
      token,
      body: { offerId, transaction: addSignature(seller, unsigned) },
    });

  const lacking = await startRewritingEndpoint(stage.net.rpcUrl, (method, _params, result) =>
    method === 'getSignaturesForAddress' ? [] : result,
  );
  const down = await startRewritingEndpoint(
    stage.net.rpcUrl,
    (_method, _params, result) => result,
    () => ({ code: 429, message: 'Too many requests' }),
  );
  const urls = [lacking.url, down.url];
  const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    lacking.close();
    down.close();
  });
  t.equal(rpc.endpoints(), 2);
  await stage.land(seller, transaction);
  Object.assign(stage.api.deps.chain, rpc);
  const second = await send(priced(transaction, 30_000n));
  t.not(second.status, 200, `the second transfer is ${second.body.data?.status}`);
  stage.net.mineBlocks(2);
  t.equal((await stage.balance(buyer.wallet)) - before, payment.amountNet, 'paid once');
});
