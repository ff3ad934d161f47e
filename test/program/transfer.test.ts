import {
  createApproveInstruction,
  createCloseAccountInstruction,
  createRevokeInstruction,
  TOKEN_PROGRAM_ID,
} from '@solana/spl-token';
import { Keypair, type TransactionInstruction } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  ataOf,
  authorityOf,
  cancel,
  closeAuthority,
  createPlan,
  deletePlan,
  errorOf,
  eventsOf,
  initAuthority,
  must,
  newHolder,
  now,
  patchAccount,
  PERIOD,
  PERIOD_HOURS,
  planOf,
  PULL,
  pull,
  pullOf,
  readSubscription,
  removeAccount,
  revokeAuthority,
  send,
  setMint,
  setScene,
  setTime,
  setTokens,
  slot,
  spend,
  START,
  subscribe,
  subscriptionOf,
  tokensOf,
  u64,
  U64_MAX,
  updatePlan,
  withAccount,
  withData,
  type Pull,
  type Scene,
} from '../fixtures/program.ts';

const balance = (scene: Scene, owner: Keypair) =>
  tokensOf(scene, ataOf(owner.publicKey, scene.mint))?.amount;
const keeperPulls = (scene: Scene, change: Partial<Pull> = {}) =>
  errorOf(scene, [scene.keeper], pullOf(scene, change));
const keeperSends = (scene: Scene, instruction: TransactionInstruction) =>
  errorOf(scene, [scene.keeper], instruction);
const subscribersAta = (scene: Scene) => ataOf(scene.subscriber.publicKey, scene.mint);

void t.test('a pull moves the amount, counts it in the period and emits an event', async (t) => {
  const scene = setScene();
  const result = must(scene, [scene.keeper], pullOf(scene, { amount: 400_000n }));
  t.equal(balance(scene, scene.merchant), 400_000n);
  t.equal(balance(scene, scene.subscriber), 100n * AMOUNT - 400_000n);
  t.equal(readSubscription(scene, scene.subscription)?.pulled, 400_000n);
  const expected = Buffer.concat([
    Buffer.from('e445a52e51cb9a1d02', 'hex'),
    ...[scene.subscription, scene.plan, scene.subscriber.publicKey, scene.mint].map((key) =>
      key.toBytes(),
    ),
    ...[400_000n, START, START + PERIOD, 400_000n].map(u64),
    ...[
      scene.merchant.publicKey,
      ataOf(scene.merchant.publicKey, scene.mint),
      scene.keeper.publicKey,
    ].map((key) => key.toBytes()),
  ]);
  t.same(eventsOf(result), [expected]);
  t.equal(expected.length, 265);
});

void t.test(
  'several pulls in a period are allowed up to its amount; one base unit more is refused (400)',
  async (t) => {
    const scene = setScene();
    t.equal(keeperPulls(scene, { amount: AMOUNT - 1n }), undefined);
    t.equal(keeperPulls(scene, { amount: 2n }), 400);
    t.equal(keeperPulls(scene, { amount: 1n, to: scene.treasury.publicKey }), undefined);
    t.equal(keeperPulls(scene, { amount: 1n }), 400);
    t.equal(balance(scene, scene.merchant), AMOUNT - 1n);
    t.equal(balance(scene, scene.treasury), 1n);
  },
);

void t.test(
  "a pull above the period's amount is refused (400), a pull of zero too (129)",
  async (t) => {
    const scene = setScene();
    for (const amount of [AMOUNT + 1n, 2n ** 63n, U64_MAX])
      t.equal(keeperPulls(scene, { amount }), 400);
    t.equal(keeperPulls(scene, { amount: U64_MAX - 1n }), 400);
    t.equal(keeperPulls(scene, { amount: 1n }), undefined);
    for (const amount of [U64_MAX, U64_MAX - 1n])
      t.equal(keeperPulls(scene, { amount }), 400, 'the sum must not wrap');
    t.equal(keeperPulls(scene, { amount: 0n }), 129);
  },
);

