// Limits repeated relays within one process. The same signed bytes are relayed once at a time. A
// failure is returned again without a request to the chain, so that one wallet's retries do not use
// up the rate of the others.
import type { ChainSender } from '../chain-reads.ts';
import { relay, type RelayOutcome, type TakenOffer } from './relay.ts';

/**
 * Milliseconds for which a failure is stored. A transaction that failed in its simulation may
 * succeed once its wallet has the funds.
 */
const FAILED_MS = 10_000;
/** When this many failures are stored, the oldest are deleted. */
const MAX_FAILED = 10_000;

/** Returns relay() of `chain` with these rules. */
export function relayOnce(
  chain: ChainSender,
): (signed: TakenOffer, beforeSend?: () => Promise<void>) => Promise<RelayOutcome> {
  const running = new Map<string, Promise<RelayOutcome>>();
  /** The oldest failure is first. */
  const failed = new Map<string, { outcome: RelayOutcome; until: number }>();

  const store = (key: string, outcome: RelayOutcome) => {
    if (outcome.status !== 'failed' && outcome.status !== 'lapsed') return;
    const now = performance.now();
    failed.delete(key);
    for (const [old, { until }] of failed)
      if (until <= now || failed.size >= MAX_FAILED) failed.delete(old);
      else break;
    failed.set(key, { outcome, until: now + FAILED_MS });
  };

  return (signed, beforeSend) => {
    const key = signed.bytes.toString('base64');
    const failure = failed.get(key);
    if (failure !== undefined && performance.now() < failure.until)
      return Promise.resolve(failure.outcome);
    const current = running.get(key);
    if (current !== undefined) return current;
    const outcome = relay(chain, signed, beforeSend)
      .then((ended) => {
        store(key, ended);
        return ended;
      })
      .finally(() => running.delete(key));
    running.set(key, outcome);
    return outcome;
  };
}
