import { type ReactElement, useCallback } from 'react';
import { CreditTable } from '../shared/credit-table.tsx';
import { InvoiceBadge, InvoiceLines, InvoiceTime } from '../shared/invoice-lines.tsx';
import type { ShownInvoice } from '../shared/invoice-text.ts';
import { words } from '../shared/language.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import type { Session, Subscription } from '../shared/session.ts';
import { Table } from '../shared/table.tsx';
import { Payments } from './payments.tsx';

const LIVE_MS = 10_000;

interface Of {
  session: Session;
  subscription: Subscription;
}

/** Shows the invoices and payments of a subscription, and the credit that pays for it. */
export function History(of: Of): ReactElement {
  return (
    <>
      <h3>{words.invoice.title}</h3>
      <Invoices {...of} />
      <h3>{words.account.payments}</h3>
      <Payments {...of} />
      <CreditMovements {...of} />
    </>
  );
}

const isOpen = ({ state }: ShownInvoice): boolean => state === 'open';

/** Lists the invoices of a subscription with their lines, open ones first. */
function Invoices({ session, subscription: { id } }: Of): ReactElement {
  const open = useCallback(
    () =>
      session.client.pages('/subscriber/subscriptions/{subscriptionId}/invoices', {
        path: { subscriptionId: id },
      }),
    [session, id],
  );
  const list = usePages(open, LIVE_MS);
  const text = words.invoice;
  return (
    <ListOf list={list} empty={text.none}>
      <Table
        label={text.title}
        rows={[...list.rows.filter(isOpen), ...list.rows.filter((row) => !isOpen(row))]}
        columns={[
          { head: text.time, cell: (row) => <InvoiceTime of={row} /> },
          { head: words.account.state, cell: (row) => <InvoiceBadge of={row} /> },
          { head: text.lines, cell: (row) => <InvoiceLines of={row} /> },
        ]}
      />
    </ListOf>
  );
}

/** Lists the movements of the customer's credit; nothing while there is none. */
function CreditMovements({ session, subscription: { id } }: Of): ReactElement {
  const open = useCallback(
    () =>
      session.client.pages('/subscriber/subscriptions/{subscriptionId}/credits', {
        path: { subscriptionId: id },
      }),
    [session, id],
  );
  const list = usePages(open, LIVE_MS);
  if (list.rows.length === 0) return <></>;
  return (
    <>
      <h3>{words.credit.title}</h3>
      <ListOf list={list} empty="">
        <CreditTable rows={list.rows} />
      </ListOf>
    </>
  );
}
