import type { components } from '../../client/openapi.ts';

/** What a wallet has and needs: USDC in base units, and lamports. */
export type Balances = Pick<
  components['schemas']['Standing'],
  'usdc' | 'usdcNeeded' | 'lamports' | 'lamportsNeeded'
>;

/**
 * Returns the USDC (base units) and the lamports that a wallet lacks. 0 means enough. A sponsored
 * wallet needs no SOL.
 */
export function missingOf(
  standing: Balances,
  needsSol: boolean,
): { usdc: bigint; lamports: bigint } {
  const { usdc, usdcNeeded, lamports, lamportsNeeded } = standing;
  return {
    usdc: rest(usdcNeeded, usdc),
    lamports: needsSol ? rest(lamportsNeeded, lamports) : 0n,
  };
}

function rest(needed: string, there: string): bigint {
  const missing = BigInt(needed) - BigInt(there);
  return missing > 0n ? missing : 0n;
}

/** Returns whether the wallet cannot subscribe because it lacks USDC or SOL. */
export function isShort(standing: Balances, needsSol: boolean): boolean {
  const { usdc, lamports } = missingOf(standing, needsSol);
  return usdc > 0n || lamports > 0n;
}
