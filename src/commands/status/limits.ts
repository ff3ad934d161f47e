// Names everything past its limit. Pure: the same facts and limits give the same words.
import type { DaemonRow } from '../../db/daemons.ts';
import type { Facts } from '../status.ts';

export interface Limits {
  /** Seconds that a due payment, or a signed one whose end is unknown, may wait. */
  maxPaymentDelay: number;
  /** Seconds that a due delivery may wait. */
  maxDeliveryDelay: number;
  /** SOL that the keeper must have. */
  minSol: number;
}

export type Checkable = 'chain' | 'keeper' | 'secrets';

/** Seconds that a public chain's clock, as the best endpoint has it, may be behind the database's. */
const mostChainLag = 120;
/** Slots that one endpoint may be behind another, some 50 s; the alert BillingRpcEndpointBehind has the same limit. */
const mostEndpointLag = 150;
/** Seconds after which a daemon that wrote nothing counts as gone; it writes every 5 s. */
const mostSilence = 20;
/** Failures in a row that are no fault of the subscriber: the sixth comes some ten minutes after the first. */
const mostSetbacks = 6;

/** Every limit that is passed, in words; none when all is well. */
export function problemsOf(
  facts: Facts,
  { maxPaymentDelay, maxDeliveryDelay, minSol, local }: Limits & { local: boolean },
): string[] {
  const { at, database, payments, deliveries, undecipherableSecrets, chain, keeper } = facts;
  const problems: string[] = [];
  const past = (seconds: number, limit: number, what: string) => {
    if (seconds > limit)
      problems.push(`${what} for ${duration(seconds)}; the limit is ${duration(limit)}`);
  };
  if (database.fault !== null) problems.push(database.fault);
  if (database.readOnly === true) problems.push('Postgres is read-only');
  problems.push(...daemonProblems(facts.daemons, at));
  if (payments !== null) {
    past(payments.lateSeconds, maxPaymentDelay, 'a payment has been due');
    past(
      payments.oldestOpenSeconds,
      maxPaymentDelay,
      'the end of a signed payment has been unknown',
    );
    if (payments.mostSetbacks >= mostSetbacks)
      problems.push(
        `a payment could not be collected ${payments.mostSetbacks} times in a row, and the subscriber is not the reason`,
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
      if (lag !== null && lag > mostEndpointLag)
        problems.push(`RPC ${name} is ${lag} slots behind; the limit is ${mostEndpointLag}`);
    }
    const behind =
      chain.time === null ? 0 : Math.floor((at.getTime() - chain.time.getTime()) / 1000);
    if (!local)
      past(
        behind,
        mostChainLag,
        "the chain's clock, as the RPC endpoints have it, has been behind",
      );
  }
  if (keeper !== null && keeper.sol !== null && keeper.sol < minSol)
    problems.push(
      `the keeper has ${keeper.sol} SOL; the limit is ${minSol}: send some to ${keeper.address}`,
    );
  return problems;
}

/** What could not be checked, and why. An RPC endpoint or a Postgres that does not answer is a problem besides. */
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

/** Problems that the daemons report, and kinds of daemon whose heartbeat ended without a stop. */
function daemonProblems(daemons: readonly DaemonRow[], at: Date): string[] {
  const silentFor = ({ seenAt }: DaemonRow) => Math.floor((at.getTime() - seenAt.getTime()) / 1000);
  const running = daemons.filter((daemon) => silentFor(daemon) <= mostSilence);
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

/** Seconds as people say them: 45 s, 3 min, 2 h, 5 days. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800
    ? `${Math.floor(seconds / 3600)} h`
    : `${Math.floor(seconds / 86_400)} days`;
}
