// The relay took a change of plan with a blockhash that the wallet had read from its own endpoint.
// Two of the service's three endpoints are some blocks behind: they do not know it yet.
import bs58 from 'bs58';
import { pino } from 'pino';
import t from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { merchantOf, type Offer, paid } from '../fixtures/shown-terms.ts';

void t.test('a forced end waits for a change whose blockhash two endpoints do not know yet', async (t) => {
  const stage = await startApiStage(t, { blockMs: 0, lagPort: 0 });
  stage.net.mineBlocks(60);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const { merchant: owner } = plan;
  const dearer = await stage.plan({ amount: 25_000_000n, periodHours: 720, merchant: owner });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
  const merchant = await merchantOf(stage, plan);
  const blocks = setInterval(() => stage.net.mineBlocks(), 20);
  const keeper = await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const bought = await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  await keeper.stop();
  clearInterval(blocks);

  const { body } = await buyer.post<Offer>(`subscriptions/${bought.id}/change`, {
    ...{ planId: dearer.id, when: 'now' },
  });
  const [{ blockhash: offered }] = await stage.sql<[{ blockhash: string }]>`
    select blockhash from offers where id = ${body.data.offerId}`;
  stage.net.mineBlocks(6);
  const { blockhash: fresh } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(body.data.transaction, 'base64');
  Buffer.from(bs58.decode(fresh)).copy(bytes, bytes.indexOf(Buffer.from(bs58.decode(offered))));
  const transaction = addSignature(buyer.keypair, bytes.toString('base64'));

  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 5 });
  const lagging = await Promise.all(
    [1, 2].map(() => startRewritingEndpoint(stage.net.lagUrl!, (_method, _params, result) => result)),
  );
  const urls = [stage.net.rpcUrl, ...lagging.map(({ url }) => url)];
  const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    for (const one of lagging) one.close();
  });
  Object.assign(stage.api.deps.chain, rpc);
  // The leader gets the transaction some blocks later.
  await stage.net.rpc('localnet_setFault', { kind: 'hold', blocks: 3, count: 100 });
  const sent = buyer.post<{ status: string }>('transactions', {
    ...{ transaction, offerId: body.data.offerId },
  });
  await stage.until('the relay has it', async () => {
    const rows = await stage.sql`select 1 from offers where signed_blockhash = ${fresh}`;
    return rows.length > 0;
  });
  const force = await stage.api.call('POST', `${merchant.path}/subscriptions/${bought.id}/cancel`, {
    token: merchant.token,
    body: { mode: 'force' },
  });
  t.match(force, { status: 409, body: { error: { code: 'CONFLICT' } } }, 'it may still land');
  const landing = setInterval(() => stage.net.mineBlocks(), 20);
  t.teardown(() => clearInterval(landing));
  const { body: relayed } = await sent;
  t.comment(`the change is ${relayed.data.status}`);
});
