import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { InvoiceBadge, InvoiceLines, InvoiceTime } from '../../shared/invoice-lines.tsx';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Button, Usdc } from '../../shared/parts.tsx';
import { hiddenHead, Table } from '../../shared/table.tsx';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';

type Invoice = components['schemas']['Invoice'];

/** Interval (ms) at which open invoices that are not on the first page are read. */
const UNPAID_MS = 60_000;

/** Whose invoices are shown. Memoise it. */
export interface Selection {
  readonly subscriptionId?: string;
  readonly subscriberWallet?: string;
  readonly externalId?: string;
}

async function* nothing(): AsyncGenerator<Invoice[], void, undefined> {
  yield await Promise.resolve([]);
}

/** Lists invoices with their lines, open ones first. An open invoice can be forgiven. */
export function Invoices({
  context,
  selection,
  onChanged,
}: {
  context: AppContext;
  selection: Selection;
  onChanged: () => void;
}): ReactElement {
  const { session, app } = context;
  const { client } = session;
  const pagesOf = useCallback(
    (query: { state?: 'open'[] }) =>
      client.pages('/merchant/apps/{appId}/invoices', {
        path: { appId: app.id },
        query: { ...selection, ...query },
      }),
    [client, app.id, selection],
  );
  // The open invoice of a subscription is among its newest.
  const isOne = selection.subscriptionId !== undefined;
  const openUnpaid = useCallback(
    () => (isOne ? nothing() : pagesOf({ state: ['open'] })),
    [isOne, pagesOf],
  );
  const openAll = useCallback(() => pagesOf({}), [pagesOf]);
  const unpaid = usePages(openUnpaid, UNPAID_MS);
  const all = usePages(openAll, LIVE_MS);
  const [forgiving, setForgiving] = useState<Invoice>();
  const leave = () => setForgiving(undefined);
  // An open invoice may be older than the first page of all.
  const listed = new Set(all.rows.map(({ id }) => id));
  const older = unpaid.rows.filter(({ id }) => !listed.has(id));
  const open = all.rows.filter(({ state }) => state === 'open');
  const rows = [...open, ...older, ...all.rows.filter(({ state }) => state !== 'open')];
  const list = { ...all, rows };
  return (
    <>
      <ListOf list={list} empty="Nothing was due yet.">
        <InvoiceTable rows={rows} onForgive={setForgiving} />
      </ListOf>
      {forgiving !== undefined && (
        <Forgive
          context={context}
          invoice={forgiving}
          onClose={leave}
          onDone={() => {
            leave();
            unpaid.refresh();
            all.refresh();
            onChanged();
          }}
        />
      )}
    </>
  );
}

function InvoiceTable({
  rows,
  onForgive,
}: {
  rows: readonly Invoice[];
  onForgive: (invoice: Invoice) => void;
}): ReactElement {
  return (
    <Table
      label="Invoices"
      rows={rows}
      columns={[
        { head: 'For', cell: (row) => <InvoiceTime of={row} /> },
        {
          head: 'Status',
          cell: (row) => (
            <>
              <InvoiceBadge of={row} />
              {row.state === 'open' && row.nextTryAt !== null && (
                <span className="reason muted small">
                  {' '}
                  Next try <Time at={row.nextTryAt} />
                </span>
              )}
            </>
          ),
        },
        { head: 'Amounts', cell: (row) => <InvoiceLines of={row} /> },
        { head: 'Total', isNumber: true, cell: ({ total }) => <Usdc units={total} /> },
        {
          head: hiddenHead('Actions'),
          isNumber: true,
          cell: (row) =>
            row.state === 'open' && (
              <Button kind="link" onClick={() => onForgive(row)}>
                Forgive
              </Button>
            ),
        },
      ]}
    />
  );
}

function Forgive({
  context: { session, app },
  invoice,
  onClose,
  onDone,
}: {
  context: AppContext;
  invoice: Invoice;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const path = { appId: app.id, invoiceId: invoice.id };
  const run = () =>
    session.client.post('/merchant/apps/{appId}/invoices/{invoiceId}/void', { path });
  return (
    <Confirm
      title="Forgive this invoice?"
      button="Forgive"
      isDangerous
      {...{ run, onClose, onDone }}
    >
      <p>
        <Usdc units={invoice.amountDue} /> are not collected any more, and the time counts as paid:{' '}
        <InvoiceTime of={invoice} />. This cannot be undone.
      </p>
    </Confirm>
  );
}
