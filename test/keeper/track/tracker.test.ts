// Transactions between commit and settlement: sends, resends, polls, and the release of claims.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Commitment, SignatureStatus } from '../../../src/chain/rpc/responses.ts';
import type { InFlightPayment } from '../../../src/keeper/track/in-flight.ts';
import type { Resolver } from '../../../src/keeper/track/resolve.ts';
import { startStage } from '../../fixtures/billing.ts';

/** Signed payments and a tracker; the test sets the status of each transaction. */
async function aloft(t: Test, count: number, resolver: Partial<Resolver> = {}) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  await Promise.all(Array.from({ length: count }, () => stage.subscriber(plan)));
  const sent: string[] = [];
  const polled: string[] = [];
  const statuses = new Map<string, Commitment>();
  const statusOf = (signature: string): SignatureStatus | null => {
    const commitment = statuses.get(signature);
    return commitment === undefined ? null : { slot: 1n, err: null, commitment };
  };
  const parts = stage.parts({
    sendTransaction: async (bytes) => {
      sent.push(Buffer.from(bytes).toString('base64'));
      return '';
    },
    getSignatureStatuses: async (signatures) => {
      polled.push(...signatures);
      return { slot: 1n, witnesses: 1, statuses: signatures.map(statusOf) };
    },
  });
  // Puts each payment in a transaction of its own.
  await stage.sql`update subscription_work set failed_packs = 2`;
  await parts.collector.turn();
  const { taken } = parts;
  let rooms = 0;
  const nothing = { done: [], unknown: [], isDue: false, seen: new Map<string, never>() };
  const tracker = parts.track({
    landed: async (batch) => ({ ...nothing, done: [...batch] }),
    expired: async () => nothing,
    ...resolver,
  });
  tracker.onRoom = () => (rooms += 1);
  t.teardown(() => tracker.stop(0));
  const bytes = taken.map(({ attempt }) => attempt.transaction.toString('base64'));
  const times = (one: string) => sent.filter((other) => other === one).length;
  const { metrics } = parts.context;
  const inFlight = async () => (await metrics.inFlight.get()).values[0]?.value;
  return {
    ...{ stage, tracker, taken, statuses, bytes, times, polled, inFlight, metrics },
    rooms: () => rooms,
  };
}

void t.test(
  'a transaction is sent again with the same bytes until it is seen, and again after a fork drops it',
  async (t) => {
    const { stage, tracker, taken, statuses, bytes, times, polled } = await aloft(t, 2);
    const [seen, unseen] = bytes as [string, string];
    tracker.add(taken);
    await stage.until('both went out twice', async () => times(seen) >= 2 && times(unseen) >= 2);
    const { signature } = taken[0]!.attempt;
    statuses.set(signature, 'processed');
    polled.length = 0;
    await stage.until('its status is read', async () => polled.includes(signature));
    const before = times(unseen);
    // A round that has begun may still send the seen one.
    await stage.until('the unseen one goes on', async () => times(unseen) >= before + 2);
    const quiet = times(seen);
    await stage.until('and on', async () => times(unseen) >= before + 3);
    t.equal(times(seen), quiet);
    statuses.delete(signature);
    await stage.until('it is sent again', async () => times(seen) > quiet);
  },
);

void t.test('only finalized transactions are settled', async (t) => {
  const landed: string[] = [];
  const { stage, tracker, taken, statuses, inFlight, metrics } = await aloft(t, 3, {
    landed: async (batch) => {
      landed.push(...batch.map(({ id }) => id));
      return { done: [...batch], unknown: [], isDue: false };
    },
  });
  tracker.add(taken);
  t.equal(await inFlight(), 3);
  const [first, second] = taken as [InFlightPayment, InFlightPayment];
  statuses.set(first.attempt.signature, 'confirmed');
  statuses.set(second.attempt.signature, 'finalized');
  await stage.until('the final one is settled', async () => landed.length > 0);
  t.same(landed, [second.id]);
  t.equal(await inFlight(), 2);
  statuses.set(first.attempt.signature, 'finalized');
  await stage.until('the other is too', async () => landed.includes(first.id));
  await stage.until('both are forgotten', async () => (await inFlight()) === 1);
  const { values } = await metrics.settleSeconds.get();
  const count = values.find(({ metricName }) => metricName?.endsWith('_count') === true);
  t.equal(count?.value, 2, 'the time of each is observed');
});

void t.test(
  'the tracker accepts only as many payments as it can send soon, and calls onRoom when it has room',
  async (t) => {
    const { stage, tracker, taken, rooms } = await aloft(t, 1);
    const room = tracker.room();
    t.ok(room > 0 && room < 2000, `${room}`);
    const many = Array.from({ length: room }, () => ({
      ...taken[0]!,
      id: randomUUID(),
      claimId: randomUUID(),
      attempt: { ...taken[0]!.attempt, signature: randomUUID() },
    }));
    tracker.add(many.slice(1));
    t.equal(tracker.room(), 1);
    t.equal(rooms(), 0);
    tracker.add(many.slice(0, 1));
    t.equal(tracker.room(), 0);
    await stage.until('there is room', async () => rooms() > 0);
    t.ok(tracker.room() > 0);
    const told = rooms();
    await stage.until('all of it', async () => tracker.room() === room);
    t.equal(rooms(), told, 'told once');
  },
);

