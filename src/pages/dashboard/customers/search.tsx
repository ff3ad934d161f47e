import { Fragment, type ReactElement, useCallback, useEffect, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Badge, Notice, Skeleton } from '../../shared/parts.tsx';
import { Table } from '../../shared/table.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { type AppContext, useResponse } from '../parts/app-context.ts';
import { Customer, customerName, customerPage } from '../parts/customer.tsx';

type Hit = components['schemas']['SearchHit'];

const kinds: Readonly<Record<Hit['kind'], string>> = {
  subscription: 'Subscription',
  payment: 'Payment',
  refund: 'Refund',
  event: 'Event',
};

/** Returns the dashboard's URL of a search hit. */
function pageOf({ kind, id, subscriptionId }: Hit): string {
  if (kind === 'event') return `#/events/${id}`;
  if (kind === 'payment') return `#/payments/${id}`;
  return `#/subscriptions/${subscriptionId ?? ''}`;
}

/**
 * The search box. Pressing Enter opens the results. While results are shown, `text` is their search
 * text.
 */
export function SearchBox({ text }: { text: string | undefined }): ReactElement {
  const [typed, setTyped] = useState(text ?? '');
  useEffect(() => setTyped(text ?? ''), [text]);
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (typed.trim() !== '') location.hash = `#/search/${encodeURIComponent(typed.trim())}`;
      }}
    >
      <label className="small">
        <span className="visually-hidden">Search</span>
        <input
          type="search"
          value={typed}
          maxLength={120}
          placeholder="Customer, wallet, id…"
          spellCheck={false}
          onChange={({ target }) => setTyped(target.value)}
        />
      </label>
    </form>
  );
}

/** Lists the results of a search. */
export function Search({ context, text }: { context: AppContext; text: string }): ReactElement {
  const { session, app } = context;
  const ask = useCallback(
    () =>
      session.client.get('/merchant/apps/{appId}/search', {
        path: { appId: app.id },
        query: { q: text },
      }),
    [session, app.id, text],
  );
  const { data, error } = useResponse(ask);
  return (
    <>
      <div className="view-head">
        <h1>
          Found for <bdi>{foreign(text, 60)}</bdi>
        </h1>
      </div>
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      {data === undefined && error === undefined && <Skeleton />}
      {data?.length === 0 && (
        <div className="empty">
          <strong>Nothing found</strong>
          <span>
            Search for the start of your customer’s id, four characters of a wallet, a transaction’s
            signature, or an id of a subscription, payment, refund or event.
          </span>
        </div>
      )}
      {data !== undefined && <Customers hits={data} />}
      {data !== undefined && data.length > 0 && (
        <Table
          label="Found"
          rows={data}
          columns={[
            { head: 'What', cell: (hit) => <a href={pageOf(hit)}>{kinds[hit.kind]}</a> },
            {
              head: 'Customer',
              cell: ({ externalId, subscriberWallet, subscriptionId }) =>
                subscriberWallet === null ? (
                  '–'
                ) : (
                  <Customer
                    of={{ externalId, subscriberWallet }}
                    href={`#/subscriptions/${subscriptionId ?? ''}`}
                  />
                ),
            },
            { head: 'Plan', cell: ({ planName }) => <bdi>{foreign(planName ?? '–', 60)}</bdi> },
            {
              head: 'Status',
              cell: ({ kind, what }) =>
                kind === 'event' ? <code>{what}</code> : <Badge status={what} />,
            },
            { head: 'Date', cell: ({ at }) => <Time at={at} /> },
          ]}
        />
      )}
    </>
  );
}

/** Links to the customers that the hits belong to. */
function Customers({ hits }: { hits: readonly Hit[] }): ReactElement {
  const pages = new Map(
    hits.flatMap(({ externalId, subscriberWallet }) => {
      if (subscriberWallet === null) return [];
      const of = { externalId, subscriberWallet };
      return [[customerPage(of), customerName(of)] as const];
    }),
  );
  if (pages.size === 0) return <></>;
  return (
    <p>
      All of one customer:{' '}
      {[...pages].map(([href, name], index) => (
        <Fragment key={href}>
          {index > 0 && ', '}
          <a href={href}>
            <bdi>{name}</bdi>
          </a>
        </Fragment>
      ))}
    </p>
  );
}
