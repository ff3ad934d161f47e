// Index of the transactions in flight and their payments, by signature, by subscription and by the
// on-chain account that a payment changes.
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { AttemptRow } from '../../db/money/payment-attempts.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscriptions/work.ts';
import type { ClaimedRow } from '../../domain/collecting/settlement.ts';
import { track, type Tracked } from './follower.ts';

/** Receives committed payments, sends them and follows them until they are final. */
export interface Queue {
  /** Returns the number of payments that can be added now. */
  room(): number;
  add(attempts: readonly InFlightPayment[]): void;
}

/** A payment that is committed to Postgres but not settled yet. */
export interface InFlightPayment extends ClaimedRow {
  readonly attempt: AttemptRow;
  /** The subscription as it was when this keeper committed or took over the payment. */
  readonly row: KeeperSubscriptionForEvents;
  /** Start of the claim's lease, in milliseconds of performance.now(). */
  readonly leasedAt: number;
  /**
   * End of the period (Unix seconds) that the payment was signed for. Null for an attempt signed by
   * another process.
   */
  readonly periodEnd: bigint | null;
  /**
   * The on-chain subscription as it will be after this payment if nothing else changes the account.
   * Null for an attempt signed by another process.
   */
  readonly expectedAccount: {
    readonly address: string;
    readonly account: SubscriptionAccount;
  } | null;
  /**
   * Every change that concerns the payment raises the row's counter `notices`. `checked` is the
   * value of `notices` when this process last read the accounts for this payment. Null before the
   * first read.
   */
  checked: number | null;
  /** Whether the last read of the chain showed that the payment must not be sent. */
  isStopped: boolean;
  /**
   * Whether a notification showed a change of the account that this payment did not make. Never
   * becomes false again, because a cancellation and a later resume together leave no trace in the
   * account.
   */
  isUnexplained: boolean;
}

/**
 * Creates a payment for the index. If another process signed the payment, the subscription may have
 * changed since. `checked` is then null, so that the keeper reads the chain before it sends.
 */
export function newPayment(
  parts: Omit<InFlightPayment, 'checked' | 'isStopped' | 'isUnexplained'>,
): InFlightPayment {
  const checked = parts.periodEnd === null ? null : parts.notices;
  return { ...parts, checked, isStopped: false, isUnexplained: false };
}

/**
 * A transaction in flight that makes one or more payments. `size` (Tracked) counts all of them,
 * also those whose claim this process has lost.
 */
export interface InFlightTransaction extends Tracked {
  /** The open payments whose claim this process holds, by subscription id. */
  readonly payments: ReadonlyMap<string, InFlightPayment>;
}

/** The index of transactions in flight. The index has at most one payment per subscription. */
export class InFlight {
  readonly #tracked = new Map<
    string,
    InFlightTransaction & { payments: Map<string, InFlightPayment> }
  >();
  readonly #bySubscription = new Map<string, string>();
  readonly #byAddress = new Map<string, string>();

  /** Number of payments in flight. */
  get size(): number {
    return this.#bySubscription.size;
  }

  /** The transactions by signature. */
  get transactions(): ReadonlyMap<string, InFlightTransaction> {
    return this.#tracked;
  }

  of(subscriptionId: string): InFlightPayment | undefined {
    return this.transactionOf(subscriptionId)?.payments.get(subscriptionId);
  }

  transactionOf(subscriptionId: string): InFlightTransaction | undefined {
    return this.#tracked.get(this.#bySubscription.get(subscriptionId) ?? '');
  }

  has({ signature }: Pick<InFlightTransaction, 'signature'>): boolean {
    return this.#tracked.has(signature);
  }

  /**
   * Adds committed payments and returns the transactions that are new to the index. A payment
   * replaces an earlier payment of the same subscription.
   */
  add(taken: readonly InFlightPayment[]): InFlightTransaction[] {
    const added: InFlightTransaction[] = [];
    for (const one of taken) {
      this.#remove(one.id);
      const { signature } = one.attempt;
      let transaction = this.#tracked.get(signature);
      if (transaction === undefined) {
        transaction = newTransaction(one);
        this.#tracked.set(signature, transaction);
        added.push(transaction);
      }
      if (one.periodEnd === null) transaction.isOwn = false;
      transaction.payments.set(one.id, one);
      this.#bySubscription.set(one.id, signature);
      if (one.expectedAccount !== null) this.#byAddress.set(one.expectedAccount.address, one.id);
    }
    return added;
  }

  /** Removes the payments with these claims. A payment that has a newer claim stays. */
  forget(done: Iterable<ClaimedRow>): void {
    for (const { id, claimId } of done) if (this.of(id)?.claimId === claimId) this.#remove(id);
  }

  /**
   * Whether a payment in flight explains the account in a notification: the account equals the
   * payment's expected account, and the subscription has not changed since this process last read
   * the accounts. If so, the payment's transaction is assumed to have landed in `slot`. If not, the
   * payment is marked as unexplained.
   */
  explains(address: string, account: SubscriptionAccount, slot: bigint): boolean {
    const id = this.#byAddress.get(address) ?? '';
    const [transaction, one] = [this.transactionOf(id), this.of(id)];
    const expected = one?.expectedAccount ?? null;
    if (transaction === undefined || one === undefined || expected === null) return false;
    if (one.checked !== one.notices || !isSame(expected.account, account)) one.isUnexplained = true;
    if (!one.isUnexplained) transaction.slot = slot;
    return !one.isUnexplained;
  }

  /** Whether this process signed the transaction and still has it in flight. */
  isOwn(signature: string): boolean {
    return this.#tracked.get(signature)?.isOwn === true;
  }

  clear(): void {
    this.forget([...this.#tracked.values()].flatMap(({ payments }) => [...payments.values()]));
  }

  #remove(id: string): void {
    const signature = this.#bySubscription.get(id) ?? '';
    const transaction = this.#tracked.get(signature);
    const one = transaction?.payments.get(id);
    if (transaction === undefined || one === undefined) return;
    transaction.payments.delete(id);
    this.#bySubscription.delete(id);
    const address = one.expectedAccount?.address ?? '';
    if (this.#byAddress.get(address) === id) this.#byAddress.delete(address);
    if (transaction.payments.size === 0) this.#tracked.delete(signature);
  }
}

function newTransaction({ attempt, leasedAt, periodEnd }: InFlightPayment) {
  const taken = { isOwn: periodEnd !== null, size: attempt.payments, renewedAt: leasedAt };
  return { ...track(attempt, taken), payments: new Map<string, InFlightPayment>() };
}

const isSame = (one: SubscriptionAccount, other: SubscriptionAccount) =>
  (Object.keys(one) as (keyof SubscriptionAccount)[]).every((field) => one[field] === other[field]);
