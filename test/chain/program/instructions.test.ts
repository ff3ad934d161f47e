import {
  type Address,
  address,
  createNoopSigner,
  type Instruction as KitInstruction,
} from '@solana/kit';
import * as client from '@solana/subscriptions';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  planAddress,
  subscriptionAddress,
  TOKEN_PROGRAM,
  tokenAccountAddress,
} from '../../../src/chain/program/addresses.ts';
import type { Instruction } from '../../../src/chain/program/instructions.ts';
import * as own from '../../../src/chain/program/instructions.ts';
import * as ourPlans from '../../../src/chain/program/plan-instructions.ts';

const program = SUBSCRIPTIONS_PROGRAM;
const wallet = () => address(generateKeypair().address);
const [merchant, subscriber, keeper, treasury, mint, sponsor] = [
  wallet(),
  wallet(),
  wallet(),
  wallet(),
  wallet(),
  wallet(),
];
const tokenProgram = address(TOKEN_PROGRAM);
const ata = (owner: string): Address => address(tokenAccountAddress(owner, mint).address);
const plan = address(planAddress(program, merchant, 42n).address);
const subscription = address(subscriptionAddress(program, plan, subscriber).address);
const parties = { subscriber, plan, subscription };
const EVENT_ACCOUNTS = ['3Hnj4BYoDgtpBuqXfiy7Y8cNa3jXaNd4oqgSXBzkMcH7', program];

/** Instructions of this code and of the published client, in one form. */
function plain(instruction: KitInstruction | Instruction) {
  const data = Buffer.from(instruction.data ?? []).toString('hex');
  if ('programId' in instruction) {
    const accounts = instruction.keys.map(
      ({ pubkey, isSigner, isWritable }) =>
        `${pubkey.toBase58()} ${(isSigner ? 2 : 0) + (isWritable ? 1 : 0)}`,
    );
    return { programId: instruction.programId.toBase58(), accounts, data };
  }
  // kit numbers its roles by the same two bits.
  const accounts = (instruction.accounts ?? []).map(({ address, role }) => `${address} ${role}`);
  return { programId: instruction.programAddress, accounts, data };
}

