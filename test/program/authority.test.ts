import { createApproveInstruction, createRevokeInstruction } from '@solana/spl-token';
import { Keypair } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  ataOf,
  authorityOf,
  closeAuthority,
  dataOf,
  errorOf,
  fund,
  initAuthority,
  lamportsOf,
  must,
  newHolder,
  newWallet,
  readAuthority,
  revokeAuthority,
  setTokens,
  slot,
  startChain,
  tokensOf,
  U64_MAX,
  withAccount,
} from '../fixtures/program.ts';

function open(sponsored = false) {
  const chain = startChain();
  const [user, sponsor] = [newHolder(chain, AMOUNT), newWallet(chain)];
  const key = authorityOf(user.publicKey, chain.mint);
  const ata = ataOf(user.publicKey, chain.mint);
  const init = sponsored
    ? initAuthority(chain, user.publicKey, sponsor.publicKey)
    : initAuthority(chain, user.publicKey);
  must(chain, sponsored ? [user, sponsor] : [user], init);
  return { ...chain, user, sponsor, key, ata };
}

const delegateOf = (scene: ReturnType<typeof open>) => {
  const tokens = tokensOf(scene, scene.ata);
  return tokens?.delegateOption === 1 ? tokens.delegate.toBase58() : undefined;
};

void t.test(
  'init creates the authority with the slot as its id and approves it without a limit',
  async (t) => {
    const scene = open();
    const { user, mint, key } = scene;
    t.same(readAuthority(scene, key), {
      user: user.publicKey,
      mint,
      payer: user.publicKey,
      initId: slot(scene),
    });
    t.equal(dataOf(scene, key)?.[0], 0);
    t.equal(delegateOf(scene), key.toBase58());
    t.equal(tokensOf(scene, scene.ata)?.delegatedAmount, U64_MAX);
    t.equal(lamportsOf(scene, key), scene.svm.minimumBalanceForRentExemption(106n));
  },
);

void t.test(
  'a second init approves again and changes nothing else, not even with another payer',
  async (t) => {
    const scene = open();
    const { user, sponsor, key, ata } = scene;
    must(scene, [user], createRevokeInstruction(ata, user.publicKey));
    t.equal(delegateOf(scene), undefined);
    const before = dataOf(scene, key);
    scene.svm.warpToSlot(slot(scene) + 5n);
    must(scene, [user, sponsor], initAuthority(scene, user.publicKey, sponsor.publicKey));
    t.same(dataOf(scene, key), before);
    t.equal(delegateOf(scene), key.toBase58());
  },
);

void t.test(
  'lamports sent to the address beforehand do not prevent the creation of an authority',
  async (t) => {
    const chain = startChain();
    const rent = chain.svm.minimumBalanceForRentExemption(106n);
    for (const lamports of [rent - 1n, rent, 3n * rent]) {
      const user = newHolder(chain);
      const key = authorityOf(user.publicKey, chain.mint);
      fund(chain, key, lamports);
      must(chain, [user], initAuthority(chain, user.publicKey));
      t.equal(readAuthority(chain, key)?.initId, slot(chain));
      t.equal(lamportsOf(chain, key), lamports > rent ? lamports : rent);
    }
  },
);

void t.test('a sponsor who pays the rent is recorded as payer of the authority', async (t) => {
  const scene = open(true);
  t.ok(readAuthority(scene, scene.key)?.payer.equals(scene.sponsor.publicKey));
});

void t.test(
  'init refuses another authority address (103) and a wrong token account (130, 125, 108)',
  async (t) => {
    const scene = open();
    const user = newHolder(scene);
    const other = newHolder(scene);
    const init = initAuthority(scene, user.publicKey);
    t.equal(
      errorOf(scene, [user], withAccount(init, 1, authorityOf(other.publicKey, scene.mint))),
      103,
    );
    t.equal(errorOf(scene, [user], withAccount(init, 3, ataOf(other.publicKey, scene.mint))), 130);
    const second = Keypair.generate().publicKey;
    setTokens(scene, second, scene.mint, { owner: user.publicKey });
    t.equal(errorOf(scene, [user], withAccount(init, 3, second)), 108);
    setTokens(scene, second, Keypair.generate().publicKey, { owner: user.publicKey });
    t.equal(errorOf(scene, [user], withAccount(init, 3, second)), 125);
  },
);

