import type { ReactElement } from 'react';
import { formatUsdcGrouped } from '../../format.ts';
import { type Discount, discountText } from '../shared/discount.ts';
import { Address } from '../shared/parts.tsx';
import { everyPeriod, exactLength, perPeriod, span } from '../shared/period.ts';
import type { PublicPlan } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';

const HOUR_MS = 3_600_000;

/**
 * Shows the terms before a wallet is connected: plan, amount, period, merchant and first payment.
 */
export function Summary({
  plan,
  trialHours,
  discount,
}: {
  plan: PublicPlan;
  /** The trial of this wallet. Until the wallet is connected, this is the plan's trial. */
  trialHours: number | null;
  discount: Discount | null;
}): ReactElement {
  const website = safeUrl(plan.websiteUrl);
  const next = new Date(Date.now() + (trialHours ?? plan.periodHours) * HOUR_MS);
  const atMost = discount === null ? '' : 'less than ';
  const exact = exactLength(plan.periodHours);
  const seller = foreign(plan.merchantName ?? plan.appName, 80);
  return (
    <section className="checkout-summary" aria-label="Your plan">
      <div className="summary-inner">
        <p className="seller">
          <span className="monogram" aria-hidden="true">
            {(Array.from(seller)[0] ?? '•').toUpperCase()}
          </span>
          <bdi>{foreign(plan.appName, 80)}</bdi>
        </p>
        <h1>
          Subscribe to <bdi>{foreign(plan.name, 120)}</bdi>
        </h1>
        <p className="price">
          <span className="price-amount">{formatUsdcGrouped(plan.amount)}</span>
          <span className="price-unit">
            USDC
            <br />
            per {perPeriod(plan.periodHours)}
          </span>
        </p>
        {plan.appDescription !== null && plan.appDescription !== '' && (
          <p className="about">
            <bdi>{foreign(plan.appDescription, 400)}</bdi>
          </p>
        )}
        <dl className="lines">
          {discount !== null && (
            <div>
              <dt>Discount</dt>
              <dd>{discountText(discount)}</dd>
            </div>
          )}
          {trialHours === null ? (
            <div>
              <dt>First payment, when you subscribe</dt>
              <dd>
                {atMost}
                {formatUsdcGrouped(plan.amount)} USDC
              </dd>
            </div>
          ) : (
            <div>
              <dt>Free trial, once per wallet</dt>
              <dd>{span(trialHours)}</dd>
            </div>
          )}
          <div>
            <dt>
              {trialHours === null ? 'Next payment' : 'First payment'}, <Time at={next} dateOnly />
            </dt>
            <dd>
              {trialHours === null ? atMost : 'at most '}
              {formatUsdcGrouped(plan.amount)} USDC
            </dd>
          </div>
          <div>
            <dt>
              Then {everyPeriod(plan.periodHours)}
              {exact !== undefined && <span className="muted"> ({exact})</span>}
            </dt>
            <dd>{plan.endsAt === null ? 'until you cancel' : 'until the plan ends'}</dd>
          </div>
          {plan.endsAt !== null && (
            <div>
              <dt>The plan ends</dt>
              <dd>
                <Time at={plan.endsAt} />
              </dd>
            </div>
          )}
          <div>
            <dt>Paid to</dt>
            <dd>
              {plan.merchantName !== null && (
                <>
                  <bdi>{foreign(plan.merchantName, 60)}</bdi>{' '}
                </>
              )}
              <Address of={plan.merchantWallet} label="merchant’s wallet" />
            </dd>
          </div>
          {website !== undefined && (
            <div>
              <dt>Website</dt>
              <dd>
                <a href={website} target="_blank" rel="noreferrer noopener nofollow">
                  <bdi>{foreign(new URL(website).host, 60)}</bdi>
                </a>
              </dd>
            </div>
          )}
        </dl>
      </div>
    </section>
  );
}