void t.test('net and fee are transferred in one transaction', async (t) => {
  const scene = setScene();
  const result = must(
    scene,
    [scene.keeper],
    pullOf(scene, { amount: AMOUNT - 10_000n }),
    pullOf(scene, { amount: 10_000n, to: scene.treasury.publicKey }),
  );
  t.equal(balance(scene, scene.merchant), AMOUNT - 10_000n);
  t.equal(balance(scene, scene.treasury), 10_000n);
  const pulled = eventsOf(result).map((event) => event.readBigUInt64LE(161));
  t.same(pulled, [AMOUNT - 10_000n, AMOUNT]);
  t.equal(keeperPulls(scene, { amount: 1n }), 400);
});

void t.test(
  'a failed second transfer reverts the first one: money, counted amount and period',
  async (t) => {
    const scene = setScene();
    must(scene, [scene.keeper], pullOf(scene, { amount: 7n }));
    setTime(scene, START + PERIOD);
    const before = [balance(scene, scene.subscriber), readSubscription(scene, scene.subscription)];
    const net = pullOf(scene, { amount: AMOUNT - 10_000n });
    const cases: [string, TransactionInstruction, number][] = [
      ['over the limit', pullOf(scene, { amount: 10_001n, to: scene.treasury.publicKey }), 400],
      ['to a stranger', pullOf(scene, { amount: 10_000n, to: scene.stranger.publicKey }), 506],
      [
        'to a missing account',
        withAccount(pullOf(scene), PULL.to, Keypair.generate().publicKey),
        110,
      ],
    ];
    for (const [name, fee, error] of cases) {
      t.same(send(scene, [scene.keeper], net, fee), { error, at: 1 }, name);
      t.same(
        [balance(scene, scene.subscriber), readSubscription(scene, scene.subscription)],
        before,
        name,
      );
      t.equal(balance(scene, scene.merchant), 7n, name);
    }
    const ata = subscribersAta(scene);
    const delegate = authorityOf(scene.subscriber.publicKey, scene.mint);
    setTokens(scene, ata, scene.mint, {
      owner: scene.subscriber.publicKey,
      amount: AMOUNT - 1n,
      delegate,
      allowance: U64_MAX,
    });
    t.same(
      send(
        scene,
        [scene.keeper],
        net,
        pullOf(scene, { amount: 10_000n, to: scene.treasury.publicKey }),
      ),
      { error: 1, at: 1 },
    );
    t.equal(
      balance(scene, scene.subscriber),
      AMOUNT - 1n,
      'the token program refusing the fee takes the net back too',
    );
    t.same(readSubscription(scene, scene.subscription), before[1]);
  },
);

void t.test('only the plan owner and its pullers may pull (130)', async (t) => {
  const scene = setScene();
  t.equal(
    errorOf(
      scene,
      [scene.merchant],
      pullOf(scene, { caller: scene.merchant.publicKey, amount: 1n }),
    ),
    undefined,
  );
  t.equal(keeperPulls(scene, { amount: 1n }), undefined);
  for (const caller of [scene.stranger, scene.subscriber, scene.treasury]) {
    t.equal(errorOf(scene, [caller], pullOf(scene, { caller: caller.publicKey, amount: 1n })), 130);
  }
});

void t.test(
  'from a plan without pullers only the owner can pull; a removed puller is refused (130)',
  async (t) => {
    const scene = setScene();
    must(
      scene,
      [scene.merchant],
      updatePlan(scene, scene.merchant.publicKey, scene.plan, { pullers: [] }),
    );
    t.equal(keeperPulls(scene), 130);
    t.equal(
      errorOf(scene, [scene.merchant], pullOf(scene, { caller: scene.merchant.publicKey })),
      undefined,
    );
  },
);

void t.test(
  'a pull pays only listed owners (else 506), to any of their token accounts',
  async (t) => {
    const scene = setScene();
    t.equal(keeperPulls(scene, { to: scene.stranger.publicKey }), 506);
    t.equal(keeperPulls(scene, { to: scene.subscriber.publicKey }), 506);
    const second = Keypair.generate().publicKey;
    setTokens(scene, second, scene.mint, { owner: scene.treasury.publicKey });
    t.equal(
      keeperSends(scene, withAccount(pullOf(scene, { amount: 5n }), PULL.to, second)),
      undefined,
    );
    t.equal(tokensOf(scene, second)?.amount, 5n);
  },
);

