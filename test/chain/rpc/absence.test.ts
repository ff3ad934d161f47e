// When an account that an endpoint does not have is gone for sure, by a clock that the test moves.
import t from 'tap';
import type { ChainAccount } from '../../../src/chain/program/accounts.ts';
import { createAbsenceJudge } from '../../../src/chain/rpc/absence.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const account: ChainAccount = { owner: 'program', lamports: 1n, data: Buffer.alloc(1) };

/** A judge over endpoints, each given by the accounts that it does not have. */
const judging = (...endpoints: ((address: string) => boolean)[]) =>
  judgingAt(endpoints.map((isMissing) => ({ slot: 1n, isMissing })));

function judgingAt(endpoints: { slot: bigint; isMissing: (address: string) => boolean }[]) {
  const time = { ms: 0 };
  const alarms: [string, number][] = [];
  const judge = createAbsenceJudge(
    {
      getAccountsEverywhere: async (addresses) =>
        endpoints.map(({ slot, isMissing }) => ({
          slot,
          accounts: addresses.map((address) => (isMissing(address) ? null : account)),
        })),
    },
    { onAlarm: (alarm, count) => alarms.push([alarm, count]), monotonicMs: () => time.ms },
  );
  return { judge, time, alarms };
}
const all = () => true;
const none = () => false;

void t.test(
  'an account that two endpoints do not have at finalized counts as absent',
  async (t) => {
    const { judge, alarms } = judging(all, all);
    judge.read(100_000);
    t.same(await judge.gone(['a']), new Set(['a']));
    t.same(alarms, []);
  },
);

void t.test('an endpoint that is far behind does not confirm an absence', async (t) => {
  const [near, far] = [400n, 401n].map((behind) =>
    judgingAt([
      { slot: 1000n, isMissing: all },
      { slot: 800n - behind, isMissing: all },
    ]),
  );
  t.same(await near!.judge.gone(['a']), new Set(['a']), '600 slots');
  t.same(await far!.judge.gone(['a']), new Set(), '601 slots');
});

void t.test(
  'with one endpoint, an account counts as absent after it was missing for a quarter of an hour',
  async (t) => {
    const { judge, time, alarms } = judging(all);
    for (let minutes = 0; minutes < 15; minutes += 1) {
      time.ms = minutes * MINUTE;
      judge.read(100_000);
      t.same(await judge.gone(['a']), new Set(), `${minutes} minutes`);
    }
    time.ms = 15 * MINUTE;
    t.same(await judge.gone(['a']), new Set(['a']));
    t.same(alarms, []);
  },
);

void t.test(
  'an account that reappears restarts the absence period when it is missing again',
  async (t) => {
    let missing = true;
    const { judge, time } = judging(() => missing);
    await judge.gone(['a']);
    time.ms = 14 * MINUTE;
    missing = false;
    t.same(await judge.gone(['a']), new Set());
    missing = true;
    time.ms = 16 * MINUTE;
    t.same(await judge.gone(['a']), new Set());
  },
);

// Callers only ask about accounts that are missing in their own read, never about existing ones.
void t.test(
  'an account that one endpoint repeatedly lacks for a moment never counts as gone',
  async (t) => {
    const { judge, time, alarms } = judging(all);
    for (; time.ms < 48 * HOUR; time.ms += 16 * MINUTE) {
      judge.read(100_000);
      t.same(await judge.gone(['a']), new Set(), `${time.ms / MINUTE} minutes`);
    }
    t.same(alarms, []);
  },
);

void t.test(
  'with one endpoint, reads five minutes apart suffice to count an account as absent',
  async (t) => {
    const { judge, time } = judging(all);
    let gone = new Set<string>() as ReadonlySet<string>;
    for (; gone.size === 0 && time.ms < HOUR; time.ms += 5 * MINUTE + 20_000) {
      judge.read(100_000);
      gone = await judge.gone(['a']);
    }
    t.same(gone, new Set(['a']));
    t.ok(time.ms < 25 * MINUTE);
  },
);

for (const [name, endpoints] of [
  ['one endpoint', [all]],
  ['two endpoints', [all, all]],
] as const) {
  void t.test(
    `${name} briefly returns no account: each time raises one alarm, and no account counts as gone`,
    async (t) => {
      const { judge, time, alarms } = judging(...endpoints);
      const addresses = Array.from({ length: 50 }, (_, n) => `${n}`);
      for (const hours of [0, 5, 25, 30, 50]) {
        time.ms = hours * HOUR;
        judge.read(1000);
        t.same(await judge.gone(addresses), new Set(), `${hours} hours`);
      }
      t.same(
        alarms,
        Array.from({ length: 5 }, () => ['accounts_vanished', 50]),
      );
    },
  );
}

void t.test(
  'an account that only one endpoint lacks never counts as gone and raises one alarm after minutes',
  async (t) => {
    const { judge, time, alarms } = judging(all, none);
    for (; time.ms <= 50 * MINUTE; time.ms += MINUTE) t.same(await judge.gone(['a']), new Set());
    t.same(alarms, [['endpoints_disagree', 1]]);
  },
);

for (const [name, endpoints] of [
  ['one endpoint', [all]],
  ['two endpoints', [all, all]],
] as const) {
  void t.test(
    `${name} returns no account for a day: no account counts as gone, one alarm is raised per hour`,
    async (t) => {
      const { judge, time, alarms } = judging(...endpoints);
      const addresses = Array.from({ length: 1000 }, (_, n) => `${n}`);
      let gone = 0;
      for (; time.ms < 24 * HOUR; time.ms += 20 * MINUTE) {
        judge.read(1000);
        gone += (await judge.gone(addresses)).size;
        if (time.ms < HOUR) t.equal(alarms.length, 1);
      }
      t.equal(gone, 0);
      t.ok(alarms.length <= 24);
      t.same(alarms[0], ['accounts_vanished', 100], 'reported with the first hundred');
    },
  );
}

void t.test(
  'a single endpoint that lacks 1% of the accounts raises one alarm, and no account counts as gone',
  async (t) => {
    const { judge, time, alarms } = judging(all);
    const missing: string[] = [];
    // 10,000 subscriptions in an hour; every hundredth is missing, and each missing one is asked
    // about again every minute.
    let gone = 0;
    for (let minute = 0; minute < 60; minute += 1) {
      time.ms = minute * MINUTE;
      judge.read(166);
      missing.push(`${minute}`, ...(minute % 3 < 2 ? [`${minute} more`] : []));
      gone += (await judge.gone(missing)).size;
    }
    t.equal(gone, 0);
    t.equal(alarms.length, 1);
    t.equal(alarms[0]?.[0], 'accounts_vanished');
  },
);

void t.test('a few absent accounts among many raise no alarm', async (t) => {
  const { judge, alarms } = judging(all, all);
  judge.read(100_000);
  t.same(await judge.gone(['a', 'b', 'c']), new Set(['a', 'b', 'c']));
  t.same(alarms, []);
});
