import { type ReactElement, useCallback, useState } from 'react';
import { Line } from '../../shared/line.tsx';
import { Address, Badge, Button, Signature, Usdc } from '../../shared/parts.tsx';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, useResponse } from '../parts/app-context.ts';
import { Customer, customerName } from '../parts/customer.tsx';
import { Loading } from '../parts/loading.tsx';
import { failureText } from '../parts/reasons.ts';
import { RefundTable } from './refund-table.tsx';
import { RefundDialog, useRefunds } from './refund.tsx';
import { refundable } from './refundable.ts';

/** Shows one payment and its refunds. */
export function Payment({ context, id }: { context: AppContext; id: string }): ReactElement {
  const { session, app } = context;
  const ask = useCallback(
    () =>
      session.client.get('/merchant/apps/{appId}/transactions/{transactionId}', {
        path: { appId: app.id, transactionId: id },
      }),
    [session, app.id, id],
  );
  const { data: payment, error, again } = useResponse(ask, LIVE_MS);
  const refunds = useRefunds(context, id);
  const [refunding, setRefunding] = useState(false);
  const back = (
    <p>
      <a href="#/payments">All payments</a>
    </p>
  );
  if (payment === undefined)
    return (
      <>
        {back}
        <Loading error={error} />
      </>
    );
  const isPaid = payment.status === 'succeeded';
  return (
    <>
      {back}
      <div className="view-head">
        <h1>
          Payment of <bdi>{customerName(payment)}</bdi>
        </h1>
        {refundable(payment) > 0n && <Button onClick={() => setRefunding(true)}>Refund</Button>}
      </div>
      <dl className="lines card">
        <Line name="Status">
          <Badge status={payment.status} />
          {payment.failureReason !== null && (
            <span className="muted"> {failureText(payment.failureReason)}</span>
          )}
        </Line>
        <Line name="Customer">
          <Customer of={payment} />
        </Line>
        <Line name="Subscription">
          <a href={`#/subscriptions/${payment.subscriptionId}`}>Open it</a>
        </Line>
        <Line name="Date">
          <Time at={payment.occurredAt} />
        </Line>
        <Line name="Gross">
          <Usdc units={payment.amountGross} />
        </Line>
        {payment.creditSpent !== '0' && (
          <Line name="Paid by credit">
            <Usdc units={payment.creditSpent} />
            <span className="muted"> Left of an earlier plan, after a change of plan.</span>
          </Line>
        )}
        {payment.amountCredited !== '0' && (
          <Line name="Made a credit">
            <Usdc units={payment.amountCredited} />
            <span className="muted"> The unused part, for the next plan. It is not refunded.</span>
          </Line>
        )}
        {isPaid && (
          <>
            <Line name="Platform fee">
              <Usdc units={payment.platformFee} />
            </Line>
            <Line name="Net">
              <Usdc units={payment.amountNet} />
            </Line>
            <Line name="Refunded">
              <Usdc units={payment.amountRefunded} />
            </Line>
          </>
        )}
        <Line name="Period">
          <Time at={payment.periodStart} dateOnly /> – <Time at={payment.periodEnd} dateOnly />
        </Line>
        {payment.txSignature !== null && (
          <Line name="Transaction">
            <Signature of={payment.txSignature} />
          </Line>
        )}
        {payment.receiptUrl !== null && (
          <Line name="For the customer">
            <a href={payment.receiptUrl} target="_blank" rel="noreferrer">
              Receipt
            </a>
          </Line>
        )}
        <Line name="Id">
          <Address of={payment.id} label="payment’s id" />
        </Line>
      </dl>
      {refunds.data !== undefined && refunds.data.length > 0 && (
        <>
          <h2>Refunds</h2>
          <RefundTable rows={refunds.data} />
        </>
      )}
      {refunding && (
        <RefundDialog
          context={context}
          payment={payment}
          onClose={() => {
            setRefunding(false);
            again();
          }}
        />
      )}
    </>
  );
}
