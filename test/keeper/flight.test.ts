// What happens to signed transactions between commit and settlement: sent, sent again, watched, given back.
import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Commitment, SignatureStatus } from '../../src/chain/answers.ts';
import { createFlight } from '../../src/keeper/flight.ts';
import type { Flying } from '../../src/keeper/in-flight.ts';
import type { Landing } from '../../src/keeper/landing.ts';
import { startStage } from '../fixtures/billing.ts';

/** Signed payments in a flight whose chain says of each what the test wants. */
async function aloft(t: Test, count: number, landing: Partial<Landing> = {}) {
  const stage = await startStage(t);
  const plan = await stage.plan();
  await Promise.all(Array.from({ length: count }, () => stage.subscriber(plan)));
  const sent: string[] = [];
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
    getSignatureStatuses: async (signatures) => ({ slot: 1n, statuses: signatures.map(statusOf) }),
  });
  await parts.collector.turn();
  const { taken } = parts;
  let rooms = 0;
  const flight = createFlight(
    parts.context,
    { landed: async (batch) => [...batch], expired: async () => [], ...landing },
    () => (rooms += 1),
  );
  t.teardown(() => flight.stop(0));
  const bytes = taken.map(({ attempt }) => attempt.transaction.toString('base64'));
  const times = (one: string) => sent.filter((other) => other === one).length;
  const { metrics } = parts.context;
  const inFlight = async () => (await metrics.inFlight.get()).values[0]?.value;
  return { stage, flight, taken, statuses, bytes, times, inFlight, metrics, rooms: () => rooms };
}

void t.test(
  'the same bytes go out again until the chain has seen them, and then no more; a fork that forgets them brings them back',
  async (t) => {
    const { stage, flight, taken, statuses, bytes, times } = await aloft(t, 2);
    const [seen, unseen] = bytes as [string, string];
    flight.add(taken);
    await stage.until('both went out twice', async () => times(seen) >= 2 && times(unseen) >= 2);
    statuses.set(taken[0]!.attempt.signature, 'processed');
    const before = times(unseen);
    // One round may be under way.
    await stage.until('the unseen one goes on', async () => times(unseen) >= before + 2);
    const quiet = times(seen);
    await stage.until('and on', async () => times(unseen) >= before + 3);
    t.equal(times(seen), quiet);
    statuses.delete(taken[0]!.attempt.signature);
    await stage.until('it is sent again', async () => times(seen) > quiet);
  },
);

void t.test('only what is final is settled', async (t) => {
  const landed: string[] = [];
  const { stage, flight, taken, statuses, inFlight } = await aloft(t, 3, {
    landed: async (batch) => {
      landed.push(...batch.map(({ id }) => id));
      return [...batch];
    },
  });
  flight.add(taken);
  t.equal(await inFlight(), 3);
  const [first, second] = taken as [Flying, Flying];
  statuses.set(first.attempt.signature, 'confirmed');
  statuses.set(second.attempt.signature, 'finalized');
  await stage.until('the final one is settled', async () => landed.length > 0);
  t.same(landed, [second.id]);
  t.equal(await inFlight(), 2);
  statuses.set(first.attempt.signature, 'finalized');
  await stage.until('the other is too', async () => landed.includes(first.id));
});

void t.test('no more is taken in than can be sent before long; whoever found no room is told when there is some', async (t) => {
  const { stage, flight, taken, rooms } = await aloft(t, 1);
  const room = flight.room();
  t.ok(room > 0 && room < 2000, `${room}`);
  const many = Array.from({ length: room }, () => ({ ...taken[0]!, id: randomUUID(), claimId: randomUUID() }));
  flight.add(many.slice(1));
  t.equal(flight.room(), 1);
  t.equal(rooms(), 0);
  flight.add(many.slice(0, 1));
  t.equal(flight.room(), 0);
  await stage.until('there is room', async () => rooms() > 0);
  t.ok(flight.room() > 0);
  const told = rooms();
  await stage.until('all of it', async () => flight.room() === room);
  t.equal(rooms(), told, 'told once');
});

void t.test('what cannot be settled for a fault of its own is told and waits; the others are settled', async (t) => {
  const bad = new Set<string>();
  const { stage, flight, taken, statuses, inFlight, metrics } = await aloft(t, 3, {
    landed: async (batch) => {
      if (batch.some(({ id }) => bad.has(id))) throw new RangeError('broken books');
      return [...batch];
    },
  });
  bad.add(taken[1]!.id);
  for (const { attempt } of taken) statuses.set(attempt.signature, 'finalized');
  flight.add(taken);
  await stage.until('the others are settled', async () => (await inFlight()) === 1);
  const alerts = (await metrics.alerts.get()).values.filter(({ value }) => value > 0);
  t.match(alerts, [{ labels: { reason: 'cannot_be_settled' }, value: 1 }]);
});

void t.test('a stop waits for what is about to end, and gives the rest back as it is', async (t) => {
  const { stage, flight, taken, statuses, inFlight } = await aloft(t, 2);
  flight.add(taken);
  statuses.set(taken[0]!.attempt.signature, 'finalized');
  await flight.stop(1500);
  t.equal(await inFlight(), 0);
  const rows = await stage.sql<{ id: string; claimId: string | null }[]>`select id, claim_id from subscriptions where claim_id is null`;
  t.same(
    rows.map(({ id }) => id),
    [taken[1]!.id],
    'the first was settled by whoever landed it',
  );
  t.equal((await stage.sql`select 1 from payment_attempts where state = 'open'`).length, 2);
});

void t.test(
  'a notice of nothing but a payment under way is explained; after anything else nothing is, for it may be taken back',
  async (t) => {
    const { flight, taken } = await aloft(t, 2);
    const [{ address, account }, other] = taken.map(({ afterwards }) => afterwards!) as [
      NonNullable<Flying['afterwards']>,
      NonNullable<Flying['afterwards']>,
    ];
    t.notOk(flight.explains(address, account, 5n), 'not before it is under way');
    flight.add(taken);
    t.ok(flight.explains(address, account, 5n));
    t.ok(flight.explains(address, account, 6n), 'as often as it is told');
    t.notOk(flight.explains(address, { ...account, expiresAt: 1n }, 7n), 'cancelled');
    t.notOk(flight.explains(address, account, 8n), 'and resumed');
    t.notOk(
      flight.explains(other.address, { ...other.account, amountPulled: other.account.amountPulled + 1n }, 9n),
      'somebody else pulled as well',
    );
    t.notOk(flight.explains('11111111111111111111111111111111', account, 9n));
  },
);
