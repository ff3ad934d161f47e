import type { Keypair } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  cancel,
  createPlan,
  dataOf,
  deletePlan,
  errorOf,
  initAuthority,
  lamportsOf,
  must,
  newHolder,
  newWallet,
  PERIOD,
  PERIOD_HOURS,
  planOf,
  revoke,
  setScene,
  setTime,
  START,
  subscribe,
  subscriptionOf,
  withAccount,
} from '../fixtures/program.ts';

/** A plan that ends after two periods, and a subscription to it that a sponsor paid for. */
function sponsored() {
  const scene = setScene({ endTs: START + 2n * PERIOD });
  const [user, sponsor] = [newHolder(scene, AMOUNT), newWallet(scene)];
  const open = [
    initAuthority(scene, user.publicKey),
    subscribe(scene, user.publicKey, scene.consent, sponsor.publicKey),
  ];
  must(scene, [user, sponsor], ...open);
  return { ...scene, user, sponsor, key: subscriptionOf(scene.plan, user.publicKey) };
}

const close = (scene: ReturnType<typeof sponsored>, by: Keypair, receiver?: Keypair) =>
  errorOf(scene, [by], revoke(by.publicKey, scene.plan, scene.user.publicKey, receiver?.publicKey));

void t.test(
  'the subscriber can close after the cancellation took effect (510 before) and gets the rent back',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan, subscription } = scene;
    const user = subscriber.publicKey;
    const whole = revoke(user, plan, user);
    t.equal(errorOf(scene, [subscriber], whole), 510);
    must(scene, [subscriber], cancel(user, plan));
    setTime(scene, START + PERIOD - 1n);
    t.equal(errorOf(scene, [subscriber], whole), 510);
    setTime(scene, START + PERIOD);
    const before = lamportsOf(scene, user) + lamportsOf(scene, subscription);
    t.equal(errorOf(scene, [subscriber], whole), undefined);
    t.equal(lamportsOf(scene, user), before - 5000n);
    t.equal(dataOf(scene, subscription), undefined);
    t.equal(errorOf(scene, [subscriber], whole), 'InvalidAccountOwner');
  },
);

void t.test(
  'a subscriber must cancel before closing a subscription, even if its plan has ended',
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const { subscriber, plan } = scene;
    const user = subscriber.publicKey;
    setTime(scene, START + PERIOD + 1n);
    t.equal(errorOf(scene, [subscriber], revoke(user, plan, user)), 510);
    t.equal(errorOf(scene, [subscriber], cancel(user, plan), revoke(user, plan, user)), undefined);
  },
);

void t.test(
  "closing returns a sponsor's rent to the sponsor only (else 113, 130 or 131)",
  async (t) => {
    const scene = sponsored();
    const { user, sponsor, plan, stranger, key } = scene;
    must(scene, [user], cancel(user.publicKey, plan));
    setTime(scene, START + PERIOD);
    t.equal(close(scene, user), 113);
    t.equal(close(scene, user, stranger), 130);
    t.equal(close(scene, user, user), 130);
    const whole = revoke(user.publicKey, plan, user.publicKey, sponsor.publicKey);
    t.equal(errorOf(scene, [user], withAccount(whole, 3, sponsor.publicKey, '')), 131);
    const before = lamportsOf(scene, sponsor.publicKey) + lamportsOf(scene, key);
    t.equal(errorOf(scene, [user], whole), undefined);
    t.equal(lamportsOf(scene, sponsor.publicKey), before);
  },
);

void t.test(
  "the sponsor can close after a cancellation or the plan's end, close or re-creation (130 before)",
  async (t) => {
    const cancelled = sponsored();
    t.equal(close(cancelled, cancelled.sponsor), 130);
    must(cancelled, [cancelled.user], cancel(cancelled.user.publicKey, cancelled.plan));
    t.equal(close(cancelled, cancelled.sponsor), 130);
    setTime(cancelled, START + PERIOD);
    t.equal(close(cancelled, cancelled.sponsor), undefined);

    const ended = sponsored();
    setTime(ended, START + 2n * PERIOD);
    t.equal(close(ended, ended.sponsor), 130);
    setTime(ended, START + 2n * PERIOD + 1n);
    t.equal(close(ended, ended.sponsor), undefined);

    for (const recreated of [false, true]) {
      const scene = sponsored();
      const { merchant, plan } = scene;
      setTime(scene, START + 2n * PERIOD + 1n);
      must(scene, [merchant], deletePlan(merchant.publicKey, plan));
      if (recreated)
        must(
          scene,
          [merchant],
          createPlan(scene, merchant.publicKey, {
            planId: 1n,
            amount: AMOUNT,
            periodHours: PERIOD_HOURS,
          }),
        );
      t.equal(close(scene, scene.sponsor), undefined, recreated ? 'recreated' : 'closed');
    }
  },
);

void t.test('a subscription in any state cannot be closed by other wallets (130)', async (t) => {
  const scene = sponsored();
  const others = [scene.merchant, scene.keeper, scene.stranger];
  for (const other of others) t.equal(close(scene, other), 130);
  must(scene, [scene.user], cancel(scene.user.publicKey, scene.plan));
  setTime(scene, START + 2n * PERIOD + 1n);
  for (const other of others) t.equal(close(scene, other, other), 130);
  for (const other of others) t.equal(close(scene, other, scene.sponsor), 130);
});

void t.test(
  "a close with another plan than the subscription's is refused (505), even if that plan has ended",
  async (t) => {
    const scene = sponsored();
    const { sponsor, merchant, user, plan } = scene;
    const never = planOf(merchant.publicKey, 404n)[0];
    const whole = revoke(sponsor.publicKey, plan, user.publicKey);
    t.equal(errorOf(scene, [sponsor], withAccount(whole, 2, never)), 505);
    must(
      scene,
      [merchant],
      createPlan(scene, merchant.publicKey, {
        planId: 2n,
        amount: 1n,
        periodHours: 1n,
        endTs: START + 3600n,
      }),
    );
    setTime(scene, START + 3601n);
    t.equal(
      errorOf(scene, [sponsor], withAccount(whole, 2, planOf(merchant.publicKey, 2n)[0])),
      505,
    );
  },
);

void t.test('the close instruction refuses accounts that are not subscriptions', async (t) => {
  const scene = setScene({ endTs: START + PERIOD });
  setTime(scene, START + PERIOD + 1n);
  const whole = revoke(scene.merchant.publicKey, scene.plan, scene.merchant.publicKey);
  t.equal(errorOf(scene, [scene.merchant], withAccount(whole, 1, scene.plan)), 117);
});
