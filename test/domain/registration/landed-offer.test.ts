// Tests which of the offers to a wallet a live account comes from.
import t from 'tap';
import type { OpenOffer } from '../../../src/db/offers/open-offers.ts';
import { areOfTwoCustomers, landedOffer } from '../../../src/domain/registration/landed-offer.ts';
import type { Landing } from '../../../src/domain/registration/landing.ts';

const offer = (id: string, more: Partial<OpenOffer> = {}): OpenOffer => ({
  ...{ id, blockhash: `hash of ${id}`, signature: null, checkoutSessionId: null },
  ...{ externalId: null, trialHours: null, replaces: null, changeWhen: null, isLapsed: false },
  ...{ isTaken: false, resumes: false, cancels: null, expiresAt: null },
  ...{ discountPercent: null, discountAmount: null, discountPeriods: null },
  offeredAt: new Date(0),
  ...more,
});
const plain = offer('1');
const half = offer('2', { checkoutSessionId: 'half', externalId: 'alice' });
const most = offer('3', { checkoutSessionId: 'most', externalId: 'alice' });
const later = offer('4', { replaces: 'old', changeWhen: 'period_end' });
const now = offer('5', { replaces: 'old', changeWhen: 'now' });
const dues = new Map([
  [plain.id, 10n],
  [half.id, 5n],
  [most.id, 9n],
  [later.id, 5n],
  [now.id, 7n],
]);
const landed = (more: Partial<Landing>): Landing => ({
  ...{ signature: 'signature', blockhash: 'another', kind: 'created', at: 0n, cancels: [] },
  ...more,
});

async function found(
  offers: readonly OpenOffer[],
  {
    landing,
    isWhole = landing !== undefined,
    named,
    isNamed = false,
    isRunning = false,
    isKeepers = false,
  }: {
    landing?: Landing | readonly Landing[];
    isWhole?: boolean;
    named?: OpenOffer;
    isNamed?: boolean;
    isRunning?: boolean;
    isKeepers?: boolean;
  } = {},
) {
  let reads = 0;
  const chosen = await landedOffer(offers, {
    replaced: new Map([['old', { subscriptionPda: 'address of old', isRunning, customer: null }]]),
    isKeepers,
    landings: () => {
      reads += 1;
      return Promise.resolve({ found: landing === undefined ? [] : [landing].flat(), isWhole });
    },
    named,
    isNamed,
    dueUnder: ({ offer: { id } }) => Promise.resolve(dues.get(id) ?? 0n),
  });
  return { id: chosen?.offer.id, reads };
}

void t.test('the chain is read only if offers have different terms', async (t) => {
  t.same(await found([]), { id: undefined, reads: 0 });
  t.same(await found([half, offer('9', { checkoutSessionId: 'half' })]), { id: '9', reads: 0 });
  t.same((await found([plain, half])).reads, 1);
  t.same((await found([later, now])).reads, 1, 'when the change takes effect');
});

void t.test(
  'the landed offer is chosen by signature, then blockhash, then the wallet’s choice, then lowest price',
  async (t) => {
    const signed = { ...most, signature: 'signature', blockhash: plain.blockhash };
    const both = landed({ blockhash: half.blockhash });
    t.equal((await found([plain, half, signed], { landing: both })).id, most.id);
    t.equal((await found([plain, half, most], { landing: both, named: most })).id, half.id);
    t.equal((await found([plain, half, most], { landing: landed({}), named: most })).id, most.id);
    t.equal((await found([plain, half, most], { landing: landed({}) })).id, half.id);
    t.equal((await found([plain, half, later])).id, later.id, 'the newest of equals');
  },
);

void t.test(
  'of several offers with the landed blockhash, the offer that the wallet names counts, else the cheapest',
  async (t) => {
    const [one, other] = [now, later].map((it) => ({ ...it, blockhash: 'same' }));
    const landing = landed({ blockhash: 'same' });
    const offers = [half, one!, other!];
    t.equal((await found(offers, { landing, named: one! })).id, now.id);
    t.equal((await found(offers, { landing, named: half })).id, later.id, 'half has not landed');
  },
);

