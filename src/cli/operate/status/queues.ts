// Reads from Postgres how many payments and deliveries are due, and how late they are.
import {
  countDue,
  findDueEndpoints,
  listQueuedEndpoints,
  type QueuedEndpoint,
} from '../../../db/delivering/delivery-queue.ts';
import { countForeignSecrets } from '../../../db/delivering/endpoints.ts';
import {
  type OverdueRent,
  readOverdueRent,
  readRentByAge,
  type RentOfAge,
} from '../../../db/offers/rent-ages.ts';
import {
  type MerchantSponsoring,
  readSponsoringByMerchant,
  readSponsoringFacts,
  type SponsoringFacts,
} from '../../../db/offers/sponsor-budgets.ts';
import { type Hold, listHolds, readBrake } from '../../../db/operating/collection-holds.ts';
import { listDaemons, type DaemonRow, readWork, type Work } from '../../../db/operating/daemons.ts';
import {
  type CostlyWallet,
  MAX_COUNTED,
  listCostlyWallets,
  listRecentErrors,
  readDatabaseFacts,
  readDeliveryFacts,
  readPaymentFacts,
  type DatabaseFacts,
  type DeliveryFacts,
  type PaymentFacts,
  type RecentError,
} from '../../../db/operating/status.ts';
import { readClockOffset } from '../../../db/postgres/clock.ts';
import type { Queryable, Sql } from '../../../db/postgres/connect.ts';
import { readBacklog } from '../../../db/subscriptions/leases.ts';
import { fingerprintsOf } from '../../../domain/accounts/secrets.ts';
import { isNearLimit, mayBeOut, type SponsorLimits } from '../../../domain/offers/limits.ts';

/** Sums over all sponsored transactions so far. */
type SponsoringTotals = Pick<MerchantSponsoring, 'spent' | 'reserved' | 'returned' | 'lost'>;

export interface QueueStatus {
  database: DatabaseFacts & {
    answeredMs: number;
    /** Seconds by which the clock of Postgres is ahead of this host's clock. */
    offsetSeconds: number;
  };
  payments: PaymentFacts & {
    /**
     * Number of due subscriptions that no process is working on (no lease). The count stops at
     * 10,000.
     */
    due: number;
    oldestDueAt: Date | null;
    /**
     * Delay in seconds of the oldest due payment by the chain's clock. If the chain did not
     * respond, the delay is by the database's clock.
     */
    lateSeconds: number;
    judgedBy: 'chain' | 'database';
    oldestOpenSeconds: number;
    /** The wallets with the most failed payments on chain in the last day. */
    failedOnChain: CostlyWallet[];
  };
  deliveries: DeliveryFacts & {
    /** Number of due deliveries. The count stops at 10,000. */
    due: number;
    lateSeconds: number;
    /** Number of webhook endpoints with due deliveries. */
    endpoints: number;
  };
  collection: {
    /**
     * The holds on collection: the holds that operators placed, and the hold that a keeper places
     * when the database has lost payments.
     */
    holds: Hold[];
    /**
     * After a failover of Postgres, keepers sign nothing until this block height is finalized. Null
     * when keepers do not wait.
     */
    waitsForHeight: bigint | null;
  };
  /** Facts about sponsored transactions and their rent. Amounts are in lamports. */
  sponsoring: SponsoringFacts &
    SponsoringTotals & {
      /** The budgets in this command's configuration. Null if no budgets are configured. */
      budgets: Pick<SponsorLimits, 'perDay' | 'leaving' | 'perMerchant' | 'merchantOut'> | null;
      /**
       * The merchants that use more than four fifths of their limit of sponsored rent, those with
       * the most rent first.
       */
      nearLimit: { merchant: string; out: bigint; mayBeOut: bigint }[];
      outByAge: RentOfAge[];
      /** The part of `overdue` by the time since the end of the subscription. */
      overdueByAge: OverdueRent[];
      /** The top merchants, sorted by their cost in the last 24 hours, then by unreturned rent. */
      merchants: (MerchantSponsoring & { mayBeOut: bigint | null })[];
    };
  daemons: DaemonRow[];
  work: Work;
  undecipherableSecrets: number | null;
  errors: RecentError[];
  /** The endpoints that fail or have unfinished deliveries; only with --by endpoint. */
  endpoints?: QueuedEndpoint[];
}

const ERRORS_SHOWN = 5;
const WALLETS_LISTED = 10;
const ENDPOINTS_LISTED = 100;
const MERCHANTS_LISTED = 100;

