// What operators can watch. Names and meanings are part of the operators' interface.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { OURS_REASONS } from '../chain/errors.ts';

/** Reasons for alerts that no transaction's failure gives. */
const otherAlerts = ['pull_not_found', 'period_mismatch', 'cannot_be_settled', 'cannot_be_processed', 'unknown_error'];

export interface KeeperMetrics {
  readonly payments: Counter<'outcome' | 'source'>;
  readonly cents: Counter<'kind'>;
  readonly lateness: Histogram;
  readonly settleSeconds: Histogram;
  readonly alerts: Counter<'reason'>;
  readonly sends: Counter<'outcome'>;
  readonly inFlight: Gauge;
  readonly openAttempts: Gauge;
  readonly oldestOpenSeconds: Gauge;
  readonly oldestDueSeconds: Gauge;
  readonly waiting: Gauge;
  readonly sol: Gauge;
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
  const gauge = <T extends string>(name: string, help: string, labelNames: T[] = []) => new Gauge({ name, help, labelNames, registers });
  const metrics: KeeperMetrics = {
    payments: counter('billing_payments_total', 'Payments by outcome (succeeded, failed, expired) and source (keeper, foreign)', [
      'outcome',
      'source',
    ]),
    cents: counter('billing_payments_cents_total', 'Cents of USDC moved by recorded payments (gross, fee, net)', ['kind']),
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
    alerts: counter('billing_keeper_alerts_total', "Failures that are not the subscriber's, by reason", ['reason']),
    sends: counter('billing_keeper_sends_total', 'Transactions sent, by outcome (first, again, failed)', ['outcome']),
    inFlight: gauge('billing_keeper_in_flight', 'Signed transactions that this keeper watches'),
    openAttempts: gauge('billing_attempts_open', 'Signed transactions of all keepers whose end is not known yet'),
    oldestOpenSeconds: gauge('billing_attempts_open_oldest_seconds', 'Seconds since the oldest of them was signed'),
    oldestDueSeconds: gauge('billing_due_oldest_seconds', 'Chain seconds since the oldest subscription fell due that nobody has in hand'),
    waiting: gauge('billing_due_waiting', "Subscriptions that are due and in nobody's hand, counted up to 10,000"),
    sol: gauge('billing_keeper_sol', "SOL of the keeper's wallet"),
    rpcReachable: gauge('billing_keeper_rpc_reachable', '1 while an RPC endpoint answers'),
    accountsFollowed: gauge('billing_keeper_accounts_followed', 'Token accounts of subscribers that are followed over WebSocket'),
    endpointUp: gauge('billing_keeper_endpoint_up', '1 while the RPC endpoint answers', ['endpoint']),
    endpointLag: gauge('billing_keeper_endpoint_lag_slots', 'Slots that the RPC endpoint is behind the best one', ['endpoint']),
  };
  // From 0 on: of a counter that appears with its first event Prometheus sees no increase.
  for (const outcome of ['succeeded', 'failed', 'expired']) metrics.payments.inc({ outcome, source: 'keeper' }, 0);
  metrics.payments.inc({ outcome: 'succeeded', source: 'foreign' }, 0);
  for (const kind of ['gross', 'fee', 'net']) metrics.cents.inc({ kind }, 0);
  for (const outcome of ['first', 'again', 'failed']) metrics.sends.inc({ outcome }, 0);
  for (const reason of [...OURS_REASONS, ...otherAlerts]) metrics.alerts.inc({ reason }, 0);
  return metrics;
}
