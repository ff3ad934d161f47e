// Compares the facts of a status with the limits. Pure functions.
import { type ClockDifference, type ClockName, MAX_CLOCK_SECONDS } from '../../../daemon/clocks.ts';
import type { DaemonRow } from '../../../db/operating/daemons.ts';
import { heldInWords } from '../../../domain/collecting/brake.ts';
import {
  type Checkable,
  type Facts,
  type Kind,
  kinds,
  type Limits,
  type Requirement,
} from './facts.ts';

/**
 * Maximum number of seconds that a public chain's clock may be behind. The chain's clock, read from
 * the endpoint with the highest slot, is compared with the database's clock or with this host's
 * clock, whichever shows the earlier time.
 */
const MAX_CHAIN_LAG = 120;
/**
 * Maximum number of slots (about a minute) that an endpoint may be behind the endpoint with the
 * highest slot. The alert BillingRpcEndpointBehind has the same limit.
 */
const MAX_ENDPOINT_LAG = 150;
/** A daemon without a heartbeat for this many seconds counts as gone. Heartbeats come every 5 s. */
export const MAX_SILENCE = 20;
/**
 * After this many consecutive failures to collect a payment, the status has a problem. Failures
 * caused by the subscriber do not count. With the backoff (keeper-backoff.ts), the sixth failure
 * happens about five minutes after the first.
 */
const MAX_KEEPER_FAILURES = 6;

/**
 * Returns a message for each exceeded limit, and for each kind of daemon that does not run although
 * it has work or is in `required`. The list is empty when there is no problem.
 */
export function problemsOf(
  facts: Facts,
  { maxPaymentDelay, maxDeliveryDelay, minSol, maxFailed }: Limits,
  required: readonly Requirement[] = [],
): string[] {
  const { database, payments, deliveries, collection } = facts;
  const { undecipherableSecrets, chain, keeper, clocks } = facts;
  const problems: string[] = [];
  const past = (seconds: number, limit: number, noun: string) => {
    if (seconds > limit)
      problems.push(`${noun} for ${duration(seconds)}; the limit is ${duration(limit)}`);
  };
  if (database.fault !== null) problems.push(database.fault);
  if (database.readOnly === true) problems.push('Postgres is read-only');
  problems.push(...daemonProblems(facts, required));
  problems.push(...(collection?.holds ?? []).map(heldInWords));
  if (payments !== null) {
    past(payments.lateSeconds, maxPaymentDelay, 'a payment has been due');
    past(
      payments.oldestOpenSeconds,
      maxPaymentDelay,
      'the end of a signed payment has been unknown',
    );
    if (payments.maxSetbacks >= MAX_KEEPER_FAILURES)
      problems.push(
        `a payment could not be collected ${payments.maxSetbacks} times in a row, and the subscriber is not the reason`,
      );
  }
  if (deliveries !== null)
    past(deliveries.lateSeconds, maxDeliveryDelay, 'a delivery has been due');
  if (deliveries !== null && deliveries.failed > maxFailed)
    problems.push(
      `${deliveries.failed} deliveries were given up in the last two days; the limit is ${maxFailed}`,
    );
  if (undecipherableSecrets !== null && undecipherableSecrets > 0)
    problems.push(
      `${undecipherableSecrets} webhook secrets were encrypted with a key that ENCRYPTION_KEY does not list`,
    );
  if (chain !== null) {
    for (const { name, fault, lag } of chain.endpoints) {
      if (fault !== null) problems.push(`RPC ${name}: ${fault}`);
      if (lag !== null && lag > MAX_ENDPOINT_LAG)
        problems.push(`RPC ${name} is ${lag} slots behind; the limit is ${MAX_ENDPOINT_LAG}`);
    }
    if (chain.offsetSeconds !== null)
      past(
        Math.floor(Math.min(0, clocks.postgres ?? 0) - chain.offsetSeconds),
        MAX_CHAIN_LAG,
        "the chain's clock, as the RPC endpoints have it, has been behind",
      );
  }
  // If the chain's clock is behind, only the check with MAX_CHAIN_LAG reports it.
  const isChainBehind = clocks.odd === 'chain' && clocks.seconds < 0;
  if (Math.abs(clocks.seconds) > MAX_CLOCK_SECONDS && !isChainBehind)
    problems.push(`${clocksInWords(clocks)}; the limit is ${duration(MAX_CLOCK_SECONDS)}`);
  if (keeper !== null && keeper.sol !== null && keeper.sol < minSol)
    problems.push(
      `the keeper has ${keeper.sol} SOL; the limit is ${minSol}: send some to ${keeper.address}`,
    );
  return problems;
}

