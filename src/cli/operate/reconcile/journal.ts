// Proves the journal by signature: what it says of a transaction is what the transaction has moved.
// The transactions are those that the comparison of payments and refunds has read.
import { readBooked } from '../../../db/operating/journal.ts';
import { listKnown } from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import type { Difference, PlanPull } from '../../../domain/collecting/differences.ts';
import { chunks } from '../../../each.ts';
import { keyOf } from './on-chain.ts';

const PAGE = 500;

/** What a transaction has moved, in base units. */
interface Moved {
  /** To the merchant (negative: from him). Null if his wallet is a treasury too. */
  usdc: bigint | null;
  /** With the platform fee. */
  gross: bigint;
  subscriptionPda: string;
}

/** A refund's transfer that was found on chain. */
export interface PaidRefund {
  signature: string;
  subscriptionPda: string;
  amount: bigint;
}

/**
 * Reports each transaction of which the journal says something else than the chain. `named` has the
 * signatures that have a reported difference: they are left out.
 */
export async function compareJournal(
  sql: Sql,
  pulls: readonly PlanPull[],
  refunds: readonly PaidRefund[],
  named: ReadonlySet<string>,
): Promise<Difference[]> {
  const moved = new Map<string, Moved>();
  const add = (signature: string, { usdc, gross, subscriptionPda }: Moved) => {
    if (named.has(signature)) return;
    const before = moved.get(signature) ?? { usdc: 0n, gross: 0n };
    const sum = usdc === null || before.usdc === null ? null : before.usdc + usdc;
    moved.set(signature, { usdc: sum, gross: before.gross + gross, subscriptionPda });
  };
  for (const { subscriptionPda, pull } of await recordedOf(sql, pulls)) {
    const { signature, gross, net } = pull;
    add(signature, { usdc: net === 0n ? null : net, gross, subscriptionPda });
  }
  for (const { signature, subscriptionPda, amount } of refunds)
    add(signature, { usdc: -amount, gross: -amount, subscriptionPda });
  const differences: Difference[] = [];
  for (const page of chunks([...moved], PAGE)) {
    const booked = await readBooked(
      sql,
      page.map(([signature]) => signature),
    );
    const inJournal = new Map(booked.map((one) => [one.signature, one]));
    for (const [signature, { usdc, gross, subscriptionPda }] of page) {
      const said = inJournal.get(signature) ?? { usdc: 0n, gross: 0n };
      if (said.gross === gross && (usdc === null || said.usdc === usdc)) continue;
      const onChain = `the chain moved ${usdc ?? 'the same'} of ${gross}`;
      const detail = `the journal has ${said.usdc} for the merchant of ${said.gross}, ${onChain}`;
      const about = { signature, subscriptionPda, detail, repaired: false };
      differences.push({ kind: 'journal_differs', ...about });
    }
  }
  return differences;
}

/** The recorded pulls. Others are named, in flight, or of accounts without registration. */
async function recordedOf(sql: Sql, pulls: readonly PlanPull[]): Promise<PlanPull[]> {
  const recorded: PlanPull[] = [];
  for (const page of chunks(pulls, PAGE)) {
    const known = await listKnown(
      sql,
      page.map(({ pull }) => pull.signature),
    );
    const isRecorded = new Set(known.filter(({ open }) => !open).map(keyOf));
    for (const one of page)
      if (isRecorded.has(keyOf({ ...one, signature: one.pull.signature }))) recorded.push(one);
  }
  return recorded;
}
