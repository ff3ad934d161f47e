// If a batch fails because of one item's data, splits the batch until that item is alone.
import postgres from 'postgres';
import { ChainDataError } from '../../chain/program/layouts.ts';

/**
 * Whether the data of a row caused the error. A retry would then fail in the same way. False when
 * the database or the chain was unreachable.
 */
export function isFaulty(error: unknown): boolean {
  // Error classes of Postgres: 22 is a data exception, 23 a violated constraint, and P0 is raised
  // by this project's own triggers.
  if (error instanceof postgres.PostgresError) return /^(22|23|P0)/.test(error.code);
  return (
    error instanceof RangeError || error instanceof TypeError || error instanceof ChainDataError
  );
}

/**
 * Calls `work` with all items. If the data of one item makes `work` fail, the list of items is
 * halved until that item is alone. `onFault` is then called with the item. Any other error is
 * thrown.
 */
export async function splitBatch<T>(
  items: readonly T[],
  work: (items: readonly T[]) => Promise<void>,
  onFault: (item: T, error: unknown) => Promise<void> | void,
): Promise<void> {
  try {
    await work(items);
  } catch (error) {
    const [first] = items;
    if (!isFaulty(error) || first === undefined) throw error;
    if (items.length === 1) await onFault(first, error);
    else {
      const middle = Math.ceil(items.length / 2);
      await splitBatch(items.slice(0, middle), work, onFault);
      await splitBatch(items.slice(middle), work, onFault);
    }
  }
}
