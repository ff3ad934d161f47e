// Takes back the rent of sponsored accounts. A subscription account is closed (1) if it was
// cancelled and has expired, (2) if its subscription has ended here and its plan is closed, has
// ended or was recreated, or (3) if its authority account was closed or replaced. An account that
// was never cancelled on chain stays open while its plan runs. Authority accounts are not closed
// here, because only the wallet can close its authority account.
import {
  authorityIn,
  type ChainAccount,
  clockIn,
  planIn,
  subscriptionIn,
} from '../../chain/program/accounts.ts';
import { authorityAddress, CLOCK_SYSVAR } from '../../chain/program/addresses.ts';
import { revokeAbandoned, revokeDelegation } from '../../chain/program/instructions.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import { isEndedByPlan } from '../../chain/program/period.ts';
import { isWitnessed } from '../../chain/rpc/expiry.ts';
import { unixSeconds } from '../../chain/time.ts';
import {
  claimRentOut,
  markReturned,
  recheckRent,
  type RentOut,
} from '../../db/offers/sponsor-rent.ts';
import type { Context } from '../base/context.ts';
import { mayClose, signClosing } from '../collect/close.ts';

/** Accounts that are read for each sponsorship. */
const ACCOUNTS = 3;
/**
 * Number of sponsorships that one turn checks. One request for at most 100 accounts reads the clock
 * and the accounts of each sponsorship.
 */
const CHECKED = 33;

/**
 * One endpoint's response about a sponsorship: whether the rent of its two accounts has come back
 * to the sponsor.
 */
interface Back {
  readonly authority: boolean;
  readonly subscription: boolean;
}

/**
 * Checks sponsored accounts whose rent has not come back, and closes the accounts that the sponsor
 * may close. A later turn reads, at commitment `finalized`, whether an account was closed. Resolves
 * with true if more accounts may be due for a check.
 */
export async function takeRentBack(context: Context): Promise<boolean> {
  const { sql, rpc } = context;
  const out = await claimRentOut(sql, CHECKED);
  if (out.length === 0) return false;
  const addresses = out.flatMap((sponsorship) => addressesOf(context, sponsorship));
  const found = await rpc.getMultipleAccounts([CLOCK_SYSVAR, ...addresses], {
    commitment: 'finalized',
  });
  const [clock = null, ...accounts] = found.accounts;
  const now = clockIn(clock);
  const suspects: RentOut[] = [];
  const closings: { sponsorship: RentOut; why: Closable }[] = [];
  for (const [index, sponsorship] of out.entries()) {
    try {
      const sponsorshipAccounts = accounts.slice(ACCOUNTS * index, ACCOUNTS * (index + 1));
      const back = backOf(context, sponsorship, sponsorshipAccounts);
      if (back.authority || back.subscription) suspects.push(sponsorship);
      const why = back.subscription
        ? undefined
        : closable(context, sponsorship, sponsorshipAccounts, now);
      if (why !== undefined) closings.push({ sponsorship, why });
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
    }
  }
  await bookReturned(context, suspects);
  for (const { sponsorship, why } of closings) await close(context, sponsorship, why);
  return out.length === CHECKED;
}

/** Accounts of a sponsorship, in the order of addressesOf(). */
type Accounts = readonly (ChainAccount | null)[];

/** Why the sponsor may close a subscription account. */
type Closable = 'expired' | 'plan_over' | 'abandoned';

/**
 * Returns why the sponsor may close the subscription account, or undefined if it may not. The
 * program closes an abandoned account only while its plan exists.
 */
function closable(
  { programId }: Context,
  { subscription, endedAt }: RentOut,
  [authority = null, account = null, plan = null]: Accounts,
  now: bigint,
): Closable | undefined {
  const open = subscription ? subscriptionIn(account, programId) : null;
  if (open === null) return undefined;
  if (open.expiresAt !== 0n && open.expiresAt <= now) return 'expired';
  const hasEnded = endedAt !== null && unixSeconds(endedAt) <= now;
  const isOver = isEndedByPlan(open, planIn(plan, programId), now);
  if (hasEnded && isOver) return 'plan_over';
  const isAbandoned = authorityIn(authority, programId)?.initId !== open.initId;
  return isAbandoned && planIn(plan, programId) !== null ? 'abandoned' : undefined;
}

