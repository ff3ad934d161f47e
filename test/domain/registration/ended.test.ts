// Which registrations of a live account have ended, and from when on offers count.
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { planAddress, SYSTEM_PROGRAM } from '../../../src/chain/program/addresses.ts';
import { timeOf } from '../../../src/chain/time.ts';
import type { EarlierRegistration } from '../../../src/db/subscriptions/account-registrations.ts';
import {
  endOf,
  isJudged,
  offersCountAfter,
  isStillValid,
} from '../../../src/domain/registration/ended.ts';

const START = 1_790_000_000n;
const PERIOD = 720n * 3600n;
const account = { initId: 7n, periodStart: START };
const [createdAt, stoppedAt] = [timeOf(1_800_000_000n), timeOf(1_800_000_100n)];
const { address: person } = generateKeypair();
const { address: multisig } = planAddress(SYSTEM_PROGRAM, person, 1n);

const live: EarlierRegistration = {
  ...{ id: 'one', status: 'active', periodHours: 720, isBarred: false, replacedBy: null },
  ...{ chainInitId: 7n, chainPeriodStart: timeOf(START), subscriberWallet: person },
  ...{ createdAt, stoppedAt: null, reinstatedAt: null },
};
const ended = { ...live, status: 'cancelled', stoppedAt } as const;

void t.test(
  'an ended registration counts only for the same on-chain account, not for a later account',
  (t) => {
    t.equal(endOf(undefined, account), undefined);
    t.equal(endOf(live, account), undefined);
    const end = { id: 'one', at: stoppedAt, isReplaced: false, isReinstated: false };
    t.same(endOf(ended, account), end);
    t.same(endOf(ended, { ...account, periodStart: START + 5n * PERIOD }), end, 'periods later');
    t.same(endOf({ ...ended, chainInitId: null }, account), end, 'an account that was never read');
    t.equal(endOf(ended, { ...account, initId: 8n }), undefined, 'another authority');
    t.equal(endOf(ended, { ...account, periodStart: START + 1n }), undefined, 'opened again');
    const replaced = { ...live, replacedBy: 'two', stoppedAt };
    t.same(endOf(replaced, account), { ...end, isReplaced: true }, 'replaced, and not ended yet');
    t.end();
  },
);

void t.test(
  'after a reinstatement the account of a wallet that cannot sign in may be registered again',
  (t) => {
    const reinstated = { ...ended, reinstatedAt: stoppedAt };
    t.equal(endOf(reinstated, account)?.isReinstated, false);
    t.equal(endOf({ ...reinstated, subscriberWallet: multisig }, account)?.isReinstated, true);
    t.equal(endOf({ ...ended, subscriberWallet: multisig }, account)?.isReinstated, false);
    t.end();
  },
);

void t.test(
  'offers count if they are newer than the registration’s end or than an earlier account’s registration',
  (t) => {
    t.equal(offersCountAfter(undefined, account), null);
    t.equal(offersCountAfter(ended, account), stoppedAt);
    t.equal(offersCountAfter(ended, { ...account, initId: 8n }), createdAt);
    t.equal(offersCountAfter(live, { ...account, initId: 8n }), createdAt);
    t.end();
  },
);

void t.test(
  'a keeper’s decision is valid only while account and registration are as the keeper read them',
  (t) => {
    const judged = (newest?: EarlierRegistration) => ({
      newest,
      account: { ...account, periodHours: 720n },
    });
    const replaced = { ...live, replacedBy: 'two', stoppedAt };
    t.ok(isStillValid(judged(), undefined));
    t.notOk(isStillValid(judged(), live), 'registered since');
    t.ok(isStillValid(judged(live), live));
    t.notOk(isStillValid(judged(live), ended), 'ended since');
    t.notOk(isStillValid(judged(live), replaced), 'replaced since');
    t.ok(isStillValid(judged(ended), { ...ended, stoppedAt: new Date(stoppedAt) }));
    t.notOk(isStillValid(judged(ended), { ...ended, id: 'two' }), 'another one has ended');
    t.ok(isJudged(judged(), { ...account, periodStart: START + PERIOD }), 'a period later');
    t.notOk(isJudged(judged(), { ...account, initId: 8n }));
    t.notOk(isJudged(judged(), { ...account, periodStart: START + 1n }));
    t.end();
  },
);
