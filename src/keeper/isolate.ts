// One subscription that cannot be processed must not hold up the batch that it is in.
import postgres from 'postgres';
import { ChainDataError } from '../chain/layouts.ts';

/** Whether an error comes from the work itself, and would come again, rather than from a database or chain out of reach. */
function isFaulty(error: unknown): boolean {
  // Classes 22 and 23: data exceptions and violated constraints. P0: raised by our own triggers.
  if (error instanceof postgres.PostgresError) return /^(22|23|P0)/.test(error.code);
  return error instanceof RangeError || error instanceof TypeError || error instanceof ChainDataError;
}

/** Does `work` on all items, and one by one when that fails for a fault of one of them; `onFault` gets each that fails alone. Other errors are thrown. */
export async function isolating<T>(
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
    else for (const item of items) await isolating([item], work, onFault);
  }
}
