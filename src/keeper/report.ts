// Tells operators, by log and metrics, what was written. Called after the commit.
import type { Draft } from '../domain/transitions.ts';
import type { Context } from './context.ts';

/** USDC base units as cents, for a metric: a floating-point number. */
const inCents = (baseUnits: bigint) => Number(baseUnits) / 10_000;

/** Counts a written draft's payments, and raises `alert`: a failure that is ours. */
export function report(
  { log, metrics }: Pick<Context, 'log' | 'metrics'>,
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
    if (payment.source === 'keeper' && row.dueAt !== null)
      metrics.lateness.observe(Math.max(0, payment.occurredAt.getTime() - row.dueAt.getTime()) / 1000);
    if (payment.source === 'foreign') {
      log.warn(
        { subscription: row.id, signature: payment.txSignature, amount: payment.amountGross.toString() },
        payment.further
          ? 'somebody else pulled once more under our plan, in a period that was paid already'
          : 'somebody else pulled under our plan: the period is paid, without a fee',
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
    'a payment that is due cannot be collected, and the subscriber is not the reason',
  );
}
