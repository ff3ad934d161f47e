// When one RPC endpoint does not return an account, this file decides whether the account was
// closed. A closed account ends a subscription or plan for good, but a single endpoint may fail to
// return an existing account. Therefore several endpoints have to confirm that the account is
// missing.
import { chunks } from '../../each.ts';
import { type ChainAccount, isClosed } from '../program/accounts.ts';
import { ACCOUNTS_AT_ONCE } from './accounts.ts';
import { currentOf } from './expiry.ts';
import type { Rpc } from './rpc.ts';

/** What all endpoints report about accounts that are missing at one endpoint. */
export interface Absence {
  /** Addresses for which every endpoint that responded has no account. */
  readonly absent: ReadonlySet<string>;
  /** Addresses at which some endpoints have an account and other endpoints have none. */
  readonly disputed: ReadonlySet<string>;
  /** Number of endpoints that responded and are not far behind (currentOf). */
  readonly witnesses: number;
}

/**
 * Asks every endpoint for up to 100 accounts at commitment finalized. Throws RpcUnreachable or
 * RpcError when no endpoint responds.
 */
export async function witnessAbsence(
  rpc: Pick<Rpc, 'getAccountsEverywhere'>,
  addresses: readonly string[],
): Promise<Absence> {
  const responses = await rpc.getAccountsEverywhere(addresses, { commitment: 'finalized' });
  const isGone = (account: ChainAccount | null | undefined) =>
    account === null || (account !== undefined && isClosed(account));
  const goneAt = addresses.map(
    (_, index) => responses.filter(({ accounts }) => isGone(accounts[index])).length,
  );
  const where = (holds: (gone: number) => boolean) =>
    new Set(addresses.filter((_, index) => holds(goneAt[index] ?? 0)));
  return {
    absent: where((gone) => gone === responses.length),
    disputed: where((gone) => gone > 0 && gone < responses.length),
    witnesses: currentOf(responses).length,
  };
}

/**
 * The reason why missing accounts are not treated as gone: the endpoints disagree for minutes, or
 * too many accounts vanished at the same time.
 */
export type AbsenceAlarm = 'endpoints_disagree' | 'accounts_vanished';

export interface AbsenceJudge {
  /**
   * Records how many subscription accounts were read from one endpoint. The judge raises the alarm
   * `accounts_vanished` when at least three accounts went missing in the last ten minutes, and the
   * missing accounts are at least 1% of the accounts read in these ten minutes.
   */
  read(subscriptions: number): void;
  /**
   * Checks addresses whose accounts are missing at one endpoint. Returns the addresses whose
   * accounts are certainly gone. Throws RpcUnreachable or RpcError.
   */
  gone(addresses: readonly string[]): Promise<ReadonlySet<string>>;
}

export interface AbsenceOptions {
  /** Called with the number of affected accounts, at most once an hour for each kind of alarm. */
  readonly onAlarm: (alarm: AbsenceAlarm, accounts: number) => void;
  /** A monotonic clock in milliseconds. */
  readonly monotonicMs?: () => number;
}

/**
 * Time window (ms) of a mass disappearance. When at least 1% of the accounts read in this window
 * are missing, the likely cause is a fault of the endpoints.
 */
const TOGETHER_MS = 600_000;
/**
 * While only one endpoint responds, an account must be missing for this time (ms) before it is
 * treated as gone. The time is longer than TOGETHER_MS, so a mass disappearance is detected first.
 */
const ALONE_MS = 900_000;
/**
 * Time (ms) for which endpoints may disagree about an account without an alarm. Short disagreements
 * are normal, because one endpoint finalizes a slot some seconds before another endpoint does.
 */
const DISPUTE_MS = 120_000;
/** A mass disappearance has at least this number of missing accounts. */
const MIN_MASS = 3;
/**
 * After a mass disappearance, the missing accounts are not treated as gone for this time (ms), so
 * that an operator has time to act.
 */
const MASS_DELAY_MS = 86_400_000;
/**
 * If no caller reports an account as missing for this time (ms), the account counts as present
 * again. The time must be longer than 5 minutes, because the slowest caller, which settles expired
 * attempts, runs every 5 minutes.
 */
const FORGOTTEN_MS = 600_000;
/** Minimum time between two alarms of one kind. */
const ALARM_MS = 3_600_000;

