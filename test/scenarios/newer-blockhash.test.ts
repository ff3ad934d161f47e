// A transaction whose blockhash the wallet has read from its own endpoint. Two of the service's
// three endpoints are some blocks behind: they do not know it yet when the relay takes it.
import bs58 from 'bs58';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { createRpc } from '../../src/chain/rpc/client.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { startRewritingEndpoint } from '../fixtures/bad-endpoint.ts';
import { merchantOf, type Offer, paid } from '../fixtures/shown-terms.ts';

/** A signed change of plan. From now on the test makes the blocks. The leader has the fault. */
async function scene(t: Test, fault: object = { kind: 'hold', blocks: 3, count: 100 }) {
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
  const { transaction: offered, offerId, subscriptionPda } = body.data;
  const [{ blockhash: old }] = await stage.sql<[{ blockhash: string }]>`
    select blockhash from offers where id = ${offerId}`;
  stage.net.mineBlocks(6);
  const { blockhash: fresh } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(offered, 'base64');
  bytes.set(bs58.decode(fresh), bytes.indexOf(bs58.decode(old)));
  const transaction = addSignature(buyer.keypair, bytes.toString('base64'));

  await stage.net.rpc('localnet_setFault', { kind: 'lag', slots: 5 });
  const lagging = await Promise.all(
    [1, 2].map(() =>
      startRewritingEndpoint(stage.net.lagUrl!, (_method, _params, result) => result),
    ),
  );
  const urls = [stage.net.rpcUrl, ...lagging.map(({ url }) => url)];
  const rpc = createRpc({ urls, log: pino({ enabled: false }), probeMs: Infinity });
  t.teardown(async () => {
    await rpc.close();
    for (const one of lagging) one.close();
  });
  Object.assign(stage.api.deps.chain, rpc);
  await stage.net.rpc('localnet_setFault', fault);
  const relay = () => buyer.post<{ status: string }>('transactions', { transaction, offerId });
  const isTaken = async () =>
    (await stage.sql`select 1 from offers where signed_blockhash = ${fresh}`).length > 0;
  return { stage, merchant, bought, subscriptionPda, relay, isTaken };
}

void t.test(
  'a forced cancellation waits for a change with a blockhash that some endpoints do not know yet',
  async (t) => {
    const { stage, merchant, bought, relay, isTaken } = await scene(t);
    const sent = relay();
    await stage.until('the relay has it', isTaken);
    const { token, path } = merchant;
    const body = { mode: 'force' };
    const force = () =>
      stage.api.call('POST', `${path}/subscriptions/${bought.id}/cancel`, { token, body });
    t.match(await force(), { status: 409, body: { error: { code: 'CONFLICT' } } });
    stage.mine();
    t.match((await sent).body.data, { status: 'confirmed' }, 'it has landed');
  },
);

void t.test('the relay reports pending while the wallet’s own blockhash is valid', async (t) => {
  const { stage, subscriptionPda, relay } = await scene(t);
  t.match((await relay()).body.data, { status: 'pending' });
  stage.net.mineBlocks(8);
  const { accounts } = await stage.rpc.getMultipleAccounts([subscriptionPda]);
  t.not(accounts[0], null, 'it has landed');
});

void t.test('a lost transaction lapses when the wallet’s own blockhash expires', async (t) => {
  const { stage, merchant, bought, relay } = await scene(t, { kind: 'drop', count: 1000 });
  const { token, path } = merchant;
  const force = () =>
    stage.api.call('POST', `${path}/subscriptions/${bought.id}/cancel`, {
      token,
      body: { mode: 'force' },
    });
  const columns = () => stage.sql<{ height: bigint; slot: bigint }[]>`
    select signed_last_valid_block_height as height, signed_blockhash_slot as slot
    from offers where signature is not null`;
  t.match((await relay()).body.data, { status: 'pending' });
  const taken = await columns();
  stage.net.mineBlocks(100);
  t.match((await relay()).body.data, { status: 'pending' });
  t.same(await columns(), taken, 'its life began when the relay took it first');
  t.match(await force(), { status: 409 });
  stage.net.mineBlocks(120);
  t.match((await relay()).body.data, { status: 'lapsed' });
  t.equal((await force()).status, 200);
});
