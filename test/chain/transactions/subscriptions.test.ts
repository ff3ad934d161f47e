import { Transaction } from '@solana/web3.js';
import bs58 from 'bs58';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  planAddress,
  subscriptionAddress,
} from '../../../src/chain/program/addresses.ts';
import type { PlanAccount } from '../../../src/chain/program/layouts.ts';
import { updatePlan } from '../../../src/chain/program/plan-instructions.ts';
import { transactionFee } from '../../../src/chain/transactions/collection.ts';
import * as plans from '../../../src/chain/transactions/plans.ts';
import type { SubscribeState } from '../../../src/chain/transactions/subscriptions.ts';
import { walletFee, walletTransaction } from '../../../src/chain/transactions/wallet.ts';
import * as wallets from '../../fixtures/wallet-transactions.ts';

const program = SUBSCRIPTIONS_PROGRAM;
const wallet = () => generateKeypair().address;
const keeper = generateKeypair();
const [merchant, subscriber, treasury, mint] = [wallet(), wallet(), wallet(), wallet()];
const plan = planAddress(program, merchant, 42n);
const subscription = subscriptionAddress(program, plan.address, subscriber).address;
const parties = { subscriber, plan: plan.address, subscription };
const blockhash = bs58.encode(Buffer.alloc(32, 7));
const SAME_SLOT = -(2n ** 63n);

const planAccount: PlanAccount = {
  owner: merchant,
  bump: plan.bump,
  status: 'active',
  planId: 42n,
  mint,
  amount: 9_990_000n,
  periodHours: 720n,
  createdAt: 1_700_000_000n,
  endTs: 0n,
  destinations: [merchant, treasury],
  pullers: [keeper.address],
  metadataUri: '',
};

interface Read {
  feePayer: string;
  signers: string[];
  instructions: { programId: string; accounts: string[]; data: Buffer }[];
}

/**
 * A base64 transaction as a wallet reads it, behind its compute limit and its priority fee, which
 * every one has.
 */
function read(base64: string): Read {
  const transaction = Transaction.from(Buffer.from(base64, 'base64'));
  const [limit, price, ...instructions] = transaction.instructions;
  t.same(
    [limit, price].map((budget) => [budget?.programId.toBase58(), budget?.data[0]]),
    [
      [COMPUTE_BUDGET_PROGRAM, 2],
      [COMPUTE_BUDGET_PROGRAM, 3],
    ],
  );
  return {
    feePayer: transaction.feePayer!.toBase58(),
    signers: transaction.signatures.map(({ publicKey, signature }) => {
      t.equal(signature, null, 'not signed');
      return publicKey.toBase58();
    }),
    instructions: instructions.map(({ programId, keys, data }) => ({
      programId: programId.toBase58(),
      accounts: keys.map(({ pubkey }) => pubkey.toBase58()),
      data,
    })),
  };
}

void t.test('a merchant’s transaction publishes a plan at the returned address', (t) => {
  const terms = { ...planAccount, planId: 43n };
  const { transaction, plan: address } = plans.createPlanTransaction(program, {
    merchant,
    terms,
    blockhash,
  });
  t.equal(address, planAddress(program, merchant, 43n).address);
  const { feePayer, signers, instructions } = read(transaction);
  t.same([feePayer, signers], [merchant, [merchant]]);
  t.equal(instructions.length, 2);
  t.equal(instructions[0]!.programId, ASSOCIATED_TOKEN_PROGRAM);
  t.same([instructions[0]!.data[0], instructions[0]!.accounts[2]], [1, merchant]);
  t.equal(instructions[1]!.accounts[1], address);
  t.equal(instructions[1]!.data.length, 457);
  t.end();
});

void t.test(
  'creating a plan with every optional term fits into one transaction, and so does its sunset',
  (t) => {
    const full = {
      ...planAccount,
      destinations: [wallet(), wallet(), wallet(), wallet()],
      pullers: [wallet(), wallet(), wallet(), wallet()],
      metadataUri: `https://${'x'.repeat(120)}`,
    };
    t.doesNotThrow(() =>
      plans.createPlanTransaction(program, { merchant, terms: full, blockhash }),
    );
    const edit = { ...full, status: 'sunset', endTs: 1_900_000_000n } as const;
    const sunset = walletTransaction(
      merchant,
      [updatePlan(program, { owner: merchant, plan: plan.address, edit, seen: full })],
      blockhash,
    );
    const { feePayer, instructions } = read(sunset);
    t.equal(feePayer, merchant);
    t.equal(instructions[0]!.data.length, 538);
    t.equal(instructions[0]!.data[1], 0, 'status sunset');
    t.equal(instructions[0]!.data.readBigInt64LE(2), 1_900_000_000n);
    t.end();
  },
);

