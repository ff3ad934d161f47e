// Formats the lines of the status about sponsored transactions.
import { newMerchantsBudget } from '../../../domain/offers/limits.ts';
import { formatSol } from '../../../format.ts';
import type { Paint } from '../../terminal/print.ts';
import { table } from '../../terminal/table.ts';
import type { Status } from './facts.ts';

type Sponsoring = NonNullable<Status['sponsoring']>;

/**
 * Returns the lines about sponsored transactions. Returns no line if there are neither sponsored
 * transactions nor budgets.
 */
export function sponsoringFacts(sponsoring: Status['sponsoring']): [string, string][] {
  if (sponsoring === null) return [];
  const { budgets, day, newMerchants, leaving, out, refused, failed } = sponsoring;
  const { spent, reserved } = sponsoring;
  const isUnused = day + leaving + out + spent + reserved === 0n && refused + failed === 0;
  if (budgets === null && isUnused) return [];
  const facts: [string, string][] = [
    [
      'Sponsored today',
      `${used(day, budgets?.perDay)}, leaving ${used(leaving, budgets?.leaving)}; ` +
        `${refused} refused, ${failed} failed${budgets === null ? '; no budgets here: SPONSOR_LAMPORTS_PER_DAY' : ''}`,
    ],
  ];
  if (newMerchants > 0n)
    facts.push([
      'new merchants',
      `${used(newMerchants, budgets === null ? undefined : newMerchantsBudget(budgets))} of it`,
    ]);
  return isUnused ? facts : [...facts, ...totalFacts(sponsoring), ...merchantFacts(sponsoring)];
}

function totalFacts({
  spent,
  lost,
  reserved,
  out,
  overdue,
  returned,
  outByAge,
  overdueByAge,
}: Sponsoring): [string, string][] {
  const fees = `${formatSol(spent)} SOL of fees, ${formatSol(lost)} lost`;
  const rent = `rent ${formatSol(out)} out, ${formatSol(returned)} returned`;
  const late = overdue === 0n ? '' : `, ${formatSol(overdue)} overdue`;
  const sinceEnds = overdue === 0n ? '' : `; overdue since an end: ${byAge(overdueByAge)}`;
  return [
    ['of all time', `${fees}; ${rent}${late}; ${formatSol(reserved)} reserved`],
    ...(out === 0n
      ? []
      : [['rent out', `${byAge(outByAge)}${sinceEnds}`] satisfies [string, string]]),
  ];
}

/**
 * Returns the line about the merchant with the highest cost in the last 24 hours. `--by merchant`
 * and `--json` list more merchants.
 */
function merchantFacts({ merchants, budgets, nearLimit }: Sponsoring): [string, string][] {
  const [first] = merchants.filter(({ merchant }) => merchant !== null);
  if (first === undefined) return [];
  const { merchant, day, out, reserved, mayBeOut } = first;
  return [
    [
      'most by merchant',
      `${merchant ?? ''}: ${used(day, budgets?.perMerchant)} today, ` +
        `${used(out + reserved, mayBeOut ?? undefined)} out`,
    ],
    ...nearFacts(nearLimit),
  ];
}

/**
 * Returns the line about merchants that are close to their limit of sponsored rent. Above the limit
 * their buyers need SOL, unless an operator raises the limit by a guarantee.
 */
function nearFacts([first, ...others]: Sponsoring['nearLimit']): [string, string][] {
  if (first === undefined) return [];
  const { merchant, out, mayBeOut } = first;
  const more = others.length === 0 ? '' : `, and ${others.length} more (--by merchant)`;
  return [['near its limit', `${merchant}: ${used(out, mayBeOut)} out${more}`]];
}

const used = (lamports: bigint, budget: bigint | undefined) =>
  budget === undefined
    ? `${formatSol(lamports)} SOL`
    : `${formatSol(lamports)} of ${formatSol(budget)} SOL`;

interface Aged {
  readonly days: number;
  readonly authorities: bigint;
  readonly subscriptions: bigint;
}

/** Formats rent by age: `0.01 SOL for under 30 days, 0.2 SOL for over 365 days`. */
function byAge(ages: readonly Aged[]): string {
  return ages
    .map((age) => ({ ...age, lamports: age.authorities + age.subscriptions }))
    .filter(({ lamports }) => lamports > 0n)
    .map(({ days, lamports }) => `${formatSol(lamports)} SOL for ${ageOf(days, ages)}`)
    .join(', ');
}

/**
 * Formats an age range of unreturned rent: `under 30 days`, `30 to 90 days`, `over 365 days`.
 * `days` is the lower bound of the range.
 */
function ageOf(days: number, ages: readonly Aged[]): string {
  const next = ages[ages.findIndex((age) => age.days === days) + 1]?.days;
  if (next === undefined) return `over ${days} days`;
  return days === 0 ? `under ${next} days` : `${days} to ${next} days`;
}

/**
 * Formats the cost of sponsored transactions as a table, one row per merchant. Amounts are in SOL.
 */
export function merchantTable({ merchants, budgets }: Sponsoring, paint: Paint): string {
  if (merchants.length === 0) return 'No transaction was sponsored.';
  return table(
    ['MERCHANT', 'TODAY', 'BUDGET', 'SPENT', 'RESERVED', 'OUT', 'CAP', 'RETURNED', 'LOST'],
    merchants.map(({ merchant, day, spent, reserved, out, mayBeOut, returned, lost }) => [
      merchant ?? 'none (revocations)',
      formatSol(day),
      merchant === null || budgets === null ? null : formatSol(budgets.perMerchant),
      formatSol(spent),
      formatSol(reserved),
      formatSol(out),
      mayBeOut === null ? null : formatSol(mayBeOut),
      formatSol(returned),
      formatSol(lost),
    ]),
    paint,
  ).trimEnd();
}
