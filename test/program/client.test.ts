// Compares with the published client: its builders call the program, its decoders read the
// program's accounts. It is of program 0.3.0, so the program must refuse its update_plan and
// resume_subscription.
import {
  address,
  createNoopSigner,
  lamports,
  type Address,
  type EncodedAccount,
  type Instruction,
} from '@solana/kit';
import { TOKEN_PROGRAM_ID } from '@solana/spl-token';
import {
  decodePlan,
  decodeSubscriptionAuthority,
  decodeSubscriptionDelegation,
  findEventAuthorityPda,
  findPlanPda,
  findSubscriptionAuthorityPda,
  findSubscriptionDelegationPda,
  getCancelSubscriptionOverlayInstructionAsync,
  getCloseSubscriptionAuthorityOverlayInstructionAsync,
  getCreatePlanOverlayInstructionAsync,
  getDeletePlanOverlayInstruction,
  getInitSubscriptionAuthorityOverlayInstructionAsync,
  getResumeSubscriptionOverlayInstructionAsync,
  getRevokeSubscriptionOverlayInstruction,
  getSubscribeOverlayInstructionAsync,
  getTransferSubscriptionOverlayInstructionAsync,
  getUpdatePlanOverlayInstruction,
  PlanStatus,
  SUBSCRIPTIONS_ERROR__AMOUNT_EXCEEDS_PERIOD_LIMIT,
  SUBSCRIPTIONS_ERROR__INVALID_INSTRUCTION_DATA,
  SUBSCRIPTIONS_ERROR__UNAUTHORIZED,
  SUBSCRIPTIONS_PROGRAM_ADDRESS,
} from '@solana/subscriptions';
import { PublicKey, TransactionInstruction, type Keypair } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  ataOf,
  dataOf,
  errorOf,
  EVENT_AUTHORITY,
  lamportsOf,
  meta,
  must,
  newHolder,
  newWallet,
  now,
  PERIOD,
  PERIOD_HOURS,
  PROGRAM_ID,
  resume,
  setTime,
  slot,
  START,
  startChain,
  tokensOf,
  updatePlan,
  type Chain,
} from '../fixtures/program.ts';

const addressOf = (key: PublicKey) => address(key.toBase58());
const signerOf = (wallet: Keypair) => createNoopSigner(addressOf(wallet.publicKey));

/**
 * The client's instruction as web3.js sends it: a role's low bit is writable, the next one signer.
 */
function fromClient({
  programAddress,
  accounts = [],
  data = new Uint8Array(),
}: Instruction): TransactionInstruction {
  const keys = accounts.map(({ address: key, role }) =>
    meta(new PublicKey(key), `${role & 2 ? 's' : ''}${role & 1 ? 'w' : ''}`),
  );
  return new TransactionInstruction({
    programId: new PublicKey(programAddress),
    keys,
    data: Buffer.from(data),
  });
}

function encodedAccount(chain: Chain, key: Address): EncodedAccount {
  const data = dataOf(chain, new PublicKey(key));
  if (data === undefined) throw new Error(`no account ${key}`);
  const balance = lamports(lamportsOf(chain, new PublicKey(key)));
  return {
    address: key,
    data,
    executable: false,
    lamports: balance,
    programAddress: SUBSCRIPTIONS_PROGRAM_ADDRESS,
    space: BigInt(data.length),
  };
}

