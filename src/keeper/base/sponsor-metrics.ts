// Metrics of sponsored transactions. Operators build alerts on the names and meanings of these
// metrics, so both must stay stable.
import { Counter, Gauge, type Registry } from 'prom-client';
import { readSponsoringByMerchant, readSponsoringFacts } from '../../db/offers/sponsor-budgets.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { mayBeOut, type SponsorLimits } from '../../domain/offers/limits.ts';

/** Metrics of the lamports that a sponsor spends, each with its help text. */
const KINDS = {
  spent: 'Network fees of sponsored transactions that landed, and of closings, by merchant',
  reserved: 'Lamports that open sponsored transactions can cost at most, by merchant',
  out: 'Rent of sponsored accounts that has not come back, by merchant',
  returned: 'Rent of sponsored accounts that came back, by merchant',
  lost: 'Network fees of sponsored transactions that failed on chain, by merchant',
} as const;
type Kind = keyof typeof KINDS;
const KIND_NAMES = Object.keys(KINDS) as Kind[];

/** Registers the gauges. All keepers report the same values, because they read the same rows. */
export function sponsorMetrics(registry: Registry) {
  const registers = [registry];
  const gauge = <T extends string>(name: string, help: string, labelNames: T[] = []) =>
    new Gauge({ name: `billing_sponsor_${name}`, help, labelNames, registers });
  const byKind = Object.fromEntries(
    KIND_NAMES.map((kind) => [kind, gauge(`lamports_${kind}`, KINDS[kind], ['merchant'])]),
  ) as Record<Kind, Gauge<'merchant'>>;
  const decisions = new Counter({
    name: 'billing_sponsor_decisions_total',
    help: 'Decisions of this keeper about signed sponsored transactions, by decision (committed, refused, later: put off)',
    labelNames: ['decision'] as const,
    registers,
  });
  for (const decision of ['committed', 'refused', 'later']) decisions.inc({ decision }, 0);
  return {
    decisions,
    byKind,
    day: gauge('day_lamports', 'Lamports that sponsoring cost or reserved in the last 24 hours'),
    budget: gauge('budget_lamports', 'SPONSOR_LAMPORTS_PER_DAY; 0: nothing is sponsored'),
    leaving: gauge(
      'leaving_day_lamports',
      'Lamports that cancelling, closing and revoking cost or reserved in the last 24 hours',
    ),
    closing: gauge(
      'closing_day_lamports',
      'Network fees of closings that take rent back, of accounts with one in the last 24 hours',
    ),
    leavingBudget: gauge(
      'leaving_budget_lamports',
      'SPONSOR_LEAVING_LAMPORTS_PER_DAY; 0: nothing is sponsored',
    ),
    merchantDay: gauge(
      'merchant_day_lamports',
      'Lamports that sponsoring cost or reserved in the last 24 hours, without leaving, by merchant',
      ['merchant'],
    ),
    merchantBudget: gauge(
      'merchant_budget_lamports',
      'SPONSOR_MERCHANT_LAMPORTS_PER_DAY; 0: nothing is sponsored',
    ),
    merchantOut: gauge(
      'merchant_out_budget_lamports',
      'Rent that may be out or reserved at a time, by merchant; 0: nothing is sponsored',
      ['merchant'],
    ),
    overdue: gauge(
      'overdue_lamports',
      'Rent that is out although the subscription ended more than seven days ago',
    ),
    refused: gauge('refused', 'Signed sponsored transactions refused in the last 24 hours'),
  };
}

export type SponsorMetrics = ReturnType<typeof sponsorMetrics>;

/** Sets the gauges from the database. `limits` is undefined when nothing is sponsored. */
export async function measureSponsoring(
  sql: Sql,
  metrics: SponsorMetrics,
  limits: SponsorLimits | undefined,
): Promise<void> {
  const [merchants, facts] = await Promise.all([
    readSponsoringByMerchant(sql),
    readSponsoringFacts(sql),
  ]);
  const { byKind, merchantDay, merchantOut, day, leaving, closing, overdue, refused } = metrics;
  for (const gauge of [...Object.values(byKind), merchantDay, merchantOut]) gauge.reset();
  for (const { merchant, ...lamports } of merchants) {
    const labels = { merchant: merchant ?? 'none' };
    if (merchant !== null)
      merchantOut.set(labels, limits === undefined ? 0 : Number(mayBeOut(limits, lamports)));
    for (const spendKind of KIND_NAMES) byKind[spendKind].set(labels, Number(lamports[spendKind]));
    merchantDay.set(labels, Number(lamports.day));
  }
  day.set(Number(facts.day));
  leaving.set(Number(facts.leaving));
  closing.set(Number(facts.closing));
  metrics.budget.set(Number(limits?.perDay ?? 0n));
  metrics.leavingBudget.set(Number(limits?.leaving ?? 0n));
  metrics.merchantBudget.set(Number(limits?.perMerchant ?? 0n));
  overdue.set(Number(facts.overdue));
  refused.set(facts.refused);
}