void t.test(
  'instructions that program version 0.5.0 did not change equal those of the published client',
  async (t) => {
    const terms = {
      planId: 42n,
      mint,
      amount: 9_990_000n,
      periodHours: 720n,
      endTs: 1_900_000_000n,
      destinations: [merchant, treasury],
      pullers: [keeper],
      metadataUri: 'https://example.com/plan.json',
    };
    const subscribeTerms = {
      planId: 42n,
      planBump: planAddress(program, merchant, 42n).bump,
      mint,
      amount: 9_990_000n,
      periodHours: 720n,
      createdAt: 1_700_000_000n,
      initId: 77n,
    };
    const expectedTerms = {
      expectedAmount: subscribeTerms.amount,
      expectedPeriodHours: 720n,
      expectedCreatedAt: subscribeTerms.createdAt,
      expectedSubscriptionAuthorityInitId: 77n,
    };
    const signer = createNoopSigner;
    const cases: Record<string, [Instruction, KitInstruction]> = {
      initAuthority: [
        own.initAuthority(program, { user: subscriber, mint }),
        await client.getInitSubscriptionAuthorityOverlayInstructionAsync({
          owner: signer(subscriber),
          tokenMint: mint,
          tokenProgram,
          userAta: ata(subscriber),
        }),
      ],
      'initAuthority by a sponsor': [
        own.initAuthority(program, { user: subscriber, mint, payer: sponsor }),
        await client.getInitSubscriptionAuthorityOverlayInstructionAsync({
          owner: signer(subscriber),
          tokenMint: mint,
          tokenProgram,
          userAta: ata(subscriber),
          payer: signer(sponsor),
        }),
      ],
      closeAuthority: [
        own.closeAuthority(program, { user: subscriber, mint }),
        await client.getCloseSubscriptionAuthorityOverlayInstructionAsync({
          user: signer(subscriber),
          tokenMint: mint,
        }),
      ],
      'closeAuthority of a sponsor': [
        own.closeAuthority(program, { user: subscriber, mint, receiver: sponsor }),
        await client.getCloseSubscriptionAuthorityOverlayInstructionAsync({
          user: signer(subscriber),
          tokenMint: mint,
          receiver: sponsor,
        }),
      ],
      createPlan: [
        ourPlans.createPlan(program, { merchant, plan, terms }),
        await client.getCreatePlanOverlayInstructionAsync({
          ...terms,
          owner: signer(merchant),
          tokenProgram,
        }),
      ],
      'createPlan with nothing optional': [
        ourPlans.createPlan(program, {
          merchant,
          plan,
          terms: { ...terms, endTs: 0n, destinations: [], pullers: [], metadataUri: '' },
        }),
        await client.getCreatePlanOverlayInstructionAsync({
          ...terms,
          owner: signer(merchant),
          endTs: 0n,
          destinations: [],
          pullers: [],
          metadataUri: '',
          tokenProgram,
        }),
      ],
      deletePlan: [
        ourPlans.deletePlan(program, { owner: merchant, plan }),
        client.getDeletePlanOverlayInstruction({ owner: signer(merchant), planPda: plan }),
      ],
      subscribe: [
        own.subscribe(program, {
          subscriber,
          merchant,
          plan,
          subscription,
          terms: subscribeTerms,
        }),
        await client.getSubscribeOverlayInstructionAsync({
          ...expectedTerms,
          merchant,
          planId: 42n,
          subscriber: signer(subscriber),
          tokenMint: mint,
        }),
      ],
      'subscribe by a sponsor': [
        own.subscribe(program, {
          subscriber,
          merchant,
          plan,
          subscription,
          terms: subscribeTerms,
          payer: sponsor,
        }),
        await client.getSubscribeOverlayInstructionAsync({
          ...expectedTerms,
          merchant,
          planId: 42n,
          subscriber: signer(subscriber),
          tokenMint: mint,
          payer: signer(sponsor),
        }),
      ],
      cancelSubscription: [
        own.cancelSubscription(program, parties),
        await client.getCancelSubscriptionOverlayInstructionAsync({
          planPda: plan,
          subscriber: signer(subscriber),
        }),
      ],
      revokeDelegation: [
        own.revokeDelegation(program, { authority: subscriber, plan, subscription }),
        client.getRevokeSubscriptionOverlayInstruction({
          authority: signer(subscriber),
          planPda: plan,
          subscriptionPda: subscription,
        }),
      ],
      'revokeDelegation of a sponsor': [
        own.revokeDelegation(program, {
          authority: subscriber,
          plan,
          subscription,
          receiver: sponsor,
        }),
        client.getRevokeSubscriptionOverlayInstruction({
          authority: signer(subscriber),
          planPda: plan,
          subscriptionPda: subscription,
          receiver: sponsor,
        }),
      ],
      transferSubscription: [
        own.transferSubscription(program, {
          ...parties,
          caller: keeper,
          mint,
          receiver: merchant,
          amount: 9_890_100n,
        }),
        await client.getTransferSubscriptionOverlayInstructionAsync({
          amount: 9_890_100n,
          caller: signer(keeper),
          delegator: subscriber,
          planPda: plan,
          receiverAta: ata(merchant),
          subscriptionPda: subscription,
          tokenMint: mint,
          tokenProgram,
        }),
      ],
    };
    for (const [name, [mine, theirs]] of Object.entries(cases))
      t.same(plain(mine), plain(theirs), name);
  },
);

void t.test(
  'update_plan equals the published client’s instruction plus accounts and state of later program versions',
  (t) => {
    const edit = {
      status: 'sunset',
      endTs: 1_900_000_000n,
      pullers: [keeper],
      metadataUri: 'https://example.com/2',
    } as const;
    const seen = {
      createdAt: 1_700_000_000n,
      endTs: 0n,
      pullers: [keeper, treasury],
      metadataUri: 'https://example.com/1',
    };
    const mine = plain(ourPlans.updatePlan(program, { owner: merchant, plan, edit, seen }));
    const theirs = plain(
      client.getUpdatePlanOverlayInstruction({
        ...edit,
        pullers: [keeper],
        owner: createNoopSigner(merchant),
        planPda: plan,
        status: client.PlanStatus.Sunset,
      }),
    );
    t.same(mine.accounts, [...theirs.accounts, ...EVENT_ACCOUNTS.map((one) => `${one} 0`)]);
    t.ok(mine.data.startsWith(theirs.data));
    const appended = Buffer.from(mine.data, 'hex').subarray(266);
    t.equal(appended.length, 272);
    t.equal(appended.readBigInt64LE(0), seen.createdAt);
    t.equal(appended.readBigInt64LE(8), seen.endTs);
    // The pullers and the text that were seen are laid out as those that are wanted.
    const asWanted = ourPlans
      .updatePlan(program, { owner: merchant, plan, edit: { ...edit, ...seen }, seen })
      .data.subarray(10, 266);
    t.same(appended.subarray(16), asWanted);
    t.end();
  },
);

