// Signed offers are decided in turns: what a stranger hands over, or has put off, holds up nobody
// else's. A wallet has one undecided offer.
import t from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { storeSigned } from '../../src/db/offers/offers.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import type { Plan } from '../fixtures/billing.ts';
import { asRole } from '../fixtures/postgres.ts';
import { startSponsorScene, type SponsorScene } from '../fixtures/sponsor-scene.ts';
import type { OfferMade } from '../fixtures/sponsor-stage.ts';
import { asks, buys, changeScene } from '../fixtures/sponsored-changes.ts';
import { withTwoEndpoints } from '../fixtures/two-endpoints.ts';

/** Hands over a sign-up of a wallet of its own. */
async function handsOver(on: SponsorScene, plan: Plan, address: string): Promise<OfferMade> {
  const order = on.order(plan, { address });
  const made = await on.offer(order);
  const { status } = await on.stage.sign(made, order.wallet);
  if (status !== 200) throw new Error(`answered ${status}`);
  return made;
}

void t.test(
  'an offer of another merchant and network is decided before a flood of older offers',
  async (t) => {
    const on = await startSponsorScene(t);
    const { decision, sponsor } = on;
    const [ours, theirs] = [await on.plan(), await on.plan()];
    const others = [theirs, await on.plan(), await on.plan(), await on.plan(), await on.plan()];
    const floods: Record<string, (index: number) => [Plan, string]> = {
      'of one address': () => [theirs, '10.1.0.1'],
      'of one merchant at many addresses': (index) => [theirs, `10.2.0.${index}`],
      'of one address at many merchants': (index) => [others[index % others.length]!, '10.3.0.1'],
      'of one IPv6 network at many merchants': (index) => [
        others[index % others.length]!,
        `2001:db8:4:${index}::1`,
      ],
    };
    let buyers = 0;
    for (const [name, flood] of Object.entries(floods))
      await t.test(name, async (t) => {
        const handed = [];
        for (let index = 0; index < 6; index += 1)
          handed.push(await handsOver(on, ...flood(index)));
        t.ok(await sponsor.decide());
        buyers += 1;
        const honest = await handsOver(on, ours, `10.9.0.${buyers}`);
        t.ok(await sponsor.decide());
        t.equal(await decision(honest), 'open', 'it is the next one');
        const waiting = (await Promise.all(handed.map(decision))).filter((one) => one === 'none');
        t.equal(waiting.length, 5, 'the others wait');
        await sponsor.turn(true);
        t.notOk((await Promise.all(handed.map(decision))).includes('none'), 'all are decided');
      });
  },
);

/** A buyer whose change of plan is put off: a refund of its payment is under way. */
async function putOffScene(t: Parameters<typeof changeScene>[0]) {
  const { stage, small, large } = await changeScene(t);
  const buyer = await buys(stage, small);
  const shown = await asks(buyer, large);
  const { token } = await stage.api.signIn('merchant', small.merchant);
  const [payment] = await stage.sql<{ id: string }[]>`select id from payments`;
  const refund = await stage.api.call(
    'POST',
    `/merchant/apps/${small.appId}/transactions/${payment!.id}/refunds`,
    { token, body: { amount: '1' } },
  );
  t.equal(refund.status, 201);
  return { stage, buyer, small, large, shown };
}