void t.test(
  'a change whose replaced subscription still runs counts only if it landed',
  async (t) => {
    const isRunning = true;
    t.same(await found([now], { isRunning }), { id: undefined, reads: 1 });
    t.equal((await found([now, half], { isRunning, named: now })).id, half.id);
    const signed = { ...now, signature: 'signature' };
    t.equal((await found([signed, half], { isRunning, landing: landed({}) })).id, now.id);
    const landing = landed({ blockhash: now.blockhash });
    t.equal((await found([now], { isRunning, landing })).id, undefined, 'another transaction');
    const cancelling = { ...landing, cancels: ['address of old'] };
    t.equal((await found([now], { isRunning, landing: cancelling })).id, now.id, 'resumed since');
  },
);

void t.test('for a keeper, a change of plan counts only if it landed', async (t) => {
  const isKeepers = true;
  const other = landed({});
  t.same(await found([now], { isKeepers, landing: other }), { id: undefined, reads: 1 });
  t.equal((await found([now, half], { isKeepers, landing: other })).id, half.id);
  t.same(await found([now], { landing: other }), { id: now.id, reads: 0 }, 'its wallet may');
  const signed = { ...now, signature: 'signature' };
  t.equal((await found([signed, later], { isKeepers, landing: other })).id, now.id, 'signature');
  const hash = landed({ blockhash: now.blockhash });
  t.equal((await found([now, later], { isKeepers, landing: hash })).id, now.id, 'blockhash');
  const cancelling = landed({ cancels: ['address of old'] });
  t.equal((await found([now, half], { isKeepers, landing: cancelling })).id, now.id, 'cancels');
  await t.rejects(
    found([now, half], { isKeepers }),
    { code: 'CONFLICT' },
    'what landed is unknown',
  );
  t.same(await found([half], { isKeepers }), { id: half.id, reads: 0 });
});

void t.test(
  'an offer of a session that another wallet has used counts only if it landed',
  async (t) => {
    const taken = { ...half, isTaken: true };
    t.same(await found([taken, most]), { id: most.id, reads: 1 });
    t.equal((await found([taken])).id, undefined);
    const landing = landed({ blockhash: taken.blockhash });
    t.equal((await found([taken, most], { landing })).id, taken.id);
  },
);

void t.test('an offer of an expired session counts only if it landed', async (t) => {
  const lapsed = { ...half, isLapsed: true };
  t.same(await found([lapsed], { landing: landed({}) }), { id: undefined, reads: 1 });
  const landing = landed({ blockhash: lapsed.blockhash });
  t.equal((await found([lapsed, plain], { landing })).id, lapsed.id);
  t.equal((await found([lapsed, plain])).id, plain.id, 'its wallet may');
});

void t.test(
  'of several landed transactions, the newest that comes from an offer counts',
  async (t) => {
    const elsewhere = landed({ signature: 'elsewhere', kind: 'resumed' });
    const ofNow = landed({ blockhash: now.blockhash });
    const ofHalf = landed({ blockhash: half.blockhash });
    const all = { isKeepers: true, landing: [elsewhere, ofNow, ofHalf] };
    t.equal((await found([now, half, plain], all)).id, now.id);
    t.equal((await found([half, plain], all)).id, half.id);
  },
);

void t.test('a keeper registers nothing if an unusable offer may have landed', async (t) => {
  const taken = { ...half, isTaken: true };
  const part = { isKeepers: true, isWhole: false };
  const unknown = { code: 'CONFLICT' };
  for (const one of [now, taken, { ...half, isLapsed: true }])
    for (const offers of [[one], [one, plain]]) {
      await t.rejects(found(offers, part), unknown);
      await t.rejects(found(offers, { ...part, landing: landed({ kind: 'resumed' }) }), unknown);
    }
  t.equal((await found([plain, most], part)).id, most.id, 'all of them fit');
});

