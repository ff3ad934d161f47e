// What the database enforces of invoices: they add up, they stand, and no time is covered twice.
import t, { type Test } from 'tap';
import { type Invoice, readInvoices, writeInvoices } from '../../../src/db/invoices/invoices.ts';
import { connect, type Sql } from '../../../src/db/postgres/connect.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { asRole, testDatabase } from '../../fixtures/postgres.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

const DAY = 86_400_000;
const START = Date.UTC(2027, 0, 1);
const day = (n: number) => new Date(START + n * DAY);

type Line = Record<string, string>;

async function scene(t: Test) {
  const { sql, url } = await testDatabase(t);
  const wallet = randomAddress();
  const [{ id: merchantId }] = await sql<[{ id: string }]>`
    insert into merchants (wallet) values (${wallet}) returning id`;
  const [{ id: appId }] = await sql<[{ id: string }]>`
    insert into apps (merchant_id, name) values (${merchantId}, 'App') returning id`;
  const planId = await insertPlan(sql, { appId, wallet });
  const subscriptionId = await insertSubscription(sql, { appId, planId });
  const [{ subscriptionPda, customerId }] = await sql<
    [{ subscriptionPda: string; customerId: string }]
  >`select subscription_pda, customer_id from subscriptions where id = ${subscriptionId}`;
  const given = {
    ...{ appId, customerId, subscriptionId, subscriptionPda },
    ...{ periodStart: day(0), periodEnd: day(30), coversFrom: day(0), coversTo: day(30) },
    ...{ planAmount: 10_000_000n, total: 10_000_000n, amountDue: 10_000_000n },
    ...{ dueAt: day(0), drawnUpAt: day(0) },
  };
  const draw = async (
    fields: Record<string, unknown> = {},
    lines: readonly Line[] = [{ kind: 'plan', amount: '10000000' }],
    by: Sql = sql,
  ): Promise<string> => {
    const row = { ...given, lines: by.json(lines), ...fields };
    const [{ id }] = await by<[{ id: string }]>`insert into invoices ${by(row)} returning id`;
    return id;
  };
  const close = (id: string, fields: Record<string, unknown>, by: Sql = sql) =>
    by`update invoices set ${by({ closedAt: day(1), ...fields })} where id = ${id}`;
  const role = (daemon: 'serve' | 'keeper') => {
    const own = connect(asRole(url, daemon), { max: 1, name: daemon });
    t.teardown(() => own.end());
    return own;
  };
  return { sql, draw, close, role };
}

const VOID = { state: 'void', unpaidAt: day(1), troubledAt: day(1) };

void t.test(
  'lines add up to the sums of the invoice, and credit and pull to its total',
  async (t) => {
    const { draw } = await scene(t);
    const lines = [
      { kind: 'plan', amount: '10000000' },
      { kind: 'quantity', amount: '5000000' },
      { kind: 'usage', amount: '30000' },
      { kind: 'discount', amount: '-2500000' },
      { kind: 'adjustment', amount: '-20000' },
      { kind: 'tax', amount: '1000000' },
    ];
    const sums = {
      ...{ planAmount: 15_000_000n, usageAmount: 30_000n, discountAmount: -2_500_000n },
      ...{ adjustmentAmount: -20_000n, taxAmount: 1_000_000n, total: 13_510_000n },
    };
    const paid = { creditApplied: 3_510_000n, amountDue: 10_000_000n };
    await t.resolves(draw({ ...sums, ...paid }, lines));
    const [from, to] = [day(60), day(90)];
    const later = { periodStart: from, periodEnd: to, coversFrom: from, coversTo: to };
    for (const [what, fields, given] of [
      [
        'a sum',
        { ...sums, ...paid, usageAmount: 30_001n, total: 13_510_001n, amountDue: 10_000_001n },
        lines,
      ],
      ['the total', { ...sums, total: 13_510_001n, amountDue: 13_510_001n }, lines],
      [
        'an unknown kind',
        { planAmount: 0n, total: 0n, amountDue: 0n },
        [{ kind: 'gift', amount: '0' }],
      ],
      ['no digits', {}, [{ kind: 'plan', amount: '1e7' }]],
      ['no amount', {}, [{ kind: 'plan' }]],
      ['no lines', { planAmount: 0n, total: 0n, amountDue: 0n }, [] as Line[]],
    ] as const)
      await t.rejects(draw({ ...later, ...fields }, given as Line[]), /add_up|add up/, what);
    await t.rejects(
      draw({ ...sums, creditApplied: 1n, amountDue: 13_510_000n }, lines),
      /credit_and_pull/,
    );
  },
);

