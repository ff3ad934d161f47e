import type { ReactElement, ReactNode } from 'react';
import { type Discount, discountText } from '../shared/discount.ts';
import { Fill } from '../shared/fill.tsx';
import { counted, fill, words } from '../shared/language.ts';
import { formatExact, formatToCent } from '../shared/money.ts';
import { Address } from '../shared/parts.tsx';
import { everyPeriod, exactLength, perPeriod, span } from '../shared/period.ts';
import { Mark, SellerLinks } from '../shared/seller.tsx';
import type { PublicPlan } from '../shared/session.ts';
import { foreign, safeUrl } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import type { Terms } from './flow.ts';
import { linesOf, type PaymentLine } from './schedule.ts';

/**
 * Shows plan, amount, period, merchant and payments. `terms` are the terms for the connected
 * wallet. Until a wallet is connected, `terms` are the plan's terms.
 */
export function Summary({
  plan,
  terms,
  discount,
}: {
  plan: PublicPlan;
  terms: Terms;
  discount: Discount | null;
}): ReactElement {
  const text = words.summary;
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
          <Fill text={text.title} plan={<bdi>{foreign(plan.name, 120)}</bdi>} />
        </h1>
        <p className="price">
          <span className="price-amount">{formatExact(plan.amount)}</span>
          <span className="price-unit">
            USDC
            <br />
            {perPeriod(plan.periodHours)}
          </span>
        </p>
        {plan.appDescription !== null && plan.appDescription !== '' && (
          <p className="about">
            <bdi>{foreign(plan.appDescription, 400)}</bdi>
          </p>
        )}
        <dl className="lines">
          {discount !== null && <Line name={text.discount}>{discountText(discount)}</Line>}
          {terms.trialHours !== null && <Line name={text.trial}>{span(terms.trialHours)}</Line>}
          <Payments plan={plan} terms={terms} discount={discount} />
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

function Line({ name, children }: { name: ReactNode; children: ReactNode }): ReactElement {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Shows today's payment, the next payments and the later payments. */
function Payments({
  plan,
  terms,
  discount,
}: {
  plan: PublicPlan;
  terms: Terms;
  discount: Discount | null;
}): ReactElement {
  const lines = linesOf({ ...terms, periodHours: plan.periodHours });
  const isDivided = ({ amount, until }: PaymentLine) =>
    amount !== plan.amount && (until !== null || discount === null || discount.amountOff === null);
  if (lines.length === 0) return <Line name={words.summary.noPayment}>–</Line>;
  return (
    <>
      {lines.map((line, place) => (
        <div key={place}>
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
    <Fill text={fill(text.thenEvery, { every, date: '{date}' })} date={date} />
  ) : (
    <Fill text={counted(text.thenTimes, times, { every, date: '{date}' })} date={date} />
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
