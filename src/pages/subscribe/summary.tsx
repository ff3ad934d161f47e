import type { ReactElement } from 'react';
import { discountText } from '../shared/discount.ts';
import { Fill } from '../shared/fill.tsx';
import { formatCount, formOf, words } from '../shared/language.ts';
import { Line } from '../shared/line.tsx';
import { formatExact, formatToCent } from '../shared/money.ts';
import { Address, Usdc } from '../shared/parts.tsx';
import { everyPeriod, exactLength, span } from '../shared/period.ts';
import { PlanPrice } from '../shared/plan-price.tsx';
import { Mark, SellerLinks } from '../shared/seller.tsx';
import type { Checkout, PublicPlan } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { linesOf, type PaymentLine } from './schedule.ts';
import type { Terms } from './terms.ts';

/**
 * Shows plan, amount, period, merchant and payments. Until a wallet is connected, `terms` are the
 * plan's terms. Then `terms` are the terms for this wallet. If the page offers no subscription,
 * `terms` is undefined, and no payments are shown.
 */
export function Summary({
  plan,
  terms,
  checkout,
}: {
  plan: PublicPlan;
  terms: Terms | undefined;
  checkout: Checkout | undefined;
}): ReactElement {
  const text = words.summary;
  const { discount = null, change: leaves = null } = checkout ?? {};
  const credit = terms?.change?.credit ?? '0';
  const website = safeUrl(plan.websiteUrl);
  const host = website === undefined ? undefined : foreign(new URL(website).host, 60);
  const seller = foreign(plan.merchantName ?? plan.appName, 80);
  return (
    <section className="checkout-summary" aria-label={text.label}>
      <div className="summary-inner">
        <p className="seller">
          <Mark plan={plan} seller={seller} />
          <bdi>{foreign(plan.appName, 80)}</bdi>
        </p>
        <h1>
          <Fill
            text={leaves === null ? text.title : words.change.to}
            plan={<bdi>{foreign(plan.name, 120)}</bdi>}
          />
        </h1>
        <PlanPrice
          amount={plan.amount}
          periodHours={plan.periodHours}
          about={plan.description ?? plan.appDescription}
        />
        <dl className="lines">
          {leaves !== null && (
            <Line name={words.change.leaves}>
              <bdi>{foreign(leaves.planName, 80)}</bdi>
            </Line>
          )}
          {terms !== undefined && (
            <>
              {credit !== '0' && (
                <Line name={words.change.credit}>
                  <Usdc units={credit} partOf={plan.amount} />
                </Line>
              )}
              {discount !== null && <Line name={text.discount}>{discountText(discount)}</Line>}
              {terms.trialHours !== null && <Line name={text.trial}>{span(terms.trialHours)}</Line>}
              <Payments plan={plan} terms={terms} discount={discount} />
            </>
          )}
          {plan.endsAt !== null && (
            <Line name={text.planEnds}>
              <Time at={plan.endsAt} />
            </Line>
          )}
          <Line name={text.paidTo}>
            {plan.merchantName !== null && (
              <>
                <bdi>{foreign(plan.merchantName, 60)}</bdi>{' '}
              </>
            )}
            <Address of={plan.merchantWallet} label={words.merchantWallet} />
            {host !== undefined && !plan.websiteProven && (
              <span className="claim">
                <Fill text={text.claimsWebsite} host={<bdi>{host}</bdi>} />
              </span>
            )}
          </Line>
          {host !== undefined && plan.websiteProven && (
            <Line name={text.website}>
              <a href={website} target="_blank" rel="noreferrer noopener nofollow">
                <bdi>{host}</bdi>
              </a>
            </Line>
          )}
        </dl>
        <SellerLinks plan={plan} />
      </div>
    </section>
  );
}

/** Shows each payment or group of payments of the terms on its own line (schedule.ts). */
function Payments({
  plan,
  terms,
  discount,
}: {
  plan: PublicPlan;
  terms: Terms;
  discount: Checkout['discount'];
}): ReactElement {
  const lines = linesOf({ ...terms, periodHours: plan.periodHours });
  const isDivided = ({ amount, until }: PaymentLine) =>
    amount !== plan.amount && (until !== null || discount === null || discount.amountOff === null);
  if (lines.length === 0) return <Line name={words.summary.noPayment}>–</Line>;
  return (
    <>
      {lines.map((line, index) => (
        <div key={index}>
          <dt>
            <Due line={line} periodHours={plan.periodHours} />
          </dt>
          <dd title={`${formatExact(line.amount)} USDC`}>
            {isDivided(line) ? formatToCent(line.amount) : formatExact(line.amount)} USDC
          </dd>
          {line.times === null && <Notes plan={plan} />}
        </div>
      ))}
    </>
  );
}

function Due({ line, periodHours }: { line: PaymentLine; periodHours: number }): ReactElement {
  const { at, until, times, isLater } = line;
  const text = words.summary;
  if (at === null && until === null) return <>{text.today}</>;
  const date = at === null ? text.today : <Time at={at} dateOnly />;
  if (until !== null)
    return <Fill text={text.forTime} from={date} until={<Time at={until} dateOnly />} />;
  if (times === 1 || !isLater) return <>{date}</>;
  const every = everyPeriod(periodHours);
  return times === null ? (
    <Fill text={text.thenEvery} every={every} date={date} />
  ) : (
    <Fill text={formOf(text.thenTimes, times)} n={formatCount(times)} every={every} date={date} />
  );
}

/** Explains when the payments end, and how long a month or a year is. */
function Notes({ plan: { periodHours, endsAt } }: { plan: PublicPlan }): ReactElement {
  const exact = exactLength(periodHours);
  return (
    <dd className="note">
      {endsAt === null ? words.summary.cancelNote : words.summary.endsNote}
      {exact !== undefined && ` ${exact}`}
    </dd>
  );
}
