// Reads the results of one run of the scenario from three independent sources: the chain, the
// database and the merchants' webhook server.
import { programEvents } from '../../chain/program/events.ts';
import {
  readDeliveryTotals,
  readEvents,
  readPayments,
  readSubscriptionStatuses,
  type EventRecord,
  type PaymentRecord,
  type SubscriptionRecord,
} from '../../db/operating/sandbox.ts';
import { retrying } from './chaos.ts';
import type { MerchantServer, ReceivedEvent } from './merchant-server.ts';
import type { Merchant } from './merchants.ts';
import type { Processes } from './processes.ts';
import type { Stage, Subscriber } from './subscribers.ts';

/**
 * A payment as the chain shows it: all transfers for one subscription in one transaction. The
 * amounts are base units of USDC; the times are Unix seconds.
 */
export interface ChainPull {
  signature: string;
  subscriptionPda: string;
  gross: bigint;
  /** The part of `gross` that the treasury received, in base units. */
  fee: bigint;
  net: bigint;
  periodStart: bigint;
  blockTime: bigint;
}

/** A cancellation, or a resumption of a cancelled subscription, as the chain shows it. */
export interface ChainTurn {
  subscriptionPda: string;
  kind: 'cancelled' | 'resumed';
  slot: bigint;
  blockTime: bigint;
}

export interface Evidence {
  pulls: ChainPull[];
  turns: ChainTurn[];
  treasuryBalance: bigint;
  merchantBalances: Map<string, bigint>;
  payments: PaymentRecord[];
  events: EventRecord[];
  subscriptions: SubscriptionRecord[];
  deliveries: { delivered: number; failed: number; pending: number; attempts: number };
  received: ReadonlyMap<string, ReceivedEvent>;
  refused: number;
  altered: number;
}

export async function gatherEvidence(
  { chain, programId }: Stage,
  processes: Pick<Processes, 'sql' | 'treasury'>,
  server: MerchantServer,
  merchants: readonly Merchant[],
  subscribers: readonly Subscriber[],
): Promise<Evidence> {
  const appIds = merchants.map(({ appId }) => appId);
  const [payments, events, subscriptions, deliveries] = await Promise.all([
    retrying(() => readPayments(processes.sql, appIds)),
    retrying(() => readEvents(processes.sql, appIds)),
    retrying(() => readSubscriptionStatuses(processes.sql, appIds)),
    retrying(() => readDeliveryTotals(processes.sql, appIds)),
  ]);
  const pulls: ChainPull[] = [];
  const turns: ChainTurn[] = [];
  for (const { subscriptionPda } of subscribers) {
    for (const { signature, err, slot } of await chain.rpc.getSignaturesForAddress(
      subscriptionPda,
      { limit: 1000 },
    )) {
      if (err !== null) continue;
      const transaction = await chain.rpc.getTransaction(signature);
      if ('unreadable' in transaction)
        throw new Error(`the chain lists ${signature} but does not return it`);
      const blockTime = transaction.blockTime ?? 0n;
      const transfers = [];
      for (const event of programEvents(transaction, programId)) {
        if (event.kind === 'transfer' && event.subscription === subscriptionPda)
          transfers.push(event);
        else if (event.kind === 'cancelled' || event.kind === 'resumed')
          turns.push({ subscriptionPda, kind: event.kind, slot, blockTime });
      }
      const [first] = transfers;
      if (first === undefined) continue;
      const sum = (amounts: bigint[]) => amounts.reduce((total, amount) => total + amount, 0n);
      const gross = sum(transfers.map(({ amount }) => amount));
      const fee = sum(
        transfers
          .filter(({ receiver }) => receiver === processes.treasury)
          .map(({ amount }) => amount),
      );
      pulls.push({
        signature,
        subscriptionPda,
        gross,
        fee,
        net: gross - fee,
        periodStart: first.periodStart,
        blockTime,
      });
    }
  }
  const merchantBalances = new Map<string, bigint>();
  for (const { wallet } of merchants)
    merchantBalances.set(wallet.address, await chain.balance(wallet.address));
  return {
    pulls,
    turns,
    treasuryBalance: await chain.balance(processes.treasury),
    merchantBalances,
    payments,
    events,
    subscriptions,
    deliveries,
    received: server.events,
    refused: server.refused(),
    altered: server.altered(),
  };
}
