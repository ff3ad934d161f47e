// Refunds that merchants' wallets send: each is looked for by its reference and recorded once its transfer is final.
import { paysRefund } from '../chain/refund.ts';
import { timeOf } from '../chain/time.ts';
import { type AwaitedRefund, recordRefund, takeAwaitedRefunds } from '../db/refunds.ts';
import { appendEvents } from '../domain/events.ts';
import type { Context } from './preflight.ts';
import { readListed } from './pull-history.ts';

const BATCH = 20;
/** Transactions that name a reference and are looked at: anyone can send more. */
const MOST_LISTED = 50;

/** Looks for one batch of refunds; resolves with true when there may be more. Throws as the RPC client does. */
export async function recordRefunds(context: Context): Promise<boolean> {
  const awaited = await takeAwaitedRefunds(context.sql, BATCH);
  for (const refund of awaited) await look(context, refund);
  return awaited.length === BATCH;
}

async function look(context: Context, refund: AwaitedRefund): Promise<void> {
  const { rpc, sql, log, deliveries } = context;
  const { id, reference, merchantWallet: merchant, subscriberWallet: subscriber } = refund;
  const listed = await rpc.getSignaturesForAddress(reference, {
    limit: MOST_LISTED,
    commitment: 'finalized',
  });
  for (const { signature: txSignature, err, blockTime } of listed.toReversed()) {
    if (err !== null) continue;
    const found = await readListed(rpc, txSignature);
    if ('unreadable' in found) continue;
    if (!paysRefund(found, { ...refund, merchant, subscriber })) continue;
    const at = found.blockTime ?? blockTime;
    // A block without a time is looked at again: the refund is in the figures by its time.
    if (at === null) return;
    const queued = await sql.begin(async (tx) => {
      const recorded = await recordRefund(tx, id, { txSignature, occurredAt: timeOf(at) });
      if (recorded === undefined) return undefined;
      const { subscriptionId, transactionId, amount } = recorded;
      const extra = { refundId: id, transactionId, amount, txSignature };
      return appendEvents(tx, [{ subscriptionId, type: 'refund_recorded', extra }]);
    });
    if (queued === undefined)
      log.warn(
        { refund: id, txSignature },
        'refund is not recorded: more than the net would be refunded',
      );
    else deliveries.notify(queued);
    return;
  }
}
