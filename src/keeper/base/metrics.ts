// The keeper's metrics. Operators build alerts on the names and meanings of these metrics, so both
// must stay stable.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { OURS_REASONS } from '../../chain/program/errors.ts';
import type { EndpointHealth } from '../../chain/rpc/endpoint.ts';
import { UNREADABLE_REASONS } from '../../chain/rpc/errors.ts';
import { measureOpenAttempts } from '../../db/money/payment-attempts.ts';
import { readOldestRefund } from '../../db/money/refunds.ts';
import { readOldestOffer } from '../../db/offers/signed-offers.ts';
import { readOldestRentCheck } from '../../db/offers/sponsor-rent.ts';
import { readOldestSponsorship } from '../../db/offers/sponsorships.ts';
import { readLastReconciliation } from '../../db/operating/reconciliation.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { readBacklog } from '../../db/subscriptions/leases.ts';
import { readOldestPlan } from '../../db/subscriptions/plan-watch.ts';
import { countBlockedPlans } from '../../db/subscriptions/plans.ts';
import { readOldestAwaited } from '../../db/subscriptions/unregistered.ts';
import { sponsorMetrics } from './sponsor-metrics.ts';
import type { KeeperTimes } from './times.ts';

/** Alert reasons that do not come from the error of a failed payment. */
const otherAlerts = [
  'pull_not_found',
  'period_mismatch',
  'slot_not_reached',
  'cannot_be_settled',
  'attempt_unexplained',
  'cannot_be_processed',
  'unknown_error',
  'endpoints_disagree',
  'accounts_vanished',
  'clock_not_believed',
  'charged_twice',
  'history_missing',
  'slot_not_believed',
  'sponsored_unregistered',
  'refund_excess',
];

const STREAM_METHODS = ['slotSubscribe', 'logsSubscribe', 'programSubscribe', 'accountSubscribe'];

/**
 * Scopes of a hold on collection. `all`, `merchant` and `plan`: an operator or the keeper has
 * stopped these payments. `timeline`: all payments are stopped because Postgres may have lost
 * commits.
 */
const HELD_SCOPES = ['all', 'merchant', 'plan', 'timeline'];

/** Queues whose length strangers can increase. measureQueues() measures their oldest row. */
const QUEUES = ['offers', 'sponsorships', 'refunds', 'rent', 'plans', 'awaited'] as const;

export type KeeperMetrics = ReturnType<typeof createMetrics>;

/** Registers the keeper's metrics. Throws when the registry already has these metrics. */
export function createMetrics(registry: Registry) {
  const metrics = {
    ...paymentMetrics(registry),
    ...transactionMetrics(registry),
    ...stateMetrics(registry),
    sponsor: sponsorMetrics(registry),
  };
  // Each counter starts at 0, because Prometheus would not see an increase if a counter first
  // appeared at 1.
  for (const outcome of ['succeeded', 'failed', 'expired'])
    metrics.payments.inc({ outcome, source: 'keeper' }, 0);
  metrics.payments.inc({ outcome: 'succeeded', source: 'foreign' }, 0);
  for (const kind of ['gross', 'fee', 'net', 'fee_owed', 'fee_owed_foreign'])
    metrics.cents.inc({ kind }, 0);
  for (const method of STREAM_METHODS) metrics.refusals.inc({ method }, 0);
  for (const reason of UNREADABLE_REASONS) metrics.unreadable.inc({ reason }, 0);
  for (const queue of QUEUES) metrics.queueOldest.set({ queue }, 0);
  for (const scope of HELD_SCOPES) metrics.held.set({ scope }, 0);
  for (const outcome of ['first', 'again', 'failed']) metrics.sends.inc({ outcome }, 0);
  for (const reason of [...OURS_REASONS, ...otherAlerts]) metrics.alerts.inc({ reason }, 0);
  return metrics;
}

function paymentMetrics(registry: Registry) {
  const { counter } = makers(registry);
  return {
    payments: counter(
      'billing_payments_total',
      'Payments by outcome (succeeded, failed, expired) and source (keeper, foreign)',
      ['outcome', 'source'],
    ),
    cents: counter(
      'billing_payments_cents_total',
      'Cents of USDC of recorded payments: moved (gross, fee, net), and fees that no treasury could receive (fee_owed) and those of pulls by others (fee_owed_foreign)',
      ['kind'],
    ),
    lateness: new Histogram({
      name: 'billing_payment_lateness_seconds',
      help: 'Chain seconds from the moment a payment fell due to the block that it landed in',
      buckets: [1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400],
      registers: [registry],
    }),
    settleSeconds: new Histogram({
      name: 'billing_payment_settle_seconds',
      help: 'Seconds from the signature of a payment to its settlement, once it is final',
      buckets: [0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300],
      registers: [registry],
    }),
    alerts: counter(
      'billing_keeper_alerts_total',
      "Failures that are not the subscriber's, by reason",
      ['reason'],
    ),
  };
}

/** Metrics of transactions: reads, sends, stream refusals and costs. */
function transactionMetrics(registry: Registry) {
  const { counter } = makers(registry);
  return {
    unreadable: counter(
      'billing_keeper_unreadable_transactions_total',
      'Transactions that no RPC endpoint returns readable, by reason (missing, version, undecodable, refused)',
      ['reason'],
    ),
    refusals: counter(
      'billing_keeper_stream_refusals_total',
      'WebSocket subscriptions that a node refused, by method',
      ['method'],
    ),
    sends: counter(
      'billing_keeper_sends_total',
      'Transactions sent, by outcome (first, again, failed)',
      ['outcome'],
    ),
    paymentsPerTransaction: new Histogram({
      name: 'billing_payments_per_transaction',
      help: 'Payments of each transaction that landed',
      buckets: [1, 2, 3, 5, 8, 10, 15],
      registers: [registry],
    }),
    lamportsPerPayment: new Histogram({
      name: 'billing_lamports_per_payment',
      help: 'Fee of the network for each payment that landed: its part of its transaction',
      buckets: [500, 550, 600, 700, 1000, 2000, 5000, 10_000],
      registers: [registry],
    }),
    failedLamports: counter(
      'billing_failed_transaction_lamports_total',
      'Lamports that transactions cost which failed on chain',
    ),
    merchantLamports: counter(
      'billing_merchant_lamports_total',
      "Fees of the network for a merchant's payments, by outcome (landed, failed)",
      ['merchant', 'outcome'],
    ),
  };
}

