// Compares the facts with the limits. Pure.
import { type ClockDifference, type ClockName, MAX_CLOCK_SECONDS } from '../../../daemon/clocks.ts';
import type { DaemonRow } from '../../../db/daemons.ts';
import { heldInWords } from '../../../domain/collecting/brake.ts';
import type { Facts } from '../status.ts';

export interface Limits {
  /** Maximum age in seconds of a due payment or an open attempt. */
  maxPaymentDelay: number;
  /** Maximum age in seconds of a due delivery. */
  maxDeliveryDelay: number;
  /** Minimum balance of the keeper in SOL. */
  minSol: number;
}

export type Checkable = 'chain' | 'keeper' | 'secrets';

/**
 * Maximum lag in seconds of a public chain's clock (at the best endpoint) behind this host's clock
 * and the database's.
 */
const MAX_CHAIN_LAG = 120;
/**
 * Maximum lag in slots between endpoints, some 50 s; the same limit as the alert
 * BillingRpcEndpointBehind.
 */
const MAX_ENDPOINT_LAG = 150;
/** Seconds without a heartbeat (every 5 s) after which a daemon counts as gone. */
const MAX_SILENCE = 20;
/**
 * Maximum number of consecutive failures that are not the subscriber's; the sixth comes some ten
 * minutes after the first.
 */
const MAX_SETBACKS = 6;

/** A message for each exceeded limit; empty when all is well. */
export function problemsOf(
  facts: Facts,
  { maxPaymentDelay, maxDeliveryDelay, minSol }: Limits,
): string[] {
  const { at, database, payments, deliveries, collection } = facts;
  const { undecipherableSecrets, chain, keeper, clocks } = facts;
  const problems: string[] = [];
  const past = (seconds: number, limit: number, what: string) => {
    if (seconds > limit)
      problems.push(`${what} for ${duration(seconds)}; the limit is ${duration(limit)}`);
  };
  if (database.fault !== null) problems.push(database.fault);
  if (database.readOnly === true) problems.push('Postgres is read-only');
  problems.push(...daemonProblems(facts.daemons, at));
  problems.push(...(collection?.holds ?? []).map(heldInWords));
  if (payments !== null) {
    past(payments.lateSeconds, maxPaymentDelay, 'a payment has been due');
    past(
      payments.oldestOpenSeconds,
      maxPaymentDelay,
      'the end of a signed payment has been unknown',
    );
    if (payments.maxSetbacks >= MAX_SETBACKS)
      problems.push(
        `a payment could not be collected ${payments.maxSetbacks} times in a row, and the subscriber is not the reason`,
      );
  }
  if (deliveries !== null)
    past(deliveries.lateSeconds, maxDeliveryDelay, 'a delivery has been due');
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
  // A chain that is behind is named above.
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
 * The parts that could not be checked, and why. An RPC endpoint or Postgres that does not answer is
 * also a problem.
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

/** Problems that the daemons report, and kinds of daemon without a recent heartbeat. */
function daemonProblems(daemons: readonly DaemonRow[], at: Date): string[] {
  const silentFor = ({ seenAt }: DaemonRow) => Math.floor((at.getTime() - seenAt.getTime()) / 1000);
  const running = daemons.filter((daemon) => silentFor(daemon) <= MAX_SILENCE);
  const troubled = running.flatMap(({ name, host, pid, trouble }) =>
    trouble === null ? [] : [`${name} (${host}, process ${pid}): ${trouble}`],
  );
  const gone = [...new Set(daemons.map(({ name }) => name))].flatMap((name) => {
    const last = daemons.find((daemon) => daemon.name === name);
    return last === undefined || running.some((daemon) => daemon.name === name)
      ? []
      : [`no ${name} has written to Postgres for ${duration(silentFor(last))}`];
  });
  return [...troubled, ...gone];
}

const CLOCK_WORDS: Record<ClockName, string> = {
  postgres: 'the clock of Postgres',
  host: "this host's clock",
  chain: "the chain's clock",
};

/** Which clock is wrong and by how much, or which differ. */
export function clocksInWords({ odd, seconds, postgres, chain }: ClockDifference): string {
  const by = duration(Math.floor(Math.abs(seconds)));
  if (odd !== null) {
    const others = (['postgres', 'host', 'chain'] as const).filter((name) => name !== odd);
    const agreeing = others.map((name) => CLOCK_WORDS[name]).join(' and ');
    return `${CLOCK_WORDS[odd]} is wrong: ${by} ${seconds > 0 ? 'ahead of' : 'behind'} ${agreeing}, which agree`;
  }
  const known = (['postgres', 'host', 'chain'] as const).filter(
    (name) => name === 'host' || { postgres, chain }[name] !== null,
  );
  const words = known.map((name) => CLOCK_WORDS[name]).join(' and ');
  return `${words} differ by ${by}; which one is wrong is not known`;
}

/** Formats seconds: 45 s, 3 min, 2 h, 5 days. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86_400)} days`;
}
