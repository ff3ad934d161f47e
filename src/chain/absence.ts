import { type ChainAccount, isClosed } from './accounts.ts';
import { chunks } from '../each.ts';
import { ACCOUNTS_AT_ONCE } from './rpc-accounts.ts';
import type { Rpc } from './rpc.ts';

// An account that an endpoint does not show may still exist. Absence ends subscriptions and plans for good, so it takes witnesses.

/** What the endpoints say of accounts that one of them does not have. */
export interface Absence {
  /** Addresses that every endpoint that answered has no account for. */
  readonly absent: ReadonlySet<string>;
  /** Addresses that some endpoints have an account for and others do not. */
  readonly disputed: ReadonlySet<string>;
  /** How many endpoints answered. */
  readonly witnesses: number;
}

/**
 * Asks every endpoint at finalized whether accounts are gone. Takes up to 100 addresses. Throws as the RPC client does when no
 * endpoint answers.
 */
export async function witnessAbsence(
  rpc: Pick<Rpc, 'getAccountsEverywhere'>,
  addresses: readonly string[],
): Promise<Absence> {
  const answers = await rpc.getAccountsEverywhere(addresses, { commitment: 'finalized' });
  const isGone = (account: ChainAccount | null | undefined) =>
    account === null || (account !== undefined && isClosed(account));
  const saying = addresses.map(
    (_, place) => answers.filter(({ accounts }) => isGone(accounts[place])).length,
  );
  const where = (holds: (gone: number) => boolean) =>
    new Set(addresses.filter((_, place) => holds(saying[place] ?? 0)));
  return {
    absent: where((gone) => gone === answers.length),
    disputed: where((gone) => gone > 0 && gone < answers.length),
    witnesses: answers.length,
  };
}

/** Why absences are not believed: endpoints say different things for minutes, or too many accounts vanished at once. */
export type AbsenceAlarm = 'endpoints_disagree' | 'accounts_vanished';

export interface AbsenceJudge {
  /** So many subscriptions were read from one endpoint: the measure of what vanishes. */
  read(subscriptions: number): void;
  /** Those of these addresses, which one endpoint does not have, that are gone for sure. Throws as the RPC client does. */
  gone(addresses: readonly string[]): Promise<ReadonlySet<string>>;
}

export interface AbsenceOptions {
  /** Called at most once an hour for each kind, with the number of accounts. */
  readonly onAlarm: (alarm: AbsenceAlarm, accounts: number) => void;
  /** Milliseconds of a clock that only runs forward. */
  readonly monotonicMs?: () => number;
}

/** Accounts that vanish within this time (ms) vanish at once: more than 1% of what was read in it do not do so by themselves. */
const TOGETHER_MS = 600_000;
/** How long one endpoint alone must not have an account (ms): a mass shows before that. */
const ALONE_MS = 900_000;
/** How long endpoints may differ without an alarm: their finalized slots differ by seconds. */
const DISPUTE_MS = 120_000;
/** Fewer than these are no mass, however few were read. */
const FEWEST = 3;
/** How long a mass of vanished accounts is not believed, so that an operator can act. */
const HELD_MS = 86_400_000;
/**
 * An account that is not missed for so long (ms) is there again: callers ask about what they miss alone. The slowest of them, the settling of an
 * expired attempt, asks every 5 minutes.
 */
const FORGOTTEN_MS = 600_000;
const ALARM_MS = 3_600_000;

interface Suspect {
  /** When an endpoint first had no account, and when it was last so. */
  readonly since: number;
  readonly lastMissedAt: number;
  heldUntil: number;
}

/** A judge that remembers since when accounts are missing. */
export function createAbsenceJudge(
  rpc: Pick<Rpc, 'getAccountsEverywhere'>,
  options: AbsenceOptions,
): AbsenceJudge {
  return new Judge(rpc, options);
}

/** Of a local chain, whose one node is the chain: what it does not have is gone. */
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
      this.#holdMasses(now);
      for (const address of absence.absent) {
        const { since, heldUntil } = this.#suspects.get(address) ?? { since: now, heldUntil: 0 };
        const isWitnessed = absence.witnesses >= 2 || now - since >= ALONE_MS;
        if (isWitnessed && now >= heldUntil) believed.add(address);
      }
    }
    return believed;
  }

  #note(address: string, { absent, disputed }: Absence, now: number): void {
    if (!absent.has(address) && !disputed.has(address)) {
      this.#suspects.delete(address);
      return;
    }
    const known = this.#suspects.get(address);
    const isMissingStill = known !== undefined && now - known.lastMissedAt <= FORGOTTEN_MS;
    const since = isMissingStill ? known.since : now;
    const heldUntil = known?.heldUntil ?? -Infinity;
    this.#suspects.set(address, { since, lastMissedAt: now, heldUntil });
    if (disputed.has(address) && now - since >= DISPUTE_MS)
      this.#alarm('endpoints_disagree', disputed.size, now);
  }

  /** Holds what vanished at once, when it is too much. */
  #holdMasses(now: number): void {
    const recent: Suspect[] = [];
    for (const [address, suspect] of this.#suspects) {
      if (now - suspect.since <= TOGETHER_MS) recent.push(suspect);
      else if (now - suspect.lastMissedAt > FORGOTTEN_MS && now >= suspect.heldUntil)
        this.#suspects.delete(address);
    }
    const read = this.#reads
      .filter(({ at }) => now - at <= TOGETHER_MS)
      .reduce((sum, { subscriptions }) => sum + subscriptions, 0);
    if (recent.length < FEWEST || recent.length < read / 100) return;
    for (const suspect of recent) suspect.heldUntil = suspect.since + HELD_MS;
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