/**
 * Reads all facts in one short read-only transaction. `chainNow` is the chain's clock, or null when
 * it is unknown.
 */
export async function queueStatus(
  sql: Sql,
  {
    chainNow,
    encryptionKeys,
    sponsorLimits,
    sendsMails,
    byEndpoint,
  }: {
    chainNow: Date | null;
    encryptionKeys: readonly string[] | undefined;
    sponsorLimits: SponsorLimits | undefined;
    sendsMails: boolean;
    byEndpoint: boolean;
  },
): Promise<QueueStatus> {
  const startedAt = performance.now();
  const offsetSeconds = await readClockOffset(sql);
  const answeredMs = Math.round(performance.now() - startedAt);
  return sql.begin('read only', async (tx) => {
    const facts = await readDatabaseFacts(tx);
    const now = chainNow ?? facts.now;
    const backlog = await readBacklog(tx, now);
    const payments = await readPaymentFacts(tx);
    const failedOnChain = await listCostlyWallets(tx, WALLETS_LISTED);
    const deliveries = await readDeliveryFacts(tx);
    const holds = await listHolds(tx);
    const { collectsAfterHeight: waitsForHeight } = await readBrake(tx);
    const errors = await listRecentErrors(tx, ERRORS_SHOWN);
    const sponsoring = await sponsoringStatus(tx, sponsorLimits);
    const daemons = await listDaemons(tx);
    const work = await readWork(tx, { sendsMails });
    const undecipherableSecrets =
      encryptionKeys === undefined
        ? null
        : await countForeignSecrets(tx, fingerprintsOf(encryptionKeys));
    const endpoints = await findDueEndpoints(tx);
    const due = await countDue(tx, MAX_COUNTED);
    const queued = byEndpoint
      ? await listQueuedEndpoints(tx, { most: MAX_COUNTED, limit: ENDPOINTS_LISTED })
      : undefined;
    return {
      database: { ...facts, answeredMs, offsetSeconds },
      payments: {
        ...payments,
        due: backlog.waiting,
        oldestDueAt: backlog.oldest,
        lateSeconds: secondsSince(backlog.oldest, now),
        judgedBy: chainNow === null ? 'database' : 'chain',
        oldestOpenSeconds: secondsSince(payments.oldestOpenAt, facts.now),
        failedOnChain,
      },
      deliveries: {
        ...deliveries,
        due,
        lateSeconds: Math.floor(Math.max(0, ...endpoints.map(({ overdueMs }) => overdueMs)) / 1000),
        endpoints: endpoints.length,
      },
      collection: { holds, waitsForHeight },
      sponsoring,
      daemons,
      work,
      undecipherableSecrets,
      errors,
      ...(queued !== undefined && { endpoints: queued }),
    };
  });
}

async function sponsoringStatus(
  sql: Queryable,
  limits: SponsorLimits | undefined,
): Promise<QueueStatus['sponsoring']> {
  const facts = await readSponsoringFacts(sql);
  const outByAge = await readRentByAge(sql);
  const overdueByAge = await readOverdueRent(sql);
  const merchants = (await readSponsoringByMerchant(sql)).map((one) => ({
    ...one,
    mayBeOut: limits === undefined || one.merchant === null ? null : mayBeOut(limits, one),
  }));
  const nearLimit = merchants
    .flatMap(({ merchant, out, reserved, mayBeOut: limit }) =>
      merchant !== null && limit !== null && isNearLimit(out + reserved, limit)
        ? [{ merchant, out: out + reserved, mayBeOut: limit }]
        : [],
    )
    .sort((one, other) => Number(other.out - one.out));
  const total = (kind: keyof SponsoringTotals) =>
    merchants.reduce((sum, { [kind]: lamports }) => sum + lamports, 0n);
  return {
    ...facts,
    spent: total('spent'),
    reserved: total('reserved'),
    returned: total('returned'),
    lost: total('lost'),
    budgets: limits === undefined ? null : budgetsOf(limits),
    outByAge,
    overdueByAge,
    nearLimit: nearLimit.slice(0, MERCHANTS_LISTED),
    merchants: merchants.slice(0, MERCHANTS_LISTED),
  };
}

const budgetsOf = ({ perDay, leaving, perMerchant, merchantOut }: SponsorLimits) => ({
  perDay,
  leaving,
  perMerchant,
  merchantOut,
});

function secondsSince(time: Date | null, now: Date): number {
  return time === null ? 0 : Math.max(0, Math.floor((now.getTime() - time.getTime()) / 1000));
}