void t.test('an all-zero entry in a plan’s lists permits no puller and no receiver', async (t) => {
  const scene = setScene();
  const nobodys = Keypair.generate().publicKey;
  setTokens(scene, nobodys, scene.mint, {}); // its owner is the zero address
  t.equal(keeperSends(scene, withAccount(pullOf(scene), PULL.to, nobodys)), 506);
});

void t.test(
  'error codes 1, 4 and 17 of the token program are returned to the caller',
  async (t) => {
    const scene = setScene();
    const owner = scene.subscriber.publicKey;
    const delegate = authorityOf(owner, scene.mint);
    const held = { owner, amount: AMOUNT, delegate, allowance: U64_MAX };
    const cases: [string, Partial<typeof held> & { frozen?: boolean }, number | undefined][] = [
      ['balance too small', { amount: AMOUNT - 1n }, 1],
      ['allowance too small', { allowance: AMOUNT - 1n }, 1],
      ['frozen', { frozen: true }, 17],
      ['delegate replaced', { delegate: scene.stranger.publicKey }, 4],
      ['all in order', {}, undefined],
    ];
    for (const [name, change, error] of cases) {
      setTokens(scene, subscribersAta(scene), scene.mint, { ...held, ...change });
      t.equal(keeperPulls(scene), error, name);
    }
  },
);

void t.test(
  'a pull with a revoked or replaced approval fails with 4 until the wallet approves again',
  async (t) => {
    const scene = setScene();
    const { subscriber } = scene;
    const ata = subscribersAta(scene);
    must(scene, [subscriber], createRevokeInstruction(ata, subscriber.publicKey));
    t.equal(keeperPulls(scene, { amount: 1n }), 4);
    must(scene, [subscriber], initAuthority(scene, subscriber.publicKey));
    t.equal(keeperPulls(scene, { amount: 1n }), undefined);
    must(
      scene,
      [subscriber],
      createApproveInstruction(ata, scene.stranger.publicKey, subscriber.publicKey, 5n),
    );
    t.equal(keeperPulls(scene, { amount: 1n }), 4);
  },
);

void t.test(
  'a pull fails with 103 if the authority is closed, with 136 if it was created again',
  async (t) => {
    const scene = setScene();
    const { subscriber } = scene;
    must(scene, [subscriber], closeAuthority(scene, subscriber.publicKey));
    t.equal(keeperPulls(scene), 103);
    scene.svm.warpToSlot(slot(scene) + 1n);
    must(scene, [subscriber], initAuthority(scene, subscriber.publicKey));
    t.equal(keeperPulls(scene), 136);
    must(scene, [subscriber], revokeAuthority(scene, subscriber.publicKey));
    t.equal(keeperPulls(scene), 103);
  },
);

void t.test(
  'a pull fails with 110 if the token account of the subscriber or the receiver is closed',
  async (t) => {
    const scene = setScene();
    const { subscriber, stranger } = scene;
    const ata = subscribersAta(scene);
    must(
      scene,
      [subscriber],
      spend(ata, ataOf(stranger.publicKey, scene.mint), subscriber.publicKey, 100n * AMOUNT),
      createCloseAccountInstruction(ata, subscriber.publicKey, subscriber.publicKey),
    );
    t.equal(keeperPulls(scene), 110);
    const other = setScene();
    removeAccount(other, ataOf(other.merchant.publicKey, other.mint));
    t.equal(keeperPulls(other), 110);
  },
);

void t.test(
  'a cancelled subscription can be pulled until the period ends, then never (508)',
  async (t) => {
    const scene = setScene();
    must(scene, [scene.subscriber], cancel(scene.subscriber.publicKey, scene.plan));
    setTime(scene, START + PERIOD - 1n);
    t.equal(keeperPulls(scene), undefined);
    for (const later of [PERIOD, PERIOD + 1n, 10n * PERIOD]) {
      setTime(scene, START + later);
      t.equal(keeperPulls(scene), 508, `${later} s`);
    }
  },
);

