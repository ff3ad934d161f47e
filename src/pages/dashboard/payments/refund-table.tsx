import type { ReactElement } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Badge, Signature, Usdc } from '../../shared/parts.tsx';
import { type Column, Table } from '../../shared/table.tsx';
import { Time } from '../../shared/time.tsx';

type Refund = components['schemas']['Refund'];

const payment: Column<Refund> = {
  head: 'Payment',
  cell: ({ transactionId }) => <a href={`#/payments/${transactionId}`}>Open it</a>,
};

/** Shows refunds. `withPayment` adds a link to the refunded payment. */
export function RefundTable({
  rows,
  withPayment = false,
}: {
  rows: readonly Refund[];
  withPayment?: boolean;
}): ReactElement {
  return (
    <Table
      label="Refunds"
      rows={rows}
      columns={[
        { head: 'Asked', cell: ({ createdAt }) => <Time at={createdAt} /> },
        { head: 'Status', cell: ({ status }) => <Badge status={status} /> },
        { head: 'Amount', isNumber: true, cell: ({ amount }) => <Usdc units={amount} /> },
        {
          head: 'Beyond the payment',
          isNumber: true,
          cell: ({ excess }) => (excess === '0' ? '–' : <Usdc units={excess} />),
        },
        {
          head: 'Receipt',
          cell: ({ txSignature }) => (txSignature === null ? '–' : <Signature of={txSignature} />),
        },
        ...(withPayment ? [payment] : []),
      ]}
    />
  );
}