/**
 * Returns the reason for each part that could not be checked. If an RPC endpoint or Postgres does
 * not respond, problemsOf also returns a problem.
 */
export function uncheckedOf({
  database,
  undecipherableSecrets,
  chain,
  keeper,
}: Facts): Partial<Record<Checkable, string>> {
  const noChain =
    chain === null
      ? 'SOLANA_RPC_URL is not set'
      : chain.time === null
        ? 'no RPC endpoint answers'
        : undefined;
  const noKeeper =
    keeper === null
      ? 'KEEPER_ADDRESS is not set'
      : keeper.sol === null
        ? `its SOL is unknown: ${noChain ?? 'no RPC endpoint answers'}`
        : undefined;
  const noSecrets =
    undecipherableSecrets !== null
      ? undefined
      : database.fault !== null
        ? 'Postgres does not answer'
        : 'ENCRYPTION_KEY is not set';
  return {
    ...(noChain !== undefined && { chain: noChain }),
    ...(noKeeper !== undefined && { keeper: noKeeper }),
    ...(noSecrets !== undefined && { secrets: noSecrets }),
  };
}

/**
 * Returns the problems that running daemons report. Adds one problem for each kind of daemon
 * without a running process if (1) the last process was killed, (2) there is work for it, or (3) it
 * is in `required`.
 */
function daemonProblems({ daemons, at, work }: Facts, required: readonly Requirement[]): string[] {
  const secondsSince = (time: Date) => Math.floor((at.getTime() - time.getTime()) / 1000);
  const isRunning = ({ seenAt, stoppedAt }: DaemonRow) =>
    stoppedAt === null && secondsSince(seenAt) <= MAX_SILENCE;
  const troubled = daemons
    .filter(isRunning)
    .flatMap(({ name, host, pid, trouble }) =>
      trouble === null ? [] : [`${name} (${host}, process ${pid}): ${trouble}`],
    );
  const absenceOf = (kind: Kind): string[] => {
    const rows = daemons.filter(({ name }) => name === kind);
    const [last] = rows;
    if (work === null || rows.some(isRunning)) return [];
    const why = required.includes(kind) ? '' : ', and there is work for it';
    const isMissed = required.includes(kind) || work[kind];
    if (last === undefined) return isMissed ? [`no ${kind} has run yet${why}`] : [];
    const since = duration(secondsSince(last.seenAt));
    if (last.stoppedAt === null) return [`no ${kind} has written to Postgres for ${since}`];
    return isMissed ? [`no ${kind} runs: the last one stopped ${since} ago${why}`] : [];
  };
  return [...troubled, ...kinds.flatMap(absenceOf)];
}

const CLOCKS: readonly ClockName[] = ['postgres', 'host', 'chain'];

const CLOCK_WORDS: Record<ClockName, string> = {
  postgres: 'the clock of Postgres',
  host: "this host's clock",
  chain: "the chain's clock",
};

/**
 * Describes which clock is wrong and by how much. If the wrong clock is unknown, describes which
 * clocks differ.
 */
export function clocksInWords({ odd, seconds, postgres, chain }: ClockDifference): string {
  const by = duration(Math.floor(Math.abs(seconds)));
  const offsets = { postgres, host: 0, chain };
  const others = CLOCKS.filter((name) => name !== odd && offsets[name] !== null);
  const words = others.map((name) => CLOCK_WORDS[name]).join(' and ');
  return odd === null
    ? `${words} differ by ${by}; which one is wrong is not known`
    : `${CLOCK_WORDS[odd]} is wrong: ${by} ${seconds > 0 ? 'ahead of' : 'behind'} ${words}, which agree`;
}

/** Formats seconds in one unit, such as 45 s, 3 min, 2 h or 5 days. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86_400)} days`;
}
