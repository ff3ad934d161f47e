// Decides whether a signed transaction can still land. If no endpoint has seen an attempt's
// transaction, the attempt ends only after the keeper has asked every endpoint about the
// transaction's blockhash and signature.
import { isWitnessed, lifetimeKey, witnessExpiry } from '../chain/rpc/expiry.ts';
import { newestSlot, type SignatureStatus } from '../chain/rpc/responses.ts';
import type { Lifetime, Rpc } from '../chain/rpc/rpc.ts';
import { blockhashOf } from '../chain/transactions/collection.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { InFlightPayment } from './in-flight.ts';

type SignedWith = Pick<
  AttemptRow,
  'signature' | 'transaction' | 'lastValidBlockHeight' | 'blockhashSlot'
>;

const lifetimeOf = ({
  transaction,
  lastValidBlockHeight,
  blockhashSlot,
}: SignedWith): Lifetime => ({
  blockhash: blockhashOf(transaction),
  lastValidBlockHeight,
  slot: blockhashSlot,
});

/**
 * Returns the signatures of the attempts whose blockhash has expired at every endpoint that
 * responds. Throws RpcUnreachable or RpcError.
 */
export async function findExpired(
  rpc: Pick<Rpc, 'getLifetimesEverywhere'>,
  attempts: readonly SignedWith[],
): Promise<ReadonlySet<string>> {
  const ends = await witnessExpiry(rpc, attempts.map(lifetimeOf));
  const expired = attempts.filter((attempt) => ends.has(lifetimeKey(lifetimeOf(attempt))));
  return new Set(expired.map(({ signature }) => signature));
}

/** A signed transaction, and the amounts that decide how many endpoints must confirm its expiry. */
interface Mortal {
  readonly attempt: SignedWith & Pick<AttemptRow, 'amountGross'>;
  readonly row: Pick<InFlightPayment['row'], 'amount'>;
}

/** Whether the program would allow this payment twice in one period. */
const fitsTwice = ({ attempt, row }: Mortal) => attempt.amountGross * 2n <= row.amount;

/**
 * Finds the attempts that can never land: their blockhash has expired, and no endpoint knows their
 * signature at `slot` or later. If the program would allow a payment twice in one period, two
 * endpoints must confirm both facts. If only one endpoint is configured, one confirmation is
 * enough. Takes at most 256 transactions. `isConfirmed` tells whether that many endpoints responded
 * about the signatures. `seen` has the statuses of the signatures that an endpoint knows.
 */
export async function findDead<T extends Mortal>(
  rpc: Pick<Rpc, 'getLifetimesEverywhere' | 'getSignatureStatuses' | 'endpoints'>,
  attempts: readonly T[],
): Promise<{
  dead: T[];
  slot: bigint;
  isConfirmed: boolean;
  seen: ReadonlyMap<string, SignatureStatus>;
}> {
  const suffices = (one: T, witnesses: number) => !fitsTwice(one) || isWitnessed(rpc, witnesses);
  const lifetimes = attempts.map(({ attempt }) => lifetimeOf(attempt));
  const ends = await witnessExpiry(rpc, lifetimes);
  const past = attempts.flatMap((one) => {
    const end = ends.get(lifetimeKey(lifetimeOf(one.attempt)));
    return end !== undefined && suffices(one, end.witnesses) ? [{ one, slot: end.slot }] : [];
  });
  const slot = newestSlot(past.map((end) => end.slot));
  const signatures = [...new Set(past.map(({ one }) => one.attempt.signature))];
  const { statuses, witnesses } = await rpc.getSignatureStatuses(signatures, {
    history: true,
    everywhere: true,
    minSlot: slot,
  });
  const seen = new Map<string, SignatureStatus>();
  for (const [place, signature] of signatures.entries()) {
    const status = statuses[place] ?? null;
    if (status !== null) seen.set(signature, status);
  }
  const unseen = past.map(({ one }) => one).filter(({ attempt }) => !seen.has(attempt.signature));
  return {
    dead: unseen.filter((one) => suffices(one, witnesses)),
    slot,
    isConfirmed: isWitnessed(rpc, witnesses),
    seen,
  };
}