void t.test(
  'one invoice per cover of a period, unless it is replaced or of a dead offer',
  async (t) => {
    const { draw, close } = await scene(t);
    for (const voidReason of ['replaced', 'offer']) {
      const id = await draw();
      await t.rejects(draw(), /one_invoice_per_cover/, 'an open one');
      await close(id, { ...VOID, voidReason });
    }
    const ended = await draw();
    await close(ended, { ...VOID, voidReason: 'ended' });
    await t.rejects(draw(), /one_invoice_per_cover/);
    const later = { coversFrom: day(10) };
    await close(await draw(later), { ...VOID, voidReason: 'forgiven' });
    await t.rejects(draw(later), /one_invoice_per_cover/);
    const foreign = { reason: 'foreign', coversFrom: null, coversTo: null };
    await draw(foreign);
    await t.resolves(draw(foreign), 'pulls by others have no cover');
    await t.rejects(draw({ ...later, reason: 'foreign' }), /foreign_invoice_has_no_cover/);
    await t.rejects(draw({ coversFrom: null, coversTo: null }), /period_invoice_has_cover/);
  },
);

void t.test('lines, sums and keys stand, and so does what is closed', async (t) => {
  const { sql, draw, close } = await scene(t);
  const id = await draw();
  for (const fields of [
    { total: 9_000_000n, planAmount: 9_000_000n, amountDue: 9_000_000n },
    { lines: sql.json([{ kind: 'plan', amount: '10000000', description: 'x' }]) },
    { creditApplied: 1n, amountDue: 9_999_999n },
    { subscriptionPda: 'another' },
    { dueAt: day(3) },
  ])
    await t.rejects(sql`update invoices set ${sql(fields)} where id = ${id}`, /invoice stands/);
  await sql`update invoices set failed_tries = 1, next_try_at = ${day(2)}, troubled_at = now()`;
  await t.rejects(close(id, { state: 'void' }), /void_has_reason/);
  await close(id, { state: 'uncollectible', unpaidAt: day(1), troubledAt: day(1) });
  await t.rejects(sql`update invoices set state = 'open', closed_at = null`, /stays closed/);
  await t.rejects(sql`update invoices set covers_to = ${day(20)}`, /closed invoice/);
  await close(id, { state: 'paid' });
  await t.rejects(close(id, { ...VOID, voidReason: 'ended' }), /stays closed/);
});

void t.test('what was given up is paid once its pull is found after all', async (t) => {
  const { sql, draw } = await scene(t);
  const id = await draw();
  const invoice = (await readInvoices(sql, [id]))(id);
  const subscriptionId = invoice.subscriptionId!;
  const write = async (changes: Partial<Invoice>) => {
    await writeInvoices(sql, [{ subscriptionId, invoice: { ...invoice, ...changes } }]);
    return (await readInvoices(sql, [id]))(id);
  };
  const closedAt = day(1);
  t.match(await write({ state: 'uncollectible', closedAt }), { state: 'uncollectible' });
  t.match(await write({ state: 'paid', closedAt }), { state: 'paid', failedTries: 0 });
});

void t.test('serve voids, and only a keeper closes an invoice as paid', async (t) => {
  const { draw, close, role } = await scene(t);
  const [serve, keeper] = [role('serve'), role('keeper')];
  const id = await draw({}, undefined, keeper);
  const denied = { code: '42501' };
  await t.rejects(draw({ coversFrom: day(5) }, undefined, serve), denied);
  await t.rejects(close(id, { state: 'paid' }, serve), denied);
  await t.rejects(serve`update invoices set covers_to = now()`, denied);
  await t.rejects(serve`update invoices set failed_tries = 0`, denied);
  await close(id, { state: 'paid' }, keeper);
  const other = await draw({ coversFrom: day(5) }, undefined, keeper);
  await t.resolves(close(other, { ...VOID, voidReason: 'forgiven' }, serve));
});
