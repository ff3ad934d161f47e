import t from 'tap';
import type { PlanAccount } from '../../../src/chain/program/layouts.ts';
import type { PlanRow } from '../../../src/db/subscriptions/plans.ts';
import { assessPlan } from '../../../src/domain/plans/plan-record.ts';

const record: PlanRow = {
  id: 'plan',
  appId: 'app',
  name: 'Plan',
  planPda: 'pda',
  chainPlanId: '1',
  owner: 'merchant',
  mint: 'mint',
  treasury: 'treasury',
  description: null,
  puller: 'keeper',
  amount: 5n,
  periodHours: 24,
  endsAt: null,
  metadataUri: '',
  graceHours: null,
  trialHours: null,
  retryHours: null,
  noticeHours: null,
  pastDueDays: null,
  chainCreatedAt: null,
  status: 'pending',
  observedAt: null,
  observedSlot: 0n,
  collectionBlockedReason: null,
  createdAt: new Date(),
  updatedAt: new Date(),
};
const account: PlanAccount = {
  owner: 'merchant',
  bump: 255,
  status: 'active',
  planId: 1n,
  mint: 'mint',
  amount: 5n,
  periodHours: 24n,
  createdAt: 1000n,
  endTs: 0n,
  destinations: ['merchant', 'treasury'],
  pullers: ['keeper'],
  metadataUri: '',
};
const active: PlanRow = { ...record, status: 'active', chainCreatedAt: new Date(1_000_000) };

void t.test('a pending plan turns active with exactly its terms, and with no others', async (t) => {
  t.match(assessPlan(record, account, 2000n, ['keeper']), { status: 'active' });
  t.match(assessPlan(record, { ...account, status: 'sunset' }, 2000n, ['keeper']), {
    status: 'sunset',
  });
  for (const other of [
    { amount: 6n },
    { periodHours: 25n },
    { pullers: [] },
    { destinations: ['merchant'] },
    { mint: 'x' },
    { owner: 'x' },
    { endTs: 9n },
  ]) {
    t.equal(
      assessPlan(record, { ...account, ...other }, 2000n, ['keeper']),
      null,
      JSON.stringify(Object.keys(other)),
    );
  }
  t.equal(assessPlan(record, null, 2000n, ['keeper']), null);
});

void t.test(
  'a plan’s sunset, end, close or re-creation is read from the chain; a sunset by PATCH is final',
  async (t) => {
    t.equal(assessPlan(active, account, 2000n, ['keeper']), null);
    t.match(assessPlan(active, { ...account, status: 'sunset', endTs: 3000n }, 2000n, ['keeper']), {
      status: 'sunset',
      endsAt: new Date(3_000_000),
    });
    t.match(
      assessPlan(active, { ...account, endTs: 3000n }, 3000n, ['keeper']),
      { status: 'active' },
      'the last second still belongs to it',
    );
    t.match(assessPlan(active, { ...account, endTs: 3000n }, 3001n, ['keeper']), {
      status: 'ended',
    });
    t.match(assessPlan(active, null, 2000n, ['keeper']), { status: 'ended' });
    t.match(assessPlan(active, { ...account, createdAt: 1001n }, 2000n, ['keeper']), {
      status: 'ended',
    });
    t.equal(assessPlan({ ...active, status: 'sunset' }, account, 2000n, ['keeper']), null);
  },
);

void t.test(
  'the largest end that a plan can have is stored as the last second of the year 9999',
  (t) => {
    t.same(assessPlan(active, { ...account, endTs: 2n ** 63n - 1n }, 2000n, ['keeper']), {
      status: 'active',
      endsAt: new Date('9999-12-31T23:59:59Z'),
    });
    t.end();
  },
);
