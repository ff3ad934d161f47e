import { Worker } from 'node:worker_threads';
import type { Job, Verdicts } from './verifyWorker.ts';
import type { WireTransaction } from './wire.ts';

// Signatures of batches, verified on a thread of their own. LiteSVM does it too, but on the one thread that everything else waits for,
// where it is a quarter of a pull's time.

let worker: Worker | undefined;
let jobs = 0;
const waiting = new Map<number, (good: Uint8Array) => void>();

function start(): Worker {
  // The same file before and after compiling.
  const file = import.meta.url.endsWith('.ts') ? './verifyWorker.ts' : './verifyWorker.js';
  const started = new Worker(new URL(file, import.meta.url));
  started.on('message', ({ job, good }: Verdicts) => {
    waiting.get(job)?.(good);
    waiting.delete(job);
    if (waiting.size === 0) started.unref();
  });
  return started;
}

function pack(transactions: readonly WireTransaction[]): Omit<Job, 'job'> {
  const bytes = Buffer.allocUnsafeSlow(transactions.reduce((length, transaction) => length + transaction.bytes.length, 0));
  const places: number[] = [];
  let begin = 0;
  for (const { bytes: own, signaturesAt, keysAt, message } of transactions) {
    bytes.set(own, begin);
    const signed = begin + signaturesAt + message.requiredSignatures * 64;
    for (let signer = 0; signer < message.requiredSignatures; signer += 1) {
      places.push(begin + keysAt + signer * 32, begin + signaturesAt + signer * 64, signed, begin + own.length);
    }
    begin += own.length;
  }
  return { bytes, places: Uint32Array.from(places) };
}

/** Those of the transactions that have all their signatures right. */
export async function signedOnes(transactions: readonly WireTransaction[]): Promise<WireTransaction[]> {
  const thread = (worker ??= start());
  thread.ref();
  const job = (jobs += 1);
  const { bytes, places } = pack(transactions);
  const good = await new Promise<Uint8Array>((resolve) => {
    waiting.set(job, resolve);
    thread.postMessage({ job, bytes, places } satisfies Job, [bytes.buffer as ArrayBuffer, places.buffer as ArrayBuffer]);
  });
  let next = 0;
  return transactions.filter(({ message }) => {
    const verdicts = good.subarray(next, (next += message.requiredSignatures));
    return verdicts.every((verdict) => verdict === 1);
  });
}
