// Takes back the rent of sponsored accounts. A subscription account is closed (1) if it was
// cancelled and has expired, or (2) if its authority account was closed or replaced. Authority
// accounts are not closed here, because only the wallet can close its authority account.
import {
  authorityIn,
  type ChainAccount,
  clockIn,
  subscriptionIn,
} from '../chain/program/accounts.ts';
import { authorityAddress, CLOCK_SYSVAR } from '../chain/program/addresses.ts';
import { revokeAbandoned, revokeDelegation } from '../chain/program/instructions.ts';
import { ChainDataError } from '../chain/program/layouts.ts';
import { isWitnessed } from '../chain/rpc/expiry.ts';
import { signTransaction } from '../chain/transactions/subscriptions.ts';
import { claimRentOut, markReturned, recheckRent, type RentOut } from '../db/sponsor-rent.ts';
import { closingInstructions, mayClose } from './close.ts';
import type { Context } from './context.ts';

/**
 * Number of sponsorships that one turn checks. One request for at most 100 accounts reads the clock
 * and two accounts of each sponsorship.
 */
const CHECKED = 49;

/**
 * One endpoint's answer to the question whether the rent of a sponsorship's two accounts has come
 * back to the sponsor.
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
  const { sql, rpc, programId } = context;
  const out = await claimRentOut(sql, CHECKED);
  if (out.length === 0) return false;
  const addresses = out.flatMap((one) => addressesOf(context, one));
  const found = await rpc.getMultipleAccounts([CLOCK_SYSVAR, ...addresses], {
    commitment: 'finalized',
  });
  const [clock = null, ...accounts] = found.accounts;
  const now = clockIn(clock);
  const suspects: RentOut[] = [];
  for (const [place, one] of out.entries()) {
    try {
      const [first = null, second = null] = accounts.slice(2 * place);
      const back = backOf(context, one, first, second);
      if (back.authority || back.subscription) suspects.push(one);
      const account = one.subscription ? subscriptionIn(second, programId) : null;
      if (account === null || back.subscription) continue;
      const isAbandoned = authorityIn(first, programId)?.initId !== account.initId;
      const isOver = account.expiresAt !== 0n && account.expiresAt <= now;
      if (isOver || isAbandoned) await close(context, one, isOver ? 'expired' : 'abandoned');
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
    }
  }
  await bookReturned(context, suspects);
  return out.length === CHECKED;
}

function addressesOf(
  { programId, mint }: Context,
  { wallet, subscriptionPda }: RentOut,
): [string, string] {
  const authority = authorityAddress(programId, wallet, mint).address;
  return [authority, subscriptionPda ?? authority];
}

/**
 * Returns which rent has come back. The rent of an account has come back if the account is gone, or
 * was opened again and another payer paid its rent.
 */
function backOf(
  { programId }: Context,
  { sponsor, ...one }: RentOut,
  authority: ChainAccount | null,
  subscription: ChainAccount | null,
): Back {
  return {
    authority: one.authority && authorityIn(authority, programId)?.payer !== sponsor,
    subscription: one.subscription && subscriptionIn(subscription, programId)?.payer !== sponsor,
  };
}

/**
 * Records which rent has come back. `suspects` are the sponsorships whose rent has come back
 * according to one endpoint. That endpoint may lag or lie, so every endpoint is asked. Answers from
 * slots before `observedSlot` are ignored, and all other answers must agree. If two or more
 * endpoints are configured, at least two answers are needed. If these conditions are not met, the
 * sponsorship is checked again in a minute.
 */
async function bookReturned(context: Context, suspects: readonly RentOut[]): Promise<void> {
  const { sql, rpc } = context;
  if (suspects.length === 0) return;
  const addresses = suspects.flatMap((one) => addressesOf(context, one));
  const responses = await rpc.getAccountsEverywhere(addresses, { commitment: 'finalized' });
  const doubted: string[] = [];
  for (const [place, one] of suspects.entries()) {
    const seen = responses
      .filter(({ slot }) => slot >= one.observedSlot)
      .map(({ accounts }) => {
        const [first = null, second = null] = accounts.slice(2 * place);
        return witnessed(context, one, first, second);
      });
    const isEnough = isWitnessed(rpc, seen.length);
    const back = {
      authority: isEnough && seen.every(({ authority }) => authority),
      subscription: isEnough && seen.every(({ subscription }) => subscription),
    };
    if (back.authority || back.subscription) await markReturned(sql, one.offerId, back);
    else doubted.push(one.offerId);
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
  why: 'expired' | 'abandoned',
): Promise<void> {
  const { rpc, fees, keypairs, programId, mint, log } = context;
  const keypair = keypairs.get(sponsor);
  if (keypair === undefined || planPda === null || subscriptionPda === null) return;
  const [{ blockhash }, price] = await Promise.all([rpc.getLatestBlockhash(), fees.price()]);
  const parties = { authority: sponsor, plan: planPda, subscription: subscriptionPda };
  const closing =
    why === 'expired'
      ? revokeDelegation(programId, parties)
      : revokeAbandoned(programId, { ...parties, subscriber: wallet, mint });
  if (!(await mayClose(context, [subscriptionPda], price)).has(subscriptionPda)) return;
  const { bytes, signature } = signTransaction(
    keypair,
    closingInstructions(closing, price),
    blockhash,
  );
  log.info({ offer: offerId, signature, why }, 'closing a sponsored account');
  await rpc.sendTransaction(bytes);
}