void t.test('sixty postponed offers do not delay the decision about a new offer', async (t) => {
  const { stage, buyer, large, shown } = await putOffScene(t);
  const { sql } = stage;
  const copies: string[] = [];
  for (let count = 0; count < 60; count += 1) {
    const [row] = await sql<{ id: string }[]>`
      insert into offers (purpose, wallet, sponsor, plan_id, subscription_pda, address,
        message, blockhash, last_valid_block_height, blockhash_slot, compute_units, unit_price,
        loaded_data_bytes, replaces, credit_at)
      select purpose, wallet, sponsor, plan_id, subscription_pda, address, message, blockhash,
        last_valid_block_height, blockhash_slot, compute_units, unit_price, loaded_data_bytes,
        replaces, credit_at from offers where id = ${shown.offerId}
      returning id`;
    const signed = Buffer.from(addSignature(buyer.wallet, shown.transaction), 'base64');
    t.ok(await storeSigned(sql, row!.id, signed));
    copies.push(row!.id);
  }
  const { sponsor } = stage.sponsor();
  const undecided = async () => {
    const [row] = await sql<[{ count: number }]>`
      select count(*)::int as count from offers o where signed is not null
        and look_at > now() - interval '1 hour'
        and not exists (select from sponsorships s where s.offer_id = o.id)`;
    return row.count;
  };
  while ((await undecided()) < copies.length) t.ok(await sponsor.decide());
  // All of them are due again, and one that was not looked at before goes first.
  await sql`update offers set look_at = now() - interval '1 second'
    where look_at is not null`;
  const honest = stage.poor(100_000_000n);
  const made = await stage.offer(large, honest, {}, '10.9.0.1');
  await stage.sign(made, honest);
  t.ok(await sponsor.decide());
  t.equal((await stage.progress(made)).state, 'sent');
  t.equal(await undecided(), 60);

  // Their blockhash expires: they are refused, and not looked at until ten minutes are over.
  stage.net.mineBlocks(200);
  await sql`update offers set look_at = now()`;
  await sponsor.turn(true);
  t.equal(await undecided(), 0);
  const ends = await sql`
    select distinct reason from sponsorships where offer_id = any(${copies}::uuid[])`;
  t.same(ends, [{ reason: 'lapsed' }]);
});

void t.test('a wallet can submit one signed offer at a time but may request others', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, sponsor } = on;
  const [one, other] = [on.order(await on.plan()), await on.plan()];
  const { wallet } = one;
  const hand = (offer: OfferMade, by: Keypair = wallet) => stage.sign(offer, by);
  const [first, second] = [await on.offer(one), await on.offer({ ...one, plan: other })];
  t.equal((await hand(first)).status, 200);
  t.match(await hand(second), {
    status: 409,
    body: { error: { code: 'CONFLICT', message: /waits for its decision/ } },
  });
  t.equal((await stage.progress(second)).state, 'offered', 'it is not stored');
  t.equal((await hand(first)).status, 200, 'the same one again is answered');
  const third = await on.offer({ ...one, plan: other });
  const stranger = on.order(other);
  t.equal((await hand(await on.offer(stranger), stranger.wallet)).status, 200, 'others can');

  await sponsor.decide();
  t.equal(await on.decision(first), 'open');
  t.equal((await hand(third)).status, 200, 'once it is decided');
  stage.net.mineBlocks(36);
  await sponsor.turn(false);
  t.equal(await on.decision(third), 'none');
  stage.net.mineBlocks(200);
  const fourth = await on.offer({ ...one, plan: other });
  t.equal((await hand(fourth)).status, 200, 'once its blockhash is dead');

  const late = await on.offer({ ...one, plan: other });
  const rival = on.order(other);
  const two = [await on.offer(rival), await on.offer(rival)];
  const statuses = await Promise.all(
    two.map(async (each) => (await hand(each, rival.wallet)).status),
  );
  t.same(statuses.sort(), [200, 409], 'of two at once, one');
  t.equal((await hand(late)).status, 409);
});

void t.test('an endpoint that is ahead does not end an undecided offer', async (t) => {
  const on = await startSponsorScene(t);
  const { stage } = on;
  const { off } = await withTwoEndpoints(t, stage.api.deps.chain, stage.net.rpcUrl);
  const [one, other] = [on.order(await on.plan()), await on.plan()];
  const [first, second] = [await on.offer(one), await on.offer({ ...one, plan: other })];
  t.equal((await stage.sign(first, one.wallet)).status, 200);
  off.blocks = 1000;
  t.equal((await stage.sign(second, one.wallet)).status, 409);
});

void t.test('the keeper’s role may write only the column look_at of an offer', async (t) => {
  const on = await startSponsorScene(t);
  const { stage } = on;
  const { offerId } = await handsOver(on, await on.plan(), '10.1.0.1');
  const as = async (role: 'serve' | 'keeper') => {
    const sql = connect(asRole(stage.databaseUrl, role), { max: 1, name: 'billing test' });
    t.teardown(() => sql.end());
    return sql;
  };
  const [keeper, serve] = [await as('keeper'), await as('serve')];
  const forbidden = { code: '42501' };
  await keeper`update offers set look_at = now() where id = ${offerId}`;
  for (const column of ['signed', 'signed_at', 'wallet', 'address', 'message'])
    await t.rejects(
      keeper`update offers set ${keeper({ [column]: null })} where id = ${offerId}`,
      forbidden,
      column,
    );
  await t.rejects(serve`update offers set look_at = now()`, forbidden);
});
