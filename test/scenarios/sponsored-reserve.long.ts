// The whole reserve for leaving: a fifth of it for a network address, and no more than all of it
// for the cancellations of 25 wallets together.
import t from 'tap';
import {
  PLENTY,
  plentiful,
  startSponsorScene,
  type Subscribed,
} from '../fixtures/sponsor-scene.ts';
import type { OfferMade } from '../fixtures/sponsor-stage.ts';

const landed = (count: number) => Array<string>(count).fill('landed');

void t.test('one address may use a fifth of the reserve for sponsored cancellations', async (t) => {
  const on = await startSponsorScene(t);
  const { stage } = on;
  const [a, b] = [await on.plan(), await on.plan()];
  stage.limit(plentiful);
  const crowds = Array.from({ length: 5 }, () => on.address());
  const orders = crowds.flatMap((address) =>
    Array.from({ length: 5 }, () => on.order(a, { address })),
  );
  const everybody: { one: Subscribed; made: OfferMade }[] = [];
  for (const one of await on.subscribes(...orders))
    everybody.push({ one, made: await on.cancelling(one) });
  const crowd = (index: number) => everybody.slice(5 * index, 5 * index + 4);
  const fifth = (index: number) => everybody[5 * index + 4]!;

  await on.leave(...crowd(0));
  const bound = ((await on.usedForLeaving()) + (await on.fee(fifth(0).made))) * 5n;
  stage.limit({ leaving: bound - 5n });
  t.match(await on.cancelling(fifth(0).one), { sponsored: false, cancelled: true });
  t.same(await on.leave(fifth(0), ...crowd(1)), ['address_budget', ...landed(4)]);

  t.same(await on.leave(...crowd(2), ...crowd(3), ...crowd(4)), landed(12));
  const stranger = (await on.subscribes(on.order(b)))[0]!;
  stage.limit({ leaving: PLENTY });
  const last = { one: stranger, made: await on.cancelling(stranger) };
  stage.limit({ leaving: (await on.usedForLeaving()) + (await on.fee(last.made)) - 1n });
  t.same(await on.leave(last), ['budget']);
  t.match(await on.cancelling(stranger), { notSponsored: { code: 'budget' }, cancelled: true });
});