void t.test('a transaction to subscribe fits the state of the wallet', async (t) => {
  const subscribe = (state: Partial<SubscribeState>) => {
    const whole = {
      plan: planAccount,
      authority: null,
      hasTokenAccount: true,
      approved: false,
      previous: null,
      ...state,
    };
    const { transaction, subscription: address } = wallets.subscribeTransaction(program, {
      subscriber,
      state: whole,
      blockhash,
    });
    t.equal(address, subscription);
    const found = read(transaction);
    t.same([found.feePayer, found.signers], [subscriber, [subscriber]]);
    return found.instructions;
  };
  const kinds = (instructions: Read['instructions']) => instructions.map(({ data }) => data[0]);
  const initId = (instructions: Read['instructions']) =>
    instructions.at(-1)!.data.readBigInt64LE(66);
  const authority = { user: subscriber, mint, payer: subscriber, bump: 1, initId: 77n };

  await t.test('a new wallet creates its authority in the transaction that subscribes', (t) => {
    const instructions = subscribe({});
    t.same(kinds(instructions), [0, 11]);
    t.equal(initId(instructions), SAME_SLOT);
    t.end();
  });
  await t.test(
    'a wallet without a token account creates one in the transaction that subscribes',
    (t) => {
      const instructions = subscribe({ hasTokenAccount: false });
      t.same(kinds(instructions), [1, 0, 11]);
      t.equal(instructions[0]!.programId, ASSOCIATED_TOKEN_PROGRAM);
      t.equal(instructions[0]!.accounts[0], subscriber);
      t.end();
    },
  );
  await t.test(
    'a wallet with an approved authority subscribes without further instructions',
    (t) => {
      const instructions = subscribe({ authority, approved: true });
      t.same(kinds(instructions), [11]);
      t.equal(initId(instructions), 77n);
      t.end();
    },
  );
  await t.test(
    'a wallet that revoked the approval approves again in the transaction that subscribes',
    (t) => {
      const instructions = subscribe({ authority, approved: false });
      t.same(kinds(instructions), [0, 11]);
      t.equal(initId(instructions), 77n);
      t.end();
    },
  );
  await t.test(
    'an expired subscription at the same address is closed first, and its rent goes to the payer',
    (t) => {
      const sponsor = wallet();
      const previous = {
        bump: 1,
        subscriber,
        plan: plan.address,
        payer: sponsor,
        initId: 1n,
        planCreatedAt: 1n,
        amountPulled: 0n,
      };
      const expired = { ...previous, amount: 1n, periodHours: 1n, periodStart: 1n, expiresAt: 2n };
      const instructions = subscribe({ authority, approved: true, previous: expired });
      t.same(kinds(instructions), [3, 11]);
      t.same(instructions[0]!.accounts, [subscriber, subscription, plan.address, sponsor]);
      const own = subscribe({
        authority,
        approved: true,
        previous: { ...expired, payer: subscriber },
      });
      t.same(own[0]!.accounts, [subscriber, subscription, plan.address]);
      t.end();
    },
  );
  await t.test(
    'the transaction to subscribe contains the terms of the plan as read from the chain',
    (t) => {
      const { data } = subscribe({ authority, approved: true })[0]!;
      t.equal(data.readBigUInt64LE(1), 42n);
      t.equal(data[9], plan.bump);
      t.equal(bs58.encode(data.subarray(10, 42)), mint);
      t.same(
        [data.readBigUInt64LE(42), data.readBigUInt64LE(50), data.readBigInt64LE(58)],
        [9_990_000n, 720n, 1_700_000_000n],
      );
      t.end();
    },
  );
});

void t.test('only the subscriber pays and signs cancel, resume, close and approve', (t) => {
  const cases: [string, number][] = [
    [wallets.cancelTransaction(program, parties, blockhash), 12],
    [wallets.resumeTransaction(program, { ...parties, mint, expiresAt: 5n }, blockhash), 13],
    [wallets.closeTransaction(program, { ...parties, payer: subscriber }, blockhash), 3],
    [wallets.approveTransaction(program, { user: subscriber, mint, blockhash }), 0],
  ];
  for (const [transaction, kind] of cases) {
    const { feePayer, signers, instructions } = read(transaction);
    t.same(
      [feePayer, signers, instructions.length, instructions[0]!.data[0]],
      [subscriber, [subscriber], 1, kind],
    );
  }
  t.end();
});

void t.test('closing a sponsored account returns the rent to the sponsor', (t) => {
  const sponsor = wallet();
  const close = read(wallets.closeTransaction(program, { ...parties, payer: sponsor }, blockhash));
  t.same(close.instructions[0]!.accounts.at(-1), sponsor);
  t.end();
});

void t.test(
  'a wallet’s transaction leaves room for appended assertions and costs the announced amount',
  (t) => {
    const cancel = wallets.cancelTransaction(program, parties, blockhash);
    const bytes = Buffer.from(cancel, 'base64');
    const [limit] = Transaction.from(bytes).instructions;
    t.equal(limit?.data.readUInt32LE(1), 200_000, 'half of it is the wallet’s');
    t.equal(transactionFee(bytes), walletFee(1));
    t.equal(walletFee(4), 15_000n, 'subscribing at its longest');
    t.end();
  },
);
