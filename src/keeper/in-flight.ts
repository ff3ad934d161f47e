// The book of payments in flight: by subscription, by the account that they change, by signature, and those that can be settled.
import type { SignatureStatus } from '../chain/answers.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import type { AttemptRow } from '../db/payment-attempts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Held } from '../domain/settlement.ts';

/** An open attempt that this keeper watches. */
export interface Flying extends Held {
  readonly attempt: AttemptRow;
  /** The subscription as it was when the attempt was committed or taken over. */
  readonly row: HeldSubscription;
  /** Since when the claim's lease runs, by the process's own clock in milliseconds. */
  readonly leasedAt: number;
  /** Unix seconds; what the payment buys as it was when it was signed. Null for an attempt that another process signed. */
  readonly periodEnd: bigint | null;
  /** The on-chain subscription as it will be when the payment has landed and nothing else has happened. Null where another process signed. */
  readonly afterwards: { readonly address: string; readonly account: SubscriptionAccount } | null;
}

/** A transaction to send. */
export interface Outgoing extends Flying {
  /** The notices that the last look at the chain covers; null when this process has not looked. */
  heeded: number | null;
  sends: number;
  /** When it went out last, by the process's own clock in milliseconds. */
  sentAt: number;
}

/** How far it is. */
export interface Watched extends Outgoing {
  readonly takenAt: number;
  renewedAt: number;
  polledAt: number;
  settleAt: number;
  status: SignatureStatus | null;
  /** Where it seems to have landed: what the stream or an endpoint said last. */
  slot: bigint | null;
  /** Something else was heard of the subscription. A cancellation that is taken back looks like nothing but a payment, so nothing is explained after that. */
  disturbed: boolean;
}

export interface InFlight {
  readonly size: number;
  all(): Iterable<Watched>;
  /** What is in flight for a subscription. */
  of(subscriptionId: string): Watched | undefined;
  /** Whether this very one still is: the subscription may be back under a new claim. */
  has(one: Watched): boolean;
  /** Takes committed attempts in; one takes the place of an earlier one of its subscription. */
  take(taken: readonly Flying[]): Watched[];
  /** A subscription that is back under a new claim by now stays. */
  forget(done: Iterable<Pick<Flying, 'id' | 'claimId'>>): void;
  /** It can be settled. */
  ended(one: Watched): void;
  /** What can be settled at `now` (milliseconds of the process's own clock). */
  settleable(now: number): Watched[];
  /** Whether a notice about an account tells of nothing but a payment that is in flight. */
  explains(address: string, account: SubscriptionAccount, slot: bigint): boolean;
  /** Whether a transaction is one that was signed here and is in flight. */
  isOurs(signature: string): boolean;
  clear(): void;
}

/** Nothing is in flight. */
export function createInFlight(): InFlight {
  const flying = new Map<string, Watched>();
  const byAddress = new Map<string, Watched>();
  const signedHere = new Set<string>();
  const final = new Map<string, Watched>();

  /** Neither its account nor its signature leads to it any more. */
  const leave = (one: Watched | undefined) => {
    if (one === undefined) return;
    if (one.afterwards !== null && byAddress.get(one.afterwards.address) === one) byAddress.delete(one.afterwards.address);
    signedHere.delete(one.attempt.signature);
  };

  return {
    get size() {
      return flying.size;
    },
    all: () => flying.values(),
    of: (subscriptionId) => flying.get(subscriptionId),
    has: (one) => flying.get(one.id) === one,
    take(taken) {
      const now = performance.now();
      return taken.map((one) => {
        const watched: Watched = {
          takenAt: now,
          renewedAt: one.leasedAt,
          sentAt: -Infinity,
          sends: 0,
          // What another process signed may be old: the chain is looked at before it goes out.
          heeded: one.periodEnd === null ? null : one.notices,
          polledAt: now,
          settleAt: now,
          status: null,
          slot: null,
          disturbed: false,
          // Last: V8 makes a hidden class for each property that follows a spread, each time (Node 20: 9 us and 6 KB for these, 0.1 us so).
          ...one,
        };
        leave(flying.get(one.id));
        flying.set(one.id, watched);
        final.delete(one.id);
        if (one.afterwards !== null) {
          byAddress.set(one.afterwards.address, watched);
          signedHere.add(one.attempt.signature);
        }
        return watched;
      });
    },
    forget(done) {
      for (const { id, claimId } of done) {
        const one = flying.get(id);
        if (one?.claimId !== claimId) continue;
        flying.delete(id);
        final.delete(id);
        leave(one);
      }
    },
    ended(one) {
      if (flying.get(one.id) === one) final.set(one.id, one);
    },
    settleable: (now) => [...final.values()].filter(({ settleAt }) => now >= settleAt),
    explains(address, account, slot) {
      const one = byAddress.get(address);
      const expected = one?.afterwards ?? null;
      if (one === undefined || expected === null) return false;
      // Looked at again since: something was heard of it.
      if (one.heeded !== one.notices || !isSame(expected.account, account)) one.disturbed = true;
      if (!one.disturbed) one.slot = slot;
      return !one.disturbed;
    },
    isOurs: (signature) => signedHere.has(signature),
    clear() {
      for (const all of [flying, byAddress, signedHere, final]) all.clear();
    },
  };
}

const isSame = (one: SubscriptionAccount, other: SubscriptionAccount) =>
  (Object.keys(one) as (keyof SubscriptionAccount)[]).every((field) => one[field] === other[field]);
