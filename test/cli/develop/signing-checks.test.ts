// What `billing wallet` signs and refuses, without a service: texts and messages of transactions.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { SUBSCRIPTIONS_PROGRAM } from '../../../src/chain/clusters.ts';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  COMPUTE_BUDGET_PROGRAM,
  MEMO_PROGRAM,
  planAddress,
  publicKey,
  subscriptionAddress,
  TOKEN_PROGRAM,
} from '../../../src/chain/program/addresses.ts';
import {
  closeInstruction,
  type Instruction,
  initAuthority,
  subscribe,
  transferSubscription,
} from '../../../src/chain/program/instructions.ts';
import type { PlanAccount } from '../../../src/chain/program/layouts.ts';
import { messageIn, unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { createPlanTransaction } from '../../../src/chain/transactions/plans.ts';
import { refundTransaction } from '../../../src/chain/transactions/refund.ts';
import { signInTransaction } from '../../../src/chain/transactions/sign-in.ts';
import { ASSERTION_PROGRAM, decodeMessage } from '../../../src/chain/transactions/signed.ts';
import { stepsOf } from '../../../src/chain/transactions/steps.ts';
import {
  cancelInstructions,
  resumeInstructions,
  subscribeInstructions,
} from '../../../src/chain/transactions/subscriptions.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
  createTokenAccount,
  memo,
  transferLamports,
} from '../../../src/chain/transactions/system-instructions.ts';
import { walletTransaction } from '../../../src/chain/transactions/wallet.ts';
import {
  cancelledIn,
  signInFault,
  subscribeFault,
  transactionFault,
} from '../../../src/cli/develop/signing-checks.ts';
import { signInMessage } from '../../../src/domain/accounts/sign-in.ts';
import { closeTransaction, revokeTransaction } from '../../fixtures/wallet-transactions.ts';

const address = () => generateKeypair().address;
const [wallet, other, merchant, treasury, mint] = [
  address(),
  address(),
  address(),
  address(),
  address(),
];
const program = SUBSCRIPTIONS_PROGRAM;
const blockhash = address();
const reading = { wallet, programId: program, tokens: new Map([[mint, 'USDC']]) };

const now = new Date('2026-11-28T12:00:00.000Z');
const apiUrl = 'https://billing.example';
const asked = { wallet, role: 'subscriber', apiUrl, now } as const;
const issue = (change: object = {}) =>
  signInMessage({ wallet, role: 'subscriber', page: apiUrl, cluster: 'devnet', now, ...change });

void t.test('a sign-in text is signed only for the requested host, wallet and role', (t) => {
  const { message, nonce } = issue();
  t.equal(signInFault(message, { ...asked, nonce }), undefined);
  for (const cluster of ['mainnet-beta', 'localnet'])
    t.equal(signInFault(issue({ cluster }).message, asked), undefined, cluster);
  const cases: [string, RegExp][] = [
    [issue({ page: 'https://other.example' }).message, /signs in to https:\/\/other\.example, not/],
    [issue({ page: 'http://billing.example' }).message, /signs in to http:/],
    [issue({ page: 'https://billing.example:444' }).message, /signs in to .*:444/],
    [message.replace('billing.example wants', 'other.example wants'), /not of its host/],
    [message.replace('URI: https://', 'URI: https://u:p@'), /is not a URL/],
    [issue({ role: 'merchant' }).message, /signs in as a merchant, not as a subscriber/],
    [issue({ wallet: other }).message, new RegExp(`of the wallet ${other}`)],
    [issue({ now: new Date(+now - 8 * 60_000) }).message, /expired at/],
    [issue({ now: new Date(+now + 3 * 60_000) }).message, /issued later than now/],
    [message.replace('12:05:00.000Z', '12:05:01.000Z'), /longer than five minutes/],
    [message.replace('2026-11-28T12:05', '2026-11-31T12:05'), /longer than five minutes/],
    [`${message}\nResources:\n- https://x`, /not a sign-in text of the billing API/],
    [`${message}\n`, /not a sign-in text of the billing API/],
    [message.replaceAll('\n', '\r\n'), /not a sign-in text of the billing API/],
    [message.replace('moves no money', 'moves money'), /not a sign-in text of the billing API/],
  ];
  for (const [text, words] of cases) t.match(signInFault(text, asked), words);
  t.match(signInFault(message, { ...asked, nonce: issue().nonce }), /another nonce/);
  t.end();
});

