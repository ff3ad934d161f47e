import { Keypair, type PublicKey } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  authorityOf,
  cancel,
  cancelNow,
  closeAuthority,
  createPlan,
  dataOf,
  deletePlan,
  errorOf,
  eventsOf,
  fund,
  I64_MIN,
  initAuthority,
  lamportsOf,
  must,
  newHolder,
  newWallet,
  now,
  PERIOD,
  PERIOD_HOURS,
  planOf,
  pullOf,
  readAuthority,
  readSubscription,
  resume,
  revoke,
  setMint,
  setScene,
  setTime,
  setTokens,
  slot,
  START,
  subscribe,
  subscriptionOf,
  u64,
  updatePlan,
  withAccount,
  withData,
  ataOf,
  type Consent,
  type Scene,
} from '../fixtures/program.ts';

const event = (kind: number, ...fields: (PublicKey | bigint)[]) =>
  Buffer.concat([
    Buffer.from('e445a52e51cb9a1d', 'hex'),
    Buffer.of(kind),
    ...fields.map((field) => (typeof field === 'bigint' ? u64(field) : field.toBytes())),
  ]);

/** A holder whose authority is open. */
function newSubscriber(scene: Scene): Keypair {
  const wallet = newHolder(scene, AMOUNT);
  must(scene, [wallet], initAuthority(scene, wallet.publicKey));
  return wallet;
}

const initIdOf = (scene: Scene, wallet: Keypair) =>
  readAuthority(scene, authorityOf(wallet.publicKey, scene.mint))?.initId ?? 0n;

/**
 * Subscribes the wallet to the scene's plan, with its authority's real id unless `id` is given.
 */
const join = (scene: Scene, wallet: Keypair, change: Partial<Consent> = {}) =>
  errorOf(
    scene,
    [wallet],
    subscribe(scene, wallet.publicKey, {
      ...scene.consent,
      initId: initIdOf(scene, wallet),
      ...change,
    }),
  );

void t.test(
  'subscribe stores the terms, starts the first period now and emits an event',
  async (t) => {
    const scene = setScene();
    const [subscriber, sponsor] = [newSubscriber(scene), newWallet(scene)];
    setTime(scene, START + 77n);
    const consent = { ...scene.consent, initId: slot(scene) };
    const before = lamportsOf(scene, subscriber.publicKey);
    const result = must(
      scene,
      [sponsor, subscriber],
      subscribe(scene, subscriber.publicKey, consent, sponsor.publicKey),
    );
    const key = subscriptionOf(scene.plan, subscriber.publicKey);
    t.same(readSubscription(scene, key), {
      ...{
        delegator: subscriber.publicKey,
        delegatee: scene.plan,
        payer: sponsor.publicKey,
        initId: slot(scene),
      },
      ...{
        amount: AMOUNT,
        periodHours: PERIOD_HOURS,
        createdAt: START,
        pulled: 0n,
        periodStart: START + 77n,
        expiresAt: 0n,
      },
    });
    t.same(dataOf(scene, key)?.subarray(0, 2), Buffer.of(4, 1));
    t.equal(lamportsOf(scene, subscriber.publicKey), before);
    t.same(eventsOf(result), [
      event(0, scene.plan, subscriber.publicKey, scene.mint, START + 77n, sponsor.publicKey),
    ]);
  },
);

void t.test('subscribe works at an address that already has lamports', async (t) => {
  const scene = setScene();
  const subscriber = newSubscriber(scene);
  fund(scene, subscriptionOf(scene.plan, subscriber.publicKey), 900_000n);
  t.equal(join(scene, subscriber), undefined);
});

void t.test(
  'subscribe is refused when the plan’s terms differ from the agreed ones (519)',
  async (t) => {
    const scene = setScene();
    const subscriber = newSubscriber(scene);
    t.equal(join(scene, subscriber, { amount: AMOUNT - 1n }), 519);
    t.equal(join(scene, subscriber, { periodHours: PERIOD_HOURS + 1n }), 519);
    t.equal(join(scene, subscriber, { createdAt: START + 1n }), 519);
    t.equal(join(scene, subscriber, { mint: Keypair.generate().publicKey }), 519);
    t.equal(join(scene, subscriber), undefined);
  },
);

