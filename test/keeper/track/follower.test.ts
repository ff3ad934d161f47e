// Which transactions are settled, judged and followed again, and when.
import t from 'tap';
import type { SignatureStatus } from '../../../src/chain/rpc/responses.ts';
import { unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { keeperTimes } from '../../../src/keeper/base/times.ts';
import { Follower, track, type Tracked } from '../../../src/keeper/track/follower.ts';
import { stopClock } from '../../fixtures/clock.ts';
import { randomAddress } from '../../fixtures/http.ts';

type Rpc = ConstructorParameters<typeof Follower>[0];

const final: SignatureStatus = { slot: 7n, err: null, commitment: 'finalized' };
const { settle, send, poll } = keeperTimes;
const [wallet, blockhash] = [randomAddress(), randomAddress()];
const transaction = Buffer.from(unsignedTransaction(wallet, [], blockhash), 'base64');

/** A follower of transactions that the test settles, with a chain of which it sets the statuses. */
function scene(t: Parameters<typeof stopClock>[0], rpc: Partial<Rpc> = {}) {
  const pass = stopClock(t);
  const transactions = new Map<string, Tracked>();
  const statuses = new Map<string, SignatureStatus>();
  const calls: Record<'renewed' | 'ended' | 'settled' | 'judged', string[]> = {
    ...{ renewed: [], ended: [], settled: [], judged: [] },
  };
  const { renewed, ended, settled, judged } = calls;
  const signatures = (some: readonly Tracked[]) => some.map(({ signature }) => signature);
  const follower = new Follower<Tracked>(
    {
      endpoints: () => 2,
      getLifetimesEverywhere: async (lifetimes) => [{ slot: 9n, ends: lifetimes.map(() => 9n) }],
      getSignatureStatuses: async (asked) => ({
        ...{ slot: 9n, witnesses: 2 },
        statuses: asked.map((one) => statuses.get(one) ?? null),
      }),
      ...rpc,
    },
    keeperTimes,
    {
      transactions,
      renew: async (old) => void renewed.push(...signatures(old)),
      seen(one, hasEnded) {
        if (hasEnded) ended.push(one.signature);
      },
      settle: async (some) => void settled.push(...signatures(some)),
      expire: async (some) => {
        judged.push(...signatures(some));
        return new Map(statuses);
      },
    },
  );
  const add = (signature: string, { isOwn = true, size = 1 } = {}) => {
    const signed = { signature, transaction, lastValidBlockHeight: 1n, blockhashSlot: 1n };
    const one = track(signed, { isOwn, size, renewedAt: performance.now() });
    one.sends = 1;
    transactions.set(signature, one);
    return one;
  };
  return { follower, transactions, statuses, pass, add, ...calls };
}

void t.test('only final transactions are settled, and only after their `settleAt`', async (t) => {
  const { follower, transactions, pass, add, settled } = scene(t, { endpoints: () => 1 });
  const [now, later] = [add('now'), add('later')];
  add('open');
  for (const one of [now, later]) one.status = final;
  later.settleAt = performance.now() + 100;
  t.equal(await follower.settle(), false);
  t.same(settled, ['now']);
  transactions.delete('now');
  pass(100);
  await follower.settle();
  t.same(settled, ['now', 'later']);
  pass(settle.againMs - 1);
  await follower.settle();
  t.equal(settled.length, 2, 'the kind has not settled it: it is tried again');
  pass(1);
  await follower.settle();
  t.same(settled, ['now', 'later', 'later']);
});

void t.test(
  'a settled batch has at most 256 payments, and the next batch has the rest',
  async (t) => {
    const { follower, add, settled } = scene(t, { endpoints: () => 1 });
    for (let index = 0; index < 30; index += 1) add(`${index}`, { size: 10 }).status = final;
    t.equal(await follower.settle(), true);
    t.equal(settled.length, 26);
    t.equal(await follower.settle(), false);
    t.equal(settled.length, 30);
  },
);

void t.test(
  'an unsettled transaction that no endpoint shows as final is followed again',
  async (t) => {
    const { follower, statuses, pass, add, ended, settled } = scene(t);
    const one = add('one');
    statuses.set('one', final);
    pass(poll.latestMs);
    t.equal(await follower.poll(), true);
    t.same(ended, ['one']);
    await follower.settle();
    t.equal(one.status, final, 'an endpoint shows it');
    statuses.clear();
    pass(settle.againMs);
    await follower.settle();
    t.equal(settled.length, 2);
    t.match(one, { status: null, slot: null });
    statuses.set('one', final);
    await follower.poll();
    t.same(ended, ['one', 'one'], 'reported anew');
  },
);

void t.test('an unknown outcome doubles the wait each time; a data error waits longer', (t) => {
  const { follower, add } = scene(t);
  const one = add('one');
  const waits = Array.from({ length: 12 }, () => {
    follower.postpone(one);
    return one.settleAt - performance.now();
  });
  t.same(waits.slice(0, 3), [settle.againMs, 2 * settle.againMs, 4 * settle.againMs]);
  t.equal(waits.at(-1), settle.latestMs);
  follower.fault(one);
  t.equal(one.settleAt - performance.now(), settle.faultMs);
  t.end();
});

void t.test(
  'after the blockhash expires, expire() handles transactions that are unseen or unfinalized for long',
  async (t) => {
    const { follower, statuses, pass, add, ended, judged } = scene(t);
    const stuck = add('stuck');
    stuck.status = { ...final, commitment: 'confirmed' };
    pass(poll.overdueMs);
    const [young] = [add('young'), add('theirs', { isOwn: false })];
    add('waits', { isOwn: false }).settleAt = performance.now() + settle.faultMs;
    statuses.set('stuck', final);
    t.equal(await follower.expire(), false);
    t.same(judged, ['stuck', 'theirs']);
    t.same(ended, ['stuck'], 'another endpoint shows it as final');
    await follower.expire();
    t.equal(judged.length, 2, 'not at every call');
    pass(Math.max(settle.expiryCheckMs, send.resendMs + 1));
    await follower.expire();
    t.same(judged.slice(2), [young.signature]);
  },
);

void t.test(
  'leases are renewed in time, and statuses of old transactions are read from history',
  async (t) => {
    const asked: (boolean | undefined)[] = [];
    const { follower, pass, add, renewed } = scene(t, {
      getSignatureStatuses: async (signatures, { history } = {}) => {
        asked.push(...signatures.map(() => history));
        return { slot: 9n, witnesses: 1, statuses: signatures.map(() => null) };
      },
    });
    add('own');
    add('theirs', { isOwn: false });
    pass(poll.latestMs);
    await follower.poll();
    t.same([asked, renewed], [[false, true], []]);
    pass(Math.max(settle.renewMs, poll.recentMs));
    await follower.poll();
    t.same(asked.slice(2), [true, true]);
    t.same(renewed, ['own', 'theirs']);
  },
);