/** A chain on which the client opened an authority, a plan and a subscription. */
async function open(endTs = 0n) {
  const chain = startChain();
  const [merchant, treasury, subscriber] = [
    newHolder(chain),
    newHolder(chain),
    newHolder(chain, 10n * AMOUNT),
  ];
  const [keeper, sponsor] = [newWallet(chain), newWallet(chain)];
  const mint = addressOf(chain.mint);
  const tokenProgram = addressOf(TOKEN_PROGRAM_ID);
  const userAta = addressOf(ataOf(subscriber.publicKey, chain.mint));
  const send = (signers: Keypair[], ...instructions: Instruction[]) =>
    must(chain, signers, ...instructions.map(fromClient));
  const owner = signerOf(subscriber);
  send(
    [subscriber],
    await getInitSubscriptionAuthorityOverlayInstructionAsync({
      owner,
      tokenMint: mint,
      tokenProgram,
      userAta,
    }),
  );
  send(
    [merchant],
    await getCreatePlanOverlayInstructionAsync({
      ...{
        owner: signerOf(merchant),
        planId: 7n,
        mint,
        amount: AMOUNT,
        periodHours: PERIOD_HOURS,
        endTs,
        metadataUri: 'ipfs://plan',
      },
      ...{
        destinations: [merchant, treasury].map((wallet) => addressOf(wallet.publicKey)),
        pullers: [addressOf(keeper.publicKey)],
      },
    }),
  );
  const [planPda] = await findPlanPda({ owner: addressOf(merchant.publicKey), planId: 7n });
  const [authorityPda] = await findSubscriptionAuthorityPda({
    user: owner.address,
    tokenMint: mint,
  });
  const [subscriptionPda] = await findSubscriptionDelegationPda({
    planPda,
    subscriber: owner.address,
  });
  send(
    [subscriber, sponsor],
    await getSubscribeOverlayInstructionAsync({
      ...{
        subscriber: owner,
        merchant: addressOf(merchant.publicKey),
        planId: 7n,
        tokenMint: mint,
        payer: signerOf(sponsor),
      },
      ...{ expectedAmount: AMOUNT, expectedPeriodHours: PERIOD_HOURS, expectedCreatedAt: START },
      expectedSubscriptionAuthorityInitId: slot(chain),
    }),
  );
  const pull = (amount: bigint, to: Keypair, caller = keeper) =>
    getTransferSubscriptionOverlayInstructionAsync({
      ...{
        amount,
        caller: signerOf(caller),
        delegator: owner.address,
        planPda,
        subscriptionPda,
        tokenMint: mint,
        tokenProgram,
      },
      receiverAta: addressOf(ataOf(to.publicKey, chain.mint)),
    });
  const read = () => decodeSubscriptionDelegation(encodedAccount(chain, subscriptionPda)).data;
  return {
    ...chain,
    merchant,
    treasury,
    subscriber,
    keeper,
    sponsor,
    owner,
    planPda,
    authorityPda,
    subscriptionPda,
    send,
    pull,
    read,
  };
}

void t.test('the published client derives the same addresses', async (t) => {
  t.equal(SUBSCRIPTIONS_PROGRAM_ADDRESS, PROGRAM_ID.toBase58());
  const [eventAuthority] = await findEventAuthorityPda();
  t.equal(eventAuthority, EVENT_AUTHORITY.toBase58());
  t.equal(eventAuthority, '3Hnj4BYoDgtpBuqXfiy7Y8cNa3jXaNd4oqgSXBzkMcH7');
});

void t.test(
  "the published client's decoders read the accounts that its instructions created",
  async (t) => {
    const scene = await open();
    const { merchant, treasury, keeper, sponsor, owner, mint } = scene;
    const zero = '11111111111111111111111111111111';
    const addresses = (...wallets: Keypair[]) =>
      [...wallets.map((wallet) => wallet.publicKey.toBase58()), zero, zero, zero].slice(0, 4);
    t.match(decodeSubscriptionAuthority(encodedAccount(scene, scene.authorityPda)).data, {
      ...{
        discriminator: 0,
        user: owner.address,
        tokenMint: mint.toBase58(),
        payer: owner.address,
        initId: slot(scene),
      },
    });
    t.match(decodePlan(encodedAccount(scene, scene.planPda)).data, {
      ...{ discriminator: 1, owner: merchant.publicKey.toBase58(), status: PlanStatus.Active },
      data: {
        ...{
          planId: 7n,
          mint: mint.toBase58(),
          terms: { amount: AMOUNT, periodHours: PERIOD_HOURS, createdAt: START },
          endTs: 0n,
        },
        ...{ destinations: addresses(merchant, treasury), pullers: addresses(keeper) },
      },
    });
    t.match(scene.read(), {
      header: {
        ...{ discriminator: 4, version: 1, delegator: owner.address, delegatee: scene.planPda },
        ...{ payer: sponsor.publicKey.toBase58(), initId: slot(scene) },
      },
      terms: { amount: AMOUNT, periodHours: PERIOD_HOURS, createdAt: START },
      ...{ amountPulledInPeriod: 0n, currentPeriodStartTs: START, expiresAtTs: 0n },
    });
  },
);

