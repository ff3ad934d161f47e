import { createPublicKey, type KeyObject, verify } from 'node:crypto';
import { parentPort } from 'node:worker_threads';

// The thread that verifies Ed25519 signatures for verify.ts.

/** Transactions one after the other in `bytes`; for each signature four offsets into it: signer, signature, message, end of the message. */
export interface Job {
  readonly job: number;
  readonly bytes: Uint8Array;
  readonly places: Uint32Array;
}

/** The verdict on each signature of a job, 1 for a good one. */
export interface Verdicts {
  readonly job: number;
  readonly good: Uint8Array;
}

// RFC 8410: the DER that precedes a raw 32-byte Ed25519 public key.
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex');
const KEYS_CACHED = 10_000;
const cache = new Map<string, KeyObject>();

function keyObject(signer: Buffer): KeyObject {
  const name = signer.toString('latin1');
  const known = cache.get(name);
  if (known !== undefined) return known;
  const made = createPublicKey({ key: Buffer.concat([SPKI_PREFIX, signer]), format: 'der', type: 'spki' });
  if (cache.size >= KEYS_CACHED) cache.clear();
  cache.set(name, made);
  return made;
}

function verdicts({ job, bytes, places }: Job): Verdicts {
  const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const good = new Uint8Array(places.length / 4);
  for (let index = 0; index < good.length; index += 1) {
    const [signer = 0, signature = 0, message = 0, end = 0] = places.subarray(index * 4, index * 4 + 4);
    const key = keyObject(source.subarray(signer, signer + 32));
    good[index] = verify(null, source.subarray(message, end), key, source.subarray(signature, signature + 64)) ? 1 : 0;
  }
  return { job, good };
}

const port = parentPort;
port?.on('message', (job: Job) => port.postMessage(verdicts(job)));
