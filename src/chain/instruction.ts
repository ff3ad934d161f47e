// The accounts and discriminators of the Subscriptions program's instructions.
import { type AccountMeta, TransactionInstruction } from '@solana/web3.js';
import { eventAuthorityAddress, publicKey } from './addresses.ts';
import { u8 } from './bytes.ts';

/** An instruction of web3.js; `compileMessage` (message.ts) compiles several into a transaction. */
export type Instruction = TransactionInstruction;

const DISCRIMINATOR = {
  initAuthority: 0,
  revokeDelegation: 3,
  closeAuthority: 6,
  createPlan: 7,
  updatePlan: 8,
  deletePlan: 9,
  transfer: 10,
  subscribe: 11,
  cancel: 12,
  resume: 13,
  revokeAuthority: 14,
  cancelNow: 17,
} as const;

const meta =
  (isSigner: boolean, isWritable: boolean) =>
  (address: string): AccountMeta => ({ pubkey: publicKey(address), isSigner, isWritable });

/** Account metas: read-only, writable, signer, and writable signer. */
export const read = meta(false, false);
export const write = meta(false, true);
export const sign = meta(true, false);
export const pay = meta(true, true);

/** An optional last account, omitted when it is undefined. */
export const optional = (account: (address: string) => AccountMeta, address: string | undefined) =>
  address === undefined ? [] : [account(address)];

/** The accounts with which the program calls itself to emit an event. */
export const eventAccounts = (programId: string) => [
  read(eventAuthorityAddress(programId).address),
  read(programId),
];

/** Whether an instruction's data is that of a transfer. */
export const isTransfer = (data: Uint8Array) => data[0] === DISCRIMINATOR.transfer;

/** An instruction of the program: its discriminator, then its fields. */
export function instruction(
  programId: string,
  kind: keyof typeof DISCRIMINATOR,
  keys: AccountMeta[],
  ...fields: Uint8Array[]
): Instruction {
  return new TransactionInstruction({
    programId: publicKey(programId),
    keys,
    data: Buffer.concat([u8(DISCRIMINATOR[kind]), ...fields]),
  });
}
