// Plans: creates a plan's record, reads its on-chain account, and compares record and account.
import { randomBytes } from 'node:crypto';
import { planIn, tokenAccountIn } from '../../chain/program/accounts.ts';
import { planAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import { ChainDataError, type PlanAccount } from '../../chain/program/layouts.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { createPlanTransaction } from '../../chain/transactions/plans.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { isDuplicate } from '../../db/postgres/outage.ts';
import {
  activatePlan,
  countPendingPlans,
  findPlan,
  insertPlan,
  type NewPlan,
  type PlanRow,
} from '../../db/subscriptions/plans.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import {
  type ChainReader,
  type BillingAddresses,
  readAccounts,
  readBlockhash,
  type Unsigned,
} from '../chain-reads.ts';

/** The wallets that an on-chain plan must name. */
export interface PlanParties {
  /** Keeper wallets. The plan must name at least one of them as a puller. */
  readonly pullers: readonly string[];
  readonly treasury: string;
  /** The merchant's wallet. */
  readonly owner: string;
}

type PlanRecord = Pick<PlanRow, 'mint' | 'amount' | 'periodHours' | 'endsAt' | 'chainCreatedAt'>;

/**
 * Whether an on-chain plan matches its record: same owner, mint, amount, period and destinations,
 * and a keeper among the pullers. The plan's end must match while the plan is pending; later the
 * owner may change its end and `metadataUri`. The creation time must match once it is recorded.
 */
export function planMatches(
  record: PlanRecord,
  decoded: PlanAccount,
  parties: PlanParties,
): boolean {
  return planFaults(record, decoded, parties).length === 0;
}

/**
 * The differences between record and on-chain plan, as messages to the merchant. Empty when the
 * plan matches its record.
 */
export function planFaults(
  record: PlanRecord,
  decoded: PlanAccount,
  { pullers, treasury, owner }: PlanParties,
): string[] {
  const endTs = record.endsAt === null ? 0n : unixSeconds(record.endsAt);
  const faults: [boolean, string][] = [
    [decoded.owner === owner, `its owner is ${decoded.owner}, not ${owner}`],
    [decoded.mint === record.mint, `its mint is ${decoded.mint}, not ${record.mint}`],
    [
      decoded.amount === record.amount,
      `its amount is ${decoded.amount.toString()}, not ${record.amount.toString()}`,
    ],
    [
      decoded.periodHours === BigInt(record.periodHours),
      `its period is ${decoded.periodHours.toString()} hours, not ${record.periodHours}`,
    ],
    [
      record.chainCreatedAt !== null || decoded.endTs === endTs,
      `its end is ${decoded.endTs.toString()}, not ${endTs.toString()} (Unix seconds, 0 for none)`,
    ],
    [
      pullers.some((puller) => decoded.pullers.includes(puller)),
      `it does not name ${pullers.join(' or ')} as a puller`,
    ],
    [decoded.destinations.includes(owner), `it does not name ${owner} as a destination`],
    [decoded.destinations.includes(treasury), `it does not name ${treasury} as a destination`],
    [
      record.chainCreatedAt === null || decoded.createdAt === unixSeconds(record.chainCreatedAt),
      'it was closed and created again at the same address',
    ],
  ];
  return faults.filter(([fine]) => !fine).map(([, fault]) => fault);
}

/** The terms of a plan that are only stored in the database. */
export type OwnTerms = Pick<
  PlanRow,
  'description' | 'graceHours' | 'retryHours' | 'noticeHours' | 'pastDueDays' | 'trialHours'
>;

/** A merchant's input for a plan that is not on chain yet. */
export interface PlanDraft extends OwnTerms {
  name: string;
  amount: bigint;
  periodHours: number;
  endsAt: Date | null;
  metadataUri: string;
}

/**
 * Builds the record of a plan that the merchant will publish. Throws VALIDATION_ERROR when the plan
 * would end within its first period.
 */
