// Joins the reports of several endpoints about one transaction. After a failure the payment is
// signed again, so a failure counts as final only if two endpoints report it (one, if only one is
// configured). For a success one report is enough, because the transaction is read before it is
// recorded.
import { isWitnessed } from './expiry.ts';
import type { Commitment, SignatureStatus } from './responses.ts';

/** The status of a signature at one URL. `host` is its host and port. */
interface Report {
  readonly host: string;
  readonly status: SignatureStatus | null;
}

const STAGES: readonly Commitment[] = ['processed', 'confirmed', 'finalized'];

const isFinalFailure = (status: SignatureStatus | null): status is SignatureStatus =>
  status?.commitment === 'finalized' && status.err !== null;

/**
 * Returns the joint status of the reports: the most advanced one, and a success before a failure. A
 * final failure is marked as doubted if too few of the configured `hosts` report it.
 */
export function joinStatuses(reports: readonly Report[], hosts: number): SignatureStatus | null {
  const failing = reports.filter(({ status }) => isFinalFailure(status));
  const witnesses = new Set(failing.map(({ host }) => host)).size;
  const isBelieved = isWitnessed({ endpoints: () => hosts }, witnesses);
  const judged = reports.map(({ status }): SignatureStatus | null =>
    isFinalFailure(status) && !isBelieved
      ? { ...status, commitment: 'processed', isDoubted: true }
      : status,
  );
  return judged.reduce((best, one) => (rank(one) > rank(best) ? one : best), null);
}

/**
 * Order of statuses: final before not final, a success before a failure, then by commitment.
 * Doubted statuses come last.
 */
function rank(status: SignatureStatus | null): number {
  if (status === null) return -2;
  const { commitment, err, isDoubted } = status;
  const isFinal = commitment === 'finalized';
  const stage = isDoubted === true ? -1 : STAGES.indexOf(commitment);
  return (isFinal ? 8 : 0) + (err === null ? 4 : 0) + stage;
}
