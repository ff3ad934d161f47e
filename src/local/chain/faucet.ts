// Gives SOL and USDC to test wallets, in transactions that the faucet's keypair signs. Each
// transaction has a random memo. Without the memo, two equal transfers in one block would have the
// same signature, and the second would be refused.
import { randomBytes } from 'node:crypto';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import type { Instruction } from '../../chain/program/instructions.ts';
import { signTransaction } from '../../chain/transactions/subscriptions.ts';
import {
  createTokenAccount,
  memo,
  mintTokens,
  transferLamports,
} from '../../chain/transactions/system-instructions.ts';
import { head } from './accounts.ts';
import { execute, type Refusal } from './execute.ts';
import { faucet, LOCALNET_MINT } from './genesis.ts';
import { base58 } from './keys.ts';
import type { Chain, Landed } from './state.ts';
import { decodeTransaction } from './wire/decode.ts';

function give(chain: Chain, instructions: readonly Instruction[]): Landed | Refusal {
  const latest = chain.blocks.at(-2) ?? head(chain);
  const unique = memo(`faucet ${randomBytes(8).toString('hex')}`);
  const { bytes } = signTransaction(faucet, [...instructions, unique], base58(latest.hash));
  return execute(chain, decodeTransaction(bytes), true);
}

/** Transfers `lamports` from the faucet to the address `owner`. */
export function airdrop(chain: Chain, owner: string, lamports: bigint): Landed | Refusal {
  return give(chain, [transferLamports(faucet.address, owner, lamports)]);
}

/**
 * Mints `amount` base units of the local USDC to the associated token account of the wallet
 * `owner`. The transaction creates the token account when it is missing.
 */
export function mintUsdc(chain: Chain, owner: string, amount: bigint): Landed | Refusal {
  const account = tokenAccountAddress(owner, LOCALNET_MINT).address;
  return give(chain, [
    createTokenAccount({ payer: faucet.address, owner, mint: LOCALNET_MINT }),
    mintTokens({ mint: LOCALNET_MINT, account, authority: faucet.address, amount }),
  ]);
}
