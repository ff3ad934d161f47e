// The keeper's own SOL, which pays for every transaction. Running out is our failure: nothing is signed that cannot be paid for.
import type { Context } from './context.ts';

/** Lamports below which operators are told to refill: some 10,000 payments. */
const LOW = 100_000_000n;
/** Lamports below which nothing is collected: what a batch may cost, with a token account or two. */
const EMPTY = 5_000_000n;
const SOL = 1_000_000_000;

export interface Funds {
  /** Reads the balance. Throws as the RPC client does. */
  check(): Promise<void>;
  /** Why nothing can be paid for, as far as is known; undefined while there is enough. */
  shortage(): string | undefined;
}

/** Watches the balance of the keeper's wallet; says each change of level once. */
export function createFunds({ rpc, log, metrics, keypair }: Context): Funds {
  let level: 'unknown' | 'fine' | 'low' | 'empty' = 'unknown';
  let balance = 0n;
  return {
    async check() {
      balance = await rpc.getBalance(keypair.address);
      metrics.sol.set(Number(balance) / SOL);
      const now = balance < EMPTY ? 'empty' : balance < LOW ? 'low' : 'fine';
      if (now === level) return;
      const facts = { keeper: keypair.address, sol: Number(balance) / SOL };
      if (now === 'empty') {
        metrics.alerts.inc({ reason: 'keeper_out_of_sol' });
        log.error(facts, 'the keeper is out of SOL: nothing is collected until it is refilled');
      } else if (now === 'low') log.warn(facts, 'the keeper is low on SOL: refill it');
      else if (level !== 'unknown') log.info(facts, 'the keeper has enough SOL again');
      level = now;
    },
    shortage() {
      if (level === 'unknown') return 'the SOL balance of the keeper has not been read yet';
      return level === 'empty' ? `the keeper ${keypair.address} is out of SOL (${Number(balance) / SOL})` : undefined;
    },
  };
}
