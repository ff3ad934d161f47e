import { type ReactElement, useCallback, useMemo, useState } from 'react';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import {
  LIVE_MS,
  type AppContext,
  useChoice,
  usePlans,
  useResponse,
} from '../parts/app-context.ts';
import { DaysFilter, PlanFilter, StatusFilter, useDays, usePlanChoice } from '../parts/filters.tsx';
import { AskForPro, Export, type PaymentFilters } from './export.tsx';
import { PaymentTable } from './payment-table.tsx';

const statuses = ['succeeded', 'failed'] as const;

/** Lists the app's payments, newest first, and exports them. */
export function Payments({ context }: { context: AppContext }): ReactElement {
  const { session, app } = context;
  const [status, setStatus] = useChoice('status', statuses);
  const [planId, setPlanId] = usePlanChoice();
  const days = useDays();
  const plans = usePlans(context);
  const selection = useMemo(
    () => ({
      path: { appId: app.id },
      query: {
        ...(status !== undefined && { status: [status] }),
        ...(planId !== undefined && { planId }),
        ...days.range,
      },
    }),
    [app.id, status, planId, days.range],
  );
  const askProfile = useCallback(() => session.client.get('/merchant/profile'), [session]);
  const { data: profile, again } = useResponse(askProfile);
  const [isExporting, setExporting] = useState(false);

  return (
    <>
      <div className="view-head">
        <h1>Payments</h1>
        {profile?.tier === 'pro' && (
          <Button disabled={days.problem !== undefined} onClick={() => setExporting(true)}>
            Export CSV
          </Button>
        )}
      </div>
      {profile?.tier === 'free' && <AskForPro context={context} merchantId={profile.id} />}
      <div className="filters">
        <StatusFilter statuses={statuses} value={status} onChange={setStatus} />
        <PlanFilter plans={plans} value={planId} onChange={setPlanId} />
        <DaysFilter days={days} />
      </div>
      {days.problem === undefined ? (
        <Found context={context} selection={selection} />
      ) : (
        <Notice kind="warning">{days.problem}</Notice>
      )}
      {profile?.tier === 'pro' && isExporting && (
        <Export
          context={context}
          filters={selection.query}
          onClose={() => setExporting(false)}
          onRefused={() => {
            setExporting(false);
            again();
          }}
        />
      )}
    </>
  );
}

interface Selection {
  readonly path: { appId: string };
  readonly query: PaymentFilters;
}

function Found({
  context,
  selection,
}: {
  context: AppContext;
  selection: Selection;
}): ReactElement {
  const { client } = context.session;
  const open = useCallback(
    () => client.pages('/merchant/apps/{appId}/transactions', selection),
    [client, selection],
  );
  const list = usePages(open, LIVE_MS);
  return (
    <ListOf
      list={list}
      empty={
        <>
          <strong>No payments</strong>
          <span>Payments appear here as they are collected, failed attempts too.</span>
        </>
      }
    >
      <PaymentTable
        context={context}
        label="Payments"
        rows={list.rows}
        withCustomer
        onChanged={list.refresh}
      />
    </ListOf>
  );
}
