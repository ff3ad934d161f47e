// Metrics and log lines about payments, plans and transactions.
import type { AbsenceAlarm } from '../../chain/rpc/absence.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import { transactionFee } from '../../chain/transactions/collection.ts';
import type { Notifier } from '../../db/postgres/notify.ts';
import { isCharged } from '../../domain/collecting/attempt-end.ts';
import type { BlockedPlan } from '../../domain/collecting/plan-block.ts';
import { isLive, type SubscriptionUpdate } from '../../domain/collecting/transitions.ts';
import { collectAt } from '../../domain/collecting/window.ts';
import type { Log } from '../../log.ts';
import type { ReportUnreadable } from '../base/context.ts';
import type { KeeperMetrics } from '../base/metrics.ts';
import type { InFlight, InFlightPayment, InFlightTransaction } from './in-flight.ts';

/** Converts USDC base units to cents, as a floating-point number for a metric. */
const inCents = (baseUnits: bigint) => Number(baseUnits) / 10_000;

/**
 * Counts and logs the payments of a committed update. If a payment cannot be collected and the
 * subscriber is not the cause, `alert` is the reason, and an alert is raised.
 */
export function report(
  { log, metrics }: { log: Log; metrics: KeeperMetrics },
  { row, payments, state }: SubscriptionUpdate,
  alert?: string,
  detail?: string,
): void {
  for (const payment of payments) {
    metrics.payments.inc({ outcome: payment.status, source: payment.source });
    if (payment.status === 'failed') continue;
    metrics.cents.inc({ kind: 'gross' }, inCents(payment.amountGross));
    metrics.cents.inc({ kind: 'fee' }, inCents(payment.platformFee));
    metrics.cents.inc({ kind: 'net' }, inCents(payment.amountNet));
    const { txSignature: signature, further, feeOwed } = payment;
    const amount = payment.amountGross.toString();
    if (payment.source === 'foreign') {
      metrics.cents.inc({ kind: 'fee_owed_foreign' }, inCents(feeOwed));
      log.warn(
        { subscription: row.id, signature, amount, feeOwed: feeOwed.toString() },
        further
          ? 'foreign pull in a period that was paid already'
          : isLive(row)
            ? 'foreign pull under our plan; it pays the period, and its fee is owed'
            : 'foreign pull for a subscription that has ended; its fee is owed',
      );
      continue;
    }
    metrics.cents.inc({ kind: 'fee_owed' }, inCents(feeOwed));
    if (further) {
      const reason = 'charged_twice';
      metrics.alerts.inc({ reason });
      const { id: subscription, subscriptionPda } = row;
      log.error({ subscription, subscriptionPda, signature, amount, reason }, 'charged twice');
    } else {
      const due = collectAt(row, row);
      if (due !== null)
        metrics.lateness.observe(Math.max(0, payment.occurredAt.getTime() - due.getTime()) / 1000);
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

/** Counts and logs an alert about RPC endpoints whose responses are implausible. */
export function alarm(
  { log, metrics }: { log: Pick<Log, 'error'>; metrics: Pick<KeeperMetrics, 'alerts'> },
  reason: AbsenceAlarm | 'clock_not_believed' | 'slot_not_believed',
  facts: Readonly<Record<string, number>>,
): void {
  metrics.alerts.inc({ reason });
  log.error({ reason, ...facts }, 'RPC endpoints not believed');
}

/**
 * Counts the network fee of a final transaction. If the transaction landed, all its payments share
 * the fee. If the transaction failed, only the payments that caused the failure share the fee, so
 * that no other merchant bears this fee.
 */
export function reportTransaction(
  { metrics, log, programId }: { metrics: KeeperMetrics; log: Log; programId: string },
  { signature, bytes, size, payments }: InFlightTransaction,
  { err }: SignatureStatus,
): void {
  const lamports = Number(transactionFee(bytes));
  const charged = [...payments.values()].filter(
    ({ attempt, row }) => err === null || isCharged(programId, { attempt, row }, err),
  );
  const outcome = err === null ? 'landed' : 'failed';
  const share = lamports / (err === null ? size : charged.length);
  for (const { row } of charged) {
    const { merchantWallet: merchant, subscriberWallet: wallet } = row;
    metrics.merchantLamports.inc({ merchant, outcome }, share);
    // The subscriber's wallet is logged but is not a metric label, because the number of
    // subscribers is unbounded.
    if (err !== null)
      log.warn({ wallet, merchant, signature, lamports: share }, 'payment failed on chain');
  }
  if (err !== null) {
    metrics.failedLamports.inc(lamports);
    return;
  }
  metrics.paymentsPerTransaction.observe(size);
  for (let payment = 0; payment < size; payment += 1)
    metrics.lamportsPerPayment.observe(lamports / size);
}

/**
 * Records in a metric the time from signing to settling these payments. Payments that another
 * process signed are left out, because this process does not know their time of signing.
 */
export function reportSettled(
  { metrics }: { metrics: KeeperMetrics },
  inFlight: InFlight,
  settled: readonly InFlightPayment[],
): void {
  for (const { id, periodEnd } of settled) {
    const transaction = inFlight.transactionOf(id);
    if (transaction !== undefined && periodEnd !== null)
      metrics.settleSeconds.observe((performance.now() - transaction.takenAt) / 1000);
  }
}

/**
 * Raises the alert of a newly blocked plan. Wakes the dispatchers, because they deliver the plan's
 * event.
 */
export function reportBlocked(
  { log, metrics, deliveries }: { log: Log; metrics: KeeperMetrics; deliveries: Notifier },
  { planId, planPda, reason, queued }: BlockedPlan,
): void {
  deliveries.notify(new Set(queued));
  metrics.alerts.inc({ reason });
  log.error({ plan: planId, planPda, reason }, 'plan blocked: none of its payments is collected');
}

/**
 * Maximum number of remembered signatures. Beyond this number the oldest signature is forgotten, so
 * its transaction may be counted again.
 */
const MAX_KNOWN = 10_000;

export function createUnreadableReport(
  log: Pick<Log, 'warn'>,
  metrics: Pick<KeeperMetrics, 'unreadable'>,
): ReportUnreadable {
  const reported = new Set<string>();
  return (found) => {
    for (const { signature, unreadable: reason } of found) {
      if (reported.has(signature)) continue;
      reported.add(signature);
      const [oldest] = reported;
      if (reported.size > MAX_KNOWN && oldest !== undefined) reported.delete(oldest);
      metrics.unreadable.inc({ reason });
      log.warn({ signature, reason }, 'transaction unreadable');
    }
  };
}