void t.test(
  'a pull fails with 516 after the plan was deleted, with 519 after it was created again',
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const { merchant } = scene;
    setTime(scene, START + PERIOD + 1n);
    t.equal(keeperPulls(scene), 501);
    must(scene, [merchant], deletePlan(merchant.publicKey, scene.plan));
    t.equal(keeperPulls(scene), 516);
    const pullers = [scene.keeper.publicKey];
    for (const amount of [AMOUNT, AMOUNT + 1n]) {
      const again = {
        planId: 1n,
        amount,
        periodHours: PERIOD_HOURS,
        pullers,
        endTs: now(scene) + PERIOD,
      };
      must(scene, [merchant], createPlan(scene, merchant.publicKey, again));
      t.equal(keeperPulls(scene), 519);
      setTime(scene, now(scene) + PERIOD + 1n);
      must(scene, [merchant], deletePlan(merchant.publicKey, scene.plan));
    }
  },
);

void t.test(
  'a pull with a subscription of another plan fails with 505, even if the terms are the same',
  async (t) => {
    const scene = setScene();
    const { merchant, keeper, subscriber } = scene;
    const terms = {
      planId: 2n,
      amount: AMOUNT,
      periodHours: PERIOD_HOURS,
      pullers: [keeper.publicKey],
    };
    must(scene, [merchant], createPlan(scene, merchant.publicKey, terms));
    const [other] = planOf(merchant.publicKey, 2n);
    t.equal(keeperSends(scene, withAccount(pullOf(scene), PULL.plan, other)), 505);
    must(
      scene,
      [subscriber],
      subscribe(scene, subscriber.publicKey, { ...scene.consent, planId: 2n }),
    );
    t.equal(
      keeperSends(
        scene,
        withAccount(pullOf(scene), PULL.subscription, subscriptionOf(other, subscriber.publicKey)),
      ),
      505,
    );
  },
);

void t.test(
  'a puller with a plan of the same terms cannot pull from the subscribers of another plan (505)',
  async (t) => {
    const scene = setScene();
    const { stranger } = scene;
    must(
      scene,
      [stranger],
      createPlan(scene, stranger.publicKey, {
        planId: 9n,
        amount: AMOUNT,
        periodHours: PERIOD_HOURS,
      }),
    );
    const theft = withAccount(
      pullOf(scene, { caller: stranger.publicKey, to: stranger.publicKey }),
      PULL.plan,
      planOf(stranger.publicKey, 9n)[0],
    );
    t.equal(errorOf(scene, [stranger], theft), 505);
  },
);

void t.test(
  'a pull of a subscription that does not exist fails with InvalidAccountOwner',
  async (t) => {
    const scene = setScene();
    const other = newHolder(scene, AMOUNT);
    must(scene, [other], initAuthority(scene, other.publicKey));
    t.equal(keeperPulls(scene, { subscriber: other.publicKey }), 'InvalidAccountOwner');
  },
);

void t.test(
  'a pull with another delegator (130) or another authority (126) is refused',
  async (t) => {
    const scene = setScene();
    const other = newHolder(scene, AMOUNT);
    must(scene, [other], initAuthority(scene, other.publicKey));
    const named = [u64(1n), other.publicKey.toBytes(), scene.mint.toBytes()];
    t.equal(keeperSends(scene, withData(pullOf(scene), ...named)), 130);
    t.equal(
      keeperSends(
        scene,
        withAccount(pullOf(scene), PULL.authority, authorityOf(other.publicKey, scene.mint)),
      ),
      126,
    );
  },
);

