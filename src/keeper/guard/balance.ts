import { LEAST_FLOOR } from '../../domain/offers/limits.ts';
import type { Context } from '../base/context.ts';

/**
 * Balance (lamports) below which operators are warned. LOW pays the network fees of about 10,000
 * payments.
 */
const LOW = 100_000_000n;

const SOL = 1_000_000_000;

export interface Balance {
  /**
   * Reads the balance of each wallet whose last read is too old. `isSpending` tells whether
   * payments are in flight. Throws RpcUnreachable or RpcError.
   */
  check(isSpending: boolean): Promise<void>;
  /** Returns why the default wallet cannot pay for transactions, or undefined while it can pay. */
  shortage(): string | undefined;
  /** Whether this wallet was out of SOL when its balance was last read. */
  isEmpty(keeper: string): boolean;
}

/**
 * Watches the SOL balance of each of the keeper's wallets. Logs once when a balance becomes low,
 * becomes empty or is sufficient again.
 */
export function createBalance(
  context: Context,
  monotonicMs: () => number = () => performance.now(),
): Balance {
  const { keypair, keypairs } = context;
  const wallets = new Map(
    [keypair.address, ...keypairs.keys()].map((address) => [
      address,
      watchWallet(context, address, monotonicMs),
    ]),
  );
  return {
    async check(isSpending) {
      await Promise.all([...wallets.values()].map((wallet) => wallet.check(isSpending)));
    },
    shortage: () => wallets.get(keypair.address)?.shortage(),
    isEmpty: (keeper) => wallets.get(keeper)?.isEmpty() === true,
  };
}

function watchWallet(
  { rpc, log, metrics, times }: Context,
  keeper: string,
  monotonicMs: () => number,
): Omit<Balance, 'isEmpty'> & { isEmpty(): boolean } {
  let level: 'unknown' | 'fine' | 'low' | 'empty' = 'unknown';
  let balance = 0n;
  let readAt = -Infinity;
  return {
    async check(isSpending) {
      const age = monotonicMs() - readAt;
      if (level === 'fine' && age < (isSpending ? times.balance.spendingMs : times.balance.idleMs))
        return;
      balance = await rpc.getBalance(keeper);
      readAt = monotonicMs();
      const facts = { keeper, sol: Number(balance) / SOL };
      metrics.sol.set({ keeper }, facts.sol);
      const now = balance < LEAST_FLOOR ? 'empty' : balance < LOW ? 'low' : 'fine';
      if (now === level) return;
      if (now === 'empty') {
        metrics.alerts.inc({ reason: 'keeper_out_of_sol' });
        log.error(facts, 'keeper out of SOL; nothing is collected with it until it is refilled');
      } else if (now === 'low') log.warn(facts, 'keeper low on SOL; refill it');
      else if (level !== 'unknown') log.info(facts, 'keeper has enough SOL again');
      level = now;
    },
    shortage() {
      if (level === 'unknown') return 'the SOL balance of the keeper has not been read yet';
      return level === 'empty'
        ? `the keeper ${keeper} is out of SOL (${Number(balance) / SOL})`
        : undefined;
    },
    isEmpty: () => level === 'empty',
  };
}
