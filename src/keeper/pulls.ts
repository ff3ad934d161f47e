// Pulls as the chain recorded them, from transactions and their events: for money that the database does not know of, and for payments whose
// period cannot be told from the accounts alone.
import type { ConfirmedTransaction } from '../chain/answers.ts';
import { programEvents, type TransferEvent } from '../chain/events.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import type { Rpc } from '../chain/rpc.ts';
import type { Sql } from '../db/connect.ts';
import { readPulled } from '../db/payments.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Pull } from '../domain/chain-view.ts';
import type { FoundPull } from '../domain/found-pulls.ts';
import { timeOf, unixSeconds } from '../domain/network.ts';
import type { Context } from './context.ts';

export interface PullParties {
  readonly programId: string;
  readonly keeper: string;
  readonly treasury: string;
  readonly subscriptionPda: string;
}

/** Whose pulls are looked for: the keeper's and others' under this subscription. */
export function partiesOf(
  { programId, keypair }: Pick<Context, 'programId' | 'keypair'>,
  { treasury, subscriptionPda }: Pick<HeldSubscription, 'treasury' | 'subscriptionPda'>,
): PullParties {
  return { programId, keeper: keypair.address, treasury, subscriptionPda };
}

/** The accounts of a transfer instruction: the caller is the sixth (chain.md). */
const CALLER = 5;
/** What getSignaturesForAddress gives at once. */
const PAGE = 1000;
const AT_ONCE = 8;
/** Anybody may name the address of a subscription in as many transactions as he pays for: whoever waits for this has a lease that runs out, and others in hand. */
const PATIENCE_MS = 10_000;

/** What one transaction moved under a subscription, by period, oldest first. Throws ChainDataError for an event that cannot be read. */
export function pullsIn(transaction: ConfirmedTransaction, { programId, keeper, treasury, subscriptionPda }: PullParties): Pull[] {
  const periods = new Map<bigint, Pull>();
  for (const event of programEvents(transaction, programId)) {
    if (event.kind !== 'transfer' || event.subscription !== subscriptionPda) continue;
    const source = pullerOf(event, transaction) === keeper ? 'keeper' : 'foreign';
    const known = periods.get(event.periodStart);
    const gross = (known?.gross ?? 0n) + event.amount;
    // Only our own pulls carry a fee: what the owner pulls is the owner's.
    const fee = (known?.fee ?? 0n) + (source === 'keeper' && event.receiver === treasury ? event.amount : 0n);
    periods.set(event.periodStart, {
      signature: transaction.signature,
      at: transaction.blockTime ?? event.periodStart,
      periodStart: event.periodStart,
      periodEnd: event.periodEnd,
      gross,
      fee,
      net: gross - fee,
      source,
    });
  }
  return [...periods.values()].sort((a, b) => Number(a.periodStart - b.periodStart));
}

// Programs before 0.4.0 do not name the puller; the instruction always does.
function pullerOf(event: TransferEvent & { instruction: number }, transaction: ConfirmedTransaction): string | undefined {
  return event.puller ?? transaction.instructions[event.instruction]?.accounts[CALLER];
}

/**
 * Final pulls under a subscription whose period began at `since` (Unix seconds) or later, newest first, as far as any endpoint's history tells.
 * Undefined when there are more transactions than can be read in `patienceMs`. Throws as the RPC client does.
 */
export async function findPulls(
  rpc: Pick<Rpc, 'getSignaturesForAddress' | 'getTransaction'>,
  parties: PullParties,
  since: bigint,
  patienceMs = PATIENCE_MS,
): Promise<Pull[] | undefined> {
  const deadline = performance.now() + patienceMs;
  const pulls: Pull[] = [];
  let before: string | undefined;
  for (;;) {
    const options = { before, limit: PAGE, commitment: 'finalized', everywhere: true } as const;
    const page = await rpc.getSignaturesForAddress(parties.subscriptionPda, options);
    const older = page.findIndex(({ blockTime }) => blockTime !== null && blockTime < since);
    const wanted = page.slice(0, older < 0 ? page.length : older).filter(({ err }) => err === null);
    for (let start = 0; start < wanted.length; start += AT_ONCE) {
      if (performance.now() > deadline) return undefined;
      const some = wanted.slice(start, start + AT_ONCE);
      const read = await Promise.all(some.map(({ signature }) => rpc.getTransaction(signature, { commitment: 'finalized' })));
      for (const transaction of read) {
        if (transaction !== null) pulls.push(...pullsIn(transaction, parties).filter(({ periodStart }) => periodStart >= since));
      }
    }
    before = page.at(-1)?.signature;
    if (older >= 0 || page.length < PAGE) return pulls;
  }
}

/**
 * Of new registrations those whose account counts no more than what was recorded for an earlier registration of it, by id, with what that was. They need
 * no history, which an endpoint may not keep for as long as a period lasts.
 */
export async function pullsInBooks(
  sql: Sql,
  rows: readonly HeldSubscription[],
  accountOf: (row: HeldSubscription) => SubscriptionAccount | null,
): Promise<Map<string, FoundPull[]>> {
  const asked = rows.flatMap((row) => {
    const account = accountOf(row);
    return row.paidThrough !== null || account === null ? [] : [{ row, account, periodStart: timeOf(account.periodStart) }];
  });
  if (asked.length === 0) return new Map();
  const recorded = await readPulled(
    sql,
    asked.map(({ row, periodStart }) => ({ subscriptionPda: row.subscriptionPda, periodStart })),
  );
  return new Map(
    asked.flatMap(({ row, account }) => {
      const own = recorded.filter(({ subscriptionPda }) => subscriptionPda === row.subscriptionPda);
      const pulls = own.map((one) => ({
        signature: one.txSignature,
        at: unixSeconds(one.occurredAt),
        periodStart: unixSeconds(one.periodStart),
        periodEnd: unixSeconds(one.periodEnd),
        gross: one.amountGross,
        fee: one.platformFee,
        net: one.amountNet,
        source: one.source,
        recorded: true,
      }));
      const isAll = pulls.reduce((sum, { gross }) => sum + gross, 0n) === account.amountPulled;
      return isAll ? [[row.id, pulls] as const] : [];
    }),
  );
}
