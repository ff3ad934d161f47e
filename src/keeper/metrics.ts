// Metrics, their names and meanings are part of the operators' interface; and reports of what was written or could not be read.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { AbsenceAlarm } from '../chain/absence.ts';
import type { SignatureStatus } from '../chain/answers.ts';
import { transactionFee } from '../chain/collection.ts';
import type { EndpointHealth } from '../chain/endpoint.ts';
import { OURS_REASONS } from '../chain/errors.ts';
import { UNREADABLE_REASONS } from '../chain/rpc-errors.ts';
import type { Sql } from '../db/connect.ts';
import { measureOpenAttempts } from '../db/payment-attempts.ts';
import { countBlockedPlans } from '../db/plans.ts';
import { readBacklog } from '../db/subscriptions.ts';
import { isCharged } from '../domain/attempt-end.ts';
import type { Outgoing } from '../domain/in-flight.ts';
import type { Draft } from '../domain/transitions.ts';
import type { Log } from '../log.ts';

/** Reasons for alerts other than a failed transaction. */
const otherAlerts = [
  'pull_not_found',
  'period_mismatch',
  'cannot_be_settled',
  'cannot_be_processed',
  'unknown_error',
  'endpoints_disagree',
  'accounts_vanished',
  'clock_not_believed',
];

const STREAM_METHODS = ['slotSubscribe', 'logsSubscribe', 'programSubscribe', 'accountSubscribe'];

export interface KeeperMetrics {
  readonly payments: Counter<'outcome' | 'source'>;
  readonly cents: Counter<'kind'>;
  readonly lateness: Histogram;
  readonly settleSeconds: Histogram;
  readonly alerts: Counter<'reason'>;
  readonly unreadable: Counter<'reason'>;
  readonly refusals: Counter<'method'>;
  readonly sends: Counter<'outcome'>;
  readonly paymentsPerTransaction: Histogram;
  readonly lamportsPerPayment: Histogram;
  readonly failedLamports: Counter;
  readonly merchantLamports: Counter<'merchant' | 'outcome'>;
  readonly inFlight: Gauge;
  readonly openAttempts: Gauge;
  readonly oldestOpenSeconds: Gauge;
  readonly oldestDueSeconds: Gauge;
  readonly waiting: Gauge;
  readonly blockedPlans: Gauge<'reason'>;
  readonly sol: Gauge<'keeper'>;
  readonly rpcReachable: Gauge;
  readonly accountsFollowed: Gauge;
  readonly endpointUp: Gauge<'endpoint'>;
  readonly endpointLag: Gauge<'endpoint'>;
}

