// Which invoice a pull pays, and when an invoice is closed without one.
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import type { Invoice } from '../../../src/db/invoices/invoices.ts';
import { allocate, foreignInvoice } from '../../../src/domain/invoices/allocate.ts';
import { closeOpen, freeFrom, openInvoice } from '../../../src/domain/invoices/closing.ts';
import { NO_DISCOUNT } from '../../../src/domain/invoices/terms.ts';
import { planInvoice } from '../../fixtures/invoices.ts';

const T = 1_800_000_000n;
const DAY = 86_400n;
const ID = 'subscription';

const terms = {
  ...{ ...NO_DISCOUNT, amount: 1000n, periodHours: 24, credit: 0n },
  ...{ trialEndsAt: null, billedFrom: null },
};

const update = (invoice: Invoice | null = null) => ({
  row: { id: ID, customerId: 'customer', invoice },
  invoices: [] as Invoice[],
});

const open = (changes: Partial<Invoice> = {}): Invoice =>
  planInvoice(1000n, T, { subscriptionId: ID, ...changes });

const pull = (gross: bigint, changes: Partial<Parameters<typeof allocate>[2]> = {}) => ({
  ...{ at: T + 60n, periodStart: T, periodEnd: T + DAY, gross, source: 'keeper' as const },
  ...changes,
});

void t.test('a pull with an attempt pays its invoice, whatever the terms are by then', (t) => {
  const of = update();
  const invoice = open();
  const paid = allocate(of, { ...terms, discountPercent: 50 }, pull(1000n, { invoice }));
  t.match(paid, { id: invoice.id, state: 'paid', closedAt: timeOf(T + 60n), amountDue: 1000n });
  t.same(of.invoices, [paid]);
  t.equal(invoice.state, 'open', 'the given one is not changed');
  t.end();
});

void t.test('a pull that landed a period late pays that period', (t) => {
  const later = { periodStart: T + DAY, periodEnd: T + 2n * DAY, at: T + DAY + 5n };
  const paid = allocate(update(), terms, pull(1000n, { invoice: open(), ...later }));
  const [start, end] = [timeOf(T + DAY), timeOf(T + 2n * DAY)];
  t.match(paid, { periodStart: start, periodEnd: end, coversFrom: start, coversTo: end });
  t.end();
});

void t.test('a pull of ours without an attempt pays the open invoice with its amount', (t) => {
  const of = update(open());
  t.match(allocate(of, terms, pull(1000n)), { id: open().id, state: 'paid' });
  t.equal(openInvoice(of), null);
  t.end();
});

void t.test('another pull of an unpaid period replaces the open invoice', (t) => {
  for (const one of [pull(400n), pull(1000n, { source: 'foreign' })]) {
    const of = update(open());
    const paid = allocate(of, terms, one);
    t.match(of.invoices[0], { id: open().id, state: 'void', voidReason: 'replaced' });
    t.match(paid, { id: null, state: 'paid', total: one.gross, amountDue: one.gross });
    t.same(paid.coversFrom, timeOf(T), 'the replaced one leaves its time');
  }
  t.end();
});

void t.test('credit pays what a found pull of ours lacks, and a line makes up the rest', (t) => {
  const withCredit = { ...terms, credit: 250n };
  const ours = allocate(update(), withCredit, pull(600n));
  t.match(ours, { creditApplied: 250n, amountDue: 600n, total: 850n });
  t.same(ours.lines, [
    { kind: 'plan', amount: 1000n },
    { kind: 'adjustment', amount: -150n, source: 'pull' },
  ]);
  const theirs = allocate(update(), withCredit, pull(600n, { source: 'foreign' }));
  t.match(theirs, { creditApplied: 0n, total: 600n });
  const more = allocate(update(), terms, pull(1010n));
  t.same(more.lines.at(-1), { kind: 'adjustment', amount: 10n, source: 'pull' });
  t.end();
});

void t.test('a found pull of another period gives up the open invoice of an earlier one', (t) => {
  const of = update(open());
  const later = { periodStart: T + DAY, periodEnd: T + 2n * DAY, at: T + DAY + 5n };
  allocate(of, terms, pull(1000n, later));
  t.match(of.invoices, [{ state: 'uncollectible' }, { state: 'paid' }]);
  t.end();
});

void t.test('a pull that pays for no time has an invoice without cover', (t) => {
  t.match(foreignInvoice(pull(7n, { source: 'foreign' })), {
    ...{ reason: 'foreign', state: 'paid', coversFrom: null, coversTo: null, total: 7n },
  });
  t.end();
});

void t.test('an invoice begins a second after one that ended in the same second', (t) => {
  const period = { start: T, end: T + DAY };
  const ended = open({ state: 'void', voidReason: 'ended' });
  t.equal(freeFrom(update(ended), period, T), T + 1n);
  t.equal(freeFrom(update(ended), period, T + 5n), T + 5n, 'later time is free');
  t.equal(freeFrom(update(open({ ...ended, voidReason: 'replaced' })), period, T), T);
  t.equal(freeFrom(update(ended), { start: T + DAY, end: T + 2n * DAY }, T + DAY), T + DAY);
  t.equal(freeFrom(update(), period, T, ended), T + 1n, 'also of another registration');
  const paid = allocate(update(ended), terms, pull(1000n));
  t.same(paid.coversFrom, timeOf(T + 1n));
  t.end();
});

void t.test('what is closed in an update stays as it was in the row', (t) => {
  const invoice = open();
  const of = update(invoice);
  closeOpen(of, 'ended', timeOf(T + 9n));
  closeOpen(of, 'uncollectible', timeOf(T + 10n));
  t.match(of.invoices, [{ state: 'void', voidReason: 'ended', closedAt: timeOf(T + 9n) }]);
  t.equal(invoice.state, 'open');
  t.end();
});
