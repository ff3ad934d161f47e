// Joins what several endpoints report about one transaction. After a failure the payment is signed
// again, so a failure is final only if two endpoints report it (one, where one is configured). A
// success is believed from one endpoint, because what it moved is read before it is booked.
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
 * Returns the status that the reports show together: the most advanced one, and a success before a
 * failure. A final failure that too few of the `hosts` configured report is doubted.
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
 * Order of statuses: final before not final, a success before a failure, then by stage. Doubted
 * ones come last.
 */
function rank(status: SignatureStatus | null): number {
  if (status === null) return -2;
  const { commitment, err, isDoubted } = status;
  const isFinal = commitment === 'finalized';
  const stage = isDoubted === true ? -1 : STAGES.indexOf(commitment);
  return (isFinal ? 8 : 0) + (err === null ? 4 : 0) + stage;
}
