// A forced end reads that a signed change can no longer land, and the wallet signs the same offer
// again before the end is written: the change may land.
import bs58 from 'bs58';
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';

const LIFETIME = 200;

void t.test('a change that is signed again while the end is judged', async (t) => {
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
});
