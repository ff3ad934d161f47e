// The desk's preview of a change of plan: the amounts that the dialog shows are the ones paid.
import t from 'tap';
import type { components } from '../../src/client/openapi.ts';
import { type ApiBuyer, apiBuyer } from '../fixtures/api-buyer.ts';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

type Subscription = components['schemas']['Subscription'];
type Transaction = components['schemas']['Transaction'];

t.teardown(closeBrowser);

const HOUR_SECONDS = 3600;
type When = 'Now' | 'When the paid period ends';
/**
 * The lines of a preview, and the payments after it: the pulled amounts, and the amounts paid by
 * credit.
 */
interface Case {
  /** Hours after all of them have subscribed. */
  at: number;
  when: When;
  shown: Record<string, string>;
  paid: readonly (readonly [amountGross: string, creditSpent: string])[];
}

/**
 * Small is 1,000 base units for 8,000 hours, Large 5,000, so that a base unit is worth 8 and 1.6
 * hours: the minutes that a test takes change no amount. Written by hand.
 */
const cases: Readonly<Record<string, Case>> = {
  // Nothing was paid for the old one, so nothing is credited.
  'past due': {
    at: 0,
    when: 'Now',
    shown: { 'Paid today': '0.005', 'Next payment': '0.005', 'After that': '0.005' },
    paid: [
      ['5000', '0'],
      ['5000', '0'],
    ],
  },
  // A trial of 800 hours. The period begins now, and 7,202.4 of its 8,000 hours are behind it.
  trial: {
    at: 2.4,
    when: 'When the paid period ends',
    shown: { 'Paid today': 'Nothing', 'Next payment': '0.004501', 'After that': '0.005' },
    paid: [
      ['4501', '0'],
      ['5000', '0'],
    ],
  },
  // 5,996 of 8,000 hours are left of 1,000: 749.5.
  up: {
    at: 2004,
    when: 'Now',
    shown: {
      Credit: '0.000749',
      'Paid today': '0.004251',
      'Next payment': '0.005',
      'After that': '0.005',
    },
    paid: [
      ['4251', '749'],
      ['5000', '0'],
    ],
  },
  // 25 % off: 750 were paid, and 3,996 of 8,000 hours are left. The discount stays behind.
  discount: {
    at: 4004,
    when: 'Now',
    shown: {
      Credit: '0.000374',
      'Paid today': '0.004626',
      'Next payment': '0.005',
      'After that': '0.005',
    },
    paid: [
      ['4626', '374'],
      ['5000', '0'],
    ],
  },
  // 2,399.2 of 8,000 hours are left of 5,000: one whole period of Small, and 499 of the next.
  down: {
    at: 5600.8,
    when: 'Now',
    shown: {
      Credit: '0.001499',
      'Paid today': '0.00',
      'Next payment': '0.000501',
      'After that': '0.001',
    },
    paid: [
      ['0', '1000'],
      ['501', '499'],
    ],
  },
};
/** What the dialog shows for the other time of the change, before that is chosen. */
const others: Readonly<Record<string, readonly [When, Record<string, string>]>> = {
  trial: ['Now', { 'Paid today': '0.005', 'Next payment': '0.005', 'After that': '0.005' }],
  // The new period has begun on chain: 5,600.8 of its 8,000 hours are left when it is first paid.
  down: [
    'When the paid period ends',
    { 'Paid today': 'Nothing', 'Next payment': '0.0007', 'After that': '0.001' },
  ],
};
/** The second payment of each was due before. */
const END_HOURS = 13_700;

