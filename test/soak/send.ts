// Transactions of the played wallets, sent as a careful wallet would: again and again until they
// have landed or cannot land any more.
import { setTimeout as pause } from 'node:timers/promises';
import { signatureOf } from '../../src/chain/keypair.ts';
import type { Instruction } from '../../src/chain/program/instructions.ts';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import type { Rpc } from '../../src/chain/rpc/rpc.ts';
import { addSignature, unsignedTransaction } from '../../src/chain/transactions/message.ts';
import type { Wallet } from '../../src/local/sandbox/wallet.ts';

/** `lost`: it never lands, because it was dropped or a fork reverted it. */
export type Landing = 'landed' | 'failed' | 'lost';

const RESEND_MS = 400;
const POLL_MS = 60;

/**
 * The first signer pays; `onSigned` gets the signature before it is sent. Resolves when the end is
 * confirmed.
 */
export async function send(
  rpc: Rpc,
  signers: readonly Wallet[],
  instructions: readonly Instruction[],
  onSigned?: (signature: string) => void,
): Promise<Landing> {
  const [payer] = signers;
  if (payer === undefined) throw new RangeError('no signer');
  const { blockhash, lastValidBlockHeight } = await patiently(() => rpc.getLatestBlockhash());
  const unsigned = unsignedTransaction(payer.address, instructions, blockhash);
  const signed = signers.reduce((base64, signer) => addSignature(signer.keypair, base64), unsigned);
  const bytes = Buffer.from(signed, 'base64');
  onSigned?.(signatureOf(bytes));
  return sendSigned(rpc, bytes, lastValidBlockHeight);
}

/** The same for a signed transaction. */
export async function sendSigned(
  rpc: Rpc,
  bytes: Buffer,
  lastValidBlockHeight: bigint,
): Promise<Landing> {
  const signature = signatureOf(bytes);
  let sentAt = -Infinity;
  for (;;) {
    if (performance.now() - sentAt > RESEND_MS) {
      sentAt = performance.now();
      await rpc.sendTransaction(bytes).catch(() => undefined);
    }
    const height = await patiently(() => rpc.getBlockHeight());
    const { statuses } = await patiently(() =>
      rpc.getSignatureStatuses([signature], { history: true }),
    );
    const status = statuses[0] ?? null;
    if (status !== null && status.err !== null) return 'failed';
    if (status !== null && status.commitment !== 'processed') return 'landed';
    if (status === null && height > lastValidBlockHeight) return 'lost';
    await pause(POLL_MS);
  }
}

/**
 * Faults are meant for the keepers: other callers retry until they get a response. Rethrows errors
 * that are not an outage.
 */
export async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RpcUnreachable)) throw error;
      await pause(100);
    }
  }
}

/** Like `send`, but throws an Error when the transaction fails. */
export async function land(
  rpc: Rpc,
  signers: readonly Wallet[],
  instructions: readonly Instruction[],
): Promise<void> {
  const end = await send(rpc, signers, instructions);
  if (end !== 'landed')
    throw new Error(`a transaction that must land ${end === 'lost' ? 'was lost' : 'failed'}`);
}