void t.test(
  "the published client's transfers move net and fee, and its error codes equal the program's",
  async (t) => {
    const scene = await open();
    const { merchant, treasury, keeper, subscriber } = scene;
    scene.send(
      [keeper],
      await scene.pull(AMOUNT - 10_000n, merchant),
      await scene.pull(10_000n, treasury),
    );
    t.equal(scene.read().amountPulledInPeriod, AMOUNT);
    t.equal(tokensOf(scene, ataOf(merchant.publicKey, scene.mint))?.amount, AMOUNT - 10_000n);
    t.equal(tokensOf(scene, ataOf(treasury.publicKey, scene.mint))?.amount, 10_000n);
    const more = fromClient(await scene.pull(1n, merchant));
    t.equal(errorOf(scene, [keeper], more), SUBSCRIPTIONS_ERROR__AMOUNT_EXCEEDS_PERIOD_LIMIT);
    const thief = fromClient(await scene.pull(1n, merchant, subscriber));
    t.equal(errorOf(scene, [subscriber], thief), SUBSCRIPTIONS_ERROR__UNAUTHORIZED);
    setTime(scene, START + PERIOD);
    scene.send([keeper], await scene.pull(1n, merchant));
    t.match(scene.read(), { amountPulledInPeriod: 1n, currentPeriodStartTs: START + PERIOD });
  },
);

void t.test('the program accepts cancel, resume and revoke of the published client', async (t) => {
  const scene = await open();
  const { subscriber, sponsor, owner, planPda, subscriptionPda } = scene;
  const side = { subscriber: owner, planPda };
  scene.send([subscriber], await getCancelSubscriptionOverlayInstructionAsync(side));
  t.equal(scene.read().expiresAtTs, START + PERIOD);
  const old = fromClient(await getResumeSubscriptionOverlayInstructionAsync(side));
  t.equal(errorOf(scene, [subscriber], old), SUBSCRIPTIONS_ERROR__INVALID_INSTRUCTION_DATA);
  const plan = new PublicKey(planPda);
  must(scene, [subscriber], resume(scene, subscriber.publicKey, plan, START + PERIOD));
  t.equal(scene.read().expiresAtTs, 0n);
  scene.send([subscriber], await getCancelSubscriptionOverlayInstructionAsync(side));
  setTime(scene, START + PERIOD);
  const receiver = addressOf(sponsor.publicKey);
  scene.send(
    [subscriber],
    getRevokeSubscriptionOverlayInstruction({
      authority: owner,
      planPda,
      subscriptionPda,
      receiver,
    }),
  );
  t.equal(dataOf(scene, new PublicKey(subscriptionPda)), undefined);
});

void t.test(
  "the program accepts the published client's update_plan, delete_plan and close of the authority",
  async (t) => {
    const scene = await open(START + 3n * PERIOD);
    const { merchant, subscriber, planPda, owner } = scene;
    const endTs = START + 2n * PERIOD;
    const update = {
      owner: signerOf(merchant),
      planPda,
      endTs,
      metadataUri: 'ipfs://other',
      status: PlanStatus.Sunset,
    };
    const old = fromClient(getUpdatePlanOverlayInstruction(update));
    t.equal(errorOf(scene, [merchant], old), SUBSCRIPTIONS_ERROR__INVALID_INSTRUCTION_DATA);
    const change = { status: 0, endTs, metadataUri: 'ipfs://other' };
    must(scene, [merchant], updatePlan(scene, merchant.publicKey, new PublicKey(planPda), change));
    t.match(decodePlan(encodedAccount(scene, planPda)).data, {
      status: PlanStatus.Sunset,
      data: { endTs },
    });
    setTime(scene, endTs + 1n);
    scene.send([merchant], getDeletePlanOverlayInstruction({ owner: signerOf(merchant), planPda }));
    t.equal(dataOf(scene, new PublicKey(planPda)), undefined);
    const tokenMint = addressOf(scene.mint);
    scene.send(
      [subscriber],
      await getCloseSubscriptionAuthorityOverlayInstructionAsync({ user: owner, tokenMint }),
    );
    t.equal(dataOf(scene, new PublicKey(scene.authorityPda)), undefined);
    t.ok(now(scene) > endTs);
  },
);
