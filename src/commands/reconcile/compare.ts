// `billing reconcile`: checks that each recorded payment is on chain as recorded, and that each keeper pull on chain is recorded. With `repair` it records
// missing payments. It deletes and changes nothing.
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import bs58 from 'bs58';
import type {
  ConfirmedTransaction,
  FoundTransaction,
  SignatureInfo,
  UnreadableTransaction,
} from '../../chain/answers.ts';
import { readListed } from '../../chain/listed.ts';
import type { Rpc } from '../../chain/rpc.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Sql } from '../../db/connect.ts';
import { readPaidPeriods } from '../../db/payments.ts';
import {
  claimOne,
  findOwner,
  listKnown,
  listRecorded,
  listTreasuries,
  type RecordedPayment,
} from '../../db/reconciliation.ts';
import { readSubscriptions } from '../../db/subscription-work.ts';
import type { Pull } from '../../domain/chain-view.ts';
import {
  decoded,
  type Difference,
  differenceOf,
  type KeeperPull,
  keeperPullsIn,
  unreadableRecord,
} from '../../domain/differences.ts';
import { pullsIn } from '../../domain/pulls.ts';
import { settleRows } from '../../domain/settlement.ts';
import { applyPayment, draftOf, isLive } from '../../domain/transitions.ts';
import { chunks, each } from '../../each.ts';
import { nameUnexplained } from './unexplained.ts';

export interface Reconciliation {
  /** Number of recorded payments compared. */
  recorded: number;
  /** Number of keeper pulls on chain compared. */
  onChain: number;
  differences: Difference[];
}

export interface Reconciler {
  sql: Sql;
  rpc: Rpc;
  programId: string;
  /** Keeper wallets, including former ones. */
  keepers: readonly string[];
}

const PAGE = 500;
const AT_ONCE = 16;
export interface Range {
  since: Date;
  until: Date;
  repair: boolean;
  /** Called after each step with the number of pulls read and recorded payments compared. */
  onProgress?: (progress: { onChain: number; recorded: number }) => void;
}

/** Treasuries, and the transactions read so far. */
interface Seen {
  readonly treasuries: readonly string[];
  readonly transactions: Map<string, ConfirmedTransaction>;
  readonly unreadable: Map<string, UnreadableTransaction>;
}

/**
 * Compares everything from `since` (inclusive) to `until` (exclusive), by block time. With `repair`, records missing payments with their events. A
 * transaction that no endpoint returns in a readable form is reported as `unreadable`.
 */
export async function reconcile(
  reconciler: Reconciler,
  { since, until, repair, onProgress }: Range,
): Promise<Reconciliation> {
  const treasuries = await listTreasuries(reconciler.sql);
  const seen: Seen = { treasuries, transactions: new Map(), unreadable: new Map() };
  const ours = await keeperPulls(reconciler, seen, { since, until }, (onChain) =>
    onProgress?.({ onChain, recorded: 0 }),
  );
  const listed = [...seen.unreadable.keys()];
  const { recorded, differences } = await compareRecorded(reconciler, seen, since, until, (count) =>
    onProgress?.({ onChain: ours.length, recorded: count }),
  );
  differences.push(...(await compareOnChain(reconciler, ours, repair)));
  differences.push(...(await nameUnknown(reconciler, listed)));
  differences.push(...(await nameUnexplained(reconciler.sql, { since, until }, ours)));
  return { recorded, onChain: ours.length, differences };
}

/** The pulls of the keeper wallets in the range, from the transactions that name one of them; includes transactions without a block time. */
async function keeperPulls(
  reconciler: Reconciler,
  seen: Seen,
  range: { since: Date; until: Date },
  onPulls: (count: number) => void,
): Promise<KeeperPull[]> {
  const { rpc, programId, keepers } = reconciler;
  const { treasuries } = seen;
  const found: KeeperPull[] = [];
  const take = async ({ signature }: SignatureInfo) => {
    // A transaction may name several keeper wallets.
    if (seen.transactions.has(signature) || seen.unreadable.has(signature)) return;
    const transaction = await readListed(rpc, signature);
    const pulls =
      'unreadable' in transaction
        ? transaction
        : keeperPullsIn(transaction, { programId, keepers, treasuries });
    if ('unreadable' in pulls) {
      seen.unreadable.set(signature, pulls);
      return;
    }
    if (!('unreadable' in transaction)) seen.transactions.set(signature, transaction);
    found.push(...pulls);
    onPulls(found.length);
  };
  for (const keeper of keepers) await eachListed(rpc, keeper, range, take);
  return found;
}

/** Runs `work` for the successful transactions of a wallet in the range. */
async function eachListed(
  rpc: Rpc,
  wallet: string,
  { since, until }: { since: Date; until: Date },
  work: (listed: SignatureInfo) => Promise<void>,
): Promise<void> {
  let before: string | undefined;
  for (;;) {
    const page = await rpc.getSignaturesForAddress(wallet, {
      before,
      limit: 1000,
      commitment: 'finalized',
      everywhere: true,
    });
    const wanted = page.filter(
      ({ err, blockTime }) =>
        err === null &&
        (blockTime === null || (timeOf(blockTime) >= since && timeOf(blockTime) < until)),
    );
    await each(wanted, AT_ONCE, work);
    const last = page.at(-1);
    if (
      last === undefined ||
      page.length < 1000 ||
      (last.blockTime !== null && last.blockTime < unixSeconds(since))
    )
      return;
    before = last.signature;
  }
}