void t.test(
  'subscribe is refused if merchant, id or bump do not match the plan (502)',
  async (t) => {
    const scene = setScene();
    const subscriber = newSubscriber(scene);
    const whole = subscribe(scene, subscriber.publicKey, scene.consent);
    const data = whole.data.subarray(1);
    t.equal(errorOf(scene, [subscriber], withAccount(whole, 1, scene.stranger.publicKey)), 502);
    t.equal(errorOf(scene, [subscriber], withData(whole, u64(2n), data.subarray(8))), 502);
    const bump = (data[8] ?? 0) - 1;
    t.equal(
      errorOf(
        scene,
        [subscriber],
        withData(whole, data.subarray(0, 8), Buffer.of(bump), data.subarray(9)),
      ),
      502,
    );
    for (const size of [0, 72, 74]) {
      t.equal(
        errorOf(
          scene,
          [subscriber],
          withData(whole, Buffer.concat([data, Buffer.of(0)]).subarray(0, size)),
        ),
        112,
      );
    }
  },
);

void t.test(
  'subscribe is refused after the sunset (500) and the end (501) of a plan, and allowed at the end',
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const [first, second] = [newSubscriber(scene), newSubscriber(scene)];
    setTime(scene, START + PERIOD);
    t.equal(join(scene, first), undefined);
    setTime(scene, START + PERIOD + 1n);
    t.equal(join(scene, second), 501);
    const sunset = setScene();
    const late = newSubscriber(sunset);
    must(
      sunset,
      [sunset.merchant],
      updatePlan(sunset, sunset.merchant.publicKey, sunset.plan, {
        status: 0,
        endTs: START + PERIOD,
      }),
    );
    t.equal(join(sunset, late), 500);
  },
);

void t.test(
  "subscribe refuses another user's authority (130), another mint (125) and another authority id (136)",
  async (t) => {
    const scene = setScene();
    const subscriber = newSubscriber(scene);
    const other = newSubscriber(scene);
    const whole = subscribe(scene, subscriber.publicKey, scene.consent);
    t.equal(
      errorOf(scene, [subscriber], withAccount(whole, 4, authorityOf(other.publicKey, scene.mint))),
      130,
    );
    const mint = Keypair.generate().publicKey;
    setMint(scene, mint);
    setTokens(scene, ataOf(subscriber.publicKey, mint), mint, { owner: subscriber.publicKey });
    must(scene, [subscriber], initAuthority({ mint }, subscriber.publicKey));
    t.equal(
      errorOf(scene, [subscriber], withAccount(whole, 4, authorityOf(subscriber.publicKey, mint))),
      125,
    );
    t.equal(join(scene, subscriber, { initId: initIdOf(scene, subscriber) + 1n }), 136);
    t.equal(join(scene, subscriber, { initId: 0n }), 136);
  },
);

void t.test(
  'the authority id i64::MIN only matches an authority created in this slot (else 136)',
  async (t) => {
    const scene = setScene();
    const together = newHolder(scene, AMOUNT);
    const consent = { ...scene.consent, initId: I64_MIN };
    const both = [
      initAuthority(scene, together.publicKey),
      subscribe(scene, together.publicKey, consent),
    ];
    must(scene, [together], ...both);
    t.equal(
      readSubscription(scene, subscriptionOf(scene.plan, together.publicKey))?.initId,
      slot(scene),
      'the real id is stored',
    );
    const earlier = newSubscriber(scene);
    scene.svm.warpToSlot(slot(scene) + 1n);
    t.equal(join(scene, earlier, { initId: I64_MIN }), 136);
    t.equal(
      errorOf(
        scene,
        [earlier],
        initAuthority(scene, earlier.publicKey),
        subscribe(scene, earlier.publicKey, consent),
      ),
      136,
    );
    t.equal(join(scene, earlier), undefined);
  },
);

void t.test(
  'a second subscription to a plan fails with 517 until the first is closed, even if cancelled',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan } = scene;
    const user = subscriber.publicKey;
    t.equal(join(scene, subscriber), 517);
    must(scene, [subscriber], cancel(user, plan));
    t.equal(join(scene, subscriber), 517);
    setTime(scene, START + 3n * PERIOD);
    t.equal(join(scene, subscriber), 517);
    const again = subscribe(scene, user, { ...scene.consent, initId: initIdOf(scene, subscriber) });
    must(scene, [subscriber], revoke(user, plan, user), again);
    t.equal(readSubscription(scene, scene.subscription)?.periodStart, START + 3n * PERIOD);
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene)), undefined);
  },
);

void t.test(
  'a wallet can subscribe to several plans, and each subscription counts its own pulls',
  async (t) => {
    const scene = setScene();
    must(
      scene,
      [scene.merchant],
      createPlan(scene, scene.merchant.publicKey, {
        planId: 2n,
        amount: 5n,
        periodHours: 1n,
        pullers: [scene.keeper.publicKey],
      }),
    );
    const [second] = planOf(scene.merchant.publicKey, 2n);
    t.equal(join(scene, scene.subscriber, { planId: 2n, amount: 5n, periodHours: 1n }), undefined);
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene)), undefined);
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene, { plan: second, amount: 5n })), undefined);
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene, { plan: second, amount: 1n })), 400);
  },
);

