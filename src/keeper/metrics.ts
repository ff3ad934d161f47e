// What operators can watch. Names and meanings are part of the operators' interface.
import { Counter, Gauge, type Registry } from 'prom-client';

export interface KeeperMetrics {
  readonly payments: Counter<'outcome' | 'source'>;
  readonly baseUnits: Counter<'kind'>;
  readonly alerts: Counter<'reason'>;
  readonly sends: Counter<'outcome'>;
  readonly rpcCalls: Counter<'method' | 'outcome'>;
  readonly inFlight: Gauge;
  readonly openAttempts: Gauge;
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
  return {
    payments: counter('billing_payments_total', 'Payments by outcome (succeeded, failed, expired) and source (keeper, foreign)', [
      'outcome',
      'source',
    ]),
    baseUnits: counter('billing_payments_base_units_total', 'USDC base units moved by recorded payments (gross, fee, net)', ['kind']),
    alerts: counter('billing_keeper_alerts_total', "Failures that are not the subscriber's, by reason", ['reason']),
    sends: counter('billing_keeper_sends_total', 'Transactions sent, by outcome (first, again, failed)', ['outcome']),
    rpcCalls: counter('billing_keeper_rpc_calls_total', 'RPC calls by method and outcome (ok, refused, behind, unreachable)', [
      'method',
      'outcome',
    ]),
    inFlight: gauge('billing_keeper_in_flight', 'Signed transactions that this keeper watches'),
    openAttempts: gauge('billing_attempts_open', 'Signed transactions of all keepers whose end is not known yet'),
    oldestDueSeconds: gauge('billing_due_oldest_seconds', 'Chain seconds since the oldest subscription fell due that nobody has in hand'),
    waiting: gauge('billing_due_waiting', "Subscriptions that are due and in nobody's hand, counted up to 10,000"),
    sol: gauge('billing_keeper_sol', "SOL of the keeper's wallet"),
    rpcReachable: gauge('billing_keeper_rpc_reachable', '1 while an RPC endpoint answers'),
    accountsFollowed: gauge('billing_keeper_accounts_followed', 'Token accounts of subscribers that are followed over WebSocket'),
    endpointUp: gauge('billing_keeper_endpoint_up', '1 while the RPC endpoint answers', ['endpoint']),
    endpointLag: gauge('billing_keeper_endpoint_lag_slots', 'Slots that the RPC endpoint is behind the best one', ['endpoint']),
  };
}
