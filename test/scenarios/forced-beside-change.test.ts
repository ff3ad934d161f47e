// A forced end beside a change of plan that the wallet has signed: while the change may land, the
// end is CONFLICT. Also where the change resumes the account that is ended, and where the wallet
// signs its offer again while the end is judged.
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

const LIFETIME = 200;

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
  return { ...scene, large, offer, first, second, relay, force };
}

void t.test(
  'the relay sends no change back to an account that the merchant has ended by force',
  async (t) => {
    const { stage, second, relay, force, read } = await offeredBack(t);
    const { credit } = await read(second);
    t.ok(credit > 80_000_000n);
    t.equal((await force()).status, 200);
    const sent = await relay();
    await stage.quiet();
    t.match(sent, { status: 409 }, 'nothing is sent');
    t.equal((await stage.onChain(second))?.expiresAt, 0n, 'the other one goes on');
  },
);

void t.test(
  'a forced cancellation of a replaced subscription waits for a change back that the relay took',
  async (t) => {
    const { stage, buyer, offer, first, second, relay, force, read, newest, large } =
      await offeredBack(t);
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    const sending = relay();
    await stage.until('the relay has it', async () => {
      const rows = await stage.sql`select 1 from offers where signed_blockhash is not null`;
      return rows.length > 0;
    });
    const forced = await force();
    await stage.net.rpc('localnet_clearFaults');
    await stage.land(buyer.keypair, offer.transaction);
    await sending;
    await stage.quiet();
    t.match(forced, { status: 409 }, 'it may still land');
    t.not((await newest(large)).id, first.id, 'what landed is registered');
    const { credit } = await read(await newest(large));
    t.match(await read(second), { credit }, 'the customer has what is left');
  },
);

void t.test(
  'a forced cancellation waits for a change that is signed again during the check',
  async (t) => {
    const { stage, plans, buyer, ask, act } = await startPlanChanges(t, [10, 100]);
    const [, large] = plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const offer = (await ask(first, large)) as ShownChange & { offerId: string };
    const taken = () => stage.sql<{ old: string; taken: string | null }[]>`
    select blockhash as old, signed_blockhash as taken from offers where id = ${offer.offerId}`;
    const relay = (transaction: string) =>
      buyer.post<{ status: string }>('transactions', {
        offerId: offer.offerId,
        transaction: addSignature(buyer.keypair, transaction),
      });
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    const dead = relay(offer.transaction);
    await stage.until('the relay has it', async () => (await taken())[0]?.taken !== null);
    stage.net.mineBlocks(LIFETIME);
    t.match((await dead).body.data, { status: 'lapsed' });

    const { chain } = stage.api.deps;
    const read = chain.getMultipleAccounts.bind(chain);
    let again: ReturnType<typeof relay> | undefined;
    chain.getMultipleAccounts = async (addresses, options) => {
      if (again === undefined) {
        const { blockhash } = await stage.rpc.getLatestBlockhash();
        const bytes = Buffer.from(offer.transaction, 'base64');
        const old = Buffer.from(bs58.decode((await taken())[0]!.old));
        Buffer.from(bs58.decode(blockhash)).copy(bytes, bytes.indexOf(old));
        again = relay(bytes.toString('base64'));
        await stage.until('the relay has it', async () => (await taken())[0]?.taken === blockhash);
      }
      return read(addresses, options);
    };
    const forced = await act(first.id, 'cancel', { mode: 'force' });
    t.ok(again !== undefined, 'signed again meanwhile');
    t.match(forced, { status: 409, body: { error: { message: /may still land/ } } });
    stage.net.mineBlocks(LIFETIME);
    await again;
  },
);
