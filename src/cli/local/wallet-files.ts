// Files that `billing sandbox --write-wallets` writes: wallets as Solana CLI keypair files, and a
// file `env` with addresses and keys.
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import bs58 from 'bs58';
import { environmentText } from '../../config/environment-file.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import type { Sandbox } from '../../local/sandbox/start.ts';

/**
 * Creates the directory. Removes the file `env` that an earlier run left behind, because other
 * programs take this file as the sign that the sandbox is ready. Throws an OperatorError (exit code
 * 2) when the directory cannot be used.
 */
export async function prepareWallets(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await removeEnv(directory);
  } catch (error) {
    throw new OperatorError(`--write-wallets cannot be used: ${messageOf(error)}`, 2, {
      cause: error,
    });
  }
}

/** Removes the file `env`, because the sandbox stops. The wallets stay. */
export function removeEnv(directory: string): Promise<void> {
  return rm(join(directory, 'env'), { force: true });
}

/**
 * Writes merchant.json, merchant-2.json, ..., subscriber.json, subscriber-2.json, ..., and `env`
 * last. Only the owner can read the files.
 */
export async function writeWallets(directory: string, ready: Sandbox['ready']): Promise<void> {
  const { merchants, subscribers } = ready;
  const name = (kind: string, index: number) => `${kind}${index === 0 ? '' : `-${index + 1}`}.json`;
  const files = [
    ...merchants.map(({ secretKey }, index) => ({ file: name('merchant', index), secretKey })),
    ...subscribers.map(({ secretKey }, index) => ({ file: name('subscriber', index), secretKey })),
  ];
  for (const { file, secretKey } of files)
    await writeFile(join(directory, file), JSON.stringify([...bs58.decode(secretKey)]), {
      mode: 0o600,
    });
  await writeFile(join(directory, 'env.new'), envOf(ready), { mode: 0o600 });
  await rename(join(directory, 'env.new'), join(directory, 'env'));
}

/**
 * Returns the content of `env`: variables of the sandbox, the first merchant and the first
 * subscriber, in a format that shells and --env-file read.
 */
function envOf({ apiUrl, rpcUrl, wsUrl, mint, merchants, subscribers }: Sandbox['ready']): string {
  const [merchant] = merchants;
  const [subscriber] = subscribers;
  const values = {
    API: apiUrl,
    RPC: rpcUrl,
    WS: wsUrl,
    MINT: mint,
    APP: merchant?.appId ?? '',
    PLAN: merchant?.planId ?? '',
    MERCHANT_WALLET: merchant?.wallet ?? '',
    SUBSCRIBER_WALLET: subscriber?.wallet ?? '',
    BILLING_API_URL: apiUrl,
    BILLING_API_KEY: merchant?.apiKey ?? '',
  };
  return environmentText(values);
}
