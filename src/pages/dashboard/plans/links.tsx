import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { discountText } from '../../shared/discount.ts';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Badge, Button, Copy } from '../../shared/parts.tsx';
import { span } from '../../shared/period.ts';
import { hiddenHead, Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, usePlans } from '../parts/app-context.ts';
import { NewLink } from './new-link.tsx';

type CheckoutSession = components['schemas']['CheckoutSession'];

/** Lists the checkout sessions. One customer can subscribe once with the link of a session. */
export function Links({ context }: { context: AppContext }): ReactElement {
  const { session, app } = context;
  const open = useCallback(
    () =>
      session.client.pages('/merchant/apps/{appId}/checkout-sessions', { path: { appId: app.id } }),
    [session, app.id],
  );
  const list = usePages(open, LIVE_MS);
  const plans = usePlans(context);
  const [making, setMaking] = useState(false);
  const nameOf = (id: string) => plans.find((plan) => plan.id === id)?.name ?? '';
  return (
    <>
      <div className="view-head">
        <h1>Checkout links</h1>
        <Button kind="primary" onClick={() => setMaking(true)}>
          New link
        </Button>
      </div>
      <p className="muted">
        A link is for one customer, once, for 24 hours. For a link that anyone can use, take the
        plan’s own under <a href="#/plans">Plans</a>.
      </p>
      <ListOf
        list={list}
        empty={
          <>
            <strong>No checkout links yet</strong>
            <span>Make one for a customer, or let your server make them over the API.</span>
          </>
        }
      >
        <Table
          label="Checkout links"
          rows={list.rows}
          columns={[
            { head: 'Customer', cell: (row) => <Customer row={row} /> },
            { head: 'Plan', cell: ({ planId }) => <bdi>{foreign(nameOf(planId), 60)}</bdi> },
            {
              head: 'Discount',
              cell: ({ discount }) => (discount === null ? '–' : discountText(discount)),
            },
            {
              head: 'Free trial',
              cell: ({ trialHours }) => (trialHours === null ? '–' : span(trialHours)),
            },
            { head: 'Status', cell: ({ status }) => <Badge status={status} /> },
            { head: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
            { head: 'Expires', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
            { head: hiddenHead('Link'), isNumber: true, cell: (row) => <Way row={row} /> },
          ]}
        />
      </ListOf>
      {making && (
        <NewLink
          context={context}
          plans={plans.filter(({ status }) => status === 'active')}
          onMade={list.refresh}
          onClose={() => setMaking(false)}
        />
      )}
    </>
  );
}

function Customer({ row: { externalId } }: { row: CheckoutSession }): ReactElement {
  if (externalId === null) return <span className="muted">–</span>;
  return <bdi>{foreign(externalId, 60)}</bdi>;
}

/** Links to the session's subscription. While the session is open, links to the checkout page. */
function Way({
  row: { status, url, externalId, subscriptionId },
}: {
  row: CheckoutSession;
}): ReactElement {
  if (subscriptionId !== null)
    return <a href={`#/subscriptions/${subscriptionId}`}>Subscription</a>;
  if (status !== 'open') return <></>;
  const whose = externalId === null ? 'link' : `link of ${foreign(externalId, 60)}`;
  return (
    <span className="address">
      <a href={url} target="_blank" rel="noreferrer">
        Open<span className="visually-hidden"> the {whose}</span>
      </a>
      <Copy text={url} label={`Copy the ${whose}`} />
    </span>
  );
}
