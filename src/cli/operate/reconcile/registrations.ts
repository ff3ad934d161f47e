// A restore of an older backup can lose registrations of subscriptions. If the chain has the
// account of a subscription and the database has the plan, the subscription can be registered
// again.
import { subscriptionIn } from '../../../chain/program/accounts.ts';
import {
  ChainDataError,
  liveSubscriptionFilter,
  type SubscriptionAccount,
} from '../../../chain/program/layouts.ts';
import { periodSeconds } from '../../../chain/program/period.ts';
import { RpcError } from '../../../chain/rpc/errors.ts';
import type { Rpc } from '../../../chain/rpc/rpc.ts';
import { findSubscribed, listTreasuries } from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import { findPlansAt, listActivePlanPdas, type PlanRow } from '../../../db/subscriptions/plans.ts';
import type { Pull } from '../../../domain/collecting/chain-view.ts';
import type { PlanPull } from '../../../domain/collecting/differences.ts';
import { checkRegistration, storeRegistration } from '../../../domain/registration/registration.ts';
import { ServiceError } from '../../../errors.ts';

/** An account on chain without a registration. Its plan is in this database. */
export interface Unregistered {
  subscriptionPda: string;
  merchantWallet: string;
  planId: string;
  planName: string;
  subscriberWallet: string;
  registered: boolean;
  /** Why the account was not registered. Null if the account was registered. */
  reason: string | null;
}

interface Parts {
  sql: Sql;
  rpc: Rpc;
  programId: string;
  keepers: readonly string[];
}

const READ = 100;
const NEVER_COLLECTED =
  'it is live, and no keeper collected for it in this range: ask the merchant whether it was registered';

/**
 * Looks for accounts that have no registration in this database. If one of `pulls` is from such an
 * account, the account was registered before, so it is registered again. Other live accounts of
 * active plans are only listed, because anyone can open an account.
 */
export async function registerLost(
  parts: Parts,
  pulls: readonly PlanPull[],
): Promise<Unregistered[]> {
  const collected = await unknownOf(parts.sql, new Set(pulls.map((one) => one.subscriptionPda)));
  const others = await unknownOf(parts.sql, await liveAddresses(parts));
  const accounts = await readAccounts(parts, [...new Set([...collected, ...others])]);
  const found = await findPlansAt(parts.sql, [...new Set([...accounts.values()].map(planOf))]);
  const plans = new Map(found.map((plan) => [plan.planPda, plan]));
  const result: Unregistered[] = [];
  for (const [subscriptionPda, account] of accounts) {
    const plan = plans.get(account.plan);
    if (plan === undefined) continue;
    const wasCollected = pulls.some(
      (one) => one.subscriptionPda === subscriptionPda && isFrom(account, one.pull),
    );
    const reason = wasCollected
      ? await register(parts, plan, subscriptionPda, account)
      : NEVER_COLLECTED;
    result.push({
      subscriptionPda,
      merchantWallet: plan.owner,
      planId: plan.id,
      planName: plan.name,
      subscriberWallet: account.subscriber,
      registered: reason === null,
      reason,
    });
  }
  return result;
}

/**
 * Whether the payment is from this account, which is the case if it has the same period boundaries.
 * An earlier account at the address has other boundaries.
 */
const isFrom = (account: SubscriptionAccount, { periodStart }: Pull) =>
  periodStart <= account.periodStart &&
  (account.periodStart - periodStart) % periodSeconds(account.periodHours) === 0n;

const planOf = ({ plan }: SubscriptionAccount) => plan;

/** Registers an account and returns null. If that is not possible, returns the reason. */
async function register(
  { sql, rpc, programId, keepers }: Parts,
  plan: PlanRow,
  subscriptionPda: string,
  account: SubscriptionAccount,
): Promise<string | null> {
  const wallet = account.subscriber;
  const [puller = '', ...standbyPullers] = keepers;
  const [treasury = '', ...backupTreasuries] = await listTreasuries(sql);
  const network = {
    programId,
    mint: plan.mint,
    ...{ puller, standbyPullers, treasury, backupTreasuries },
  };
  try {
    const registration = await checkRegistration(sql, rpc, network, {
      appId: plan.appId,
      planId: plan.id,
      subscriptionPda,
      wallet,
      isKeepers: true,
    });
    const judged = { newest: undefined, account };
    await sql.begin((tx) => storeRegistration(tx, { ...registration, isUnclaimed: true, judged }));
    return null;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === 'INTERNAL_ERROR') throw error;
    return error.message;
  }
}

/** Returns the addresses that have no registration in this database, not even an ended one. */
async function unknownOf(sql: Sql, addresses: ReadonlySet<string>): Promise<string[]> {
  const registered = await findSubscribed(sql, [...addresses]);
  return [...addresses].filter((address) => !registered.has(address));
}

/**
 * Returns the live accounts of all active plans. If an endpoint refuses to list accounts, returns
 * the accounts found so far.
 */
async function liveAddresses({ sql, rpc, programId }: Parts): Promise<Set<string>> {
  const found = new Set<string>();
  for (const plan of await listActivePlanPdas(sql)) {
    try {
      const filter = liveSubscriptionFilter(plan);
      const accounts = await rpc.getProgramAccounts(programId, filter, {
        slice: { offset: 0, length: 0 },
      });
      for (const { address } of accounts) found.add(address);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return found;
    }
  }
  return found;
}

async function readAccounts(
  { rpc, programId }: Parts,
  addresses: readonly string[],
): Promise<Map<string, SubscriptionAccount>> {
  const read = new Map<string, SubscriptionAccount>();
  for (let at = 0; at < addresses.length; at += READ) {
    const page = addresses.slice(at, at + READ);
    const { accounts } = await rpc.getMultipleAccounts(page);
    for (const [index, address] of page.entries()) {
      const account = decoded(accounts[index] ?? null, programId);
      if (account !== null) read.set(address, account);
    }
  }
  return read;
}

function decoded(
  found: Parameters<typeof subscriptionIn>[0],
  programId: string,
): SubscriptionAccount | null {
  try {
    return subscriptionIn(found, programId);
  } catch (error) {
    if (error instanceof ChainDataError) return null;
    throw error;
  }
}