/** Gauges of the backlog, the keeper and its endpoints. */
function stateMetrics(registry: Registry) {
  const { gauge } = makers(registry);
  return {
    inFlight: gauge('billing_keeper_in_flight', 'Signed payments that this keeper watches'),
    openAttempts: gauge('billing_attempts_open', 'Open attempts of all keepers'),
    oldestOpenSeconds: gauge(
      'billing_attempts_open_oldest_seconds',
      'Seconds since the oldest open attempt was signed',
    ),
    oldestDueSeconds: gauge(
      'billing_due_oldest_seconds',
      'Chain seconds since the oldest unclaimed subscription fell due',
    ),
    waiting: gauge(
      'billing_due_waiting',
      'Subscriptions that are due and unclaimed, counted up to 10,000',
    ),
    blockedPlans: gauge(
      'billing_plans_blocked',
      'Plans of which no payment can be collected, by reason',
      ['reason'],
    ),
    queueOldest: gauge(
      'billing_queue_oldest_seconds',
      'Seconds for which the oldest row of a queue has been due, by queue: signed offers, open sponsored transactions that no keeper follows, refunds, rent, plans and awaited subscriptions that a keeper looks at; without what was put off',
      ['queue'],
    ),
    reconcileAge: gauge(
      'billing_reconcile_age_seconds',
      'Seconds since billing reconcile compared the last 30 days with the chain; before its first run, since the installation was recorded',
    ),
    differences: gauge(
      'billing_reconcile_differences',
      'Differences between the books and the chain that the last run of billing reconcile left',
    ),
    held: gauge(
      'billing_collection_held',
      'Holds of collection by scope (all, merchant, plan); timeline: 1 while signing waits after a failover of Postgres or for the checks of the start',
      ['scope'],
    ),
    sol: gauge('billing_keeper_sol', "SOL of each of the keeper's wallets", ['keeper']),
    rpcReachable: gauge('billing_keeper_rpc_reachable', '1 while an RPC endpoint answers'),
    accountsFollowed: gauge(
      'billing_keeper_accounts_followed',
      'Subscriber token accounts followed over WebSocket',
    ),
    endpointUp: gauge('billing_keeper_endpoint_up', '1 while the RPC endpoint answers', [
      'endpoint',
    ]),
    endpointLag: gauge(
      'billing_keeper_endpoint_lag_slots',
      'Slots that the RPC endpoint is behind the best one',
      ['endpoint'],
    ),
  };
}

function makers(registry: Registry) {
  const registers = [registry];
  return {
    counter: <T extends string>(name: string, help: string, labelNames: T[] = []) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <T extends string>(name: string, help: string, labelNames: T[] = []) =>
      new Gauge({ name, help, labelNames, registers }),
  };
}

/** Sets the gauges from the database and from the health of the RPC endpoints. */
export async function measure(
  { sql, metrics }: { sql: Sql; metrics: KeeperMetrics },
  {
    now,
    endpoints,
    followed,
  }: { now: Date; endpoints: readonly EndpointHealth[]; followed: number },
): Promise<void> {
  const [{ oldest, waiting }, open, blocked, reconciled] = await Promise.all([
    readBacklog(sql, now),
    measureOpenAttempts(sql),
    countBlockedPlans(sql),
    readLastReconciliation(sql),
  ]);
  if (reconciled !== undefined) {
    metrics.reconcileAge.set(reconciled.ageSeconds);
    metrics.differences.set(reconciled.differences);
  }
  metrics.waiting.set(waiting);
  metrics.blockedPlans.reset();
  for (const { reason, count } of blocked) metrics.blockedPlans.set({ reason }, count);
  metrics.oldestDueSeconds.set(oldest === null ? 0 : (now.getTime() - oldest.getTime()) / 1000);
  metrics.openAttempts.set(open.count);
  metrics.oldestOpenSeconds.set(open.oldestSeconds);
  metrics.accountsFollowed.set(followed);
  for (const { name: endpoint, failures, lag } of endpoints) {
    metrics.endpointUp.set({ endpoint }, failures === 0 ? 1 : 0);
    // If an endpoint does not respond, its lag is removed from the metric, because the last value
    // would look healthy.
    if (failures === 0) metrics.endpointLag.set({ endpoint }, lag);
    else metrics.endpointLag.remove({ endpoint });
  }
}

/** Sets the gauge of each queue in QUEUES. */
export async function measureQueues({
  sql,
  metrics,
  times,
}: {
  sql: Sql;
  times: Pick<KeeperTimes, 'plans'>;
  metrics: Pick<KeeperMetrics, 'queueOldest'>;
}): Promise<void> {
  const ages: Record<(typeof QUEUES)[number], number> = {
    offers: await readOldestOffer(sql),
    sponsorships: await readOldestSponsorship(sql),
    refunds: await readOldestRefund(sql),
    rent: await readOldestRentCheck(sql),
    plans: await readOldestPlan(sql, times.plans),
    awaited: await readOldestAwaited(sql),
  };
  for (const queue of QUEUES) metrics.queueOldest.set({ queue }, ages[queue]);
}
