// Closing on-chain subscriptions whose rent we paid, once the prepaid time is over. No money of anybody else moves, and closing twice is refused by
// the program, so nothing is committed before it is sent.
import { setTimeout as pause } from 'node:timers/promises';
import { revokeDelegation } from '../chain/instructions.ts';
import { signTransaction } from '../chain/transactions.ts';
import { computeUnitLimit, computeUnitPrice } from '../chain/companions.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import { describeTransactionError } from '../chain/errors.ts';
import type { Context } from './context.ts';
import type { Fees } from './fees.ts';

const CLOSING_UNITS = 50_000;
const POLL_MS = 400;
const RESEND_MS = 2000;
const PATIENCE_MS = 20_000;

/** Tries to close the accounts; returns the ids of the subscriptions whose account is closed, by slot. Failures are logged. */
export async function closeAccounts(context: Context, fees: Fees, rows: readonly HeldSubscription[]): Promise<Map<string, bigint>> {
  const { rpc, keypair, programId, log } = context;
  const authority = keypair.address;
  const { blockhash } = await rpc.getLatestBlockhash();
  const price = await fees.price([authority]);
  let open = rows.map((row) => {
    const close = revokeDelegation(programId, { authority, plan: row.planPda, subscription: row.subscriptionPda });
    return { row, ...signTransaction(keypair, [computeUnitLimit(CLOSING_UNITS), computeUnitPrice(price), close], blockhash) };
  });
  const closed = new Map<string, bigint>();
  const deadline = performance.now() + PATIENCE_MS;
  let sentAt = -Infinity;
  while (open.length > 0 && performance.now() < deadline) {
    if (performance.now() - sentAt >= RESEND_MS) {
      sentAt = performance.now();
      // Whatever an endpoint says to that: only the status tells.
      await Promise.allSettled(open.map(({ bytes }) => rpc.sendTransaction(bytes)));
    }
    const { statuses } = await rpc.getSignatureStatuses(open.slice(0, 256).map(({ signature }) => signature));
    open = open.filter(({ row, signature }, place) => {
      const status = statuses[place] ?? null;
      if (status === null || status.commitment === 'processed') return true;
      const reason = describeTransactionError(status.err);
      if (status.err === null) closed.set(row.id, status.slot);
      else log.warn({ subscription: row.id, signature, reason }, 'an account whose rent is ours could not be closed');
      return false;
    });
    if (open.length > 0) await pause(POLL_MS);
  }
  return closed;
}