void t.test(
  'a payment with an unknown outcome is settled later, the others of its batch at once',
  async (t) => {
    const tries: number[] = [];
    const waiting = new Set<string>();
    const { stage, tracker, taken, statuses, inFlight } = await aloft(t, 3, {
      landed: async (batch) => {
        const unknown = batch.filter(({ id }) => waiting.has(id));
        tries.push(...unknown.map(({ settleTries }) => settleTries ?? 0));
        return { done: batch.filter((one) => !unknown.includes(one)), unknown, isDue: false };
      },
    });
    waiting.add(taken[1]!.id);
    for (const { attempt } of taken) statuses.set(attempt.signature, 'finalized');
    tracker.add(taken);
    await stage.until('the others are settled', async () => (await inFlight()) === 1);
    await stage.until('it was tried, and is tried again', async () => tries.length >= 2);
    t.same(tries.slice(0, 2), [0, 1]);
    waiting.clear();
    await stage.until('it is settled', async () => (await inFlight()) === 0);
  },
);

void t.test(
  'a payment that cannot be settled raises an alert and waits; the others of its batch are settled',
  async (t) => {
    const bad = new Set<string>();
    const { stage, tracker, taken, statuses, inFlight, metrics } = await aloft(t, 3, {
      landed: async (batch) => {
        if (batch.some(({ id }) => bad.has(id))) throw new RangeError('broken books');
        return { done: [...batch], unknown: [], isDue: false };
      },
    });
    bad.add(taken[1]!.id);
    for (const { attempt } of taken) statuses.set(attempt.signature, 'finalized');
    tracker.add(taken);
    await stage.until('the others are settled', async () => (await inFlight()) === 1);
    const alerts = async () => (await metrics.alerts.get()).values.filter(({ value }) => value > 0);
    await stage.until('it is logged', async () => (await alerts()).length > 0);
    t.match(await alerts(), [{ labels: { reason: 'cannot_be_settled' }, value: 1 }]);
  },
);

void t.test('a stop waits until all payments are settled, and no longer', async (t) => {
  const { stage, tracker, taken, statuses, inFlight } = await aloft(t, 2);
  tracker.add(taken);
  // Longer than the timeout of a test file.
  const stopped = tracker.stop(3_600_000);
  for (const { attempt } of taken) statuses.set(attempt.signature, 'finalized');
  await stopped;
  t.equal(await inFlight(), 0);
  t.same(
    await stage.sql`select subscription_id from subscription_work where claim_id is null`,
    [],
    'they were settled by whoever landed them',
  );
});

void t.test(
  'a stop that reaches its time limit releases the claims of unsettled payments only',
  async (t) => {
    const { stage, tracker, taken, statuses, inFlight } = await aloft(t, 2);
    tracker.add(taken);
    statuses.set(taken[0]!.attempt.signature, 'finalized');
    await stage.until('the first has ended', async () => (await inFlight()) === 1);
    await tracker.stop(1);
    t.equal(await inFlight(), 0);
    const rows = await stage.sql<
      { id: string; claimId: string | null }[]
    >`select subscription_id as id, claim_id from subscription_work where claim_id is null`;
    t.same(
      rows.map(({ id }) => id),
      [taken[1]!.id],
      'the first was settled by whoever landed it',
    );
    t.equal((await stage.sql`select 1 from payment_attempts where state = 'open'`).length, 2);
  },
);

void t.test(
  'a payment in flight explains only its own notification, and no notification after another change',
  async (t) => {
    const { tracker, taken } = await aloft(t, 2);
    const [{ address, account }, other] = taken.map(({ expectedAccount }) => expectedAccount!) as [
      NonNullable<InFlightPayment['expectedAccount']>,
      NonNullable<InFlightPayment['expectedAccount']>,
    ];
    t.notOk(tracker.inFlight.explains(address, account, 5n), 'not before it is under way');
    tracker.add(taken);
    t.ok(tracker.inFlight.explains(address, account, 5n));
    t.ok(tracker.inFlight.explains(address, account, 6n), 'as often as it is told');
    t.notOk(tracker.inFlight.explains(address, { ...account, expiresAt: 1n }, 7n), 'cancelled');
    t.notOk(tracker.inFlight.explains(address, account, 8n), 'and resumed');
    t.notOk(
      tracker.inFlight.explains(
        other.address,
        { ...other.account, amountPulled: other.account.amountPulled + 1n },
        9n,
      ),
      'somebody else pulled as well',
    );
    t.notOk(tracker.inFlight.explains('11111111111111111111111111111111', account, 9n));
  },
);
