// Account states that allow a payment, and the party that causes the failure in all others.
import fc from 'fast-check';
import t from 'tap';
import type { SubscriptionAccount, TokenAccount } from '../../../src/chain/program/layouts.ts';
import type { ChainView } from '../../../src/domain/collecting/chain-view.ts';
import {
  delegationObstacle,
  feeReceiver,
  planObstacle,
  subscriberObstacle,
} from '../../../src/domain/collecting/obstacles.ts';

const GROSS = 100n;
const parties = { keepers: ['keeper'], merchant: 'merchant', mint: 'mint' };

const tokens = (owner: string, changes: Partial<TokenAccount> = {}): TokenAccount => ({
  mint: 'mint',
  owner,
  amount: GROSS,
  delegate: null,
  delegatedAmount: 0n,
  state: 'initialized',
  ...changes,
});

const subscription: SubscriptionAccount = {
  amount: GROSS,
  periodHours: 24n,
  bump: 255,
  subscriber: 'wallet',
  plan: 'plan',
  payer: 'wallet',
  initId: 7n,
  planCreatedAt: 1n,
  amountPulled: 0n,
  periodStart: 1n,
  expiresAt: 0n,
};

/** Accounts with exactly enough balance and allowance. */
const good: ChainView = {
  slot: 1n,
  now: 1n,
  subscription,
  plan: {
    owner: 'merchant',
    bump: 255,
    status: 'active',
    planId: 1n,
    mint: 'mint',
    amount: GROSS,
    periodHours: 24n,
    createdAt: 1n,
    endTs: 0n,
    destinations: ['merchant', 'treasury'],
    pullers: ['keeper'],
    metadataUri: '',
  },
  authority: { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 7n },
  authorityAddress: 'sa',
  subscriberTokens: tokens('wallet', { delegate: 'sa', delegatedAmount: GROSS }),
  merchantTokens: tokens('merchant'),
  treasuryTokens: tokens('treasury'),
};

/** Faults on the subscriber's side, in the order of their precedence. */
const wrongs: [reason: string, spoil: (view: ChainView) => ChainView][] = [
  ['account_closed', (view) => ({ ...view, subscriberTokens: null })],
  [
    'account_owner_changed',
    (view) => ({
      ...view,
      subscriberTokens: view.subscriberTokens && { ...view.subscriberTokens, owner: 'x' },
    }),
  ],
  ['authority_closed', (view) => ({ ...view, authority: null })],
  [
    'authority_replaced',
    (view) => ({ ...view, authority: view.authority && { ...view.authority, initId: 8n } }),
  ],
  [
    'delegate_replaced',
    (view) => ({
      ...view,
      subscriberTokens: view.subscriberTokens && { ...view.subscriberTokens, delegate: 'x' },
    }),
  ],
  [
    'account_frozen',
    (view) => ({
      ...view,
      subscriberTokens: view.subscriberTokens && { ...view.subscriberTokens, state: 'frozen' },
    }),
  ],
  [
    'insufficient_funds',
    (view) => ({
      ...view,
      subscriberTokens: view.subscriberTokens && { ...view.subscriberTokens, amount: GROSS - 1n },
    }),
  ],
  [
    'allowance_exhausted',
    (view) => ({
      ...view,
      subscriberTokens: view.subscriberTokens && {
        ...view.subscriberTokens,
        delegatedAmount: GROSS - 1n,
      },
    }),
  ],
];
const DELEGATION = ['authority_closed', 'authority_replaced', 'delegate_replaced'];

void t.test('a payment with exactly enough balance and allowance has no obstacle', async (t) => {
  t.equal(subscriberObstacle(good, subscription, GROSS), undefined);
  t.equal(delegationObstacle(good, subscription), undefined);
  t.equal(planObstacle(good, 99n, parties), undefined);
  t.equal(feeReceiver(good, 'treasury'), 'treasury');
});

