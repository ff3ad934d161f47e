// Verifies the signatures of a batch of transactions on a separate thread. Otherwise LiteSVM would
// verify the signatures on the main thread. This would take a quarter of the main thread's time for
// each payment.
import { Worker } from 'node:worker_threads';
import { SPKI_PREFIX } from '../../../chain/keypair.ts';
import type { WireTransaction } from './message.ts';

/**
 * A batch of transactions, concatenated in `bytes`. `places` has four offsets into `bytes` for each
 * signature: the signer's key, the signature, the start of the signed message and its end.
 */
interface Job {
  readonly job: number;
  readonly bytes: Uint8Array;
  readonly places: Uint32Array;
}

/**
 * The thread's answer to a job. `good` has one byte per signature: 1 if the signature is valid,
 * otherwise 0.
 */
interface Verdicts {
  readonly job: number;
  readonly good: Uint8Array;
}

// The source of the thread's program, which caches up to 10,000 keys. The program is a string,
// because a file would have two names: .ts in the source, which Node 20 cannot load into a Worker,
// and another name after compilation. The program imports nothing from this project.
const PROGRAM = `
const { createPublicKey, verify } = require('node:crypto');
const { parentPort } = require('node:worker_threads');
const prefix = Buffer.from('${SPKI_PREFIX.toString('hex')}', 'hex');
const keys = new Map();
function keyOf(signer) {
  const name = signer.toString('latin1');
  let key = keys.get(name);
  if (key === undefined) {
    key = createPublicKey({ key: Buffer.concat([prefix, signer]), format: 'der', type: 'spki' });
    if (keys.size >= 10000) keys.clear();
    keys.set(name, key);
  }
  return key;
}
parentPort.on('message', ({ job, bytes, places }) => {
  const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const good = new Uint8Array(places.length / 4);
  for (let index = 0; index < good.length; index += 1) {
    const [signer, signature, message, end] = places.subarray(index * 4, index * 4 + 4);
    const key = keyOf(source.subarray(signer, signer + 32));
    good[index] = verify(null, source.subarray(message, end), key, source.subarray(signature, signature + 64)) ? 1 : 0;
  }
  parentPort.postMessage({ job, good });
});
`;

let worker: Worker | undefined;
let jobs = 0;
const waiting = new Map<number, (good: Uint8Array) => void>();

function start(): Worker {
  const started = new Worker(PROGRAM, { eval: true, execArgv: [] });
  started.on('message', ({ job, good }: Verdicts) => {
    waiting.get(job)?.(good);
    waiting.delete(job);
    if (waiting.size === 0) started.unref();
  });
  // If the thread fails, the waiting batches get no result, and LiteSVM verifies their signatures.
  // The next batch starts a new thread.
  started.on('error', () => {
    worker = undefined;
    for (const resolve of waiting.values()) resolve(new Uint8Array());
    waiting.clear();
  });
  return started;
}

function pack(transactions: readonly WireTransaction[]): Omit<Job, 'job'> {
  const bytes = Buffer.allocUnsafeSlow(
    transactions.reduce((length, transaction) => length + transaction.bytes.length, 0),
  );
  const places: number[] = [];
  let begin = 0;
  for (const { bytes: own, signaturesAt, keysAt, signedAt, signedEnd, message } of transactions) {
    bytes.set(own, begin);
    for (let signer = 0; signer < message.requiredSignatures; signer += 1) {
      places.push(
        begin + keysAt + signer * 32,
        begin + signaturesAt + signer * 64,
        begin + signedAt,
        begin + signedEnd,
      );
    }
    begin += own.length;
  }
  return { bytes, places: Uint32Array.from(places) };
}

/** Returns the transactions whose signatures are all valid. */
export async function verifiedTransactions(
  transactions: readonly WireTransaction[],
): Promise<WireTransaction[]> {
  const thread = (worker ??= start());
  thread.ref();
  const job = (jobs += 1);
  const { bytes, places } = pack(transactions);
  const good = await new Promise<Uint8Array>((resolve) => {
    waiting.set(job, resolve);
    thread.postMessage({ job, bytes, places } satisfies Job, [
      bytes.buffer as ArrayBuffer,
      places.buffer as ArrayBuffer,
    ]);
  });
  let next = 0;
  return transactions.filter(({ message }) => {
    const verdicts = good.subarray(next, (next += message.requiredSignatures));
    return (
      verdicts.length === message.requiredSignatures && verdicts.every((verdict) => verdict === 1)
    );
  });
}
