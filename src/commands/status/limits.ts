// What is past its limit. Pure: the same facts and limits, the same words.
import type { Status } from '../status.ts';

export interface Limits {
  /** Seconds that a due payment, or a signed one whose end is unknown, may wait. */
  maxPaymentDelay: number;
  /** Seconds that a due delivery may wait. */
  maxDeliveryDelay: number;
  /** SOL that the keeper must have. */
  minSol: number;
}

/** Seconds that a public chain's clock, as the best endpoint has it, may be behind the database's. */
const mostChainLag = 120;
/** Failures of ours in a row: the sixth comes some ten minutes after the first (domain/setbacks.ts). */
const mostSetbacks = 6;

/** Every limit that is passed, in words; none when all is well. */
export function problemsOf(
  { at, payments, deliveries, chain, keeper }: Omit<Status, 'ok' | 'problems'>,
  { maxPaymentDelay, maxDeliveryDelay, minSol, local }: Limits & { local: boolean },
): string[] {
  const problems: string[] = [];
  const past = (seconds: number, limit: number, what: string) => {
    if (seconds > limit) problems.push(`${what} for ${duration(seconds)}; the limit is ${duration(limit)}`);
  };
  past(payments.lateSeconds, maxPaymentDelay, 'a payment has been due');
  past(payments.oldestOpenSeconds, maxPaymentDelay, 'the end of a signed payment has been unknown');
  if (payments.mostSetbacks >= mostSetbacks)
    problems.push(`a payment could not be collected ${payments.mostSetbacks} times in a row, and the subscriber is not the reason`);
  past(deliveries.lateSeconds, maxDeliveryDelay, 'a delivery has been due');
  if (chain !== null) {
    for (const { name, fault } of chain.endpoints) if (fault !== null) problems.push(`RPC ${name}: ${fault}`);
    const behind = chain.time === null ? 0 : Math.floor((at.getTime() - chain.time.getTime()) / 1000);
    if (!local) past(behind, mostChainLag, "the chain's clock, as the RPC endpoints have it, has been behind");
  }
  if (keeper !== null && keeper.sol !== null && keeper.sol < minSol)
    problems.push(`the keeper has ${keeper.sol} SOL; the limit is ${minSol}: send some to ${keeper.address}`);
  return problems;
}

/** Seconds as people say them: 45 s, 3 min, 2 h, 5 days. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}