interface Suspect {
  /**
   * When the account was first found missing. All times here are milliseconds of the monotonic
   * clock.
   */
  readonly since: number;
  readonly lastMissedAt: number;
  delayedUntil: number;
}

/** Creates a judge that remembers how long accounts have been missing. */
export function createAbsenceJudge(
  rpc: Pick<Rpc, 'getAccountsEverywhere'>,
  options: AbsenceOptions,
): AbsenceJudge {
  return new Judge(rpc, options);
}

/** The judge for a local chain with a single node. It treats every missing account as gone. */
export const believeAbsence: AbsenceJudge = {
  read: () => undefined,
  gone: async (addresses) => new Set(addresses),
};

class Judge implements AbsenceJudge {
  readonly #rpc: Pick<Rpc, 'getAccountsEverywhere'>;
  readonly #options: AbsenceOptions;
  readonly #suspects = new Map<string, Suspect>();
  readonly #alarmedAt = new Map<AbsenceAlarm, number>();
  #reads: { at: number; subscriptions: number }[] = [];

  constructor(rpc: Pick<Rpc, 'getAccountsEverywhere'>, options: AbsenceOptions) {
    this.#rpc = rpc;
    this.#options = options;
  }

  read(subscriptions: number): void {
    const now = this.#now();
    this.#reads = this.#reads.filter(({ at }) => now - at <= TOGETHER_MS);
    this.#reads.push({ at: now, subscriptions });
  }

  async gone(addresses: readonly string[]): Promise<ReadonlySet<string>> {
    const believed = new Set<string>();
    for (const some of chunks(addresses, ACCOUNTS_AT_ONCE)) {
      const absence = await witnessAbsence(this.#rpc, some);
      const now = this.#now();
      for (const address of some) this.#note(address, absence, now);
      this.#delayMass(now);
      for (const address of absence.absent) {
        const suspect = this.#suspects.get(address);
        const { since, delayedUntil } = suspect ?? { since: now, delayedUntil: 0 };
        const isWitnessed = absence.witnesses >= 2 || now - since >= ALONE_MS;
        if (isWitnessed && now >= delayedUntil) believed.add(address);
      }
    }
    return believed;
  }

  #note(address: string, { absent, disputed }: Absence, now: number): void {
    if (!absent.has(address) && !disputed.has(address)) {
      this.#suspects.delete(address);
      return;
    }
    const suspect = this.#suspects.get(address);
    const isMissingStill = suspect !== undefined && now - suspect.lastMissedAt <= FORGOTTEN_MS;
    const since = isMissingStill ? suspect.since : now;
    const delayedUntil = suspect?.delayedUntil ?? -Infinity;
    this.#suspects.set(address, { since, lastMissedAt: now, delayedUntil });
    if (disputed.has(address) && now - since >= DISPUTE_MS)
      this.#alarm('endpoints_disagree', disputed.size, now);
  }

  /**
   * Detects a mass disappearance and then sets `delayedUntil` for all accounts that are part of it.
   */
  #delayMass(now: number): void {
    const recent: Suspect[] = [];
    for (const [address, suspect] of this.#suspects) {
      if (now - suspect.since <= TOGETHER_MS) recent.push(suspect);
      else if (now - suspect.lastMissedAt > FORGOTTEN_MS && now >= suspect.delayedUntil)
        this.#suspects.delete(address);
    }
    const read = this.#reads
      .filter(({ at }) => now - at <= TOGETHER_MS)
      .reduce((sum, { subscriptions }) => sum + subscriptions, 0);
    if (recent.length < MIN_MASS || recent.length < read / 100) return;
    for (const suspect of recent) suspect.delayedUntil = suspect.since + MASS_DELAY_MS;
    this.#alarm('accounts_vanished', recent.length, now);
  }

  #alarm(alarm: AbsenceAlarm, accounts: number, now: number): void {
    if (now - (this.#alarmedAt.get(alarm) ?? -Infinity) < ALARM_MS) return;
    this.#alarmedAt.set(alarm, now);
    this.#options.onAlarm(alarm, accounts);
  }

  #now(): number {
    return (this.#options.monotonicMs ?? (() => performance.now()))();
  }
}