void t.test(
  'cancel works for the subscriber (130), once (509), with the right plan (505), and emits the end',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan } = scene;
    const user = subscriber.publicKey;
    t.equal(
      errorOf(
        scene,
        [scene.merchant],
        withAccount(cancel(scene.merchant.publicKey, plan), 2, scene.subscription),
      ),
      130,
    );
    must(
      scene,
      [scene.merchant],
      createPlan(scene, scene.merchant.publicKey, { planId: 2n, amount: 1n, periodHours: 1n }),
    );
    t.equal(
      errorOf(
        scene,
        [subscriber],
        withAccount(cancel(user, plan), 1, planOf(scene.merchant.publicKey, 2n)[0]),
      ),
      505,
    );
    const result = must(scene, [subscriber], cancel(user, plan));
    t.same(eventsOf(result), [event(1, plan, user, START + PERIOD)]);
    t.equal(errorOf(scene, [subscriber], cancel(user, plan)), 509);
  },
);

void t.test(
  'a cancellation takes effect at once if the plan was closed or created again',
  async (t) => {
    for (const recreated of [false, true]) {
      const scene = setScene({ endTs: START + PERIOD });
      const { merchant, subscriber, plan } = scene;
      setTime(scene, START + PERIOD + 1n);
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
      must(scene, [subscriber], cancel(subscriber.publicKey, plan));
      t.equal(
        readSubscription(scene, scene.subscription)?.expiresAt,
        now(scene),
        recreated ? 'recreated' : 'closed',
      );
      t.equal(
        errorOf(scene, [subscriber], revoke(subscriber.publicKey, plan, subscriber.publicKey)),
        undefined,
        'and can be closed',
      );
    }
  },
);

void t.test(
  '"cancel now" needs both signatures, takes effect at once and emits the time',
  async (t) => {
    const scene = setScene();
    const { subscriber, merchant, plan, keeper } = scene;
    setTime(scene, START + 10n);
    const result = must(
      scene,
      [subscriber, merchant],
      cancelNow(subscriber.publicKey, merchant.publicKey, plan, START),
    );
    t.same(eventsOf(result), [event(1, plan, subscriber.publicKey, START + 10n)]);
    t.equal(errorOf(scene, [keeper], pullOf(scene)), 508);
    t.equal(
      errorOf(
        scene,
        [subscriber, merchant],
        cancelNow(subscriber.publicKey, merchant.publicKey, plan, START),
      ),
      509,
    );
  },
);

void t.test('"cancel now" brings forward a cancellation that has not taken effect', async (t) => {
  const scene = setScene();
  const { subscriber, merchant, plan } = scene;
  must(scene, [subscriber], cancel(subscriber.publicKey, plan));
  must(
    scene,
    [subscriber, merchant],
    cancelNow(subscriber.publicKey, merchant.publicKey, plan, START),
  );
  t.equal(readSubscription(scene, scene.subscription)?.expiresAt, START);
});

void t.test(
  '"cancel now" refuses a wrong owner (504), subscriber (130), plan (505) or period (521)',
  async (t) => {
    const scene = setScene();
    const { subscriber, merchant, plan, stranger, keeper } = scene;
    const user = subscriber.publicKey;
    const whole = cancelNow(user, merchant.publicKey, plan, START);
    t.equal(
      errorOf(scene, [subscriber, stranger], cancelNow(user, stranger.publicKey, plan, START)),
      504,
    );
    const swapped = cancelNow(stranger.publicKey, merchant.publicKey, plan, START);
    t.equal(errorOf(scene, [stranger, merchant], withAccount(swapped, 3, scene.subscription)), 130);
    must(
      scene,
      [merchant],
      createPlan(scene, merchant.publicKey, { planId: 2n, amount: 1n, periodHours: 1n }),
    );
    t.equal(
      errorOf(
        scene,
        [subscriber, merchant],
        withAccount(whole, 2, planOf(merchant.publicKey, 2n)[0]),
      ),
      505,
    );
    t.equal(
      errorOf(scene, [subscriber, merchant], cancelNow(user, merchant.publicKey, plan, START + 1n)),
      521,
    );
    t.equal(errorOf(scene, [subscriber, merchant], withData(whole)), 112);
    setTime(scene, START + PERIOD);
    must(scene, [keeper], pullOf(scene));
    t.equal(errorOf(scene, [subscriber, merchant], whole), 521, 'the period they saw is over');
    t.equal(
      errorOf(
        scene,
        [subscriber, merchant],
        cancelNow(user, merchant.publicKey, plan, START + PERIOD),
      ),
      undefined,
    );
  },
);

