import { type ReactElement, useCallback } from 'react';
import type { components } from '../../client/openapi.ts';
import { Fill } from '../shared/fill.tsx';
import { language, words } from '../shared/language.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Badge, Signature, Usdc } from '../shared/parts.tsx';
import type { Session, Subscription } from '../shared/session.ts';
import { Table } from '../shared/table.tsx';
import { Time } from '../shared/time.tsx';

const LIVE_MS = 10_000;

export function Payments({
  session,
  subscription: { id },
}: {
  session: Session;
  subscription: Subscription;
}): ReactElement {
  const open = useCallback(
    () =>
      session.client.pages('/subscriber/subscriptions/{subscriptionId}/transactions', {
        path: { subscriptionId: id },
      }),
    [session, id],
  );
  const list = usePages(open, LIVE_MS);
  return (
    <ListOf list={list} empty={words.account.noPayments}>
      <Table
        label={words.account.payments}
        rows={list.rows}
        columns={[
          { head: words.account.date, cell: ({ occurredAt }) => <Time at={occurredAt} /> },
          { head: words.account.state, cell: ({ status }) => <Badge status={status} /> },
          {
            head: words.account.amount,
            isNumber: true,
            cell: (payment) => <Paid payment={payment} />,
          },
          {
            head: words.account.transaction,
            cell: ({ txSignature }) =>
              txSignature === null ? '–' : <Signature of={txSignature} />,
          },
          {
            head: words.account.receipt,
            cell: ({ receiptUrl }) =>
              receiptUrl === null ? (
                '–'
              ) : (
                <a href={`${receiptUrl}?lang=${language}`} target="_blank" rel="noreferrer">
                  {words.account.openReceipt}
                </a>
              ),
          },
        ]}
      />
    </ListOf>
  );
}

/**
 * Shows the collected amount exactly as on the receipt. If there is any, shows below it the credit
 * that was also spent and the sum of the refunds.
 */
function Paid({
  payment: { amountGross, creditSpent, amountRefunded },
}: {
  payment: components['schemas']['OwnTransaction'];
}): ReactElement {
  const further = [
    [words.account.withCredit, creditSpent],
    [words.account.refunded, amountRefunded],
  ] as const;
  return (
    <>
      <Usdc units={amountGross} />
      {further.map(
        ([text, units]) =>
          units !== '0' && (
            <span key={text} className="reason muted small">
              {' '}
              <Fill text={text} amount={<Usdc units={units} />} />
            </span>
          ),
      )}
    </>
  );
}
