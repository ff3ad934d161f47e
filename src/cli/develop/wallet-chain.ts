// Requests of `billing wallet` to an RPC endpoint. This module is imported on demand, because it
// loads web3.js.
import { setTimeout as pause } from 'node:timers/promises';
import { CLUSTERS, SUBSCRIPTIONS_PROGRAM } from '../../chain/clusters.ts';
import { type Keypair, signatureOf } from '../../chain/keypair.ts';
import { tokenAccountIn } from '../../chain/program/accounts.ts';
import { isAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import { createRpc } from '../../chain/rpc/client.ts';
import { follow, isSentAgain, markSent, outcomeOf, pollStatuses } from '../../chain/rpc/follow.ts';
import { judgeLandings } from '../../chain/rpc/landing.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { blockhashOf } from '../../chain/transactions/collection.ts';
import { addSignature, messageIn } from '../../chain/transactions/message.ts';
import { decodeMessage } from '../../chain/transactions/signed.ts';
import { type Reading, stepsOf } from '../../chain/transactions/steps.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { LOCALNET_MINT } from '../../local/chain/genesis.ts';
import { cheat } from '../../local/sandbox/chain.ts';
import { createLog } from '../../log.ts';
import { note } from '../terminal/print.ts';
import { safeText } from '../terminal/safe-text.ts';

const [POLL_MS, RESEND_MS] = [200, 1000];

async function withRpc<T>(url: string, work: (rpc: Rpc) => Promise<T>): Promise<T> {
  const log = createLog('wallet', { level: 'silent', pretty: false, stream: 'stderr' });
  const rpc = createRpc({ urls: [url], log });
  try {
    return await work(rpc);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    throw new OperatorError(`The chain at ${new URL(url).host}: ${messageOf(error)}.`, 1, {
      cause: error,
    });
  } finally {
    await rpc.close();
  }
}

/**
 * Reads the confirmed balances of SOL and USDC. Without `mint`, uses the USDC mint of the cluster
 * at `url`.
 */
export function balancesOf(
  url: string,
  address: string,
  mint: string | undefined,
): Promise<{ lamports: bigint; usdc: bigint; mint: string }> {
  if (mint !== undefined && !isAddress(mint))
    throw new OperatorError('--mint must be an address: Base58 of 32 bytes.', 2);
  return withRpc(url, async (rpc) => {
    const usdcMint = mint ?? (await mintOf(url, rpc));
    const { accounts } = await rpc.getMultipleAccounts(
      [address, tokenAccountAddress(address, usdcMint).address],
      { commitment: 'confirmed' },
    );
    const [wallet = null, tokens = null] = accounts;
    return {
      lamports: wallet?.lamports ?? 0n,
      usdc: tokenAccountIn(tokens)?.amount ?? 0n,
      mint: usdcMint,
    };
  });
}

async function mintOf(url: string, rpc: Rpc): Promise<string> {
  const genesis = await rpc.getGenesisHash();
  const cluster = Object.values(CLUSTERS).find(({ genesisHash }) => genesisHash === genesis);
  if (cluster?.usdcMint) return cluster.usdcMint;
  try {
    await cheat(url, 'localnet_info', []);
    return LOCALNET_MINT;
  } catch {
    throw new OperatorError(
      'The chain is neither mainnet, devnet nor a chain of "billing localnet": name USDC\'s mint with --mint.',
      2,
    );
  }
}

/** The program id and the tokens that describe a transaction of the wallet to the user. */
export function readingOf(wallet: string, { programId, usdcMint }: NetworkSettings): Reading {
  const tokens = new Map([
    ...(usdcMint === undefined ? [] : [[usdcMint, 'USDC'] as const]),
    [LOCALNET_MINT, 'USDC of the local chain'] as const,
    ...Object.entries(CLUSTERS).flatMap(([cluster, { usdcMint: mint }]) =>
      mint === null ? [] : [[mint, cluster === 'devnet' ? 'USDC of devnet' : 'USDC'] as const],
    ),
  ]);
  return { wallet, programId: programId ?? SUBSCRIPTIONS_PROGRAM, tokens };
}

export interface NetworkSettings {
  readonly programId?: string | undefined;
  readonly usdcMint?: string | undefined;
}

/**
 * Shows on stderr what a transaction does, checks it with `faultOf`, and adds the wallet's
 * signature. Throws an OperatorError (exit code 2) if this wallet cannot sign the transaction, or
 * if `faultOf` returns a difference.
 */
export async function signedBy(
  wallet: Keypair,
  transaction: string,
  reading: Reading,
  faultOf: (message: Buffer) => string | undefined | Promise<string | undefined>,
): Promise<string> {
  const message = messageToSign(wallet, transaction);
  const decoded = decodeMessage(message);
  if (decoded !== undefined)
    note(
      [
        `The transaction of the wallet ${wallet.address}`,
        ...stepsOf(decoded, reading).map(({ words }) => `- ${safeText(words)}`),
      ].join('\n'),
    );
  const fault = await faultOf(message);
  if (fault !== undefined)
    throw new OperatorError(`The transaction is not signed: ${safeText(fault)}.`, 2);
  return addSignature(wallet, transaction);
}

function messageToSign({ address }: Keypair, transaction: string): Buffer {
  const refusal = (why: string, cause?: unknown) =>
    new OperatorError(`This is not a transaction that ${address} signs: ${why}.`, 2, { cause });
  try {
    const message = messageIn(transaction);
    const decoded = decodeMessage(message);
    if (decoded === undefined || decoded.signers.has(address)) return message;
  } catch (error) {
    throw refusal(messageOf(error), error);
  }
  throw refusal('it needs other signatures');
}

/**
 * Sends a signed transaction repeatedly until it is confirmed, has failed or has expired. Returns
 * the signature of a confirmed transaction. Otherwise throws an OperatorError with the outcome.
 */
export function sendAndConfirm(
  url: string,
  transaction: string,
  signal: AbortSignal,
): Promise<string> {
  const bytes = Buffer.from(transaction, 'base64');
  const signature = signatureOf(bytes);
  // The blockhash's last valid block height is unknown, so the validity of the blockhash is checked
  // from the start.
  const lifetime = { blockhash: blockhashOf(bytes), lastValidBlockHeight: 0n, slot: 0n };
  const sought = { signature, lifetime, needsTwo: true };
  const sent = follow({ signature, bytes });
  return withRpc(url, async (rpc) => {
    for (;;) {
      const judged = sent.status === null ? await judgeLandings(rpc, [sought]) : undefined;
      const verdict = judged?.get(sought)?.verdict;
      if (verdict === 'dead')
        throw new OperatorError(
          `The transaction ${signature} expired before it landed, and moved nothing: ask the API for a new one.`,
        );
      if (verdict !== 'landed' && isSentAgain(sent, performance.now(), RESEND_MS)) {
        markSent(sent);
        await rpc.sendTransaction(bytes);
      }
      await pollStatuses(rpc, [sent], { history: true });
      const outcome = outcomeOf(sent.status);
      if (outcome === 'landed') return signature;
      if (outcome === 'failed')
        throw new OperatorError(
          `The transaction ${signature} failed: ${JSON.stringify(sent.status?.err)}.`,
        );
      await pause(POLL_MS, undefined, { signal });
    }
  });
}
