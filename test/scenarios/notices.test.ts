// renewal_upcoming over all plans of a wallet, and several notices of one payment.
import t from 'tap';
import { startStage, type Stage, type Subscription } from '../fixtures/billing.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;

const notices = async (stage: Stage, subscription: Subscription) =>
  (await stage.events(subscription)).flatMap(({ type, data }) =>
    type === 'renewal_upcoming' ? [data] : [],
  );

void t.test(
  'a wallet with 5 USDC and two payments of 5 USDC due is notified that it can pay only the first',
  async (t) => {
    const stage = await startStage(t);
    const plans = [await stage.plan(), await stage.plan()];
    const wallet = stage.wallet({ usdc: 15_000_000n });
    const subscriptions: Subscription[] = [];
    for (const plan of plans) {
      await stage.open(plan, wallet);
      subscriptions.push(await stage.register(plan, wallet));
    }
    await stage.startKeeper();
    await stage.quiet();
    t.equal(await stage.balance(wallet.address), 5_000_000n);
    stage.net.passSeconds(28 * DAY);
    await stage.until('both were announced', async () => {
      const all = await Promise.all(subscriptions.map((one) => notices(stage, one)));
      return all.every(({ length }) => length === 1);
    });
    const [first, second] = await Promise.all(subscriptions.map((one) => notices(stage, one)));
    t.match(first, [{ canPay: true, issue: null, amount: '5000000' }]);
    t.match(second, [{ canPay: false, issue: 'insufficient_balance', amount: '5000000' }]);
  },
);

void t.test(
  'a yearly plan with notices 720 and 72 hours ahead announces its payment at both times',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ periodHours: 8760 });
    await stage.sql`update plans set notice_hours = '{720, 72}' where id = ${plan.id}`;
    const subscription = await stage.subscriber(plan);
    await stage.startKeeper();
    await stage.quiet();
    t.same(await notices(stage, subscription), []);
    const reach = async (seconds: number, count: number) => {
      stage.net.passSeconds(seconds);
      await stage.until(`${count} were sent`, async () => {
        return (await notices(stage, subscription)).length === count;
      });
    };
    await reach(8050 * HOUR, 1);
    await reach(640 * HOUR, 2);
    const [one, two] = await notices(stage, subscription);
    t.equal(one?.dueAt, two?.dueAt);
    stage.net.passSeconds(71 * HOUR);
    await stage.until('it was paid', async () => {
      return (await stage.payments(subscription)).length === 2;
    });
    t.equal((await notices(stage, subscription)).length, 2, 'each once');
  },
);