void t.test('all names of this machine are accepted for each other, with the same port', (t) => {
  const local = { ...asked, apiUrl: 'http://127.0.0.1:3000/' };
  t.equal(signInFault(issue({ page: 'http://localhost:3000' }).message, local), undefined);
  t.match(signInFault(issue({ page: 'http://localhost:3001' }).message, local), /signs in to/);
  const path = { ...asked, apiUrl: `${apiUrl}/pay` };
  t.equal(signInFault(issue({ page: `${apiUrl}/pay` }).message, path), undefined);
  t.end();
});

const lineAt = (text: string, at: number) =>
  text.slice(text.lastIndexOf('\n', at - 1) + 1).split('\n')[0] ?? '';

void t.test('a changed sign-in text is never signed', (t) => {
  const { message, nonce } = issue();
  const place = fc.nat({ max: message.length });
  fc.assert(
    fc.property(place, fc.nat({ max: 3 }), fc.string({ maxLength: 3 }), (at, cut, put) => {
      const changed = message.slice(0, at) + put + message.slice(at + cut);
      const fault = signInFault(changed, { ...asked, nonce });
      // A path of the URI, and times within the limits, may differ.
      const same = changed === message || /^(?:Issued At|Expiration|URI)/.test(lineAt(message, at));
      return same || fault !== undefined;
    }),
    { numRuns: 2000 },
  );
  t.end();
});

const planPda = planAddress(program, merchant, 42n);
const account: PlanAccount = {
  owner: merchant,
  bump: planPda.bump,
  status: 'active',
  planId: 42n,
  mint,
  amount: 9_990_000n,
  periodHours: 720n,
  createdAt: 1_700_000_000n,
  endTs: 0n,
  destinations: [merchant, treasury],
  pullers: [other],
  metadataUri: '',
};
const plan = {
  address: planPda.address,
  mint,
  amount: account.amount,
  periodHours: account.periodHours,
};
const subscription = subscriptionAddress(program, plan.address, wallet).address;
const toSubscribe = { ...reading, plan };

function opening(
  change: Partial<PlanAccount> = {},
  state: { hasTokenAccount?: boolean; isOpen?: boolean; payer?: string } = {},
) {
  const { hasTokenAccount = true, isOpen = true, payer } = state;
  const previous = {
    bump: 1,
    subscriber: wallet,
    plan: plan.address,
    payer: payer ?? wallet,
    initId: 1n,
    amount: 1n,
    periodHours: 1n,
    planCreatedAt: 1n,
    amountPulled: 0n,
    periodStart: 1n,
    expiresAt: 2n,
  };
  return subscribeInstructions(program, {
    subscriber: wallet,
    state: {
      plan: { ...account, ...change },
      authority: isOpen ? { user: wallet, mint, payer: wallet, bump: 1, initId: 77n } : null,
      hasTokenAccount,
      approved: isOpen,
      previous: payer === undefined ? null : previous,
    },
  }).instructions;
}

const built = (...instructions: Instruction[]) =>
  messageIn(walletTransaction(wallet, instructions, blockhash));

void t.test('every subscribe transaction of the service is signed', (t) => {
  for (const hasTokenAccount of [true, false])
    for (const isOpen of [true, false])
      for (const payer of [undefined, wallet, other]) {
        const message = built(...opening({}, { hasTokenAccount, isOpen, ...(payer && { payer }) }));
        t.equal(subscribeFault(message, toSubscribe), undefined);
      }
  const resume = resumeInstructions(program, {
    subscriber: wallet,
    plan: plan.address,
    subscription,
    mint,
    expiresAt: 5n,
    approves: true,
    hasTokenAccount: false,
  });
  t.equal(subscribeFault(built(...resume), toSubscribe), undefined);
  const old = planAddress(program, merchant, 1n).address;
  const parties = {
    subscriber: wallet,
    plan: old,
    subscription: subscriptionAddress(program, old, wallet).address,
  };
  const change = built(...cancelInstructions(program, parties), ...opening());
  const { subscription: replaces } = parties;
  t.equal(cancelledIn(change, program), replaces);
  t.equal(cancelledIn(built(...opening()), program), undefined);
  t.equal(subscribeFault(change, { ...toSubscribe, replaces }), undefined);
  for (const named of [undefined, subscription, old])
    t.match(
      subscribeFault(change, { ...toSubscribe, replaces: named }),
      new RegExp(
        `it cancels the subscription ${replaces} .*\\(--replaces ${replaces} signs it\\)$`,
      ),
    );
  t.end();
});