export function draftPlan(
  network: BillingAddresses,
  appId: string,
  owner: string,
  draft: PlanDraft,
  now: bigint,
): NewPlan {
  const endsAt = draft.endsAt === null ? null : timeOf(unixSeconds(draft.endsAt));
  if (endsAt !== null && unixSeconds(endsAt) < now + BigInt(draft.periodHours) * 3600n) {
    throw invalidField('endsAt', 'must be at least one period ahead');
  }
  const chainPlanId = randomBytes(8).readBigUInt64LE();
  return {
    appId,
    name: draft.name,
    description: draft.description,
    planPda: planAddress(network.programId, owner, chainPlanId).address,
    chainPlanId: chainPlanId.toString(),
    owner,
    mint: network.mint,
    treasury: network.treasury,
    puller: network.puller,
    amount: draft.amount,
    periodHours: draft.periodHours,
    endsAt,
    metadataUri: draft.metadataUri,
    graceHours: draft.graceHours,
    retryHours: draft.retryHours,
    noticeHours: draft.noticeHours,
    pastDueDays: draft.pastDueDays,
    trialHours: draft.trialHours,
    chainCreatedAt: null,
    status: 'pending',
    observedAt: null,
    observedSlot: 0n,
  };
}

/**
 * Builds the record of a plan that is already on chain. Throws NOT_FOUND when there is no plan,
 * FORBIDDEN when the plan belongs to another wallet, VALIDATION_ERROR when this service cannot
 * collect its payments, and INTERNAL_ERROR when the chain is unreachable.
 */
export async function adoptPlan(
  chain: ChainReader,
  network: BillingAddresses,
  {
    appId,
    owner,
    name,
    planPda,
    ...ownTerms
  }: OwnTerms & { appId: string; owner: string; name: string; planPda: string },
): Promise<NewPlan> {
  const { accounts, slot, now } = await readAccounts(chain, [
    planPda,
    tokenAccountAddress(owner, network.mint).address,
  ]);
  const decoded = asPlan(() => planIn(accounts[0] ?? null, network.programId));
  if (decoded === null)
    throw new ServiceError('NOT_FOUND', `There is no plan at ${planPda} on chain.`);
  if (decoded.owner !== owner)
    throw new ServiceError('FORBIDDEN', 'This plan belongs to another wallet.');
  if (decoded.amount > 2n ** 63n - 1n) throw invalidField('planPda', 'has an amount above 2^63-1');
  if (decoded.endTs !== 0n && decoded.endTs <= now) throw invalidField('planPda', 'has ended');
  const record = {
    mint: network.mint,
    amount: decoded.amount,
    periodHours: Number(decoded.periodHours),
    endsAt: decoded.endTs === 0n ? null : timeOf(decoded.endTs),
    chainCreatedAt: timeOf(decoded.createdAt),
  };
  const faults = planFaults(record, decoded, {
    pullers: pullersOf(network),
    treasury: network.treasury,
    owner,
  });
  if (faults.length > 0) {
    throw new ServiceError(
      'VALIDATION_ERROR',
      'This plan cannot be collected here.',
      faults.map((message) => ({ path: 'planPda', message })),
    );
  }
  if (tokenAccountIn(accounts[1] ?? null) === null) {
    throw invalidField(
      'planPda',
      'is a plan of a wallet that has no token account for USDC: create it, for example by sending USDC to the wallet, and adopt the plan again',
    );
  }
  return {
    ...record,
    ...ownTerms,
    appId,
    name,
    planPda,
    chainPlanId: decoded.planId.toString(),
    owner,
    treasury: network.treasury,
    puller: network.puller,
    // Postgres cannot store NUL.
    metadataUri: decoded.metadataUri.replaceAll('\0', ''),
    status: decoded.status,
    observedAt: new Date(),
    observedSlot: slot,
  };
}

/**
 * Maximum number of pending plans of a merchant. Pending plans are limited because a keeper polls
 * each pending plan until the plan is published. A plan that is not published within 7 days ends.
 */
