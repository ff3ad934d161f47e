// Packs due payments into transactions, signs them, and commits each with its payments before the first send, in the database transaction that writes
// what else was decided.
import { tokenAccountAddress } from '../chain/addresses.ts';
import { type Collection, packPayments, paymentPart, signPayments } from '../chain/collection.ts';
import type { Blockhash } from '../chain/rpc.ts';
import { type ChainClock, timeOf } from '../chain/time.ts';
import type { Part, TransactionVersion } from '../chain/transaction-room.ts';
import type { TransactionVersions } from '../chain/transaction-version.ts';
import type { SignedTransaction } from '../chain/transactions.ts';
import { releaseClaims } from '../db/subscription-leases.ts';
import {
  type HeldSubscription,
  readSubscriptions,
  type ReadSubscription,
} from '../db/subscriptions.ts';
import type { Collectable, Decision } from '../domain/decision.ts';
import type { OpenAttempt } from '../domain/in-flight.ts';
import { type Assessment, recordKey, settle } from '../domain/settlement.ts';
import type { Closed } from './close.ts';
import { type Fees, OWN_DATA_BYTES, type Shape } from './fees.ts';
import { reportBlocked } from './blocked-plans.ts';
import { report } from './metrics.ts';
import type { Context } from './preflight.ts';
import { assess, assessAll, type Snapshot, withRecorded } from './snapshot.ts';

/** A payment whose transaction failed so often because of others goes alone. */
const MOST_FAILED_PACKS = 2;
/** How often a row is assessed that keeps changing while it is signed for. */
const TRIES = 3;

/** What all transactions of a batch have in common. */
interface Terms {
  readonly version: TransactionVersion;
  readonly blockhash: Blockhash;
  /** Micro-lamports per compute unit. */
  readonly price: bigint;
}

/** A payment to sign. */
interface Due {
  readonly row: ReadSubscription;
  readonly collect: Collectable;
}

type Packed = Due & { readonly part: Part; readonly alone: boolean };

/** Packs and signs payments. */
export class Signer {
  readonly fees: Fees;
  readonly #versions: TransactionVersions;
  readonly #context: Context;

  constructor(context: Context, fees: Fees, versions: TransactionVersions) {
    this.#context = context;
    this.fees = fees;
    this.#versions = versions;
  }

  /** Version, blockhash and priority fee for a batch; learns the limits of its payments first. Throws as the RPC client does. */
  async terms(batch: readonly Due[]): Promise<Terms> {
    const [version, blockhash, price] = await Promise.all([
      this.#versions.current(),
      this.#context.rpc.getLatestBlockhash(),
      this.fees.price(),
    ]);
    const terms = { version, blockhash, price };
    for (const one of batch) {
      const shape = this.#shapeOf(one);
      if (!this.fees.wantsSample(shape)) continue;
      await this.fees.sample(
        shape,
        this.#sign([this.#packed(one)], one.collect.keeper, terms).bytes,
      );
    }
    return terms;
  }