void t.test('a subscribe transaction with any additional instruction is not signed', (t) => {
  const foreign = planAddress(program, other, 42n);
  const otherPlan = subscribe(program, {
    subscriber: wallet,
    merchant: other,
    plan: plan.address,
    subscription,
    terms: { ...account, planBump: foreign.bump, initId: 77n },
  });
  const budget = [computeUnitLimit(1_400_000), computeUnitPrice(20_000_000n)];
  const cases: [Buffer, RegExp][] = [
    [built(...opening(), transferLamports(wallet, other, 900_000_000n)), /does not end with/],
    [
      built(transferLamports(wallet, other, 900_000_000n), ...opening()),
      new RegExp(`it transfers 0\\.90 SOL from ${wallet} to ${other}, which was not asked for`),
    ],
    [built(memo('hello'), ...opening()), /it writes the memo "hello", which was not asked for/],
    [built(memo(issue().message), ...opening()), /so the transaction is a sign-in/],
    [built(...opening({ amount: 9_990_001n })), /it subscribes .*9\.990001 USDC every 720 hours/],
    [built(...opening({ periodHours: 1n })), /every 1 hours, which was not asked for/],
    [built(...opening({ planId: 43n })), /does not end with the subscription to/],
    [built(otherPlan), /does not end with the subscription to/],
    [built(...opening({ mint: other })), /base units of the token .*was not asked for/],
    [built(initAuthority(program, { user: wallet, mint: other }), ...opening()), /approves/],
    [
      built(
        closeInstruction(program, wallet, {
          plan: foreign.address,
          subscription: other,
          payer: wallet,
        }),
        ...opening(),
      ),
      /closes the subscription account/,
    ],
    [built(createTokenAccount({ payer: wallet, owner: other, mint }), ...opening()), /opens the/],
    [
      messageIn(unsignedTransaction(wallet, [...budget, ...opening()], blockhash)),
      /the fee is above/,
    ],
    [messageIn(unsignedTransaction(other, opening(), blockhash)), /its fee payer is/],
    [built(initAuthority(program, { user: wallet, mint, payer: other }), ...opening()), /approves/],
    [built(...opening(), ...opening()), /it has a further instruction/],
    [built(assertion(), ...opening()), /calls the program L2TE/],
    [built(), /does not end with/],
    [Buffer.from('text'), /not a legacy transaction/],
  ];
  for (const [message, words] of cases) t.match(subscribeFault(message, toSubscribe), words);
  const strange = { ...toSubscribe, plan: { ...plan, mint: other } };
  t.match(subscribeFault(built(...opening()), strange), /which is not USDC/);
  t.end();
});

function assertion(): Instruction {
  return Object.assign(memo('x'), { programId: publicKey(ASSERTION_PROGRAM) });
}

