// Sponsored transactions end to end: the API offers, a wallet without SOL signs, a keeper checks,
// signs, sends and settles.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startSponsorStage } from '../fixtures/sponsor-stage.ts';

void t.test('a wallet with 5 USDC and no SOL subscribes, cancels and closes', async (t) => {
  const stage = await startSponsorStage(t);
  const { rpc, sql, api, keeper, net } = stage;
  const plan = await stage.plan();
  net.fund(plan.merchant.address, { usdc: 1n });
  await stage.startKeeper(stage.sponsoring);
  const before = await rpc.getBalance(keeper.address);
  const wallet = stage.poor();
  const offer = await stage.offer(plan, wallet);
  t.match(await stage.progress(offer), { state: 'offered', signature: null });
  const handed = await stage.sign(offer, wallet);
  t.equal(handed.status, 200);
  const { token } = handed.body.data;
  t.type(token, 'string', 'a token for the wallet');
  t.match((await stage.sign(offer, wallet)).body.data, { token: null }, 'once');
  const end = await stage.reaches(offer, 'final', 'failed', 'refused', 'lapsed');
  t.match(end, { state: 'final', reason: null });
  const subscription = { id: end.subscriptionId!, pda: offer.subscriptionPda, wallet, plan };
  t.match(await stage.payments(subscription), [
    {
      status: 'succeeded',
      source: 'keeper',
      amountGross: 5_000_000n,
      platformFee: 50_000n,
      txSignature: end.signature,
    },
  ]);
  t.same(
    (await stage.events(subscription)).map(({ type }) => type),
    ['subscription_created', 'payment_success'],
  );
  const row = await stage.row(subscription);
  t.match(row, { status: 'active', claimId: null });
  t.same(row.paidThrough, row.nextPaymentDue);
  t.equal(await stage.balance(wallet.address), 0n);
  t.equal(await rpc.getBalance(wallet.address), 0n);

  const call = (method: 'GET' | 'POST', path: string, body?: unknown) =>
    api.call<Record<string, never>>(method, `/subscriber/${path}`, { token: token!, body });
  const own = (await call('GET', 'subscriptions')).body.data as unknown as { id: string }[];
  t.same(
    own.map(({ id }) => id),
    [subscription.id],
  );
  const leave = async (path: string) => {
    const { body } = await call('POST', path, { sponsored: true });
    const made = body.data as unknown as { transaction: string; offerId: string };
    t.match(made, { sponsored: true, notSponsored: null }, path);
    const transaction = addSignature(wallet, made.transaction);
    await call('POST', `offers/${made.offerId}/transaction`, { transaction });
    await stage.until(`${path} is final`, async () => {
      const now = (await call('GET', `offers/${made.offerId}`)).body.data as unknown as {
        state: string;
        reason: string | null;
      };
      if (['refused', 'failed', 'lapsed'].includes(now.state)) throw new Error(now.reason ?? '');
      return now.state === 'final';
    });
  };
  await leave(`subscriptions/${subscription.id}/cancel`);
  await stage.until('the cancellation is seen', async () => {
    const { cancelRequestedAt } = await stage.row(subscription);
    return cancelRequestedAt !== null;
  });
  await sql`update sponsorships set checked_at = now() - interval '2 days'`;
  stage.passHours(721);
  await stage.until('the rent of the subscription is back', async () => {
    const [one] = await sql<{ back: boolean }[]>`
      select subscription_returned_at is not null as back from sponsorships
      where purpose = 'subscribe'`;
    await sql`update sponsorships set checked_at = now() - interval '2 days'`;
    return one?.back === true;
  });
  t.equal(await stage.onChain(subscription), null, 'the keeper closed it');
  await leave('approval/revoke');
  const spent = before - (await rpc.getBalance(keeper.address));
  t.ok(spent < 1_188_720n + 100_000n, `only the authority's rent and fees are out: ${spent}`);
});