  /** Signed transactions, each with its payments in their order. A transaction is signed by one of the keeper's keys. */
  sign(batch: readonly Due[], terms: Terms): { payments: Packed[]; signed: SignedTransaction }[] {
    const { version } = terms;
    const payments = batch
      .map((one) => this.#packed(one))
      // Payments of one plan share addresses.
      .sort((a, b) => (a.row.planId < b.row.planId ? -1 : a.row.planId > b.row.planId ? 1 : 0));
    const keepers = new Set(payments.map(({ collect }) => collect.keeper));
    return [...keepers].flatMap((keeper) =>
      packPayments(
        payments.filter(({ collect }) => collect.keeper === keeper),
        { version, keeper, loadedDataBytes: this.fees.sharedData() },
      ).map((pack) => ({ payments: pack, signed: this.#sign(pack, keeper, terms) })),
    );
  }

  #packed(one: Due): Packed {
    const { row, collect } = one;
    const { programId, mint } = this.#context;
    const collection: Collection = {
      programId,
      mint,
      keeper: collect.keeper,
      subscriber: row.subscriberWallet,
      plan: row.planPda,
      subscription: row.subscriptionPda,
      merchant: row.merchantWallet,
      treasury: collect.treasury,
      net: collect.amounts.net,
      fee: collect.amounts.fee,
    };
    const computeUnits = this.fees.units(this.#shapeOf(one));
    const part = paymentPart(collection, { computeUnits, loadedDataBytes: OWN_DATA_BYTES });
    return { ...one, part, alone: row.failedPacks >= MOST_FAILED_PACKS };
  }

  #sign(
    pack: readonly Packed[],
    keeper: string,
    { version, blockhash, price }: Terms,
  ): SignedTransaction {
    const { keypair, keypairs } = this.#context;
    const computeUnits = pack.reduce((sum, { part }) => sum + part.computeUnits, 0);
    const subscriptions = pack.map(({ row }) => row.id);
    const transfers = pack.flatMap(({ part }) => [...part.instructions]);
    return signPayments(keypairs.get(keeper) ?? keypair, transfers, {
      version,
      blockhash: blockhash.blockhash,
      reference: pack.map(referenceOf).join('\n'),
      budget: {
        computeUnits,
        loadedDataBytes: this.fees.sharedData() + pack.length * OWN_DATA_BYTES,
        priorityFee: this.fees.priorityFee(subscriptions, price, computeUnits),
      },
    });
  }

  #shapeOf({ row, collect: { amounts } }: Due): Shape {
    // Bump seeds are tried from 255 down.
    const tries = 255 - tokenAccountAddress(row.subscriberWallet, this.#context.mint).bump;
    return { pulls: [amounts.net, amounts.fee].filter((amount) => amount > 0n).length, tries };
  }
}

/** Two tries of one period with one blockhash are two transactions. */
const referenceOf = ({ row, collect }: Due) =>
  [row.id, collect.periodStart, row.failedAttempts, row.setbacks, row.failedPacks].join(' ');

/** What became of a batch. */
export interface Committed {
  /** Committed payments. */
  taken: OpenAttempt[];
  /** Rows whose on-chain account must be closed first. */
  closable: ReadSubscription[];
  /** Rows whose pulls must be looked up first. */
  asking: ReadSubscription[];
  /** What was decided, as it was written. */
  written: HeldSubscription[];
}

/**
 * Reads, decides, signs and commits one claimed batch. `closed`: closing was tried, and these accounts are closed; `history`: pulls are looked up on chain.
 * Throws when chain or database cannot be reached; the claims are held still.
 */
export async function commit(
  context: Context,
  signer: Signer,
  lease: { claimId: string; leasedAt: number },
  batch: readonly ReadSubscription[],
  clock: ChainClock,
  how: { closed?: Closed; history: boolean },
): Promise<Committed> {
  const { sql } = context;
  const { snapshot, findings, decisions } = await assessAll(context, batch, how);
  clock.heard(snapshot.now);
  const rowsThat = (need: Decision['needs']) =>
    batch.filter((row) => decisions.get(row)?.needs === need);
  const taken: OpenAttempt[] = [];
  const written: HeldSubscription[] = [];
  const recorded = new Set<string>();
  const noticesOf = new Map(batch.map(({ id, notices }) => [id, notices]));
  const decide = (row: ReadSubscription) => {
    const { id, subscriptionPda } = row;
    const known = findings.get(id);
    const isRecorded = (txSignature: string) =>
      recorded.has(recordKey({ txSignature, subscriptionPda }));
    // The same row without findings leads to the same decision.
    const earlier = known === undefined ? decisions.get(row) : undefined;
    return earlier ?? assess(context, row, snapshot, withRecorded(known, isRecorded));
  };
  let rows = rowsThat(undefined);
  const left = new Set(rows.map(({ id }) => id));
  let terms: Terms | undefined;
  const round = async () => {
    const decided = rows.map((row) => ({ row, decision: decide(row) }));
    const due = decided.flatMap(({ row, decision: { collect } }) =>
      collect === undefined ? [] : [{ row, collect }],
    );
    if (due.length > 0) terms ??= await signer.terms(due);
    const attempts = terms === undefined ? undefined : attemptsOf(signer.sign(due, terms), terms);
    const assessments = decided.flatMap(({ row, decision }) => {
      const claim = { id: row.id, claimId: lease.claimId, notices: noticesOf.get(row.id) ?? 0 };
      const attempt = attempts?.get(row.id);
      // A row that changed may need a look-up now: the next claim makes it.
      if (decision.needs !== undefined) return [];
      const { draft, blocks } = decision;
      return [{ claim, row, decision, draft, blocks, ...(attempt && { attempt }) }];
    });
    const settled = await settle(sql, assessments, timeOf(snapshot.now));
    context.deliveries.notify(settled.queued);
    for (const one of settled.written) {
      left.delete(one.row.id);
      written.push({ ...one.row, ...one.draft.state });
      report(context, one.draft, one.decision.alert?.reason, one.decision.alert?.detail);
      taken.push(...openAttempt(one, settled.attempts, snapshot, lease.leasedAt));
    }
    for (const one of settled.blocked) reportBlocked(context, one);
    for (const key of settled.recorded) recorded.add(key);
    const ids = settled.changed.map(({ row }) => row.id);
    rows = ids.length === 0 ? [] : await readSubscriptions(sql, ids);
  };
  try {
    for (let tries = 0; rows.length > 0 && tries < TRIES; tries += 1) await round();
  } catch (error) {
    // What is committed goes on; the rest is claimed again.
    if (taken.length === 0) throw error;
    context.log.warn({ err: error }, 'part of a batch was not signed');
  }
  const unwritten = [...left].map((id) => ({ id, claimId: lease.claimId }));
  if (unwritten.length > 0) await releaseClaims(sql, unwritten);
  return { taken, closable: rowsThat('closing'), asking: rowsThat('pulls'), written };
}

type NewAttempt = NonNullable<Assessment['attempt']>;

/** The attempts of signed transactions, by subscription. */
function attemptsOf(
  transactions: ReturnType<Signer['sign']>,
  { blockhash }: Terms,
): Map<string, NewAttempt> {
  return new Map(
    transactions.flatMap(({ payments, signed }) =>
      payments.map(({ row, collect }, position): [string, NewAttempt] => [
        row.id,
        {
          position,
          payments: payments.length,
          periodStart: timeOf(collect.periodStart),
          signature: signed.signature,
          transaction: signed.bytes,
          lastValidBlockHeight: blockhash.lastValidBlockHeight,
          amountGross: collect.amounts.gross,
          platformFee: collect.amounts.fee,
          amountNet: collect.amounts.net,
          feeOwed: collect.feeOwed,
        },
      ]),
    ),
  );
}

/** The committed payment of an assessment; nothing where it had none. */
function openAttempt(
  { row, decision, attempt, claim }: Assessment & { decision: Decision },
  ids: ReadonlyMap<string, string>,
  snapshot: Snapshot,
  leasedAt: number,
): OpenAttempt[] {
  const id = ids.get(row.id);
  if (attempt === undefined || decision.collect === undefined || id === undefined) return [];
  return [
    {
      ...claim,
      leasedAt,
      row: { ...row, ...decision.draft.state },
      periodEnd: decision.collect.periodEnd,
      afterwards: afterwardsOf(row, snapshot, decision.collect),
      attempt: { id, subscriptionId: row.id, ...attempt },
    },
  ];
}

/** The on-chain subscription after this payment and nothing else. */
function afterwardsOf(
  row: HeldSubscription,
  snapshot: Snapshot,
  { periodStart, amounts }: Collectable,
): OpenAttempt['afterwards'] {
  const view = snapshot.of(row);
  if (view instanceof Error || view.subscription === null) return null;
  return {
    address: row.subscriptionPda,
    account: { ...view.subscription, periodStart, amountPulled: amounts.gross },
  };
}
