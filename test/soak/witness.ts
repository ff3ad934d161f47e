// Records the transactions of the chain as blocks are finalized, because the local chain drops old
// ones.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SUBSCRIPTIONS_PROGRAM } from '../../src/chain/clusters.ts';
import { subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { programEvents } from '../../src/chain/program/events.ts';
import type { SignatureInfo, ConfirmedTransaction } from '../../src/chain/rpc/responses.ts';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import type { ChainPull } from '../../src/local/sandbox/evidence.ts';
import { patiently } from './send.ts';

export interface SeenPull extends ChainPull {
  source: 'keeper' | 'foreign';
  /**
   * Unix ms of this machine: when it was not final yet, and when it was seen, some moments after it
   * became so.
   */
  notBefore: number;
  seenAt: number;
}

/** A subscription was opened, cancelled or resumed on chain. */
export interface SeenTurn {
  subscriptionPda: string;
  kind: 'created' | 'cancelled' | 'resumed';
  /**
   * Unix ms of this machine: when it was not final yet, and when it was seen. A busy witness sees
   * late.
   */
  notBefore: number;
  seenAt: number;
}

export interface Witness {
  pulls: SeenPull[];
  turns: SeenTurn[];
  /** Lamports that each transaction of the program cost, failed ones too, by signature. */
  fees: Map<string, bigint>;
  /** Records the blocks finalized since the last call. */
  look(): Promise<void>;
  /** Looks every second until the returned function is called, which resolves after a last look. */
  follow(): () => Promise<void>;
  /** Writes everything to two files, one JSON object per line, for debugging. */
  leave(directory: string): Promise<void>;
}

const PAGE = 1000;
const AT_ONCE = 16;

/** Watches every transaction of the program. */
export function createWitness(
  rpc: Rpc,
  { keeper, treasury }: { keeper: string; treasury: string },
): Witness {
  const pulls: SeenPull[] = [];
  const turns: SeenTurn[] = [];
  const fees = new Map<string, bigint>();
  let last: string | undefined;
  let listedAt = 0;

  async function newSince(): Promise<SignatureInfo[]> {
    const found: SignatureInfo[] = [];
    for (let before: string | undefined; ;) {
      const options = { before, until: last, limit: PAGE, commitment: 'finalized' } as const;
      const page = await patiently(() =>
        rpc.getSignaturesForAddress(SUBSCRIPTIONS_PROGRAM, options),
      );
      found.push(...page);
      before = page.at(-1)?.signature;
      if (page.length < PAGE) return found.reverse();
    }
  }

  function takeDown(transaction: ConfirmedTransaction, notBefore: number): void {
    const seenAt = Date.now();
    const blockTime = transaction.blockTime ?? 0n;
    const bySubscription = new Map<string, SeenPull>();
    for (const event of programEvents(transaction, SUBSCRIPTIONS_PROGRAM)) {
      if (event.kind === 'created' || event.kind === 'cancelled' || event.kind === 'resumed') {
        const subscriptionPda = subscriptionAddress(
          SUBSCRIPTIONS_PROGRAM,
          event.plan,
          event.subscriber,
        ).address;
        turns.push({ subscriptionPda, kind: event.kind, notBefore, seenAt });
      }
      if (event.kind !== 'transfer') continue;
      const { subscription: subscriptionPda, amount, receiver, puller, periodStart } = event;
      const known = bySubscription.get(subscriptionPda);
      const fee = (known?.fee ?? 0n) + (receiver === treasury ? amount : 0n);
      const gross = (known?.gross ?? 0n) + amount;
      const source = puller === keeper ? 'keeper' : 'foreign';
      const { signature } = transaction;
      bySubscription.set(subscriptionPda, {
        signature,
        subscriptionPda,
        gross,
        fee,
        net: gross - fee,
        periodStart,
        blockTime,
        source,
        notBefore,
        seenAt,
      });
    }
    pulls.push(...bySubscription.values());
  }

  async function look(): Promise<void> {
    // This list has transactions that the previous one did not have.
    const notBefore = listedAt;
    listedAt = Date.now();
    const found = await newSince();
    const signatures = found.map(({ signature }) => signature);
    // Taken down in the order of the chain, however they come.
    for (let at = 0; at < signatures.length; at += AT_ONCE) {
      const transactions = signatures
        .slice(at, at + AT_ONCE)
        .map((signature) =>
          patiently(() => rpc.getTransaction(signature, { commitment: 'finalized' })),
        );
      for (const transaction of await Promise.all(transactions)) {
        if ('unreadable' in transaction)
          throw new Error(
            `the chain lists ${transaction.signature} as final but does not return it`,
          );
        fees.set(transaction.signature, transaction.fee);
        if (transaction.err === null) takeDown(transaction, notBefore);
      }
    }
    last = found.at(-1)?.signature ?? last;
  }

  return {
    pulls,
    turns,
    fees,
    look,
    async leave(directory) {
      const lines = (found: readonly object[]) =>
        found
          .map(
            (one) =>
              `${JSON.stringify(one, (_, value: unknown) => (typeof value === 'bigint' ? Number(value) : value))}\n`,
          )
          .join('');
      await writeFile(join(directory, 'pulls.jsonl'), lines(pulls));
      await writeFile(join(directory, 'turns.jsonl'), lines(turns));
    },
    follow() {
      let stopped = false;
      const isStopped = () => stopped;
      const ended = (async () => {
        while (!isStopped()) {
          await look();
          await pause(1000);
        }
      })();
      // The returned function reports a failure.
      ended.catch(() => undefined);
      return async () => {
        stopped = true;
        await ended;
        await look();
      };
    },
  };
}
