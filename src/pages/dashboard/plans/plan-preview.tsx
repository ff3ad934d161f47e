import type { ReactElement } from 'react';
import { Line } from '../../shared/line.tsx';
import { formatExact, formatToCent } from '../../shared/money.ts';
import { span } from '../../shared/period.ts';
import { PlanPrice } from '../../shared/plan-price.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import type { App } from '../parts/app-context.ts';
import { firstPayment } from './first-payment.ts';

type Terms = Parameters<typeof firstPayment>[0];

/**
 * Formats the first payment as the plan's page does: only a partial payment is rounded to the cent.
 */
function firstText(terms: Terms): string {
  const units = firstPayment(terms, new Date());
  return units.toString() === terms.amount ? formatExact(units) : formatToCent(units);
}

/** Previews the page that subscribers of the plan will see. */
export function PlanPreview({
  app,
  plan,
}: {
  app: App;
  plan: {
    name: string;
    description: string | null;
    /** USDC base units; undefined while no amount is typed. */
    amount: string | undefined;
    periodHours: number;
    trialHours: number | null;
    endsAt: string | null;
  };
}): ReactElement {
  return (
    <section className="card preview" aria-label="Preview of the page">
      <p className="muted small">
        <bdi>{foreign(app.name, 80)}</bdi>
      </p>
      <h3>
        Subscribe to <bdi>{foreign(plan.name === '' ? '…' : plan.name, 120)}</bdi>
      </h3>
      <PlanPrice
        amount={plan.amount}
        periodHours={plan.periodHours}
        about={plan.description ?? app.description}
      />
      <dl className="lines">
        {plan.trialHours !== null && <Line name="Free trial">{span(plan.trialHours)}</Line>}
        <Line name={plan.trialHours === null ? 'Paid today' : 'Paid after the trial'}>
          {plan.amount === undefined ? '…' : `${firstText({ ...plan, amount: plan.amount })} USDC`}
        </Line>
        {plan.endsAt !== null && (
          <Line name="The plan ends">
            <Time at={plan.endsAt} />
          </Line>
        )}
      </dl>
    </section>
  );
}