/** Registers the keeper's metrics. Throws when they are registered already. */
export function createMetrics(registry: Registry): KeeperMetrics {
  const registers = [registry];
  const counter = <T extends string>(name: string, help: string, labelNames: T[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const gauge = <T extends string>(name: string, help: string, labelNames: T[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  const metrics: KeeperMetrics = {
    payments: counter(
      'billing_payments_total',
      'Payments by outcome (succeeded, failed, expired) and source (keeper, foreign)',
      ['outcome', 'source'],
    ),
    cents: counter(
      'billing_payments_cents_total',
      'Cents of USDC of recorded payments: moved (gross, fee, net), and fees that no treasury could receive (fee_owed)',
      ['kind'],
    ),
    lateness: new Histogram({
      name: 'billing_payment_lateness_seconds',
      help: 'Chain seconds from the moment a payment fell due to the block that it landed in',
      buckets: [1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21_600, 86_400],
      registers,
    }),
    settleSeconds: new Histogram({
      name: 'billing_payment_settle_seconds',
      help: 'Seconds from the signature of a payment to its settlement, once it is final',
      buckets: [0.5, 1, 2.5, 5, 10, 15, 20, 30, 60, 120, 300],
      registers,
    }),
    alerts: counter(
      'billing_keeper_alerts_total',
      "Failures that are not the subscriber's, by reason",
      ['reason'],
    ),
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
      registers,
    }),
    lamportsPerPayment: new Histogram({
      name: 'billing_lamports_per_payment',
      help: 'Fee of the network for each payment that landed: its part of its transaction',
      buckets: [500, 550, 600, 700, 1000, 2000, 5000, 10_000],
      registers,
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
  // Prometheus sees no increase in a counter that appears with its first event: begin at 0.
  for (const outcome of ['succeeded', 'failed', 'expired'])
    metrics.payments.inc({ outcome, source: 'keeper' }, 0);
  metrics.payments.inc({ outcome: 'succeeded', source: 'foreign' }, 0);
  for (const kind of ['gross', 'fee', 'net', 'fee_owed']) metrics.cents.inc({ kind }, 0);
  for (const method of STREAM_METHODS) metrics.refusals.inc({ method }, 0);
  for (const reason of UNREADABLE_REASONS) metrics.unreadable.inc({ reason }, 0);
  for (const outcome of ['first', 'again', 'failed']) metrics.sends.inc({ outcome }, 0);
  for (const reason of [...OURS_REASONS, ...otherAlerts]) metrics.alerts.inc({ reason }, 0);
  return metrics;
}

/** USDC base units as cents, for a metric: a floating-point number. */
const inCents = (baseUnits: bigint) => Number(baseUnits) / 10_000;

/** Counts a written draft's payments and raises `alert`, a failure of ours. Called after the commit. */
export function report(
  { log, metrics }: { log: Log; metrics: KeeperMetrics },
  { row, payments, state }: Draft,
  alert?: string,
  detail?: string,
): void {
  for (const payment of payments) {
    metrics.payments.inc({ outcome: payment.status, source: payment.source });
    if (payment.status === 'failed') continue;
    metrics.cents.inc({ kind: 'gross' }, inCents(payment.amountGross));
    metrics.cents.inc({ kind: 'fee' }, inCents(payment.platformFee));
    metrics.cents.inc({ kind: 'net' }, inCents(payment.amountNet));
    metrics.cents.inc({ kind: 'fee_owed' }, inCents(payment.feeOwed));
    if (payment.source === 'keeper' && row.nextPaymentDue !== null)
      metrics.lateness.observe(
        Math.max(0, payment.occurredAt.getTime() - row.nextPaymentDue.getTime()) / 1000,
      );
    if (payment.source === 'foreign') {
      log.warn(
        {
          subscription: row.id,
          signature: payment.txSignature,
          amount: payment.amountGross.toString(),
        },
        payment.further
          ? 'foreign pull in a period that was paid already'
          : 'foreign pull under our plan; the period is paid without a fee',
      );
    }
  }
  if (alert === undefined) return;
  metrics.alerts.inc({ reason: alert });
  log.error(
    {
      subscription: row.id,
      subscriptionPda: row.subscriptionPda,
      plan: row.planPda,
      reason: alert,
      detail,
      setbacks: state.setbacks,
      nextTry: state.dueAt,
    },
    'payment cannot be collected for a reason that is not the subscriber',
  );
}

/** Raises an alert about endpoints that are not believed: counted, and logged. */
export function alarm(
  { log, metrics }: { log: Pick<Log, 'error'>; metrics: Pick<KeeperMetrics, 'alerts'> },
  reason: AbsenceAlarm | 'clock_not_believed',
  facts: Readonly<Record<string, number>>,
): void {
  metrics.alerts.inc({ reason });
  log.error({ reason, ...facts }, 'RPC endpoints not believed');
}

/** Sets the gauges that are read from the database and of the endpoints. */
export async function measure(
  { sql, metrics }: { sql: Sql; metrics: KeeperMetrics },
  {
    now,
    endpoints,
    followed,
  }: { now: Date; endpoints: readonly EndpointHealth[]; followed: number },
): Promise<void> {
  const [{ oldest, waiting }, open, blocked] = await Promise.all([
    readBacklog(sql, now),
    measureOpenAttempts(sql),
    countBlockedPlans(sql),
  ]);
  metrics.waiting.set(waiting);
  metrics.blockedPlans.reset();
  for (const { reason, count } of blocked) metrics.blockedPlans.set({ reason }, count);
  metrics.oldestDueSeconds.set(oldest === null ? 0 : (now.getTime() - oldest.getTime()) / 1000);
  metrics.openAttempts.set(open.count);
  metrics.oldestOpenSeconds.set(open.oldestSeconds);
  metrics.accountsFollowed.set(followed);
  for (const { name: endpoint, failures, lag } of endpoints) {
    metrics.endpointUp.set({ endpoint }, failures === 0 ? 1 : 0);
    // An endpoint that does not answer has no lag: its last lag would look healthy.
    if (failures === 0) metrics.endpointLag.set({ endpoint }, lag);
    else metrics.endpointLag.remove({ endpoint });
  }
}

/** Counts the network's fee of a transaction that is final: for its payments, or for nothing where it failed. */
export function reportTransaction(
  { metrics, programId }: { metrics: KeeperMetrics; programId: string },
  { bytes, size, payments }: Outgoing,
  { err }: SignatureStatus,
): void {
  const lamports = Number(transactionFee(bytes));
  // Only the payment of the instruction that failed is charged; its merchant caused the fee.
  const charged = [...payments.values()].filter(
    ({ attempt, row }) => err === null || isCharged(programId, { attempt, row }, err),
  );
  const outcome = err === null ? 'landed' : 'failed';
  const share = lamports / (err === null ? size : charged.length);
  for (const { row } of charged)
    metrics.merchantLamports.inc({ merchant: row.merchantWallet, outcome }, share);
  if (err !== null) {
    metrics.failedLamports.inc(lamports);
    return;
  }
  metrics.paymentsPerTransaction.observe(size);
  for (let payment = 0; payment < size; payment += 1)
    metrics.lamportsPerPayment.observe(lamports / size);
}