const PENDING_PLANS = 20;

/**
 * Stores a plan in the caller's transaction. Throws CONFLICT when the plan's address is already
 * registered, or when too many plans of its merchant are pending.
 */
export async function storePlan(sql: Transaction, plan: NewPlan): Promise<PlanRow> {
  if (plan.status === 'pending' && (await countPendingPlans(sql, plan.appId)) >= PENDING_PLANS) {
    throw new ServiceError(
      'CONFLICT',
      `${PENDING_PLANS} plans are pending: publish one first. A plan that is not published within 7 days ends.`,
    );
  }
  try {
    return await insertPlan(sql, plan);
  } catch (error) {
    if (isDuplicate(error, 'one_live_plan_per_pda'))
      throw new ServiceError('CONFLICT', `The plan at ${plan.planPda} is registered already.`);
    throw error;
  }
}

/**
 * Builds the unsigned transaction (base64) with which the merchant's wallet publishes a pending
 * plan.
 */
export async function planTransaction(
  chain: ChainReader,
  network: BillingAddresses,
  plan: PlanRow | NewPlan,
): Promise<Unsigned> {
  const { blockhash, lastValidBlockHeight, slot } = await readBlockhash(chain);
  const { transaction } = createPlanTransaction(network.programId, {
    merchant: plan.owner,
    blockhash,
    terms: {
      planId: BigInt(plan.chainPlanId),
      mint: plan.mint,
      amount: plan.amount,
      periodHours: BigInt(plan.periodHours),
      endTs: plan.endsAt === null ? 0n : unixSeconds(plan.endsAt),
      destinations: named([plan.owner, plan.treasury, ...(network.backupTreasuries ?? [])]),
      pullers: named([plan.puller, ...(network.standbyPullers ?? [])]),
      metadataUri: plan.metadataUri,
    },
  });
  return { transaction, blockhash, lastValidBlockHeight, slot };
}

/**
 * The parties that a registered plan must name on chain. The plan's recorded puller and all keepers
 * of the service are accepted as pullers.
 */
export const partiesOf = (plan: PlanRow, network: BillingAddresses): PlanParties => ({
  ...plan,
  pullers: [plan.puller, ...pullersOf(network)],
});

/** The wallets of the service's keepers, the active keeper first. */
export const pullersOf = ({ puller, standbyPullers = [] }: BillingAddresses) => [
  puller,
  ...standbyPullers,
];

/**
 * Removes duplicates and keeps the first four addresses, because the program stores at most four.
 */
function named(addresses: readonly string[]): string[] {
  return [...new Set(addresses)].slice(0, 4);
}

/**
 * Reads a pending plan from the chain. If the plan is on chain with its terms, its record becomes
 * active (or sunset). Resolves with the current record.
 */
export async function observePlan(
  sql: Queryable,
  chain: ChainReader,
  network: BillingAddresses,
  plan: PlanRow,
): Promise<PlanRow> {
  if (plan.status !== 'pending') return plan;
  const { accounts, slot } = await readAccounts(chain, [plan.planPda]);
  const decoded = asPlan(() => planIn(accounts[0] ?? null, network.programId));
  if (decoded === null || !planMatches(plan, decoded, partiesOf(plan, network))) return plan;
  const updated = await activatePlan(sql, plan.id, {
    status: decoded.status,
    chainCreatedAt: timeOf(decoded.createdAt),
    observedSlot: slot,
  });
  return updated ?? (await findPlan(sql, plan.id)) ?? plan;
}

/**
 * Decodes a plan account. Throws VALIDATION_ERROR when the account is not a plan, because the
 * client supplied the address.
 */
function asPlan(decode: () => PlanAccount | null): PlanAccount | null {
  try {
    return decode();
  } catch (error) {
    if (error instanceof ChainDataError)
      throw invalidField('planPda', `is not a plan: ${error.message}`);
    throw error;
  }
}
