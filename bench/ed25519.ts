// Compares Node's Ed25519 (src/chain/keypair.ts), which signs the keeper's transactions, with
// tweetnacl. The message is as long as that of a collection.
import { createPublicKey, verify } from 'node:crypto';
import nacl from 'tweetnacl';
import { keypairFromSecret, SPKI_PREFIX } from '../src/chain/keypair.ts';
import { addressBytes } from '../src/chain/program/addresses.ts';
import type { Result } from './run.ts';

/**
 * Length in bytes of a collection's message with two transfers and a memo. With its signature, the
 * transaction has about 755 bytes (docs/chain.md).
 */
const MESSAGE_LENGTH = 690;
const ROUNDS = 9;
const ROUND_MS = 250;

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;

/** Returns the operations per second. */
function rate(work: () => void): number {
  const began = performance.now();
  let done = 0;
  while (performance.now() - began < ROUND_MS) {
    for (let times = 0; times < 8; times += 1) work();
    done += 8;
  }
  return (done * 1000) / (performance.now() - began);
}

/**
 * Runs the benchmark. Rounds alternate, and the figures are medians. Throws when the two signatures
 * differ.
 */
export function run(): Promise<Result> {
  const { secretKey, publicKey } = nacl.sign.keyPair();
  const keypair = keypairFromSecret(secretKey);
  const message = Buffer.alloc(MESSAGE_LENGTH, 7);
  const signature = keypair.sign(message);
  if (!signature.equals(nacl.sign.detached(message, secretKey)))
    throw new Error('the two signatures differ');
  const key = createPublicKey({
    key: Buffer.concat([SPKI_PREFIX, addressBytes(keypair.address)]),
    format: 'der',
    type: 'spki',
  });
  const works = {
    nodeSigns: () => void keypair.sign(message),
    tweetnaclSigns: () => void nacl.sign.detached(message, secretKey),
    nodeVerifies: () => void verify(null, message, key, signature),
    tweetnaclVerifies: () => void nacl.sign.detached.verify(message, signature, publicKey),
  };
  const rates = Object.fromEntries(Object.keys(works).map((name) => [name, [] as number[]]));
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [name, work] of Object.entries(works)) rates[name]?.push(rate(work));
  const of = (name: keyof typeof works) => median(rates[name] ?? []);
  return Promise.resolve({
    figures: {
      nodeSignaturesPerSecond: of('nodeSigns'),
      tweetnaclSignaturesPerSecond: of('tweetnaclSigns'),
      nodeVerificationsPerSecond: of('nodeVerifies'),
      tweetnaclVerificationsPerSecond: of('tweetnaclVerifies'),
    },
    ratios: {
      nodeToTweetnaclSigning: of('nodeSigns') / of('tweetnaclSigns'),
      nodeToTweetnaclVerifying: of('nodeVerifies') / of('tweetnaclVerifies'),
    },
  });
}
