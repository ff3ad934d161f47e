import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Badge, Button, Signature, Usdc } from '../../shared/parts.tsx';
import { type Column, hiddenHead, Table } from '../../shared/table.tsx';
import { Time } from '../../shared/time.tsx';
import type { AppContext } from '../parts/app-context.ts';
import { Customer, customerName } from '../parts/customer.tsx';
import { failureText } from '../parts/reasons.ts';
import { RefundDialog } from './refund.tsx';
import { refundable } from './refundable.ts';

type Transaction = components['schemas']['Transaction'];

const isPaid = ({ status }: Transaction) => status === 'succeeded';

const columns: readonly Column<Transaction>[] = [
  {
    head: 'Date',
    cell: ({ id, occurredAt }) => (
      <a href={`#/payments/${id}`}>
        <Time at={occurredAt} />
      </a>
    ),
  },
  {
    head: 'Status',
    cell: ({ status, further, failureReason }) => (
      <>
        <Badge status={status} />
        {failureReason !== null && (
          <span className="reason muted small"> {failureText(failureReason)}</span>
        )}
        {further && (
          <span
            className="muted"
            title="The period was paid already: refund it if it was not wanted."
          >
            {' '}
            further
          </span>
        )}
      </>
    ),
  },
  {
    head: 'Gross',
    isNumber: true,
    cell: ({ amountGross, creditSpent }) => (
      <>
        <Usdc units={amountGross} />
        {creditSpent !== '0' && (
          <span className="reason muted small">
            {' '}
            and <Usdc units={creditSpent} /> of credit
          </span>
        )}
      </>
    ),
  },
  {
    head: 'Fee',
    isNumber: true,
    cell: (row) => (isPaid(row) ? <Usdc units={row.platformFee} /> : '–'),
  },
  {
    head: 'Net',
    isNumber: true,
    cell: (row) => (isPaid(row) ? <Usdc units={row.amountNet} /> : '–'),
  },
  {
    head: 'Refunded',
    isNumber: true,
    cell: ({ amountRefunded }) => (amountRefunded === '0' ? '–' : <Usdc units={amountRefunded} />),
  },
  {
    head: 'Transaction',
    cell: ({ txSignature }) => (txSignature === null ? '–' : <Signature of={txSignature} />),
  },
];

const customer: Column<Transaction> = {
  head: 'Customer',
  cell: (row) => <Customer of={row} />,
};

const receipt: Column<Transaction> = {
  head: 'Receipt',
  cell: ({ receiptUrl }) =>
    receiptUrl === null ? (
      '–'
    ) : (
      <a href={receiptUrl} target="_blank" rel="noreferrer">
        Receipt
      </a>
    ),
};

/** Shows payments, each with a button that refunds it. */
export function PaymentTable({
  context,
  label,
  rows,
  withCustomer = false,
  withReceipt = false,
  onChanged,
}: {
  context: AppContext;
  label: string;
  rows: readonly Transaction[];
  withCustomer?: boolean;
  withReceipt?: boolean;
  onChanged: () => void;
}): ReactElement {
  const [refunded, setRefunded] = useState<Transaction>();
  const shown = withCustomer ? [...columns.slice(0, 2), customer, ...columns.slice(2)] : columns;
  return (
    <>
      <Table
        label={label}
        rows={rows}
        columns={[
          ...shown,
          ...(withReceipt ? [receipt] : []),
          {
            head: hiddenHead('Actions'),
            isNumber: true,
            cell: (row) =>
              refundable(row) > 0n && (
                <Button kind="link" onClick={() => setRefunded(row)}>
                  Refund
                  <span className="visually-hidden"> the payment of {customerName(row)}</span>
                </Button>
              ),
          },
        ]}
      />
      {refunded !== undefined && (
        <RefundDialog
          context={context}
          payment={refunded}
          onClose={() => {
            setRefunded(undefined);
            onChanged();
          }}
        />
      )}
    </>
  );
}
