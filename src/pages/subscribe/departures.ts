// Remembers the transactions of this page that may still reach the chain. As long as there is such
// a transaction, the page does not say that nothing was paid.
import { AlteredTransaction, WalletRefusal } from '../shared/errors.ts';
import type { Submitted } from '../shared/sponsored.ts';

/**
 * Maximum time (ms) until a signed transaction is on chain. After this time its blockhash has
 * expired.
 */
export const LANDING_MS = 100_000;

/** Whether the status means that a transaction had no effect and will have none. */
export const hasNoEffect = ({ status }: Pick<Submitted, 'status'>): boolean =>
  ['lapsed', 'failed', 'refused', 'unsponsored'].includes(status);

/** Whether the error means that the transaction was not sent. */
const isUnsent = (error: unknown): boolean =>
  error instanceof WalletRefusal || error instanceof AlteredTransaction;

/**
 * The wallet that a transaction subscribes, and the transaction's offer. The offer is undefined for
 * a sponsored transaction.
 */
interface Opening {
  readonly address: string;
  readonly offerId: string | undefined;
}

/** A transaction that the page asks the wallet for. */
class Departure {
  /** Set once the transaction may have been sent, if it opens or resumes an account. */
  opening: Opening | undefined;
  /**
   * Unix time (ms) until which the transaction can land. Infinity means that the time is not known,
   * because the transaction can still be sent. 0 means that the transaction cannot land.
   */
  until = 0;

  /** Records that the service has the transaction or that the wallet may send it. */
  leave(opening?: Opening): void {
    this.until = Infinity;
    this.opening = opening;
  }

  /**
   * Records that nobody will send the transaction from now on. If the transaction was sent before,
   * it can still land.
   */
  stop(): void {
    if (this.until === Infinity) this.until = Date.now() + LANDING_MS;
  }

  /** Records that the transaction was not sent or had no effect. */
  settle(): void {
    this.until = 0;
    this.opening = undefined;
  }
}

export class Departures {
  #all: Departure[] = [];

  /**
   * Runs `send`. `send` calls leave() as soon as its transaction may have been sent. If `send` then
   * throws an error with isUnsent(), or returns a result with isOver(), the transaction can no
   * longer land. Otherwise it can land until its blockhash has expired.
   */
  async during<T>(
    send: (departure: Pick<Departure, 'leave'>) => Promise<T>,
    isOver: (result: T) => boolean,
  ): Promise<T> {
    const departure = new Departure();
    this.#all.push(departure);
    try {
      const result = await send(departure);
      if (isOver(result)) departure.settle();
      return result;
    } catch (error) {
      if (isUnsent(error)) departure.settle();
      throw error;
    } finally {
      departure.stop();
    }
  }

  /** Whether a transaction of this page may be on chain although the page has not seen it there. */
  get isOpen(): boolean {
    return this.#all.some(({ until }) => until > 0);
  }

  /** The last transaction of this page that may have opened or resumed the wallet's account. */
  openingOf(address: string): Opening | undefined {
    return this.#all.findLast(({ opening }) => opening?.address === address)?.opening;
  }

  /**
   * Records that the page has shown a registered subscription. An account that is found later was
   * therefore not opened or resumed by earlier transactions of this page.
   */
  registered(): void {
    for (const departure of this.#all) departure.opening = undefined;
  }

  /**
   * Records that the page read the chain after the time `at` (ms) and did not see the transactions.
   * Drops the transactions that could land only before this time.
   */
  looked(at: number): void {
    this.#all = this.#all.filter(({ until }) => until > at);
  }
}
