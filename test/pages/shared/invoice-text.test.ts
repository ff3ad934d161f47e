import t from 'tap';
import { lineText, type ShownInvoice } from '../../../src/pages/shared/invoice-text.ts';

const at = (day: number) => new Date(Date.UTC(2026, 0, 1) + day * 86_400_000).toISOString();

/** An invoice of a period of 30 days. */
const invoice = (fields: Partial<ShownInvoice> = {}) =>
  ({
    ...{ periodStart: at(0), periodEnd: at(30), coversFrom: at(0), coversTo: at(30) },
    ...{ planAmount: '10000000', lines: [] },
    ...fields,
  }) as unknown as ShownInvoice;

void t.test('a plan line names the charged part of its period', async (t) => {
  const plan = { kind: 'plan', amount: '10000000' } as const;
  const table: [fields: Partial<ShownInvoice>, text: string][] = [
    [{}, 'Plan'],
    [{ coversFrom: at(10) }, 'Plan, 20 of 30 days'],
    [
      { coversFrom: at(9.5), periodEnd: at(30.4166), coversTo: at(30.4166) },
      'Plan, 20.9 of 30.4 days',
    ],
    [{ periodEnd: at(1), coversFrom: at(0.5), coversTo: at(1) }, 'Plan, 12 of 24 hours'],
    [{ coversFrom: null, coversTo: null }, 'Plan'],
  ];
  for (const [fields, text] of table) t.equal(lineText(plan, invoice(fields)), text);
});

void t.test(
  'a discount line names a percentage only where its amount is that of one',
  async (t) => {
    const table: [amount: string, planAmount: string, text: string][] = [
      ['-2500000', '10000000', '25% off'],
      ['-3340000', '10010000', 'Discount'],
      ['-3310000', '10010000', '33% off'],
      ['-1234567', '10000000', 'Discount'],
      ['-100000', '500000', 'Discount'],
      ['-334', '1001', 'Discount'],
      ['-250', '1000', '25% off'],
      ['0', '0', 'Discount'],
    ];
    for (const [amount, planAmount, text] of table)
      t.equal(lineText({ kind: 'discount', amount }, invoice({ planAmount })), text, amount);
  },
);

void t.test('an adjustment line says why', async (t) => {
  for (const [source, text] of [
    ['minimum', 'Too little to collect'],
    ['room', 'Above the limit of the period'],
    ['pull', 'Collected otherwise'],
  ] as const)
    t.equal(lineText({ kind: 'adjustment', amount: '-1', source }, invoice()), text);
});