/** The scene's subscriber resumes, naming the end they saw. */
const takeBack = (scene: Scene, seen = START + PERIOD) =>
  errorOf(scene, [scene.subscriber], resume(scene, scene.subscriber.publicKey, scene.plan, seen));

void t.test(
  'resume reverts a cancellation, keeps the pulled amount and emits the time',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan, keeper } = scene;
    must(scene, [keeper], pullOf(scene));
    must(scene, [subscriber], cancel(subscriber.publicKey, plan));
    setTime(scene, START + PERIOD - 1n);
    const result = must(
      scene,
      [subscriber],
      resume(scene, subscriber.publicKey, plan, START + PERIOD),
    );
    t.same(eventsOf(result), [event(5, plan, subscriber.publicKey, START + PERIOD - 1n)]);
    t.match(readSubscription(scene, scene.subscription), {
      expiresAt: 0n,
      pulled: AMOUNT,
      periodStart: START,
    });
    t.equal(errorOf(scene, [keeper], pullOf(scene, { amount: 1n })), 400);
    setTime(scene, START + PERIOD);
    t.equal(errorOf(scene, [keeper], pullOf(scene)), undefined);
  },
);

void t.test(
  'resume refuses a live subscription (510), another expiry than expected (521) and a past expiry (508)',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan } = scene;
    t.equal(takeBack(scene), 510);
    must(scene, [subscriber], cancel(subscriber.publicKey, plan));
    t.equal(takeBack(scene, START + PERIOD + 1n), 521);
    setTime(scene, START + PERIOD);
    t.equal(takeBack(scene), 508);
    t.equal(
      errorOf(
        scene,
        [subscriber],
        withData(resume(scene, subscriber.publicKey, plan, 0n), Buffer.alloc(7)),
      ),
      112,
    );
  },
);

void t.test(
  "resume is refused to other wallets (130), with another plan (505) and after the plan's end (501)",
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const { subscriber, merchant, plan, stranger } = scene;
    must(scene, [subscriber], cancel(subscriber.publicKey, plan));
    must(
      scene,
      [merchant],
      createPlan(scene, merchant.publicKey, { planId: 2n, amount: 1n, periodHours: 1n }),
    );
    const whole = resume(scene, subscriber.publicKey, plan, START + PERIOD);
    const others = withAccount(
      resume(scene, stranger.publicKey, plan, START + PERIOD),
      3,
      authorityOf(subscriber.publicKey, scene.mint),
    );
    t.equal(errorOf(scene, [stranger], withAccount(others, 2, scene.subscription)), 130);
    t.equal(
      errorOf(scene, [subscriber], withAccount(whole, 1, planOf(merchant.publicKey, 2n)[0])),
      505,
    );
    setTime(scene, START + PERIOD + 1n);
    t.equal(takeBack(scene), 501);
    must(scene, [merchant], deletePlan(merchant.publicKey, plan));
    t.equal(takeBack(scene), 516);
    must(
      scene,
      [merchant],
      createPlan(scene, merchant.publicKey, {
        planId: 1n,
        amount: AMOUNT,
        periodHours: PERIOD_HOURS,
      }),
    );
    t.equal(takeBack(scene), 519);
  },
);

void t.test(
  'resume refuses a closed (103), recreated (136) or foreign (130) authority and another mint (125)',
  async (t) => {
    const scene = setScene();
    const { subscriber, plan } = scene;
    const user = subscriber.publicKey;
    must(scene, [subscriber], cancel(user, plan));
    const whole = resume(scene, user, plan, START + PERIOD);
    const other = newSubscriber(scene);
    t.equal(
      errorOf(scene, [subscriber], withAccount(whole, 3, authorityOf(other.publicKey, scene.mint))),
      130,
    );
    const mint = Keypair.generate().publicKey;
    setMint(scene, mint);
    setTokens(scene, ataOf(user, mint), mint, { owner: user });
    must(scene, [subscriber], initAuthority({ mint }, user));
    t.equal(errorOf(scene, [subscriber], withAccount(whole, 3, authorityOf(user, mint))), 125);
    must(scene, [subscriber], closeAuthority(scene, user));
    t.equal(takeBack(scene), 103);
    scene.svm.warpToSlot(slot(scene) + 1n);
    must(scene, [subscriber], initAuthority(scene, user));
    t.equal(takeBack(scene), 136);
  },
);
