import type { ReactElement } from 'react';
import type { components } from '../../client/openapi.ts';
import { fill } from '../../words/fill.ts';
import { words } from './language.ts';
import { Usdc } from './parts.tsx';
import { type Column, Table } from './table.tsx';
import { foreign } from './text.ts';
import { Time } from './time.tsx';

type Movement = components['schemas']['OwnCreditMovement'];

/** Describes a movement of credit. */
const movementText = ({ reason, planName }: Movement): string =>
  reason === 'change_of_plan'
    ? fill(words.credit.change_of_plan, { plan: foreign(planName ?? words.invoice.plan, 60) })
    : words.credit[reason];

/** Shows movements of credit, with `columns` after the reason. */
export function CreditTable<Row extends Movement>({
  rows,
  columns = [],
}: {
  rows: readonly Row[];
  columns?: readonly Column<Row>[];
}): ReactElement {
  return (
    <Table
      label={words.credit.title}
      rows={rows}
      columns={[
        { head: words.account.date, cell: ({ createdAt }) => <Time at={createdAt} /> },
        { head: words.credit.change, cell: (row) => <bdi>{movementText(row)}</bdi> },
        ...columns,
        {
          head: words.account.amount,
          isNumber: true,
          cell: ({ amount }) => <Usdc units={amount} />,
        },
      ]}
    />
  );
}
