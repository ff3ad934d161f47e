import { randomBytes } from 'node:crypto';
import { SYSTEM_PROGRAM, TOKEN_PROGRAM, tokenAccountAddress } from '../chain/addresses.ts';
import { u32, u64, u8 } from '../chain/bytes.ts';
import { createTokenAccount, memo } from '../chain/companions.ts';
import type { Instruction } from '../chain/instruction.ts';
import { signTransaction } from '../chain/transactions.ts';
import { head } from './accounts.ts';
import { execute, type Refusal } from './execute.ts';
import { faucet, LOCALNET_MINT } from './genesis.ts';
import { base58 } from './keys.ts';
import type { Chain, Landed } from './state.ts';
import { decodeTransaction } from './wire.ts';

// Money for tests, by ordinary transactions of the faucet's keypair. The memo tells two equal gifts in one block apart.

function give(chain: Chain, instructions: readonly Instruction[]): Landed | Refusal {
  const latest = chain.blocks.at(-2) ?? head(chain);
  const unique = memo(`faucet ${randomBytes(8).toString('hex')}`);
  const { bytes } = signTransaction(faucet, [...instructions, unique], base58(latest.hash));
  return execute(chain, decodeTransaction(bytes), true);
}

/** Sends `lamports` to any address. */
export function airdrop(chain: Chain, owner: string, lamports: bigint): Landed | Refusal {
  const transfer: Instruction = {
    programId: SYSTEM_PROGRAM,
    accounts: [
      { address: faucet.address, signer: true, writable: true },
      { address: owner, signer: false, writable: true },
    ],
    data: Buffer.concat([u32(2), u64(lamports)]),
  };
  return give(chain, [transfer]);
}

/** Mints `amount` base units of the local USDC to the wallet's associated token account, which is created when missing. */
export function mintUsdc(chain: Chain, owner: string, amount: bigint): Landed | Refusal {
  const mintTo: Instruction = {
    programId: TOKEN_PROGRAM,
    accounts: [
      { address: LOCALNET_MINT, signer: false, writable: true },
      { address: tokenAccountAddress(owner, LOCALNET_MINT).address, signer: false, writable: true },
      { address: faucet.address, signer: true, writable: false },
    ],
    data: Buffer.concat([u8(7), u64(amount)]),
  };
  return give(chain, [createTokenAccount({ payer: faucet.address, owner, mint: LOCALNET_MINT }), mintTo]);
}