void t.test('a pull with another mint in any account fails with 125', async (t) => {
  const scene = setScene();
  const { subscriber, merchant } = scene;
  const worthless = Keypair.generate().publicKey;
  setMint(scene, worthless);
  const otherChain = { ...scene, mint: worthless };
  for (const holder of [subscriber, merchant]) {
    setTokens(scene, ataOf(holder.publicKey, worthless), worthless, {
      owner: holder.publicKey,
      amount: AMOUNT,
    });
  }
  must(scene, [subscriber], initAuthority(otherChain, subscriber.publicKey));
  const real = pullOf(scene);
  t.equal(
    keeperSends(
      scene,
      withData(real, u64(1n), subscriber.publicKey.toBytes(), worthless.toBytes()),
    ),
    125,
    'in the data',
  );
  t.equal(keeperSends(scene, withAccount(real, PULL.mint, worthless)), 125, 'as the mint');
  t.equal(
    keeperSends(
      scene,
      withAccount(real, PULL.authority, authorityOf(subscriber.publicKey, worthless)),
    ),
    126,
    'by its authority',
  );
  t.equal(
    keeperSends(scene, withAccount(real, PULL.from, ataOf(subscriber.publicKey, worthless))),
    125,
    'from',
  );
  t.equal(
    keeperSends(scene, withAccount(real, PULL.to, ataOf(merchant.publicKey, worthless))),
    125,
    'to',
  );
  const all = {
    plan: scene.plan,
    subscriber: subscriber.publicKey,
    to: merchant.publicKey,
    caller: scene.keeper.publicKey,
  };
  t.equal(
    keeperSends(scene, pull(otherChain, { ...all, amount: 1n })),
    125,
    'all of them together',
  );
});

void t.test(
  "a pull takes money only from the subscriber's associated token account (else 130 or 108)",
  async (t) => {
    const scene = setScene();
    const delegate = authorityOf(scene.subscriber.publicKey, scene.mint);
    const other = newHolder(scene, AMOUNT);
    t.equal(
      keeperSends(scene, withAccount(pullOf(scene), PULL.from, ataOf(other.publicKey, scene.mint))),
      130,
    );
    const second = Keypair.generate().publicKey;
    setTokens(scene, second, scene.mint, {
      owner: scene.subscriber.publicKey,
      amount: AMOUNT,
      delegate,
      allowance: U64_MAX,
    });
    t.equal(keeperSends(scene, withAccount(pullOf(scene), PULL.from, second)), 108);
  },
);

void t.test('instruction data of any other length is refused with 112', async (t) => {
  const scene = setScene();
  const whole = pullOf(scene).data.subarray(1);
  for (const length of [0, 1, 8, 40, 71, 73]) {
    t.equal(
      keeperSends(
        scene,
        withData(pullOf(scene), Buffer.concat([whole, Buffer.alloc(8)], 80).subarray(0, length)),
      ),
      112,
    );
  }
});

void t.test('stored terms and counts that the program never writes are refused', async (t) => {
  const bothTerms = (scene: Scene, offset: number, value: bigint) => {
    patchAccount(scene, scene.plan, 75 + offset, u64(value));
    patchAccount(scene, scene.subscription, 107 + offset, u64(value));
  };
  for (const hours of [0n, 8761n, 2n ** 63n, U64_MAX / 3600n + 2n]) {
    const scene = setScene();
    bothTerms(scene, 8, hours);
    t.equal(keeperPulls(scene), 402, `${hours} hours`);
  }
  const more = setScene();
  patchAccount(more, more.subscription, 131, u64(AMOUNT + 1n));
  t.equal(keeperPulls(more, { amount: 1n }), 116, 'more pulled than the plan allows');
  const late = setScene();
  const farAway = 2n ** 63n - 1n - PERIOD / 2n;
  setTime(late, farAway);
  patchAccount(late, late.subscription, 139, u64(farAway));
  t.equal(keeperPulls(late, { amount: 1n }), 115, 'a period that ends after time does');
});

void t.test(
  'a pull that names another account as the token program is refused (105)',
  async (t) => {
    const scene = setScene();
    t.equal(
      keeperSends(scene, withAccount(pullOf(scene), PULL.tokenProgram, scene.stranger.publicKey)),
      105,
    );
    t.equal(
      keeperSends(scene, withAccount(pullOf(scene), PULL.tokenProgram, TOKEN_PROGRAM_ID)),
      undefined,
    );
  },
);