void t.test(
  'the preview of a change of plan shows the amounts that are charged, in every case',
  async (t) => {
    const stage = await startStage(t, { env: { PLAN_MINIMUM_AMOUNT: '1' } });
    const { chain, served, merchant } = stage;
    const { token, appId } = merchant;
    const api = <T>(path: string, method = 'GET', body?: unknown) =>
      served.call<T>(method, `/merchant/apps/${appId}/${path}`, { token, body });
    const terms = { periodHours: 8000 };
    const small = await stage.plan({ ...terms, name: 'Small', amount: '1000' });
    const large = await stage.plan({ ...terms, name: 'Large', amount: '5000' });
    const session = (planId: string, fields: Record<string, unknown>) =>
      api<{ id: string }>('checkout-sessions', 'POST', { planId, ...fields });
    const { sql } = served;
    /** Whether a payment of the subscription has succeeded, or failed, so many times. */
    const has = async (id: string, status: 'succeeded' | 'failed', count = 1) =>
      (await sql`select from payments where subscription_id = ${id} and status = ${status}`)
        .length >= count;

    const bought = new Map<string, { buyer: ApiBuyer; id: string }>();
    for (const [name, fields] of [
      ['past due', {}],
      ['trial', { trialHours: 800 }],
      ['up', {}],
      ['discount', { discount: { percentOff: 25 } }],
      ['down', {}],
    ] as const) {
      const buyer = await apiBuyer(stage, name === 'past due' ? 1n : 1_000_000n);
      const planId = name === 'down' ? large.id : small.id;
      const { id: checkout } = await session(planId, { externalId: name, ...fields });
      bought.set(name, { buyer, id: await buyer.sign(planId, checkout) });
    }
    for (const [name, { id }] of bought)
      if (name !== 'trial')
        await stage.until(`the first payment of ${name} is tried`, () =>
          has(id, name === 'past due' ? 'failed' : 'succeeded'),
        );

    const selling = createTestWallet(chain.rpcUrl, merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).click();
    const dialog = page.getByRole('dialog');
    const shownFor = async (when: When) => {
      await dialog.getByLabel('When').selectOption(when);
      const costs = dialog.getByRole('region', { name: 'What the subscriber pays' });
      await costs.getByText('After that').waitFor();
      const rows = await costs.locator('dl > div').all();
      return Promise.all(
        rows.map(async (row) => ({
          name: (await row.locator('dt').textContent()) ?? '',
          amount:
            (await row.locator('.amount').count()) === 0
              ? await row.locator('dd').textContent()
              : await row.locator('.amount').getAttribute('title'),
          dueAt:
            (await row.locator('time').count()) === 0
              ? null
              : await row.locator('time').getAttribute('datetime'),
        })),
      );
    };

    const began = chain.now();
    const changed = new Map<string, string>();
    const dueAt = async (id: string) => {
      const [row] = await sql<{ due: Date | null }[]>`
      select next_payment_due as due from subscriptions where id = ${id}`;
      return row?.due?.getTime() ?? Infinity;
    };
    const passUntil = (at: number) => {
      chain.passSeconds(Math.max(0, Math.round((at - chain.now()) / 1000)));
    };
    /** Lets time pass until `hours` after all have subscribed. Payments come when they are due. */
    const passTo = async (hours: number) => {
      const end = began + hours * HOUR_SECONDS * 1000;
      for (;;) {
        const dues = await Promise.all(
          [...changed].map(async ([name, id]) => ({ name, id, at: await dueAt(id) })),
        );
        const next = dues.sort((a, b) => a.at - b.at).find(({ at }) => at <= end);
        if (next === undefined) break;
        passUntil(next.at + 1000);
        await stage.until(`${next.name} is paid`, async () => (await dueAt(next.id)) > next.at);
      }
      passUntil(end);
    };
    for (const [name, { at, when, shown }] of Object.entries(cases)) {
      const { buyer, id } = bought.get(name)!;
      if (at > 0) await passTo(at);
      const old = await api<Subscription>(`subscriptions/${id}`);
      await page.goto(`/dashboard#/subscriptions/${id}`);
      await page.getByRole('heading', { name, exact: true }).waitFor();
      await page.getByRole('button', { name: 'Change plan' }).click();
      const amountsOf = (rows: Awaited<ReturnType<typeof shownFor>>) =>
        rows.map((row) => [row.name.replace(/ for .*/, ''), row.amount]);
      const expected = (lines: Record<string, string>) =>
        Object.entries(lines).map(([line, amount]) => [
          line,
          amount === 'Nothing' ? amount : `${amount} USDC`,
        ]);
      const other = others[name];
      if (other !== undefined)
        t.same(amountsOf(await shownFor(other[0])), expected(other[1]), `${name}: ${other[0]}`);
      const rows = await shownFor(when);
      t.same(amountsOf(rows), expected(shown), `${name}: ${when}`);
      if (name === 'trial') t.equal(rows[1]?.dueAt, old.trialEndsAt, 'due when the trial ends');
      await dialog.getByRole('button', { name: 'Create link' }).click();
      const url = (await dialog.locator('code').textContent()) ?? '';
      await dialog.getByRole('button', { name: 'Done' }).click();
      const planId = name === 'down' ? small.id : large.id;
      const fresh = await buyer.sign(planId, url.split('/').at(-1)!);
      changed.set(name, fresh);
      if (name === 'past due') {
        await stage.until('nothing can be collected', () => has(fresh, 'failed'));
        chain.fund(buyer.address, { usdc: 1_000_000n });
        // The first retry is after an hour.
        chain.passSeconds(1.1 * HOUR_SECONDS);
      }
      if (name !== 'trial') await stage.until(`${name} is paid`, () => has(fresh, 'succeeded'));
    }
    await passTo(END_HOURS);
    for (const [name, id] of changed) {
      await stage.until(`${name} is paid twice`, () => has(id, 'succeeded', 2));
      const rows = await api<Transaction[]>(`transactions?status=succeeded&subscriptionId=${id}`);
      const paid = rows.map(({ amountGross, creditSpent }) => [amountGross, creditSpent]);
      t.same(paid.reverse(), cases[name]?.paid, `${name}: paid`);
    }
    t.same(faults, []);
  },
);
