import { type ReactElement, useCallback, useMemo, useState } from 'react';
import type { components } from '../../client/openapi.ts';
import { isCode, wordsOf } from '../shared/errors.ts';
import { ListOf } from '../shared/list-parts.tsx';
import { usePages } from '../shared/pages.ts';
import { Badge, Button, Notice, Signature, Usdc } from '../shared/parts.tsx';
import { type Column, Table } from '../shared/table.tsx';
import { foreign, shortAddress } from '../shared/text.ts';
import { Time } from '../shared/time.tsx';
import { DayFilter, instantOf, PlanFilter, StatusFilter } from './filters.tsx';
import { LIVE_MS, type Place, usePlans } from './place.ts';

const statuses = ['succeeded', 'failed'] as const;

const columns: readonly Column<components['schemas']['Transaction']>[] = [
  { head: 'Date', cell: ({ occurredAt }) => <Time at={occurredAt} /> },
  {
    head: 'Status',
    cell: ({ status, further }) => (
      <>
        <Badge status={status} />
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
    head: 'Wallet',
    cell: ({ subscriptionId, subscriberWallet }) => (
      <a href={`#/subscriptions/${subscriptionId}`} title={subscriberWallet}>
        <code>{shortAddress(subscriberWallet)}</code>
      </a>
    ),
  },
  { head: 'Gross', isNumber: true, cell: ({ amountGross }) => <Usdc units={amountGross} /> },
  { head: 'Fee', isNumber: true, cell: ({ platformFee }) => <Usdc units={platformFee} /> },
  { head: 'Net', isNumber: true, cell: ({ amountNet }) => <Usdc units={amountNet} /> },
  {
    head: 'Transaction',
    cell: ({ txSignature, failureReason }) =>
      txSignature === null ? (
        <span className="muted">{foreign(failureReason, 80)}</span>
      ) : (
        <Signature of={txSignature} />
      ),
  },
];

/** Lists the app's payments, newest first, and exports them. */
export function Payments({ place }: { place: Place }): ReactElement {
  const { session, app } = place;
  const [status, setStatus] = useState<(typeof statuses)[number]>();
  const [planId, setPlanId] = useState<string>();
  const [first, setFirst] = useState('');
  const [last, setLast] = useState('');
  const plans = usePlans(place);
  const since = instantOf(first);
  const until = instantOf(last, 1);
  const selection = useMemo(
    () => ({
      path: { appId: app.id },
      query: {
        ...(status !== undefined && { status: [status] }),
        ...(planId !== undefined && { planId }),
        ...(since !== undefined && { since }),
        ...(until !== undefined && { until }),
      },
    }),
    [app.id, status, planId, since, until],
  );
  const open = useCallback(
    () => session.client.pages('/merchant/apps/{appId}/transactions', selection),
    [session, selection],
  );
  const list = usePages(open, LIVE_MS);
  const [exporting, setExporting] = useState(false);
  const [problem, setProblem] = useState<string>();

  const save = async () => {
    setExporting(true);
    setProblem(undefined);
    try {
      const stream = await session.client.exportTransactions(selection);
      const url = URL.createObjectURL(await new Response(stream).blob());
      const link = Object.assign(document.createElement('a'), {
        href: url,
        download: 'payments.csv',
      });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      setProblem(
        isCode(error, 'FORBIDDEN') ? 'The export is part of the Pro tier.' : wordsOf(error),
      );
    }
    setExporting(false);
  };

  return (
    <>
      <div className="view-head">
        <h1>Payments</h1>
        <Button busy={exporting} onClick={() => void save()}>
          Export CSV
        </Button>
      </div>
      <div className="filters">
        <StatusFilter statuses={statuses} value={status} onChange={setStatus} />
        <PlanFilter plans={plans} value={planId} onChange={setPlanId} />
        <DayFilter label="From" value={first} onChange={setFirst} />
        <DayFilter label="To" value={last} onChange={setLast} />
      </div>
      {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
      <ListOf
        list={list}
        empty={
          <>
            <strong>No payments</strong>
            <span>Payments appear here as they are collected, failed attempts too.</span>
          </>
        }
      >
        <Table label="Payments" rows={list.rows} columns={columns} />
      </ListOf>
    </>
  );
}
