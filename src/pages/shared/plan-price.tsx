import type { ReactElement } from 'react';
import { formatExact } from './money.ts';
import { perPeriod } from './period.ts';
import { foreign } from './text.ts';

/** Shows a plan's price and description. */
export function PlanPrice({
  amount,
  periodHours,
  about,
}: {
  /** USDC base units; undefined while no amount is typed. */
  amount: string | undefined;
  periodHours: number;
  about: string | null;
}): ReactElement {
  return (
    <>
      <p className="price">
        <span className="price-amount">{amount === undefined ? '…' : formatExact(amount)}</span>
        <span className="price-unit">
          USDC
          <br />
          {perPeriod(periodHours)}
        </span>
      </p>
      {about !== null && about !== '' && (
        <p className="about">
          <bdi>{foreign(about, 400)}</bdi>
        </p>
      )}
    </>
  );
}