void t.test(
  'of several offers with one blockhash, the one that cancels what the landed transaction cancels counts',
  async (t) => {
    const same = { blockhash: 'same' };
    const change = { ...now, ...same, cancels: true };
    const plainOne = { ...plain, ...same, cancels: false };
    const landing = landed(same);
    const cancelling = landed({ ...same, cancels: ['address of old'] });
    for (const isKeepers of [true, false]) {
      t.equal((await found([change, plainOne], { isKeepers, landing })).id, plain.id);
      t.equal((await found([change, plainOne], { isKeepers, landing: cancelling })).id, now.id);
    }
    const cancelledBefore = { ...now, ...same, cancels: false };
    const running = { isRunning: true, isKeepers: true };
    t.equal((await found([cancelledBefore], { ...running, landing })).id, now.id, 'resumed since');
    t.equal((await found([cancelledBefore], { ...running, landing: cancelling })).id, undefined);
  },
);

void t.test(
  'a landing recognised only by its cancellation counts until shortly after its checkout expires',
  async (t) => {
    const expiresAt = new Date(1_000_000);
    const change = { ...now, cancels: true, checkoutSessionId: 'half', isLapsed: true, expiresAt };
    const at = (seconds: bigint) =>
      found([change], { landing: landed({ at: seconds, cancels: ['address of old'] }) });
    t.equal((await at(1_060n)).id, now.id);
    t.equal((await at(1_121n)).id, undefined);
    const made = landed({ at: 9_000n, cancels: ['address of old'], blockhash: change.blockhash });
    t.equal((await found([change], { landing: made })).id, now.id, 'its blockhash');
  },
);

void t.test(
  'if the newest landing comes from no offer, the offer of an older landing does not count by itself',
  async (t) => {
    const newest = landed({ signature: 'newest', kind: 'resumed' });
    const landing = [newest, landed({ blockhash: plain.blockhash })];
    const resuming = { ...half, resumes: true };
    const dearer = { ...plain, id: '6', checkoutSessionId: 'dearer', resumes: true };
    dues.set(dearer.id, 20n);
    t.equal((await found([plain, resuming], { landing, isKeepers: true })).id, half.id, 'lowest');
    t.equal((await found([plain, dearer], { landing, isKeepers: true })).id, plain.id, 'lowest');
    t.equal((await found([plain, dearer], { landing, named: dearer })).id, dearer.id, 'named');
    t.equal((await found([plain, half], { landing })).id, plain.id, 'half opens an account');
  },
);

void t.test(
  'an offer that the wallet names but that is no longer usable counts only if it landed',
  async (t) => {
    const lapsed = { ...half, isLapsed: true };
    const names = { named: lapsed, isNamed: true };
    for (const offers of [[lapsed], [lapsed, plain]])
      for (const landing of [undefined, landed({})])
        await t.rejects(found(offers, { ...names, ...(landing && { landing }) }), {
          code: 'CONFLICT',
        });
    const other = landed({ blockhash: plain.blockhash });
    t.equal((await found([lapsed, plain], { ...names, landing: other })).id, plain.id);
    const own = landed({ blockhash: lapsed.blockhash });
    t.equal((await found([lapsed, plain], { ...names, landing: own })).id, half.id);
  },
);

void t.test('areOfTwoCustomers is true only for usable offers of different customers', (t) => {
  const bob = offer('9', { externalId: 'bob' });
  t.equal(areOfTwoCustomers([plain, half, most]), false);
  t.equal(areOfTwoCustomers([half, bob]), true);
  t.equal(areOfTwoCustomers([{ ...half, isTaken: true }, bob]), false);
  t.equal(areOfTwoCustomers([{ ...half, isLapsed: true }, bob]), false);
  t.end();
});
