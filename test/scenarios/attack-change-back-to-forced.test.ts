// The wallet is offered a change back to a plan, and the merchant ends its replaced subscription to
// that plan by force. A change that lands then is registered by nobody: the credit of the
// subscription that it cancels is lost with it.
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

async function offeredBack(t: Test) {
  const scene = await startPlanChanges(t, [100, 10]);
  const { stage, plans, buyer, ask, change, act } = scene;
  const [large, small] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const second = await change(first, small);
  const offer = (await ask(second, large)) as ShownChange & { offerId: string };
  const relay = () =>
    buyer.post<{ status: string }>('transactions', {
      offerId: offer.offerId,
      transaction: addSignature(buyer.keypair, offer.transaction),
    });
  const force = () => act(first.id, 'cancel', { mode: 'force' });
  return { ...scene, large, first, second, relay, force };
}

void t.test('the relay sends no change to an account that the merchant has ended', async (t) => {
  const { stage, second, relay, force, read } = await offeredBack(t);
  const { credit } = await read(second);
  t.ok(credit > 80_000_000n);
  t.equal((await force()).status, 200);
  const sent = await relay();
  await stage.quiet();
  t.match(sent, { status: 409 }, 'nothing is sent');
  t.equal((await stage.onChain(second))?.expiresAt, 0n, 'the other one goes on');
});

void t.test('a forced end waits for a change back that the relay took', async (t) => {
  const { stage, first, second, relay, force, read, newest, large } = await offeredBack(t);
  await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
  const sending = relay();
  await stage.until('the relay has it', async () => {
    const rows = await stage.sql`select 1 from offers where signed_blockhash is not null`;
    return rows.length > 0;
  });
  const forced = await force();
  await stage.net.rpc('localnet_clearFaults');
  await sending;
  await stage.quiet();
  t.match(forced, { status: 409 }, 'it may still land');
  t.not((await newest(large)).id, first.id, 'what landed is registered');
  t.match(await read(second), { credit: 0n }, 'no credit stays with the cancelled one');
});
