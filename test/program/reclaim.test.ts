import { Rent } from 'litesvm/dist/internal.js';
import t from 'tap';
import {
  AMOUNT,
  authorityOf,
  closeAuthority,
  dataOf,
  errorOf,
  initAuthority,
  lamportsOf,
  must,
  newHolder,
  newWallet,
  pullOf,
  reclaimExcessRent,
  revokeAbandoned,
  setScene,
  slot,
  START,
  subscribe,
  subscriptionOf,
  withAccount,
  type Scene,
} from '../fixtures/program.ts';

/** A scene with a subscription that a sponsor paid for. */
function sponsored() {
  const scene = setScene();
  const [user, sponsor] = [newHolder(scene, AMOUNT), newWallet(scene)];
  must(
    scene,
    [user, sponsor],
    initAuthority(scene, user.publicKey, sponsor.publicKey),
    subscribe(scene, user.publicKey, scene.consent, sponsor.publicKey),
  );
  return {
    ...scene,
    user,
    sponsor,
    authority: authorityOf(user.publicKey, scene.mint),
    key: subscriptionOf(scene.plan, user.publicKey),
  };
}

const lowerRent = (scene: Scene) => scene.svm.setRent(new Rent(5080n, 1, 50));

void t.test(
  "after the chain's rent falls, anyone can send the excess rent to the recorded payer or owner",
  async (t) => {
    const scene = sponsored();
    const { sponsor, stranger, merchant, authority, key, plan } = scene;
    const accounts = [
      [authority, sponsor],
      [key, sponsor],
      [plan, merchant],
    ] as const;
    for (const [account, receiver] of accounts) {
      const send = reclaimExcessRent(account, receiver.publicKey);
      t.equal(errorOf(scene, [stranger], send), 138, 'none before');
    }
    lowerRent(scene);
    for (const [account, receiver] of accounts) {
      const data = dataOf(scene, account);
      const minimum = scene.svm.minimumBalanceForRentExemption(BigInt(data?.length ?? 0));
      const excess = lamportsOf(scene, account) - minimum;
      t.ok(excess > 0n);
      const before = lamportsOf(scene, receiver.publicKey);
      must(scene, [stranger], reclaimExcessRent(account, receiver.publicKey));
      t.equal(lamportsOf(scene, receiver.publicKey), before + excess);
      t.equal(lamportsOf(scene, account), minimum);
      t.same(dataOf(scene, account), data, 'the account stays as it was');
      t.equal(errorOf(scene, [stranger], reclaimExcessRent(account, receiver.publicKey)), 138);
    }
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene)), undefined);
  },
);

void t.test('the excess rent goes to the recorded receiver only (130)', async (t) => {
  const scene = sponsored();
  lowerRent(scene);
  for (const account of [scene.authority, scene.key, scene.plan]) {
    const send = reclaimExcessRent(account, scene.stranger.publicKey);
    t.equal(errorOf(scene, [scene.stranger], send), 130);
  }
});

void t.test(
  'the rent payer can close an abandoned subscription once its authority is closed and a slot has passed',
  async (t) => {
    const scene = sponsored();
    const { user, sponsor, key, plan } = scene;
    const close = revokeAbandoned(scene, sponsor.publicKey, plan, user.publicKey);
    t.equal(errorOf(scene, [sponsor], close), 130, 'the authority lives');
    must(scene, [user], closeAuthority(scene, user.publicKey, sponsor.publicKey));
    t.equal(errorOf(scene, [sponsor], close), 130, 'it could come back with the same init_id');
    scene.svm.warpToSlot(slot(scene) + 1n);
    t.equal(
      errorOf(scene, [user], withAccount(close, 0, user.publicKey, 'sw')),
      130,
      'the subscriber is not the payer',
    );
    const before = lamportsOf(scene, sponsor.publicKey) + lamportsOf(scene, key);
    must(scene, [scene.stranger, sponsor], close);
    t.equal(lamportsOf(scene, sponsor.publicKey), before);
    t.equal(dataOf(scene, key), undefined);
  },
);

void t.test('a subscription stays abandoned when its authority is created again', async (t) => {
  const scene = sponsored();
  const { user, sponsor, key, plan } = scene;
  must(scene, [user], closeAuthority(scene, user.publicKey, sponsor.publicKey));
  scene.svm.warpToSlot(slot(scene) + 1n);
  must(scene, [user], initAuthority(scene, user.publicKey));
  must(scene, [sponsor], revokeAbandoned(scene, sponsor.publicKey, plan, user.publicKey));
  t.equal(dataOf(scene, key), undefined);
  t.equal(scene.consent.createdAt, START);
});
