// What an instruction is, and what those of the Subscriptions program share.
import { eventAuthorityAddress } from './addresses.ts';
import { u8 } from './bytes.ts';

/** An account of an instruction. */
export interface AccountMeta {
  readonly address: string;
  readonly signer: boolean;
  readonly writable: boolean;
}

/** An instruction with Base58 addresses; `compileMessage` (message.ts) makes a transaction of several. */
export interface Instruction {
  readonly programId: string;
  readonly accounts: readonly AccountMeta[];
  readonly data: Buffer;
}

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

/** Accounts by what the instruction does with them: reads, writes, has them sign, has them sign and pay. */
export const read = (address: string): AccountMeta => ({ address, signer: false, writable: false });
export const write = (address: string): AccountMeta => ({ address, signer: false, writable: true });
export const sign = (address: string): AccountMeta => ({ address, signer: true, writable: false });
export const pay = (address: string): AccountMeta => ({ address, signer: true, writable: true });

/** The last account of some instructions is optional and simply absent. */
export const optional = (meta: (address: string) => AccountMeta, address: string | undefined) =>
  address === undefined ? [] : [meta(address)];

/** The accounts that let the program tell of events by calling itself. */
export const eventAccounts = (programId: string) => [read(eventAuthorityAddress(programId).address), read(programId)];

/** An instruction of the program: its number, then its fields. */
export function instruction(
  programId: string,
  kind: keyof typeof DISCRIMINATOR,
  accounts: AccountMeta[],
  ...fields: Uint8Array[]
): Instruction {
  return { programId, accounts, data: Buffer.concat([u8(DISCRIMINATOR[kind]), ...fields]) };
}
