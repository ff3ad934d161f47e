// Packs due payments into transactions and signs the transactions. The keeper commits the signed
// transactions to Postgres before it first sends them.
import type { Keypair } from '../../chain/keypair.ts';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import type { Blockhash, Rpc } from '../../chain/rpc/rpc.ts';
import {
  type Collection,
  packPayments,
  paymentPart,
  signPayments,
} from '../../chain/transactions/collection.ts';
import {
  type Fees,
  OWN_DATA_BYTES,
  type PaidPeriod,
  type Shape,
} from '../../chain/transactions/fees.ts';
import type { Part, TransactionVersion } from '../../chain/transactions/room.ts';
import type { SignedTransaction } from '../../chain/transactions/subscriptions.ts';
import type { TransactionVersions } from '../../chain/transactions/version.ts';
import type { KeeperSubscriptionForEvents } from '../../db/subscriptions/work.ts';
import type { Collectable } from '../../domain/collecting/decision.ts';

/**
 * Number of failed transactions after which a payment is packed alone. A failed transaction counts
 * only if another payment in the same transaction made it fail.
 */
const MAX_FAILED_PACKS = 2;

/** Transaction version, blockhash and fee that all transactions of a batch share. */
export interface SigningTerms {
  readonly version: TransactionVersion;
  readonly blockhash: Blockhash;
  /** Priority fee in micro-lamports per compute unit. */
  readonly price: bigint;
}

/** A payment to sign. */
interface Due {
  readonly row: KeeperSubscriptionForEvents;
  readonly collect: Collectable;
}

type Packable = Due & { readonly part: Part; readonly needsOwnTransaction: boolean };

/**
 * Dependencies of the signer: the RPC client, the fees, the addresses of program and mint, and the
 * keypairs.
 */
export interface SigningParts {
  readonly rpc: Pick<Rpc, 'getLatestBlockhash'>;
  readonly fees: Fees;
  readonly programId: string;
  readonly mint: string;
  readonly keypair: Keypair;
  readonly keypairs: ReadonlyMap<string, Keypair>;
}

/** Packs and signs payments. */
export class Signer {
  readonly #fees: Fees;
  readonly #versions: TransactionVersions;
  readonly #parts: SigningParts;

  constructor(parts: SigningParts, versions: TransactionVersions) {
    this.#parts = parts;
    this.#fees = parts.fees;
    this.#versions = versions;
  }

  /**
   * Determines transaction version, blockhash and priority fee for a batch. Then simulates the
   * payments whose compute units are not measured yet. Throws RpcUnreachable or RpcError.
   */
  async terms(batch: readonly Due[]): Promise<SigningTerms> {
    const [version, blockhash, price] = await Promise.all([
      this.#versions.current(),
      this.#parts.rpc.getLatestBlockhash(),
      this.#fees.price(),
    ]);
    const terms = { version, blockhash, price };
    try {
      await this.#learn(batch, terms);
      return terms;
    } catch (error) {
      // No endpoint could be reached, so some compute units are not measured. These payments get
      // the default compute limit, which is generous.
      if (error instanceof RpcUnreachable) return terms;
      if (!(error instanceof RpcError)) throw error;
      // An endpoint may have refused the simulation because it does not support version 1
      // transactions. This endpoint would then refuse the payments too. The version is therefore
      // chosen again after the refusal is recorded.
      this.#versions.refused(error);
      return { ...terms, version: await this.#versions.current() };
    }
  }

  /**
   * Simulates payments to measure their compute units. Skips the payments whose compute units are
   * measured already. Throws RpcUnreachable or RpcError.
   */
  async #learn(batch: readonly Due[], terms: SigningTerms): Promise<void> {
    for (const one of batch) {
      const shape = this.#shapeOf(one);
      if (!this.#fees.wantsSample(shape)) continue;
      const { bytes } = this.#sign([this.#packed(one)], one.collect.keeper, terms);
      await this.#fees.sample(shape, bytes);
    }
  }

  /**
   * Packs the payments into transactions and signs each transaction with one keeper key. Returns
   * each transaction with its payments in order.
   */
  sign(
    batch: readonly Due[],
    terms: SigningTerms,
  ): { payments: Packable[]; signed: SignedTransaction }[] {
    const { version } = terms;
    const payments = batch
      .map((one) => this.#packed(one))
      // If an earlier attempt of a payment expired, the payment raises the priority fee of its
      // whole transaction. Such payments are therefore packed together. Payments of one plan are
      // packed together because they share addresses.
      .sort(
        (a, b) =>
          this.#fees.expiries(periodOf(b)) - this.#fees.expiries(periodOf(a)) ||
          a.row.planId.localeCompare(b.row.planId),
      );
    const keepers = new Set(payments.map(({ collect }) => collect.keeper));
    return [...keepers].flatMap((keeper) =>
      packPayments(
        payments.filter(({ collect }) => collect.keeper === keeper),
        { version, keeper, loadedDataBytes: this.#fees.sharedData() },
      ).map((pack) => ({ payments: pack, signed: this.#sign(pack, keeper, terms) })),
    );
  }

  #packed(payment: Due): Packable {
    const { row, collect } = payment;
    const { programId, mint } = this.#parts;
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
    const computeUnits = this.#fees.units(this.#shapeOf(payment));
    const part = paymentPart(collection, { computeUnits, loadedDataBytes: OWN_DATA_BYTES });
    return {
      ...payment,
      part,
      needsOwnTransaction: collect.isDoubted || row.failedPacks >= MAX_FAILED_PACKS,
    };
  }

  #sign(
    pack: readonly Packable[],
    keeper: string,
    { version, blockhash, price }: SigningTerms,
  ): SignedTransaction {
    const { keypair, keypairs } = this.#parts;
    const computeUnits = pack.reduce((sum, { part }) => sum + part.computeUnits, 0);
    const transfers = pack.flatMap(({ part }) => [...part.instructions]);
    return signPayments(keypairs.get(keeper) ?? keypair, transfers, {
      version,
      blockhash: blockhash.blockhash,
      reference: pack.map(referenceOf).join('\n'),
      budget: {
        computeUnits,
        loadedDataBytes: this.#fees.sharedData() + pack.length * OWN_DATA_BYTES,
        priorityFee: this.#fees.priorityFee(pack.map(periodOf), price, computeUnits),
      },
    });
  }

  #shapeOf({ row, collect: { amounts } }: Due): Shape {
    // To derive the token account's address, the program tries bump seeds from 255 down. Each try
    // costs compute units.
    const tries = 255 - tokenAccountAddress(row.subscriberWallet, this.#parts.mint).bump;
    return { pulls: [amounts.net, amounts.fee].filter((amount) => amount > 0n).length, tries };
  }
}

const periodOf = ({ row, collect }: Due): PaidPeriod => ({
  subscription: row.id,
  periodStart: collect.periodStart,
});

/**
 * Returns the text that identifies one attempt to collect a payment. A hash of these texts becomes
 * the memo of the transaction. Two attempts for the same period have different texts, so their
 * transactions differ even if the blockhash is the same.
 */
const referenceOf = ({ row, collect }: Due) =>
  [row.id, collect.periodStart, row.failedAttempts, row.setbacks, row.failedPacks].join(' ');
