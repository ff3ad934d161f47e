// Remembers the transactions of this page that may still reach the chain. While one of them may,
// the page does not say that nothing was paid.
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

/** A transaction that the page asks the wallet for. */
class Departure {
  /**
   * Unix time (ms) until which the transaction can land. Infinity means that the transaction can
   * still be sent. 0 means that the transaction cannot land.
   */
  until = 0;

  /** Records that the service has the transaction or that the wallet may send it. */
  leave(): void {
    this.until = Infinity;
  }

  /** Records that the transaction is not sent any more. If it was sent, it can still land. */
  stop(): void {
    if (this.until === Infinity) this.until = Date.now() + LANDING_MS;
  }

  /** Records that the transaction was not sent or had no effect. */
  settle(): void {
    this.until = 0;
  }
}

export class Departures {
  #all: Departure[] = [];

  /**
   * Runs `send`, which calls leave() when its transaction may be on its way. Afterwards the
   * transaction can land until its blockhash has expired, unless it was not sent (isUnsent) or
   * `isOver` is true for the result.
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

  /** Whether a transaction may be on chain that the page has not seen there. */
  get isOpen(): boolean {
    return this.#all.some(({ until }) => until > 0);
  }

  /**
   * Records that the page read the chain at the time `at` (ms) or later and saw no transaction.
   * Drops the transactions that could not land any more at that time.
   */
  looked(at: number): void {
    this.#all = this.#all.filter(({ until }) => until > at);
  }
}
