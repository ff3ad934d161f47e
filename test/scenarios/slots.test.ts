// A row whose observed slot no endpoint has reached waits alone; the others of its batch are paid.
import { Writable } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import type { Log } from '../../src/log.ts';
import { AMOUNT } from '../fixtures/agreement.ts';
import { startStage } from '../fixtures/billing.ts';

/** A log, and its lines so far. */
function listening() {
  const lines: Record<string, unknown>[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(JSON.parse(chunk.toString()) as Record<string, unknown>);
      done();
    },
  });
  return { log: pino({ level: 'error' }, stream) as unknown as Log, lines };
}

void t.test(
  'a subscription whose slot no endpoint has reached raises an alert and delays no other payment',
  async (t) => {
    const stage = await startStage(t);
    const plan = await stage.plan({ amount: AMOUNT });
    const all = await Promise.all(Array.from({ length: 5 }, () => stage.subscriber(plan)));
    const ahead = all[0]!;
    const future = stage.net.slot() + 1_000_000;
    await stage.sql`update subscription_work set observed_slot = ${future} where subscription_id = ${ahead.id}`;
    const { log, lines } = listening();
    const keeper = await stage.startKeeper({}, { log });
    const paid = async () =>
      (await stage.sql<{ id: string }[]>`select subscription_id as id from payments`)
        .map(({ id }) => id)
        .toSorted();
    const others = all.slice(1).map(({ id }) => id);
    await stage.until('the others are paid', async () => (await paid()).length === 4);
    t.same(await paid(), others.toSorted());
    const told = /^billing_keeper_alerts_total\{reason="slot_not_reached"\} [1-9]/m;
    await stage.until('it is counted', async () => told.test(await keeper.registry.metrics()));
    const line = lines.find(({ reason }) => reason === 'slot_not_reached');
    t.match(line, { subscription: ahead.id, detail: new RegExp(`^seen at slot ${future}, the `) });
    t.equal(await keeper.ready(), undefined);
    t.ok((await stage.row(ahead)).setbacks > 0, 'status shows it');

    stage.net.timeTravel({ absoluteSlot: future });
    stage.net.passSeconds(900);
    await stage.until('it is paid too', async () => (await paid()).length === 5);
  },
);

void t.test(
  'a payment is not sent while endpoints lag behind the slot at which it was signed',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const plan = await stage.plan({ amount: AMOUNT });
    const [ahead, other] = [await stage.subscriber(plan), await stage.subscriber(plan)];
    const sent: string[] = [];
    const { collector, taken, track } = stage.parts({
      sendTransaction: async (bytes) => {
        sent.push(Buffer.from(bytes).toString('base64'));
        return '';
      },
    });
    // Puts each payment in a transaction of its own.
    await stage.sql`update subscription_work set failed_packs = 2`;
    await collector.turn();
    t.equal(taken.length, 2);
    // A notification arrived since they were signed, so both are read again before the send.
    await stage.sql`update subscription_work set notices = notices + 1`;
    const future = stage.net.slot() + 1000;
    await stage.sql`update subscription_work set observed_slot = ${future} where subscription_id = ${ahead.id}`;
    const bytesOf = ({ id }: { id: string }) =>
      taken.find((one) => one.id === id)!.attempt.transaction.toString('base64');
    const tracker = track();
    t.teardown(() => tracker.stop(0));
    tracker.add(taken);
    const times = (one: string) => sent.filter((bytes) => bytes === one).length;
    await stage.until('the other one is sent twice', async () => times(bytesOf(other)) >= 2);
    t.equal(times(bytesOf(ahead)), 0);
    stage.net.timeTravel({ absoluteSlot: future });
    stage.net.mineBlocks();
    await stage.until('it is sent too', async () => times(bytesOf(ahead)) > 0);
  },
);
