// Budgets of network addresses in IPv6: a customer has a /56, and a tunnel broker gives away a /48.
import t from 'tap';
import { plentiful, startSponsorScene } from '../fixtures/sponsor-scene.ts';

/** An address of the /56 with this number, in the /48 that `site` numbers. */
const inIpv6 = (site: number, network: number, host = 1) =>
  `2001:db8:${site.toString(16)}:${(network * 256).toString(16)}::${host.toString(16)}`;

void t.test('sponsoring budgets count an IPv6 /56 as one address and a /48 as four', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, rents } = on;
  stage.limit(plentiful);
  const plan = await on.plan();
  const from = (address: string) => on.order(plan, { address });
  const subscribed = await on.subscribes(from(inIpv6(1, 1)));
  const [{ cost }] = await stage.sql<[{ cost: bigint }]>`
    select fee + authority_rent + subscription_rent as cost from sponsorships`;
  t.ok(cost > rents.authority + rents.subscription);

  stage.limit({ ...plentiful, perAddress: cost + 20_000n });
  t.equal(await on.refusal(from(inIpv6(1, 1, 2))), 'address_budget');
  t.equal(await on.refusal(from('2001:db8:1:1ff::1')), 'address_budget', 'the same /56');
  const late = from(inIpv6(1, 5));
  const made = await on.offer(late);
  for (const network of [2, 3, 4]) {
    const address = from(inIpv6(1, network));
    t.equal(await on.refusal(address), undefined, `/56 number ${network}`);
    subscribed.push(...(await on.subscribes(address)));
  }
  t.equal(await on.refusal(late), 'address_budget', 'a fifth /56 of the /48');
  t.equal(await on.decided(late, made), 'address_budget', 'a keeper signs none either');
  t.equal(await on.refusal(from(inIpv6(0x10, 1))), undefined, 'another /48');
  t.equal(await on.refusal(from('10.9.9.9')), undefined, 'IPv4');

  // The budget for leaving: an address has a fifth of it, and a /48 four fifths.
  stage.limit(plentiful);
  const [another] = await on.subscribes(from(inIpv6(1, 6)));
  for (const one of subscribed) {
    const cancelling = await on.cancelling(one);
    t.same(await on.leave({ one, made: cancelling }), ['landed']);
  }
  await stage.sql`update sponsorships set fee = 20_000_000 where purpose = 'cancel'`;
  const revoked = () => on.asks(another!, 'approval/revoke');
  stage.limit({ ...plentiful, leaving: 100_000_000n });
  t.match(await revoked(), { notSponsored: { code: 'address_budget' } });
  stage.limit({ ...plentiful, leaving: 101_000_000n });
  t.match(await revoked(), { sponsored: true });
});
