import t from 'tap';
import { loadConfig } from '../../../src/config/config.ts';
import type { SponsorUsage } from '../../../src/db/offers/sponsor-budgets.ts';
import type { MerchantStanding } from '../../../src/db/offers/sponsored-merchants.ts';
import {
  floorOf,
  isNearLimit,
  isNewMerchant,
  mayBeOut,
  overBudget,
  type SponsorLimits,
  sponsorLimits,
} from '../../../src/domain/offers/limits.ts';
import {
  budgetOf,
  isAllowedBudget,
  MAX_BUDGET,
  maxFeeOf,
} from '../../../src/domain/offers/transaction-budget.ts';

const limits: SponsorLimits = {
  perDay: 1000n,
  perMerchant: 800n,
  perWallet: 300n,
  perAddress: 500n,
  leaving: 400n,
  merchantOut: 600n,
  merchantStart: 200n,
  lamportsPerUsdc: 1000n,
  minimumAmount: 1n,
  floor: undefined,
};
const none: SponsorUsage = {
  total: 0n,
  newMerchants: 0n,
  vouched: null,
  isApproved: true,
  fees: 0n,
  merchant: 0n,
  wallet: 0n,
  address: 0n,
  site: 0n,
  leaving: 0n,
  walletLeaving: 0n,
  addressLeaving: 0n,
  siteLeaving: 0n,
  merchantOut: 0n,
  hasFailed: false,
  walletHasFailed: false,
  isUnderWay: false,
  reserved: 0n,
};
const FLOOR = 5_000_000n;
const ask = (
  usage: Partial<SponsorUsage>,
  purpose: 'subscribe' | 'cancel' | 'repair' = 'subscribe',
  balance = FLOOR + 100_000n,
) => {
  const cost = { fee: 10n, rent: purpose === 'subscribe' ? 90n : 0n };
  return overBudget(limits, { ...none, ...usage }, { purpose, cost, balance, floor: FLOOR });
};

void t.test('each sponsoring budget can be used up completely but not exceeded', (t) => {
  t.equal(ask({}), undefined);
  const ends: [keyof SponsorUsage, bigint, string][] = [
    ['total', 900n, 'budget'],
    ['merchant', 700n, 'merchant_budget'],
    ['merchantOut', 510n, 'merchant_budget'],
    ['wallet', 200n, 'wallet_budget'],
    ['address', 400n, 'address_budget'],
    ['site', 1900n, 'address_budget'],
  ];
  for (const [field, last, refusal] of ends) {
    t.equal(ask({ [field]: last }), undefined, field);
    t.equal(ask({ [field]: last + 1n }), refusal, field);
  }
  for (const purpose of ['subscribe', 'repair', 'cancel'] as const) {
    t.equal(ask({ isUnderWay: true }, purpose), 'under_way');
    t.equal(ask({ hasFailed: true, walletHasFailed: true }, purpose), 'failed_lately');
  }
  const neighbour = { hasFailed: true };
  t.equal(ask(neighbour), 'failed_lately');
  t.equal(ask(neighbour, 'cancel'), undefined, 'leaving does not depend on a neighbour');
  t.end();
});

void t.test(
  'a merchant’s limit of open rent depends on its fees, its approval and the operator’s guarantee',
  (t) => {
    const standing = { vouched: null, isApproved: false, fees: 0n };
    const cases: [Partial<MerchantStanding>, bigint, boolean][] = [
      [{}, 200n, true],
      [{ fees: 199_000n }, 399n, true],
      [{ fees: 199_999n }, 399n, true],
      [{ fees: 200_000n }, 400n, false],
      [{ fees: 400_000n }, 600n, false],
      [{ fees: 10n ** 12n }, 600n, false],
      [{ isApproved: true }, 600n, false],
      [{ vouched: 500n }, 500n, false],
      [{ vouched: 700n }, 600n, false],
      [{ vouched: 0n, isApproved: true, fees: 10n ** 12n }, 0n, false],
    ];
    for (const [own, lamports, isNew] of cases) {
      const merchant = { ...standing, ...own };
      t.equal(mayBeOut(limits, merchant), lamports);
      t.equal(isNewMerchant(limits, merchant), isNew);
      const last = { ...merchant, merchantOut: lamports - 90n };
      t.equal(ask(last), undefined);
      t.equal(ask({ ...last, merchantOut: lamports - 89n }), 'merchant_budget');
      t.equal(ask({ ...last, merchantOut: lamports + 1n }, 'repair'), undefined, 'it adds no rent');
    }
    t.equal(mayBeOut({ ...limits, merchantStart: 700n }, standing), 600n);
    t.equal(isNearLimit(160n, 200n), false);
    t.equal(isNearLimit(161n, 200n), true);
    t.equal(isNearLimit(0n, 0n), false);
    t.end();
  },
);

