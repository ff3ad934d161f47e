// The page of one customer of an app (`#/customers/<wallet or externalId>`): subscriptions, credit,
// invoices, payments, refunds and metadata.
import { type ReactElement, useCallback, useMemo } from 'react';
import type { components } from '../../../client/openapi.ts';
import { isCode } from '../../shared/errors.ts';
import { Line } from '../../shared/line.tsx';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Address, SubscriptionBadge, Usdc } from '../../shared/parts.tsx';
import { Table } from '../../shared/table.tsx';
import { foreign, shortAddress } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import { LIVE_MS, type AppContext, usePlans, useResponse } from '../parts/app-context.ts';
import { Loading } from '../parts/loading.tsx';
import { Metadata } from '../parts/metadata.tsx';
import { Invoices } from '../payments/invoices.tsx';
import { PaymentTable } from '../payments/payment-table.tsx';
import { RefundTable } from '../payments/refund-table.tsx';
import { Credit } from './credit.tsx';

type Sums = components['schemas']['CustomerSums'];
type Subscription = components['schemas']['Subscription'];
type By = 'wallet' | 'externalId';
/** `customerId` is undefined if the subscriptions of a wallet belong to several other customers. */
type Found = Sums & { by: By; customerId: string | undefined };

/**
 * The form of a wallet address. An externalId may have this form too, so findCustomer() looks for a
 * wallet first and then for an externalId.
 */
const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

async function findCustomer({ session, app }: AppContext, id: string): Promise<Found> {
  const read = async (by: By): Promise<Found> => {
    const path = { appId: app.id };
    const query = { [by]: id };
    const sums = await session.client.get('/merchant/apps/{appId}/customer', { path, query });
    const [only, ...others] = sums.customerIds;
    if (others.length === 0) return { ...sums, by, customerId: only };
    const [own] = await session.client.get('/merchant/apps/{appId}/customers', { path, query });
    return { ...sums, by, customerId: own?.id };
  };
  if (!ADDRESS.test(id)) return read('externalId');
  try {
    return await read('wallet');
  } catch (error) {
    // VALIDATION_ERROR means that the id does not decode to the 32 bytes of an address.
    if (!isCode(error, 'NOT_FOUND') && !isCode(error, 'VALIDATION_ERROR')) throw error;
    return read('externalId');
  }
}

export function CustomerView({ context, id }: { context: AppContext; id: string }): ReactElement {
  const { session, app } = context;
  const ask = useCallback(() => findCustomer({ session, app }, id), [session, app, id]);
  const { data: customer, error, again } = useResponse(ask, LIVE_MS);
  const back = (
    <p>
      <a href="#/subscriptions">All subscriptions</a>
    </p>
  );
  if (customer === undefined)
    return (
      <>
        {back}
        <Loading error={error} />
      </>
    );
  const { by, externalIds, customerId } = customer;
  const [name] = externalIds;
  const isNamed = by === 'wallet' && externalIds.length === 1 && name !== undefined;
  return (
    <>
      {back}
      <div className="view-head">
        <h1>
          <bdi>
            {isNamed ? foreign(name, 60) : by === 'wallet' ? shortAddress(id) : foreign(id, 60)}
          </bdi>
        </h1>
      </div>
      <Facts of={customer} />
      <Credit context={context} of={customer} customerId={customerId} onChanged={again} />
      <Lists context={context} id={id} by={by} onChanged={again} />
    </>
  );
}

function Facts({ of }: { of: Found }): ReactElement {
  const { by, externalIds, wallets } = of;
  return (
    <dl className="lines card">
      <Line name={externalIds.length > 1 ? 'Your customer’s ids' : 'Your customer’s id'}>
        {externalIds.length === 0 && '–'}
        {externalIds.map((one) => (
          <div key={one}>
            {by === 'externalId' ? (
              <bdi>{foreign(one, 120)}</bdi>
            ) : (
              <>
                <a href={`#/customers/${encodeURIComponent(one)}`}>
                  <bdi>{foreign(one, 120)}</bdi>
                </a>
                <span className="muted"> Here is what this wallet has alone.</span>
              </>
            )}
          </div>
        ))}
      </Line>
      <Line name={wallets.length > 1 ? 'Wallets' : 'Wallet'}>
        {wallets.map((one) => (
          <div key={one}>
            <Address of={one} label="subscriber’s wallet" />
            {by === 'externalId' && wallets.length > 1 && (
              <>
                {' '}
                <a href={`#/customers/${one}`}>
                  Only this one<span className="visually-hidden">, {shortAddress(one)}</span>
                </a>
              </>
            )}
          </div>
        ))}
      </Line>
      <Line name="Paid in all">
        <Usdc units={of.amountPaid} />
      </Line>
      <Line name="Refunded in all">
        <Usdc units={of.amountRefunded} />
      </Line>
      <Line name="Live subscriptions">
        {of.liveSubscriptions} <span className="muted">of {of.subscriptions}</span>
      </Line>
      <Line name="Customer since">
        <Time at={of.createdAt} />
      </Line>
    </dl>
  );
}