function addressesOf(
  { programId, mint }: Context,
  { wallet, subscriptionPda, planPda }: RentOut,
): [authority: string, subscription: string, plan: string] {
  const authority = authorityAddress(programId, wallet, mint).address;
  return [authority, subscriptionPda ?? authority, planPda ?? authority];
}

/**
 * Returns which rent has come back. The rent of an account has come back if the account is gone, or
 * was opened again and another payer paid its rent.
 */
function backOf(
  { programId }: Context,
  { sponsor, ...rentOut }: RentOut,
  [authority = null, subscription = null]: Accounts,
): Back {
  return {
    authority: rentOut.authority && authorityIn(authority, programId)?.payer !== sponsor,
    subscription:
      rentOut.subscription && subscriptionIn(subscription, programId)?.payer !== sponsor,
  };
}

/**
 * Records which rent has come back. `suspects` are the sponsorships whose rent has come back
 * according to one endpoint. That endpoint may lag or be wrong, so every endpoint is asked.
 * Responses from slots before `observedSlot` are ignored, and all others must agree. If two or more
 * endpoints are configured, at least two responses are needed. Otherwise the sponsorship is checked
 * again in a minute.
 */
async function bookReturned(context: Context, suspects: readonly RentOut[]): Promise<void> {
  const { sql, rpc } = context;
  if (suspects.length === 0) return;
  const addresses = suspects.flatMap((one) => addressesOf(context, one));
  const responses = await rpc.getAccountsEverywhere(addresses, { commitment: 'finalized' });
  const doubted: string[] = [];
  for (const [index, sponsorship] of suspects.entries()) {
    const backs = responses
      .filter(({ slot }) => slot >= sponsorship.observedSlot)
      .map(({ accounts }) => {
        return witnessed(
          context,
          sponsorship,
          accounts.slice(ACCOUNTS * index, ACCOUNTS * (index + 1)),
        );
      });
    const isEnough = isWitnessed(rpc, backs.length);
    const back = {
      authority: isEnough && backs.every(({ authority }) => authority),
      subscription: isEnough && backs.every(({ subscription }) => subscription),
    };
    if (back.authority || back.subscription) await markReturned(sql, sponsorship.offerId, back);
    else doubted.push(sponsorship.offerId);
  }
  await recheckRent(sql, doubted);
}

/**
 * Returns the result of backOf(). If an account cannot be decoded, returns that no rent has come
 * back.
 */
function witnessed(...args: Parameters<typeof backOf>): Back {
  try {
    return backOf(...args);
  } catch (error) {
    if (error instanceof ChainDataError) return { authority: false, subscription: false };
    throw error;
  }
}

/**
 * Sends a transaction that closes a subscription account. Sends nothing if another keeper has
 * claimed this closing, or if the daily budget for closings is used up. The transaction is sent
 * once and not stored, because it only returns the sponsor's own rent, and the program cannot close
 * an account twice. A later check shows whether the transaction landed.
 */
async function close(
  context: Context,
  { offerId, sponsor, wallet, planPda, subscriptionPda }: RentOut,
  why: Closable,
): Promise<void> {
  const { rpc, fees, keypairs, programId, mint, log } = context;
  const keypair = keypairs.get(sponsor);
  if (keypair === undefined || planPda === null || subscriptionPda === null) return;
  const [{ blockhash }, price] = await Promise.all([rpc.getLatestBlockhash(), fees.price()]);
  const parties = { authority: sponsor, plan: planPda, subscription: subscriptionPda };
  const closing =
    why === 'abandoned'
      ? revokeAbandoned(programId, { ...parties, subscriber: wallet, mint })
      : revokeDelegation(programId, parties);
  if (!(await mayClose(context, [subscriptionPda], price)).has(subscriptionPda)) return;
  const { bytes, signature } = signClosing(keypair, closing, { price, blockhash });
  log.info({ offer: offerId, signature, why }, 'closing a sponsored account');
  await rpc.sendTransaction(bytes);
}