void t.test('a changed byte of a transaction is detected unless it has no effect', (t) => {
  const message = built(...opening({}, { isOpen: false, hasTokenAccount: false }));
  // The plan's creation time and the authority's init id, which the chain checks, may differ; so
  // may the blockhash and the budget.
  const effects = (bytes: Buffer) => {
    const { payer, instructions = [] } = decodeMessage(bytes) ?? {};
    const fixed = instructions.filter(({ programId }) => programId !== COMPUTE_BUDGET_PROGRAM);
    return { payer, fixed: fixed.map((one) => ({ ...one, data: one.data.subarray(0, 58) })) };
  };
  const wanted = effects(message);
  fc.assert(
    fc.property(fc.nat({ max: message.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, by) => {
      const changed = Buffer.from(message);
      changed.writeUInt8(changed.readUInt8(at) ^ by, at);
      if (subscribeFault(changed, toSubscribe) === undefined)
        assert.deepEqual(effects(changed), wanted);
    }),
    { numRuns: 3000 },
  );
  t.end();
});

void t.test(
  'a transaction is described to the user by its instructions, transfers and programs',
  (t) => {
    const none = { ...reading, to: [], programs: [] };
    const refund = messageIn(
      refundTransaction(
        { mint, merchant: wallet, subscriber: other, amount: 9_900_000n, reference: address() },
        { hasTokenAccount: false, blockhash },
      ),
    );
    t.match(transactionFault(refund, none), /opens the token account/);
    t.match(transactionFault(refund, { ...none, to: [other] }), /9\.90 USDC .*was not asked for/);
    const usdc = 9_900_000n;
    t.equal(transactionFault(refund, { ...none, to: [other], usdc }), undefined);
    t.match(transactionFault(refund, { ...none, to: [merchant], usdc }), /--to does not name/);
    t.match(
      transactionFault(refund, { ...none, to: [other], usdc: usdc + 1n }),
      /it transfers 9\.90, and --usdc says 9\.900001/,
    );
    const pay = built(transferLamports(wallet, other, 5n), transferLamports(wallet, merchant, 7n));
    t.match(transactionFault(pay, none), /transfers 0\.000000005 SOL .*was not asked for/);
    t.equal(transactionFault(pay, { ...none, to: [other, merchant], sol: 12n }), undefined);
    t.match(transactionFault(pay, { ...none, to: [other], sol: 12n }), /--to does not name/);
    t.match(transactionFault(built(), { ...none, sol: 1n }), /transfers 0\.00, and --sol says/);
    t.equal(transactionFault(built(transferLamports(wallet, wallet, 9n)), none), undefined);
    const call = built(assertion());
    t.match(transactionFault(call, none), /calls the program L2TE\S+, which may do anything/);
    t.equal(transactionFault(call, { ...none, programs: [ASSERTION_PROGRAM] }), undefined);
    t.end();
  },
);

void t.test(
  'transactions that the service builds for wallets are read, and others are refused',
  (t) => {
    const none = { ...reading, to: [], programs: [TOKEN_PROGRAM, MEMO_PROGRAM, program] };
    const fault = (base64: string) => transactionFault(messageIn(base64), none);
    const parties = { subscriber: wallet, plan: plan.address, subscription };
    const terms = { ...account, planId: 7n };
    const create = createPlanTransaction(program, {
      merchant: wallet,
      terms,
      blockhash,
    }).transaction;
    t.equal(fault(create), undefined);
    const decoded = decodeMessage(messageIn(create));
    t.match(
      decoded && stepsOf(decoded, reading).at(-1)?.words,
      new RegExp(
        `9\\.99 USDC every 720 hours, paid to ${merchant} and ${treasury}, collected by ${other}`,
      ),
    );
    t.equal(fault(walletTransaction(wallet, opening(), blockhash)), undefined);
    t.equal(
      fault(closeTransaction(program, { ...parties, payer: wallet, revokedMint: mint }, blockhash)),
      undefined,
    );
    t.equal(
      fault(revokeTransaction(program, { user: wallet, mint, authorityPayer: wallet }, blockhash)),
      undefined,
    );

    t.match(fault(signInTransaction(wallet, issue().message, blockhash)), /is a sign-in/);
    const pull = transferSubscription(program, {
      ...parties,
      caller: wallet,
      subscriber: other,
      mint,
      receiver: merchant,
      amount: 1n,
    });
    t.match(transactionFault(built(pull), none), /it collects 0\.000001 USDC of/);
    const paysFor = initAuthority(program, { user: other, mint, payer: wallet });
    t.match(transactionFault(built(paysFor), none), /named beside the party that acts/);
    for (const code of [3, 4, 6, 7, 8, 9, 13, 14, 17]) {
      const one = Object.assign(memo('x'), {
        programId: publicKey(TOKEN_PROGRAM),
        data: Buffer.from([code, 1, 0, 0, 0, 0, 0, 0, 0]),
      });
      t.match(transactionFault(built(one), none), /does not know the instruction/, `token ${code}`);
    }
    t.end();
  },
);

void t.test(
  'a random instruction of a recognised program is refused if it moves anything that was not requested',
  (t) => {
    const none = { ...reading, to: [], programs: [] };
    const bytes = fc.uint8Array({ maxLength: 20 });
    fc.assert(
      fc.property(
        fc.constantFrom(TOKEN_PROGRAM, '11111111111111111111111111111111'),
        bytes,
        (id, data) => {
          const one = transferLamports(wallet, other, 1n);
          one.programId = publicKey(id);
          one.data = Buffer.from(data);
          // A withdrawn approval moves nothing.
          const isRevoke = id === TOKEN_PROGRAM && data.length === 1 && data[0] === 5;
          return isRevoke || transactionFault(built(one), none) !== undefined;
        },
      ),
      { numRuns: 1000 },
    );
    t.end();
  },
);
