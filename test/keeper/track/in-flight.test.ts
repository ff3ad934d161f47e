import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { SubscriptionAccount } from '../../../src/chain/program/layouts.ts';
import { InFlight, type InFlightPayment, newPayment } from '../../../src/keeper/track/in-flight.ts';

const account = { periodStart: 5n, amountPulled: 100n, expiresAt: 0n } as SubscriptionAccount;

/** A committed payment with the fields that the index uses. */
function signed({
  id = '',
  address = 'another',
  here = true,
  signature = randomUUID(),
  payments = 1,
}: Partial<Record<'id' | 'address' | 'signature', string>> & {
  here?: boolean;
  payments?: number;
} = {}): InFlightPayment {
  const attempt = { signature, payments };
  const expectedAccount = here ? { address, account } : null;
  return newPayment({
    id: id || randomUUID(),
    claimId: randomUUID(),
    notices: 0n,
    attempt,
    expectedAccount,
    leasedAt: 7,
    periodEnd: here ? 9n : null,
  } as unknown as InFlightPayment);
}

void t.test(
  'a finished payment is removed by its claim; a payment of the same subscription under a new claim stays',
  (t) => {
    const book = new InFlight();
    const id = randomUUID();
    const [first, second] = [
      signed({ id, address: 'account' }),
      signed({ id, address: 'account' }),
    ];
    const [before] = book.add([first]);
    t.ok(book.isOwn(first.attempt.signature));
    const [after] = book.add([second]);
    t.equal(book.size, 1);
    t.notOk(book.has(before!), 'the first is not what is in flight any more');
    t.notOk(book.isOwn(first.attempt.signature), 'nor is its transaction');
    book.forget([first]);
    t.equal(book.transactionOf(id), after);
    t.ok(book.explains('account', account, 1n));
    book.forget([second]);
    t.equal(book.size, 0);
    t.notOk(book.isOwn(second.attempt.signature));
    t.notOk(book.explains('account', account, 1n));
    t.end();
  },
);

void t.test(
  'another keeper’s payment replaces this keeper’s, and notifications then cause a read of the chain',
  (t) => {
    const book = new InFlight();
    const id = randomUUID();
    const first = signed({ id, address: 'account' });
    book.add([first]);
    const later = signed({ id, here: false });
    book.add([later]);
    t.notOk(book.explains('account', account, 1n));
    t.notOk(book.isOwn(first.attempt.signature));
    book.forget([later]);
    t.notOk(book.explains('account', account, 1n));
    t.end();
  },
);

void t.test(
  'a notification of a payment that another process signed always causes a read of the chain',
  (t) => {
    const book = new InFlight();
    const theirs = signed({ here: false });
    const [taken] = book.add([theirs]);
    t.equal(taken?.isOwn, false);
    t.equal(book.of(theirs.id)?.checked, null);
    t.notOk(book.isOwn(theirs.attempt.signature));
    const own = signed();
    t.equal(book.add([own])[0]?.isOwn, true);
    t.equal(book.of(own.id)?.checked, 0n);
    t.end();
  },
);

void t.test(
  'payments of one transaction are in flight together and are removed one by one',
  (t) => {
    const book = new InFlight();
    const pack = { signature: 'pack', payments: 3 };
    const [first, second, third] = [signed(pack), signed(pack), signed(pack)];
    const [transaction] = book.add([first, second, third]);
    t.equal(book.size, 3);
    t.same([...book.transactions.values()], [transaction]);
    t.equal(book.transactionOf(second.id), transaction);
    book.forget([first, third]);
    t.same([...transaction!.payments.keys()], [second.id]);
    t.ok(book.has(transaction!));
    book.forget([second]);
    t.equal(book.transactions.size, 0);
    t.notOk(book.has(transaction!));
    t.end();
  },
);

void t.test(
  'a payment reclaimed from another keeper joins its transaction again, whose isOwn becomes false',
  (t) => {
    const book = new InFlight();
    const pack = { signature: 'pack', payments: 2 };
    const [first, second] = [signed(pack), signed(pack)];
    const [transaction] = book.add([first, second]);
    book.forget([first]);
    t.same(
      book.add([newPayment({ ...first, claimId: randomUUID(), periodEnd: null })]),
      [],
      'nothing new',
    );
    t.equal(transaction!.payments.size, 2);
    t.equal(transaction!.isOwn, false);
    t.end();
  },
);

void t.test(
  'after a notification of another change, a payment in flight no longer explains notifications',
  (t) => {
    const book = new InFlight();
    const [one] = book.add([signed({ address: 'account' })]);
    t.ok(book.explains('account', account, 3n));
    t.equal(one?.slot, 3n, 'where it seems to have landed');
    t.notOk(book.explains('account', { ...account, expiresAt: 1n }, 4n), 'cancelled');
    t.notOk(book.explains('account', account, 5n), 'and resumed');
    t.equal(one?.slot, 3n);
    book.clear();
    t.equal(book.size, 0);
    t.end();
  },
);
