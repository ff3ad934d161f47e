import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import {
  type Action,
  decideAction,
  hasAmpleApproval,
} from '../../../src/domain/actions/actions.ts';
import type { WalletView } from '../../../src/domain/actions/wallet-view.ts';
import { buildSponsored } from '../../../src/domain/offers/build.ts';

const address = () => generateKeypair().address;
const [programId, mint, wallet, planPda, authorityAddress] = Array.from({ length: 5 }, address) as [
  string,
  string,
  string,
  string,
  string,
];
const NOW = 1_000_000n;

const account = {
  bump: 1,
  subscriber: wallet,
  plan: planPda,
  payer: wallet,
  initId: 7n,
  planCreatedAt: 1n,
  amountPulled: 0n,
  amount: 100n,
  periodHours: 24n,
  periodStart: NOW - 10n,
  expiresAt: 0n,
};
const tokens = {
  mint,
  owner: wallet,
  amount: 1000n,
  delegate: authorityAddress,
  delegatedAmount: 2n ** 64n - 1n,
  state: 'initialized',
} as const;
const view: WalletView = {
  slot: 1n,
  now: NOW,
  subscriptionPda: address(),
  payerLamports: 0n,
  replaced: null,
  subscription: account,
  plan: null,
  authority: { user: wallet, mint, payer: wallet, bump: 1, initId: 7n },
  authorityAddress,
  subscriberTokens: tokens,
  merchantTokens: null,
  treasuryTokens: null,
};
const cancelled: Partial<WalletView> = { subscription: { ...account, expiresAt: NOW + 1n } };
const over: Partial<WalletView> = { subscription: { ...account, expiresAt: NOW } };
const revoked: Partial<WalletView> = { subscriberTokens: { ...tokens, delegate: null } };
const frozen: Partial<WalletView> = { subscriberTokens: { ...tokens, state: 'frozen' } };
const closed: Partial<WalletView> = { authority: null };
const replaced: Partial<WalletView> = { authority: { ...view.authority!, initId: 8n } };

/** What stands in the way, or the first byte of each instruction's data. */
function decide(
  purpose: Action['purpose'],
  change: Partial<WalletView> = {},
  withdraws = false,
): string | (number | undefined)[] {
  const plan = purpose === 'revoke' ? null : { planPda };
  const action = { purpose, wallet, plan, withdraws };
  const decided = decideAction({ programId, mint }, action, { ...view, ...change });
  return 'obstacle' in decided ? decided.obstacle : decided.instructions.map(({ data }) => data[0]);
}

void t.test('a wallet’s possible actions follow from the accounts of its subscription', (t) => {
  const cases: [Parameters<typeof decide>, ReturnType<typeof decide>][] = [
    [['cancel', { subscription: null }], 'no_subscription'],
    [['cancel'], [12]],
    [['cancel', { ...frozen, ...closed }], [12]],
    [['cancel', cancelled], 'cancelled'],
    [['cancel', over], 'cancelled'],
    [['resume', { subscription: null }], 'no_subscription'],
    [['resume'], 'not_cancelled'],
    [['resume', cancelled], [13]],
    [
      ['resume', { ...cancelled, ...revoked }],
      [0, 13],
    ],
    [
      ['resume', { ...cancelled, subscriberTokens: null }],
      [1, 0, 13],
    ],
    [['resume', { ...cancelled, ...frozen }], [13]],
    [['resume', { ...cancelled, ...replaced }], 'authority_replaced'],
    [['resume', { ...cancelled, ...closed }], 'authority_replaced'],
    [['resume', over], 'ended'],
    [['repair', { subscription: null }], 'not_live'],
    [['repair', cancelled], 'not_live'],
    [['repair'], 'approved'],
    [['repair', revoked], [0]],
    [
      ['repair', { subscriberTokens: null }],
      [1, 0],
    ],
    [['repair', { ...revoked, ...replaced }], 'authority_replaced'],
    [['repair', { subscriberTokens: { ...tokens, delegate: null, state: 'frozen' } }], 'frozen'],
    [['close', { subscription: null }], 'no_subscription'],
    [['close'], 'not_ended'],
    [['close', cancelled], 'not_ended'],
    [['close', over], [3]],
    [
      ['close', over, true],
      [3, 5],
    ],
    [['revoke'], [5]],
    [['revoke', {}, true], [14]],
    [['revoke', revoked], 'not_approved'],
    [['revoke', revoked, true], [14]],
    [['revoke', { ...revoked, ...closed }, true], 'authority_closed'],
    [['revoke', { subscriberTokens: null }, true], 'not_approved'],
    [['revoke', frozen], 'frozen'],
  ];
  for (const [asked, answer] of cases)
    t.same(decide(...asked), answer, JSON.stringify([asked[0], asked[2], answer]));
  t.end();
});

void t.test('a token approval counts as sufficient until half of it is used', (t) => {
  const half = { ...tokens, delegatedAmount: 2n ** 63n };
  t.ok(hasAmpleApproval({ subscriberTokens: half, authorityAddress }));
  const less = { ...tokens, delegatedAmount: 2n ** 63n - 1n };
  t.notOk(hasAmpleApproval({ subscriberTokens: less, authorityAddress }));
  t.notOk(hasAmpleApproval({ subscriberTokens: null, authorityAddress }));
  t.end();
});

void t.test(
  'a sponsor opens no token account, and for a frozen wallet only sponsors a cancellation',
  (t) => {
    const network = { programId, mint, keepers: [address()], treasuries: [address()] };
    const sponsored = (purpose: Action['purpose'], change: Partial<WalletView>) =>
      buildSponsored(
        network,
        {
          ...{ purpose, wallet, sponsor: address(), withdraws: false, session: null },
          plan: { planPda } as NonNullable<Parameters<typeof buildSponsored>[1]['plan']>,
          feeBps: 100,
          minimumAmount: 0n,
        },
        { ...view, ...change },
      );
    t.match(sponsored('cancel', frozen), { instructions: [{}], payment: null });
    t.same(sponsored('resume', { ...cancelled, ...frozen }), { refusal: 'frozen' });
    t.same(sponsored('close', { ...over, ...frozen }), { refusal: 'frozen' });
    for (const purpose of ['resume', 'repair', 'revoke'] as const)
      t.same(sponsored(purpose, { ...cancelled, subscriberTokens: null }), {
        refusal: 'no_token_account',
      });
    t.match(sponsored('close', { ...over, subscriberTokens: null }), { instructions: [{}] });
    const stolen = { subscriberTokens: { ...tokens, owner: address() } };
    t.same(sponsored('cancel', stolen), { refusal: 'no_token_account' });
    t.same(sponsored('cancel', over), { refusal: 'nothing_to_do' });
    t.same(sponsored('resume', over), { refusal: 'nothing_to_do' });
    t.end();
  },
);