void t.test('new merchants together can spend a fifth of the daily sponsoring budget', (t) => {
  const isNew = { isApproved: false };
  t.equal(ask({ ...isNew, newMerchants: 100n, total: 900n }), undefined);
  t.equal(ask({ ...isNew, newMerchants: 101n }), 'budget');
  t.equal(ask({ ...isNew, newMerchants: 101n, fees: 200_000n }), undefined, 'it has brought fees');
  t.equal(ask({ ...isNew, newMerchants: 101n, vouched: 300n }), undefined);
  t.equal(ask({ newMerchants: 101n }), undefined, 'an approved one');
  t.equal(ask({ ...isNew, newMerchants: 1000n }, 'cancel'), undefined, 'leaving');
  t.end();
});

void t.test(
  'the minimum balance of the sponsor includes what open transactions may still spend',
  (t) => {
    t.equal(ask({ reserved: 99_900n }), undefined);
    t.equal(ask({ reserved: 99_901n }), 'low_balance');
    t.equal(ask({}, 'subscribe', FLOOR), 'low_balance');
    t.equal(floorOf(limits, 10n), FLOOR, 'never below what collection needs');
    t.equal(floorOf(limits, 90_000_000n), 90_000_000n, 'a week of collection');
    t.equal(floorOf({ floor: 7_000_000n }, 90_000_000n), 7_000_000n, 'as configured');
    t.end();
  },
);

void t.test(
  'sponsored cancellations have a separate budget, and a wallet can spend only a part of it',
  (t) => {
    const spent = { total: 1000n, wallet: 300n, address: 500n, merchantOut: 600n };
    t.equal(ask(spent, 'cancel'), undefined, 'whatever sign-ups have cost');
    t.equal(ask({ leaving: 391n }, 'cancel'), 'budget');
    t.equal(ask({ walletLeaving: 11n }, 'cancel'), 'wallet_budget');
    t.equal(ask({ addressLeaving: 71n }, 'cancel'), 'address_budget');
    t.equal(ask({ siteLeaving: 310n }, 'cancel'), undefined);
    t.equal(ask({ siteLeaving: 311n }, 'cancel'), 'address_budget');
    t.equal(ask({}, 'cancel', FLOOR + 9n), 'low_balance');
    t.end();
  },
);

void t.test('nothing is sponsored unless the operator configures a budget', (t) => {
  const config = loadConfig('developer', { env: {} });
  t.equal(sponsorLimits(config), undefined);
  const on = sponsorLimits({ ...config, sponsorPerDay: 5 });
  t.match(on, { perDay: 5n, minimumAmount: 1_000_000n });
  t.end();
});

void t.test(
  'a transaction’s compute and fee limits are derived from its simulation, within bounds',
  (t) => {
    const budget = budgetOf(50_000n, 200_000n);
    t.same(budget, { computeUnits: 100_000, unitPrice: 20_000n, loadedDataBytes: 1_288_576 });
    t.equal(maxFeeOf(budget), 12_000n);
    t.ok(isAllowedBudget(budget));
    t.same(budgetOf(null, null), MAX_BUDGET);
    t.ok(isAllowedBudget(MAX_BUDGET));
    for (const forged of [
      { computeUnits: 1_400_000 },
      { unitPrice: 20_001n },
      { loadedDataBytes: 64 * 1024 * 1024 },
    ])
      t.notOk(isAllowedBudget({ ...budget, ...forged }));
    t.end();
  },
);
