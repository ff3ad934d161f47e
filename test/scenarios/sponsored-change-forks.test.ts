// Forks and expiry of a sponsored change of plan: exactly one of the two subscriptions runs, paid
// once, and the page is told.
import t, { type Test } from 'tap';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import {
  asks,
  buys,
  changeScene,
  FINAL_BLOCKS,
  hands,
  LARGE,
  SMALL,
} from '../fixtures/sponsored-changes.ts';

/** More blocks than a blockhash lives. */
const LIFETIME = 200;

/** A change of plan that the wallet has signed. */
async function signedChange(t: Test) {
  const { stage, small, large } = await changeScene(t);
  // A fork can only drop blocks that there are.
  stage.net.mineBlocks(20);
  const buyer = await buys(stage, small);
  const { wallet, first } = buyer;
  const shown = await asks(buyer, large);
  await hands(buyer, shown);
  const told = async () => (await buyer.get<{ state: string }>(`offers/${shown.offerId}`)).state;
  const reaches = async (keeper: ReturnType<typeof stage.sponsor>, state: string) =>
    stage.until(`it is ${state}`, async () => {
      await keeper.sponsor.turn(true);
      return (await told()) === state;
    });
  const runs = async (pda: string) => (await stage.onChain({ ...first, pda }))?.expiresAt === 0n;
  const usdc = await stage.balance(wallet.address);
  /** Which of the two runs on chain, what the wallet has paid since, and what the books have. */
  const outcome = async () => {
    const [books] = await stage.sql<[{ live: string; payments: number; open: number }]>`
      select string_agg(s.amount::text, ',') filter (where s.replaced_by is null
          and s.cancel_requested_at is null and s.status = 'active') as live,
        (select count(*)::int from payments) as payments,
        (select count(*)::int from payment_attempts where state = 'open') as open
      from subscriptions s`;
    return {
      old: await runs(first.pda),
      new: await runs(shown.subscriptionPda),
      paid: usdc - (await stage.balance(wallet.address)),
      books,
    };
  };
  const changed = {
    ...{ old: false, new: true, paid: BigInt(shown.today) },
    books: { live: String(LARGE), payments: 2, open: 0 },
  };
  const unchanged = {
    ...{ old: true, new: false, paid: 0n },
    books: { live: String(SMALL), payments: 1, open: 0 },
  };
  return { stage, shown, told, reaches, outcome, changed, unchanged };
}

/** An endpoint that takes only this number of transactions, and drops the others. */
const takes = (rpc: Rpc, count: number): Partial<Rpc> => {
  let taken = 0;
  return {
    sendTransaction(bytes, options) {
      taken += 1;
      return taken > count ? Promise.resolve('') : rpc.sendTransaction(bytes, options);
    },
  };
};

void t.test('a sponsored change that a fork drops lands again with the same bytes', async (t) => {
  const { stage, shown, reaches, outcome, changed, unchanged } = await signedChange(t);
  const keeper = stage.sponsor();
  await reaches(keeper, 'processed');
  stage.net.mineBlocks(2);
  await reaches(keeper, 'confirmed');
  t.match(await outcome(), { old: false, new: true, paid: BigInt(shown.today) }, 'on chain');
  await stage.net.rpc('localnet_forgetBlocks', 2);
  stage.net.mineBlocks(2);
  t.match(await outcome(), { old: true, new: false, paid: unchanged.paid }, 'forgotten');
  await reaches(keeper, 'sent');
  await reaches(keeper, 'processed');
  stage.net.mineBlocks(FINAL_BLOCKS);
  await reaches(keeper, 'final');
  t.same(await outcome(), changed);
  t.equal((await stage.rpc.getSignaturesForAddress(shown.subscriptionPda)).length, 1);
  t.same(await listCreditFaults(stage.sql), []);
});

void t.test('a sponsored change that a fork drops and that expires changes nothing', async (t) => {
  const { stage, told, reaches, outcome, unchanged } = await signedChange(t);
  const keeper = stage.sponsor(takes(stage.rpc, 1));
  await reaches(keeper, 'processed');
  stage.net.mineBlocks(2);
  await reaches(keeper, 'confirmed');
  await stage.net.rpc('localnet_forgetBlocks', 2);
  await reaches(keeper, 'sent');
  stage.net.mineBlocks(LIFETIME);
  await reaches(keeper, 'lapsed');
  t.same(await outcome(), unchanged);
  // Another keeper changes nothing.
  await stage.sponsor().sponsor.turn(true);
  t.equal(await told(), 'lapsed');
  t.same(await outcome(), unchanged);
});

void t.test('a sponsored change that never lands lapses and changes nothing', async (t) => {
  const { stage, reaches, outcome, unchanged } = await signedChange(t);
  const keeper = stage.sponsor(takes(stage.rpc, 0));
  await reaches(keeper, 'sent');
  stage.net.mineBlocks(LIFETIME);
  await reaches(keeper, 'lapsed');
  t.same(await outcome(), unchanged);
});

void t.test('a sponsored change that is signed too late lapses without being sent', async (t) => {
  const { stage, reaches, outcome, unchanged } = await signedChange(t);
  stage.net.mineBlocks(LIFETIME);
  await reaches(stage.sponsor(), 'lapsed');
  t.same(await outcome(), unchanged);
});
