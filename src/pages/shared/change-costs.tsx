import type { ReactElement } from 'react';
import type { components } from '../../client/openapi.ts';
import { Line } from './line.tsx';
import { Usdc } from './parts.tsx';
import { Time } from './time.tsx';

export type Change = components['schemas']['ChangePreview'];

/** Thrown when the wallet would have to sign a payment of another amount than the page shows. */
export class OtherAmounts extends Error {
  readonly change: Change;

  constructor(change: Change) {
    super('the change of plan costs something else than what is shown');
    this.change = change;
  }
}

/**
 * Throws OtherAmounts if a sponsored transaction pays another amount than the page shows. Only a
 * sponsored transaction contains the payment. Without a sponsor, the service collects the payment
 * later, and collects at most the shown amount.
 */
export function refuseOtherAmounts(
  shown: Change | null | undefined,
  { sponsored, change }: { sponsored: boolean; change: Change | null },
): void {
  if (sponsored && change !== null && change.today !== shown?.today) throw new OtherAmounts(change);
}

/**
 * The labels of the lines that ChangeCosts shows. `nothing` is the text that replaces the amount of
 * today's payment when nothing is paid today.
 */
type Texts = Readonly<Record<'credit' | 'today' | 'nothing' | 'next' | 'after', string>>;

/**
 * Shows what a change of plan costs: the credit, the payment today, and the two payments after it.
 */
export function ChangeCosts({ change, text }: { change: Change; text: Texts }): ReactElement {
  const { credit, today, next, after, startsAt } = change;
  // `price` is the full price of a period. An amount that differs from `price` comes from a
  // division, so the component Usdc rounds this amount.
  const price = after?.amount ?? '';
  return (
    <dl className="lines">
      {credit !== '0' && (
        <Line name={text.credit}>
          <Usdc units={credit} partOf={price} />
        </Line>
      )}
      <Line name={text.today}>
        {startsAt === null ? <Usdc units={today} partOf={price} /> : text.nothing}
      </Line>
      {next !== null && (
        <Line name={text.next}>
          <Usdc units={next.amount} partOf={price} />, <Time at={next.dueAt} />
        </Line>
      )}
      {after !== null && (
        <Line name={text.after}>
          <Usdc units={after.amount} />, <Time at={after.dueAt} />
        </Line>
      )}
    </dl>
  );
}
