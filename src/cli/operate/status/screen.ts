// Formats the status as text.
import { MAX_AGREED_SECONDS } from '../../../daemon/clocks.ts';
import { MAX_COUNTED } from '../../../db/operating/status.ts';
import type { Paint } from '../../terminal/print.ts';
import { safeText } from '../../terminal/safe-text.ts';
import { table } from '../../terminal/table.ts';
import type { Status } from './facts.ts';
import { clocksInWords, duration, MAX_SILENCE } from './limits.ts';
import { sponsoringFacts } from './sponsoring.ts';

/** Returns the status as text of at most 24 lines. */
export function screen(status: Status, paint: Paint): string {
  const { state, problems, unchecked, at, environment, errors } = status;
  const blind = Object.keys(unchecked);
  const verdict = {
    ok: paint('green', 'OK'),
    unchecked: paint('yellow', `OK, NOT CHECKED: ${blind.join(', ')}`),
    past_limit: paint(
      'red',
      `${problems.length} PAST ${problems.length === 1 ? 'ITS LIMIT' : 'THEIR LIMITS'}`,
    ),
  }[state];
  return [
    `${paint('bold', 'billing')} ${environment}, ${at.toISOString()}: ${verdict}`,
    '',
    table([], facts(status)).trimEnd(),
    ...(problems.length === 0
      ? []
      : ['', ...problems.map((problem) => paint('red', `! ${safeText(problem)}`))]),
    '',
    errors.length === 0 ? 'No recent errors.' : paint('bold', 'Last errors'),
    ...(errors.length === 0
      ? []
      : [
          table(
            [],
            errors.map(({ at: time, what, id, detail }) => [time, what, id, detail]),
          ).trimEnd(),
        ]),
  ].join('\n');
}

function facts(status: Status): [string, string][] {
  const { database, chain, keeper, unchecked } = status;
  return [
    [
      'Postgres',
      database.fault === null
        ? `${database.address}, version ${database.version ?? ''}, answered in ${database.answeredMs ?? 0} ms`
        : `${database.address}: no answer`,
    ],
    ...clockFacts(status),
    ...releaseFacts(status),
    ...queueFacts(status),
    ...chainFacts(chain),
    [
      'Keeper',
      keeper === null
        ? 'not configured: KEEPER_ADDRESS'
        : `${keeper.address}, ${keeper.sol === null ? 'SOL unknown' : `${keeper.sol} SOL`}`,
    ],
    ...(unchecked.secrets === undefined
      ? []
      : [['Secrets', `not checked: ${unchecked.secrets}`] satisfies [string, string]]),
  ];
}

/** Returns the line about the clocks, or no line when the clocks agree. */
function clockFacts({ clocks }: Status): [string, string][] {
  return Math.abs(clocks.seconds) > MAX_AGREED_SECONDS ? [['Clocks', clocksInWords(clocks)]] : [];
}

/**
 * Returns the line with the release and the schema version of each daemon, or no line when no
 * daemon has a recent heartbeat. The schema version is the newest migration that the release knows.
 */
function releaseFacts({ daemons, at }: Status): [string, string][] {
  const counts = new Map<string, number>();
  for (const { name, release, schemaVersion, seenAt, stoppedAt } of daemons) {
    const isSilent = at.getTime() - seenAt.getTime() > MAX_SILENCE * 1000;
    if (isSilent || stoppedAt !== null) continue;
    const build = `${name} ${release} (${schemaVersion})`;
    counts.set(build, (counts.get(build) ?? 0) + 1);
  }
  const builds = [...counts].map(([build, count]) => (count === 1 ? build : `${count} ${build}`));
  return builds.length === 0 ? [] : [['Releases (schema)', builds.sort().join(', ')]];
}