void t.test(
  'the resume instruction contains the authority account and the expected expiry',
  async (t) => {
    const mine = plain(
      own.resumeSubscription(program, { ...parties, mint, expiresAt: 1_800_000_000n }),
    );
    const theirs = plain(
      await client.getResumeSubscriptionOverlayInstructionAsync({
        planPda: plan,
        subscriber: createNoopSigner(subscriber),
      }),
    );
    const [authority] = await client.findSubscriptionAuthorityPda({
      user: subscriber,
      tokenMint: mint,
    });
    t.same(mine.accounts, [
      ...theirs.accounts.slice(0, 3),
      `${authority} 0`,
      ...theirs.accounts.slice(3),
    ]);
    t.equal(mine.data, `${theirs.data}${u64Hex(1_800_000_000n)}`);
  },
);

void t.test(
  'the revoke and "cancel now" instructions have the layout in docs/chain.md',
  async (t) => {
    const [authority] = await client.findSubscriptionAuthorityPda({
      user: subscriber,
      tokenMint: mint,
    });
    t.same(plain(own.revokeAuthority(program, { user: subscriber, mint })), {
      programId: program,
      accounts: [
        `${subscriber} 3`,
        `${ata(subscriber)} 1`,
        `${mint} 0`,
        `${TOKEN_PROGRAM} 0`,
        `${authority} 1`,
      ],
      data: '0e',
    });
    t.equal(
      own
        .revokeAuthority(program, { user: subscriber, mint, receiver: sponsor })
        .keys[5]?.pubkey.toBase58(),
      sponsor,
    );
    t.same(
      plain(
        own.cancelSubscriptionNow(program, { ...parties, merchant, periodStart: 1_700_000_000n }),
      ),
      {
        programId: program,
        accounts: [
          `${subscriber} 2`,
          `${merchant} 2`,
          `${plan} 0`,
          `${subscription} 1`,
          ...EVENT_ACCOUNTS.map((one) => `${one} 0`),
        ],
        data: `11${u64Hex(1_700_000_000n)}`,
      },
    );
  },
);

void t.test('a value that does not fit its field is refused, not truncated', (t) => {
  const transfer = (amount: bigint) =>
    own.transferSubscription(program, {
      ...parties,
      caller: keeper,
      mint,
      receiver: merchant,
      amount,
    });
  t.equal(transfer(2n ** 64n - 1n).data.length, 73);
  t.throws(() => transfer(2n ** 64n), RangeError);
  t.throws(() => transfer(-1n), RangeError);
  const terms = {
    planId: 1n,
    mint,
    amount: 1n,
    periodHours: 1n,
    endTs: 0n,
    destinations: [],
    pullers: [],
    metadataUri: '',
  };
  const create = (change: Partial<ourPlans.PlanTerms>) => () =>
    ourPlans.createPlan(program, { merchant, plan, terms: { ...terms, ...change } });
  t.throws(create({ metadataUri: 'é'.repeat(65) }), { message: /metadataUri: at most 128 bytes/ });
  t.throws(create({ pullers: [keeper, keeper, keeper, keeper, keeper] }), {
    message: /pullers: at most 4/,
  });
  t.throws(create({ destinations: ['nobody'] }), { message: /"nobody"/ });
  t.equal(own.UNKNOWN_INIT_ID, BigInt.asIntN(64, 1n << 63n));
  t.end();
});

function u64Hex(value: bigint): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes.toString('hex');
}