function Lists({
  context,
  id,
  by,
  onChanged,
}: {
  context: AppContext;
  id: string;
  by: By;
  onChanged: () => void;
}): ReactElement {
  const { session, app } = context;
  const { client } = session;
  const selection = useMemo(
    () => ({
      path: { appId: app.id },
      query: by === 'wallet' ? { subscriberWallet: id } : { externalId: id },
    }),
    [app.id, id, by],
  );
  const openSubscriptions = useCallback(
    () => client.pages('/merchant/apps/{appId}/subscriptions', selection),
    [client, selection],
  );
  const openPayments = useCallback(
    () => client.pages('/merchant/apps/{appId}/transactions', selection),
    [client, selection],
  );
  const openRefunds = useCallback(
    () => client.pages('/merchant/apps/{appId}/refunds', selection),
    [client, selection],
  );
  const subscriptions = usePages(openSubscriptions, LIVE_MS);
  const payments = usePages(openPayments, LIVE_MS);
  const refunds = usePages(openRefunds, LIVE_MS);
  const plans = usePlans(context);
  const nameOf = (planId: string) =>
    foreign(plans.find((plan) => plan.id === planId)?.name ?? 'Subscription', 60);
  const changed = () => {
    subscriptions.refresh();
    payments.refresh();
    refunds.refresh();
    onChanged();
  };
  return (
    <>
      <AllMetadata rows={subscriptions.rows} nameOf={nameOf} />
      <h2>Subscriptions</h2>
      <ListOf list={subscriptions} empty="No subscription.">
        <SubscriptionTable rows={subscriptions.rows} nameOf={nameOf} />
      </ListOf>
      <h2>Invoices</h2>
      <Invoices context={context} selection={selection.query} onChanged={changed} />
      <h2>Payments</h2>
      <ListOf list={payments} empty="Nothing is paid yet, and no payment has failed.">
        <PaymentTable
          context={context}
          label="Payments"
          rows={payments.rows}
          withReceipt
          onChanged={changed}
        />
      </ListOf>
      <h2>Refunds</h2>
      <ListOf list={refunds} empty="No refund.">
        <RefundTable rows={refunds.rows} withPayment />
      </ListOf>
    </>
  );
}

type NameOf = (planId: string) => string;

/**
 * Shows the metadata of the customer's subscriptions. Equal metadata of several subscriptions is
 * shown once.
 */
function AllMetadata({
  rows,
  nameOf,
}: {
  rows: readonly Subscription[];
  nameOf: NameOf;
}): ReactElement {
  const texts = rows.map(({ metadata }) => JSON.stringify(metadata));
  const different = rows.filter(
    ({ metadata }, index) =>
      Object.keys(metadata).length > 0 && texts.indexOf(JSON.stringify(metadata)) === index,
  );
  if (different.length === 0) return <></>;
  return (
    <>
      <h2>Metadata</h2>
      {different.map((row) => (
        <section key={row.id} aria-label={`Metadata of ${nameOf(row.planId)}`}>
          {different.length > 1 && (
            <h3>
              <a href={`#/subscriptions/${row.id}`}>
                <bdi>{nameOf(row.planId)}</bdi>
              </a>
            </h3>
          )}
          <Metadata of={row.metadata} />
        </section>
      ))}
    </>
  );
}

function SubscriptionTable({
  rows,
  nameOf,
}: {
  rows: readonly Subscription[];
  nameOf: NameOf;
}): ReactElement {
  return (
    <Table
      label="Subscriptions"
      rows={rows}
      columns={[
        {
          head: 'Plan',
          cell: ({ id, planId }) => (
            <a href={`#/subscriptions/${id}`}>
              <bdi>{nameOf(planId)}</bdi>
            </a>
          ),
        },
        { head: 'Status', cell: (row) => <SubscriptionBadge of={row} /> },
        { head: 'Amount', isNumber: true, cell: ({ amount }) => <Usdc units={amount} /> },
        {
          head: 'Access until',
          cell: ({ accessUntil }) => (accessUntil === null ? '–' : <Time at={accessUntil} />),
        },
        {
          head: 'Next payment',
          cell: ({ nextPaymentDue, cancelRequestedAt }) =>
            nextPaymentDue === null || cancelRequestedAt !== null ? (
              '–'
            ) : (
              <Time at={nextPaymentDue} />
            ),
        },
        { head: 'Since', cell: ({ createdAt }) => <Time at={createdAt} dateOnly /> },
      ]}
    />
  );
}
