import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { SubscriptionAccount } from '../../src/chain/layouts.ts';
import { createInFlight, type Flying } from '../../src/keeper/in-flight.ts';

const account = { periodStart: 5n, amountPulled: 100n, expiresAt: 0n } as SubscriptionAccount;

/** What the book reads of a committed attempt. */
function signed({ id = '', address = 'another', here = true } = {}): Flying {
  const attempt = { signature: randomUUID() };
  const afterwards = here ? { address, account } : null;
  return {
    id: id || randomUUID(),
    claimId: randomUUID(),
    notices: 0n,
    attempt,
    afterwards,
    leasedAt: 7,
    periodEnd: here ? 9n : null,
  } as unknown as Flying;
}

void t.test('what is done with is forgotten by its claim: a subscription that is back under a new one stays', (t) => {
  const book = createInFlight();
  const id = randomUUID();
  const [first, second] = [signed({ id, address: 'account' }), signed({ id, address: 'account' })];
  const [before] = book.take([first]);
  t.ok(book.isOurs(first.attempt.signature));
  const [after] = book.take([second]);
  t.equal(book.size, 1);
  t.notOk(book.has(before!), 'the first is not what is in flight any more');
  t.notOk(book.isOurs(first.attempt.signature), 'nor is its transaction');
  book.forget([first]);
  t.equal(book.of(id), after);
  t.ok(book.explains('account', account, 1n));
  book.forget([second]);
  t.equal(book.size, 0);
  t.notOk(book.isOurs(second.attempt.signature));
  t.notOk(book.explains('account', account, 1n));
  t.end();
});

void t.test('what is taken over explains nothing any more by what was signed here before', (t) => {
  const book = createInFlight();
  const id = randomUUID();
  const first = signed({ id, address: 'account' });
  book.take([first]);
  const later = signed({ id, here: false });
  book.take([later]);
  t.notOk(book.explains('account', account, 1n));
  t.notOk(book.isOurs(first.attempt.signature));
  book.forget([later]);
  t.notOk(book.explains('account', account, 1n));
  t.end();
});

void t.test('only what is in flight can be settled, and not before its time', (t) => {
  const book = createInFlight();
  const id = randomUUID();
  const [before] = book.take([signed({ id })]);
  const [after] = book.take([signed({ id })]);
  const [other] = book.take([signed()]);
  after!.settleAt = 20;
  other!.settleAt = 10;
  for (const one of [before!, after!, other!]) book.ended(one);
  t.same(book.settleable(9), []);
  t.same(book.settleable(10), [other]);
  t.same(book.settleable(20), [after, other]);
  book.forget([other!]);
  t.same(book.settleable(20), [after]);
  t.end();
});

void t.test('what another process signed explains nothing, and is looked for before it goes out', (t) => {
  const book = createInFlight();
  const theirs = signed({ here: false });
  const [taken] = book.take([theirs]);
  t.equal(taken?.heeded, null);
  t.notOk(book.isOurs(theirs.attempt.signature));
  t.equal(book.take([signed()])[0]?.heeded, 0n);
  t.end();
});

void t.test('a notice of anything but the payment ends what it explains for good', (t) => {
  const book = createInFlight();
  const [one] = book.take([signed({ address: 'account' })]);
  t.ok(book.explains('account', account, 3n));
  t.equal(one?.slot, 3n, 'where it seems to have landed');
  t.notOk(book.explains('account', { ...account, expiresAt: 1n }, 4n), 'cancelled');
  t.notOk(book.explains('account', account, 5n), 'and resumed');
  t.equal(one?.slot, 3n);
  book.clear();
  t.equal(book.size, 0);
  t.end();
});