function queueFacts({
  database,
  payments,
  deliveries,
  collection,
  sponsoring,
}: Status): [string, string][] {
  if (payments === null || deliveries === null) return [];
  const of = (name: string) =>
    database.connections?.find((process) => process.name === `billing ${name}`)?.count ?? 0;
  const judged = payments.judgedBy === 'chain' ? '' : " by the database's clock";
  const oldest = (seconds: number, count: number) =>
    count === 0 ? '' : `, the oldest for ${duration(seconds)}`;
  return [
    ['Connections', `serve ${of('serve')}, keeper ${of('keeper')}, dispatch ${of('dispatch')}`],
    ['Payments due', `${most(payments.due)}${oldest(payments.lateSeconds, payments.due)}${judged}`],
    ['in flight', `${most(payments.open)}${oldest(payments.oldestOpenSeconds, payments.open)}`],
    [
      'set back',
      `${most(payments.setBack)}${payments.setBack === 0 ? '' : `, up to ${payments.maxSetbacks} times in a row`}`,
    ],
    ['last payment', payments.lastPaymentAt?.toISOString() ?? 'none'],
    ...collectionFacts(collection),
    ...sponsoringFacts(sponsoring),
    ...costFacts(payments.failedOnChain),
    ['Deliveries due', `${most(deliveries.due)}${oldest(deliveries.lateSeconds, deliveries.due)}`],
    ['waiting', `${most(deliveries.pending)}, ${most(deliveries.retrying)} of them to be retried`],
    ['given up', `${most(deliveries.failed)} in the last two days`],
  ];
}

/**
 * Returns the line about keepers that wait after a failover of Postgres. Holds on collection have
 * no line here, because they are listed as problems.
 */
function collectionFacts(collection: Status['collection']): [string, string][] {
  const height = collection?.waitsForHeight ?? null;
  if (height === null) return [];
  return [
    ['signing waits', `until block height ${height.toString()} is finalized: Postgres failed over`],
  ];
}

/**
 * Returns the line about the wallet with the most failed payments on chain. The keeper paid the
 * network fees of these payments. `--json` lists more wallets.
 */
function costFacts([first]: NonNullable<Status['payments']>['failedOnChain']): [string, string][] {
  if (first === undefined) return [];
  const { failures, subscriberWallet } = first;
  return [['failed on chain', `most by ${subscriberWallet}: ${failures} in the last day`]];
}

function chainFacts(chain: Status['chain']): [string, string][] {
  if (chain === null)
    return [
      ['Chain', "not configured: SOLANA_RPC_URL; payments are judged by the database's clock"],
    ];
  return chain.endpoints.map(({ name, slot, lag, answeredMs, fault }, index) => [
    index === 0 ? 'Chain' : '',
    fault === null
      ? `${name} (${chain.cluster}): slot ${slot ?? 0}${lag === 0 ? '' : `, ${lag ?? 0} behind`}, answered in ${answeredMs ?? 0} ms`
      : `${name}: ${fault}`,
  ]);
}

function most(count: number): string {
  return count >= MAX_COUNTED ? `${MAX_COUNTED} or more` : String(count);
}

/** Formats the webhook endpoints that fail or have unfinished deliveries as a table. */
export function endpointTable(endpoints: NonNullable<Status['endpoints']>, paint: Paint): string {
  if (endpoints.length === 0) return 'No webhook endpoint has unfinished deliveries or fails.';
  return table(
    [
      'ENDPOINT',
      'APP',
      'PENDING',
      'RETRYING',
      'DUE',
      'LATE',
      'FAILING SINCE',
      'ERROR',
      'DISABLED',
      'URL',
    ],
    endpoints.map((endpoint) => [
      endpoint.endpointId,
      endpoint.appName,
      most(endpoint.pending),
      most(endpoint.retrying),
      most(endpoint.due),
      endpoint.due === 0 ? null : duration(endpoint.lateSeconds),
      endpoint.failingSince,
      endpoint.failingSince === null ? null : endpoint.lastError,
      endpoint.disabledAt,
      endpoint.url,
    ]),
    paint,
  ).trimEnd();
}
