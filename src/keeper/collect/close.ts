// Closes on-chain subscriptions whose rent the keeper paid, once the paid time is over. Closings
// run outside the collect loop. A closing only returns the keeper's own rent, and the program
// refuses a second closing, so these transactions are not written to Postgres before they are sent.
// Because sponsor/rent.ts also closes sponsored accounts, a keeper first claims the closing of such
// an account, so that only one keeper sends it.
import { setTimeout as pause } from 'node:timers/promises';
import type { Keypair } from '../../chain/keypair.ts';
import { subscriptionIn } from '../../chain/program/accounts.ts';
import { describeTransactionError } from '../../chain/program/errors.ts';
import { type Instruction, revokeDelegation } from '../../chain/program/instructions.ts';
import { follow, isSentAgain, markSent, outcomeOf, pollStatuses } from '../../chain/rpc/follow.ts';
import { networkFee } from '../../chain/transactions/network-fee.ts';
import { signTransaction } from '../../chain/transactions/subscriptions.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
} from '../../chain/transactions/system-instructions.ts';
import { claimClosings } from '../../db/offers/sponsor-rent.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscriptions/work.ts';
import type { Context } from '../base/context.ts';

const CLOSING_UNITS = 50_000;
/** Signs a transaction that closes one account. `price` is in micro-lamports per compute unit. */
export const signClosing = (
  keypair: Keypair,
  closing: Instruction,
  { price, blockhash }: { price: bigint; blockhash: string },
) => {
  const budget = [computeUnitLimit(CLOSING_UNITS), computeUnitPrice(price)];
  return signTransaction(keypair, [...budget, closing], blockhash);
};

/**
 * Claims closings of subscription accounts. Returns the addresses that this keeper may close
 * (claimClosings in db/offers/sponsor-rent.ts).
 */
export const mayClose = (
  { sql, closingBudget: budget }: Pick<Context, 'sql' | 'closingBudget'>,
  addresses: readonly string[],
  price: bigint,
): Promise<ReadonlySet<string>> => {
  const fee = networkFee(1n, BigInt(CLOSING_UNITS), price);
  return sql.begin((tx) => claimClosings(tx, addresses, { fee, budget }));
};

/** Maximum number of batches of accounts that this keeper closes at the same time. */
export const MAX_CLOSINGS = 4;

/** The slot in which each closed account was closed, by subscription id. */
export type Closed = ReadonlyMap<string, bigint>;

/**
 * Tries to close the on-chain accounts of `rows` and logs failures. Leaves out accounts that this
 * keeper may not close, for example because another keeper is closing them. Returns the accounts
 * that were closed. Throws RpcUnreachable or RpcError, and throws when `signal` aborts.
 */
export async function closeAccounts(
  context: Context,
  rows: readonly KeeperSubscriptionForEvents[],
  signal: AbortSignal,
): Promise<Closed> {
  const { rpc, fees, keypairs, programId, log } = context;
  const { pollMs, resendMs, patienceMs } = context.times.closings;
  const { accounts } = await rpc.getMultipleAccounts(rows.map((row) => row.subscriptionPda));
  const { blockhash } = await rpc.getLatestBlockhash();
  const price = await fees.price();
  const closable = rows.flatMap((row, index) => {
    // Only the wallet that paid the rent may close the account.
    const payer = subscriptionIn(accounts[index] ?? null, programId)?.payer ?? '';
    const keypair = keypairs.get(payer);
    return keypair === undefined ? [] : [{ row, keypair }];
  });
  const addresses = closable.map(({ row }) => row.subscriptionPda);
  const claimed = await mayClose(context, addresses, price);
  let open = closable.flatMap(({ row, keypair }) => {
    const { planPda: plan, subscriptionPda: subscription } = row;
    if (!claimed.has(subscription)) return [];
    const close = revokeDelegation(programId, { authority: keypair.address, plan, subscription });
    return [{ row, ...follow(signClosing(keypair, close, { price, blockhash })) }];
  });
  const closed = new Map<string, bigint>();
  const deadline = performance.now() + patienceMs;
  while (open.length > 0 && performance.now() < deadline) {
    const due = open.filter((one) => isSentAgain(one, performance.now(), resendMs));
    for (const one of due) markSent(one);
    // A failed send is ignored, because only the status of the signature shows whether the account
    // was closed.
    await Promise.allSettled(due.map(({ bytes }) => rpc.sendTransaction(bytes)));
    // The endpoint that is polled may lack a closing that landed, so the last poll asks all
    // endpoints. A closing that no endpoint has may still land, so its account is read again a day
    // later.
    const everywhere = performance.now() + pollMs >= deadline;
    await pollStatuses(rpc, open, { everywhere });
    open = open.filter(({ row, signature, status }) => {
      const outcome = outcomeOf(status);
      const [subscription, reason] = [row.id, describeTransactionError(status?.err)];
      if (outcome === 'landed' && status !== null) closed.set(row.id, status.slot);
      if (outcome === 'failed')
        log.warn({ subscription, signature, reason }, 'subscription account could not be closed');
      return outcome === undefined;
    });
    if (open.length > 0) await pause(pollMs, undefined, { signal });
  }
  return closed;
}