void t.test('closing an authority returns its rent and leaves the token approval', async (t) => {
  const scene = open();
  const { user, key } = scene;
  const before = lamportsOf(scene, user.publicKey) + lamportsOf(scene, key);
  must(scene, [user], closeAuthority(scene, user.publicKey));
  t.equal(dataOf(scene, key), undefined);
  t.equal(lamportsOf(scene, user.publicKey), before - 5000n);
  t.equal(delegateOf(scene), key.toBase58());
  t.equal(errorOf(scene, [user], closeAuthority(scene, user.publicKey)), 'InvalidAccountOwner');
});

void t.test('only the user of an authority can close it (else 130 or 103)', async (t) => {
  const scene = open(true);
  const { user, sponsor, key } = scene;
  const thief = newHolder(scene);
  t.equal(
    errorOf(scene, [thief], withAccount(closeAuthority(scene, thief.publicKey), 1, key)),
    130,
  );
  t.equal(
    errorOf(scene, [sponsor], withAccount(closeAuthority(scene, sponsor.publicKey), 1, key)),
    130,
    'nor its payer',
  );
  t.equal(
    errorOf(scene, [thief], withAccount(revokeAuthority(scene, thief.publicKey), 4, key)),
    103,
  );
  t.ok(readAuthority(scene, key)?.user.equals(user.publicKey));
});

void t.test(
  "closing returns a sponsor's rent to the sponsor only (else 113, 130 or 131)",
  async (t) => {
    const scene = open(true);
    const { user, sponsor, key } = scene;
    for (const build of [closeAuthority, revokeAuthority]) {
      const whole = build(scene, user.publicKey, sponsor.publicKey);
      const receiver = whole.keys.length - 1;
      t.equal(errorOf(scene, [user], build(scene, user.publicKey)), 113);
      t.equal(errorOf(scene, [user], build(scene, user.publicKey, user.publicKey)), 130);
      t.equal(errorOf(scene, [user], withAccount(whole, receiver, sponsor.publicKey, '')), 131);
    }
    const rent = lamportsOf(scene, key);
    const before = lamportsOf(scene, sponsor.publicKey);
    must(scene, [user], closeAuthority(scene, user.publicKey, sponsor.publicKey));
    t.equal(lamportsOf(scene, sponsor.publicKey), before + rent);
  },
);

void t.test(
  'a revoke withdraws the approval, closes the authority and returns its rent to the payer',
  async (t) => {
    const scene = open(true);
    const { user, sponsor, key } = scene;
    const before = lamportsOf(scene, sponsor.publicKey) + lamportsOf(scene, key);
    must(scene, [user], revokeAuthority(scene, user.publicKey, sponsor.publicKey));
    t.equal(delegateOf(scene), undefined);
    t.equal(dataOf(scene, key), undefined);
    t.equal(lamportsOf(scene, sponsor.publicKey), before);
  },
);

void t.test('a revoke after a close withdraws the approval that the close left', async (t) => {
  const scene = open();
  const { user } = scene;
  must(scene, [user], closeAuthority(scene, user.publicKey));
  must(scene, [user], revokeAuthority(scene, user.publicKey));
  t.equal(delegateOf(scene), undefined);
  t.equal(
    errorOf(scene, [user], revokeAuthority(scene, user.publicKey)),
    undefined,
    'and again, without effect',
  );
});

void t.test('a revoke leaves the approval of another delegate alone', async (t) => {
  const scene = open();
  const { user, ata, sponsor } = scene;
  must(scene, [user], createApproveInstruction(ata, sponsor.publicKey, user.publicKey, 5n));
  must(scene, [user], revokeAuthority(scene, user.publicKey));
  t.equal(delegateOf(scene), sponsor.publicKey.toBase58());
  t.equal(dataOf(scene, scene.key), undefined);
});

void t.test("a revoke of another user's token account is refused (130)", async (t) => {
  const scene = open();
  const other = newHolder(scene);
  t.equal(
    errorOf(
      scene,
      [scene.user],
      withAccount(
        revokeAuthority(scene, scene.user.publicKey),
        1,
        ataOf(other.publicKey, scene.mint),
      ),
    ),
    130,
  );
});

void t.test('an authority is closed and opened again in one transaction', async (t) => {
  const scene = open();
  const { user, key } = scene;
  scene.svm.warpToSlot(slot(scene) + 9n);
  must(scene, [user], closeAuthority(scene, user.publicKey), initAuthority(scene, user.publicKey));
  t.equal(readAuthority(scene, key)?.initId, slot(scene));
});
