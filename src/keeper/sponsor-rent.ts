// Takes back the rent of sponsored accounts: closes subscriptions (1) that were cancelled and have
// expired, or (2) whose authority was closed or replaced. Only the wallet can close an authority.
import { authorityIn, clockIn, subscriptionIn } from '../chain/program/accounts.ts';
import { authorityAddress, CLOCK_SYSVAR } from '../chain/program/addresses.ts';
import { revokeAbandoned, revokeDelegation } from '../chain/program/instructions.ts';
import { ChainDataError } from '../chain/program/layouts.ts';
import { signTransaction } from '../chain/transactions/subscriptions.ts';
import { computeUnitLimit, computeUnitPrice } from '../chain/transactions/system-instructions.ts';
import { markReturned, readRentOut, type RentOut } from '../db/sponsorships.ts';
import type { Context } from './context.ts';

/** Number of sponsorships that one turn checks. One request reads their accounts and the clock. */
const CHECKED = 49;
const CLOSING_UNITS = 50_000;

/**
 * Checks the sponsored accounts whose rent has not come back, and closes those that the sponsor may
 * close. A later turn reads at `finalized` whether an account was closed. Resolves with true if
 * more accounts may be due for a check.
 */
export async function takeRentBack(context: Context): Promise<boolean> {
  const { sql, rpc, programId, mint } = context;
  const out = await readRentOut(sql, CHECKED);
  if (out.length === 0) return false;
  const parties = out.flatMap(({ wallet, subscriptionPda }) => [
    authorityAddress(programId, wallet, mint).address,
    subscriptionPda ?? authorityAddress(programId, wallet, mint).address,
  ]);
  const found = await rpc.getMultipleAccounts([CLOCK_SYSVAR, ...parties], {
    commitment: 'finalized',
  });
  const [clock = null, ...accounts] = found.accounts;
  const now = clockIn(clock);
  for (const [place, one] of out.entries()) {
    try {
      const authority = authorityIn(accounts[2 * place] ?? null, programId);
      const account = subscriptionIn(
        one.subscriptionPda === null ? null : (accounts[2 * place + 1] ?? null),
        programId,
      );
      const gone = {
        authority: one.authority && authority?.payer !== one.sponsor,
        subscription: one.subscription && account?.payer !== one.sponsor,
      };
      await markReturned(sql, one.offerId, gone);
      if (!one.subscription || gone.subscription || account === null) continue;
      const isAbandoned = authority?.initId !== account.initId;
      const isOver = account.expiresAt !== 0n && account.expiresAt <= now;
      if (isOver || isAbandoned) await close(context, one, isOver ? 'expired' : 'abandoned');
    } catch (error) {
      if (!(error instanceof ChainDataError)) throw error;
      await markReturned(sql, one.offerId, { authority: false, subscription: false });
    }
  }
  return out.length === CHECKED;
}

/**
 * Sends the transaction that closes an account, once. The transaction is not stored, because it
 * only returns the sponsor's own rent, and the program cannot close an account twice. The next
 * check shows whether the transaction landed.
 */
async function close(
  { rpc, fees, keypairs, programId, mint, log }: Context,
  { offerId, sponsor, wallet, planPda, subscriptionPda }: RentOut,
  why: 'expired' | 'abandoned',
): Promise<void> {
  const keypair = keypairs.get(sponsor);
  if (keypair === undefined || planPda === null || subscriptionPda === null) return;
  const [{ blockhash }, price] = await Promise.all([rpc.getLatestBlockhash(), fees.price()]);
  const parties = { authority: sponsor, plan: planPda, subscription: subscriptionPda };
  const closing =
    why === 'expired'
      ? revokeDelegation(programId, parties)
      : revokeAbandoned(programId, { ...parties, subscriber: wallet, mint });
  const instructions = [computeUnitLimit(CLOSING_UNITS), computeUnitPrice(price), closing];
  const { bytes, signature } = signTransaction(keypair, instructions, blockhash);
  log.info({ offer: offerId, signature, why }, 'closing a sponsored account');
  await rpc.sendTransaction(bytes);
}