void t.test('of several obstacles, the first is returned as the reason', async (t) => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.nat(wrongs.length - 1), { minLength: 1 }), (chosen) => {
      // A closed authority cannot be a replaced one, and a closed account cannot be frozen.
      const spoilt = chosen.reduce((view, index) => wrongs[index]![1](view), good);
      const expected = wrongs.find(([reason], index) => {
        if (!chosen.includes(index)) return false;
        return reason !== 'authority_replaced' || spoilt.authority !== null;
      })?.[0];
      return subscriberObstacle(spoilt, subscription, GROSS) === expected;
    }),
  );
  for (const [reason, spoil] of wrongs)
    t.equal(subscriberObstacle(spoil(good), subscription, GROSS), reason);
});

void t.test(
  'an empty, frozen or closed token account is no revocation; a revoked approval is',
  async (t) => {
    for (const [reason, spoil] of wrongs)
      t.equal(
        delegationObstacle(spoil(good), subscription),
        DELEGATION.includes(reason) ? reason : undefined,
        reason,
      );
  },
);

void t.test('an obstacle of the plan is never reported as the subscriber’s failure', async (t) => {
  const plan = good.plan!;
  const blocked: [reason: string | undefined, view: ChainView][] = [
    ['wrong_program_or_mint', { ...good, plan: { ...plan, mint: 'x' } }],
    ['not_a_puller', { ...good, plan: { ...plan, pullers: ['x'] } }],
    [undefined, { ...good, plan: { ...plan, owner: 'keeper', pullers: [] } }],
    ['destination_refused', { ...good, plan: { ...plan, destinations: ['treasury'] } }],
    [undefined, { ...good, plan: { ...plan, destinations: [] } }],
    ['destination_refused', { ...good, merchantTokens: tokens('x') }],
    ['receiver_frozen', { ...good, merchantTokens: tokens('merchant', { state: 'frozen' }) }],
    ['receiver_account_missing', { ...good, merchantTokens: null }],
    [undefined, { ...good, plan: null }],
  ];
  for (const [reason, view] of blocked) {
    t.equal(planObstacle(view, 99n, parties), reason);
    t.equal(subscriberObstacle(view, subscription, GROSS), undefined);
  }
});

void t.test('a payment with a net of zero needs no token account of the merchant', async (t) => {
  t.equal(planObstacle({ ...good, merchantTokens: null }, 0n, parties), undefined);
  const treasuryOnly = { ...good.plan!, destinations: ['treasury'] };
  t.equal(planObstacle({ ...good, plan: treasuryOnly }, 0n, parties), undefined);
});

void t.test(
  'the fee goes to the plan’s treasury, else to the first backup of the plan that can receive it',
  async (t) => {
    const plan = { ...good.plan!, destinations: ['merchant', 'treasury', 'second', 'third'] };
    const others = ['second', 'third', 'unnamed'].map((wallet) => ({
      wallet,
      tokens: tokens(wallet),
    }));
    const view: ChainView = { ...good, plan, backupTreasuries: others };
    t.equal(feeReceiver(view, 'treasury'), 'treasury');
    const unable: (TokenAccount | null)[] = [
      null,
      tokens('treasury', { state: 'frozen' }),
      tokens('x'),
    ];
    for (const treasuryTokens of unable) {
      t.equal(feeReceiver({ ...view, treasuryTokens }, 'treasury'), 'second');
      const [, third, unnamed] = others;
      const without: ChainView = {
        ...view,
        treasuryTokens,
        backupTreasuries: [{ wallet: 'second', tokens: null }, third!, unnamed!],
      };
      t.equal(feeReceiver(without, 'treasury'), 'third');
      t.equal(
        feeReceiver({ ...without, backupTreasuries: [unnamed!] }, 'treasury'),
        undefined,
        'a wallet that the plan does not name takes nothing',
      );
    }
    const unlisted = { ...plan, destinations: ['merchant', 'second'] };
    t.equal(feeReceiver({ ...view, plan: unlisted }, 'treasury'), 'second');
  },
);