async function compareRecorded(
  { sql, rpc, programId, keepers }: Reconciler,
  seen: Seen,
  since: Date,
  until: Date,
  onPage: (count: number) => void,
): Promise<{ recorded: number; differences: Difference[] }> {
  const differences: Difference[] = [];
  let recorded = 0;
  let after: string | null = null;
  for (;;) {
    const page: RecordedPayment[] = await listRecorded(sql, { since, until, after, limit: PAGE });
    recorded += page.length;
    await each(page, AT_ONCE, async (payment) => {
      const { treasuries } = seen;
      const { txSignature, subscriptionPda } = payment;
      const transaction = await transactionOf(rpc, seen, txSignature);
      const pulls =
        transaction === null || 'unreadable' in transaction
          ? []
          : decoded(txSignature, () =>
              pullsIn(transaction, { programId, keepers, treasuries, subscriptionPda }),
            );
      const difference =
        'unreadable' in pulls
          ? unreadableRecord(pulls)
          : transaction !== null && 'unreadable' in transaction
            ? unreadableRecord(transaction)
            : differenceOf(payment, transaction, { pulls, treasuries });
      if (difference !== undefined)
        differences.push({
          ...difference,
          signature: txSignature,
          subscriptionPda,
          repaired: false,
        });
    });
    onPage(recorded);
    after = page.at(-1)?.id ?? null;
    if (page.length < PAGE) return { recorded, differences };
  }
}

/** A recorded transaction. Null only when its signature is malformed, or no endpoint lists it, returns it or has a status of it. */
async function transactionOf(
  rpc: Rpc,
  { transactions, unreadable }: Seen,
  signature: string,
): Promise<FoundTransaction | null> {
  const known = transactions.get(signature) ?? unreadable.get(signature);
  if (known !== undefined) return known;
  if (bs58.decodeUnsafe(signature)?.length !== 64) return null;
  const found = await readListed(rpc, signature);
  if (!('unreadable' in found) || found.unreadable !== 'missing') return found;
  const { statuses } = await rpc.getSignatureStatuses([signature], {
    history: true,
    everywhere: true,
  });
  return (statuses[0] ?? null) === null ? null : found;
}

async function compareOnChain(
  reconciler: Reconciler,
  pulls: readonly KeeperPull[],
  repair: boolean,
): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const page of chunks(pulls, PAGE)) {
    const known = await listKnown(
      reconciler.sql,
      page.map(({ pull }) => pull.signature),
    );
    const have = new Set(
      known.map(({ signature, subscriptionPda }) => `${signature} ${subscriptionPda}`),
    );
    for (const { subscriptionPda, pull } of page) {
      if (have.has(`${pull.signature} ${subscriptionPda}`)) continue;
      const moved = `${pull.gross.toString()} for the period from ${timeOf(pull.periodStart).toISOString()}`;
      const about = { signature: pull.signature, subscriptionPda };
      const id = await findOwner(reconciler.sql, subscriptionPda, pull.signature);
      if (id === undefined) {
        differences.push({
          ...about,
          kind: 'no_subscription',
          detail: `the keeper pulled ${moved}, and no subscription is registered`,
          repaired: false,
        });
        continue;
      }
      const repaired = repair && (await record(reconciler.sql, id, pull));
      differences.push({
        ...about,
        kind: 'not_recorded',
        detail: `the keeper pulled ${moved}, and it is not recorded`,
        repaired,
      });
    }
  }
  return differences;
}

/** Differences for listed transactions that are unreadable and unknown. Recorded ones are already reported, open ones are in flight. */
async function nameUnknown(
  { sql }: Reconciler,
  unreadable: readonly string[],
): Promise<Difference[]> {
  const known = new Set((await listKnown(sql, [...unreadable])).map(({ signature }) => signature));
  return unreadable
    .filter((signature) => !known.has(signature))
    .map((signature) => ({
      kind: 'unreadable',
      signature,
      subscriptionPda: '',
      detail:
        'it names the keeper and succeeded, but no RPC endpoint returns it readable: it may be a payment that is not recorded',
      repaired: false,
    }));
}

/** Records one pull with its event. False when the period is already paid, or a keeper holds the lease for a minute. */
async function record(sql: Sql, id: string, pull: Pull): Promise<boolean> {
  const periodStart = timeOf(pull.periodStart);
  if ((await readPaidPeriods(sql, [{ subscriptionId: id, periodStart }])).length > 0) return false;
  const claimId = randomUUID();
  for (let tries = 0; !(await claimOne(sql, { id, claimId, leaseSeconds: 30 })); tries += 1) {
    if (tries >= 60) return false;
    await pause(1000);
  }
  const held = (await readSubscriptions(sql, [id])).map((row) => ({
    ...{ id, claimId, notices: 0 },
    row,
  }));
  const { written } = await settleRows(sql, held, timeOf(pull.at), (row, isRecorded) => {
    const draft = draftOf(row);
    if (!isRecorded(pull.signature)) applyPayment(draft, pull, timeOf(pull.periodEnd));
    // Makes the subscription due, so that the keeper derives the rest of its state.
    if (isLive(draft.state)) draft.state.dueAt = timeOf(pull.at);
    return { draft };
  });
  return written.length > 0;
}
