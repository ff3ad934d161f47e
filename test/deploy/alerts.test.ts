// Each fault fires exactly its alert, and none fires in normal operation: by this project's evaluation, and by promtool if it is installed.
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { readSamples } from '../fixtures/promql.ts';
import { promql, type Series } from '../fixtures/promql-value.ts';
import { installed } from '../fixtures/tools.ts';

const execute = promisify(execFile);
const rules = fileURLToPath(new URL('../../deploy/prometheus/alerts.yaml', import.meta.url));

// An hour by the minute, in promtool's notation: a value, or a start and the increase per minute.
const level = (value: number) => `${value}+0x60`;
const growing = (each: number) => `0+${each}x60`;

const well: Record<string, string> = {
  ...Object.fromEntries(
    ['serve', 'keeper', 'dispatch'].map((daemon) => [
      `billing_ready{daemon="${daemon}"}`,
      level(1),
    ]),
  ),
  'billing_daemons_lost{daemon="keeper"}': level(0),
  'billing_loop_failures_total{daemon="keeper",loop="settling",cause="other"}': level(1),
  'billing_loop_failures_total{daemon="keeper",loop="settling",cause="chain"}': growing(30),
  'billing_postgres_connections_dropped_total{daemon="serve"}': level(0),
  'billing_undecipherable_secrets{daemon="dispatch"}': level(0),
  'nodejs_eventloop_lag_p99_seconds{daemon="serve"}': level(0.01),
  billing_due_oldest_seconds: level(3),
  billing_attempts_open_oldest_seconds: level(5),
  'billing_keeper_alerts_total{reason="not_a_puller"}': level(0),
  'billing_keeper_alerts_total{reason="keeper_out_of_sol"}': '0x50 1x10',
  'billing_collection_held{scope="all"}': level(0),
  'billing_collection_held{scope="timeline"}': '0x20 1x5 0x35',
  'billing_payments_total{outcome="succeeded",source="keeper"}': growing(10),
  'billing_payments_total{outcome="succeeded",source="foreign"}': level(0),
  'billing_payments_total{outcome="expired",source="keeper",instance="one"}': level(0),
  'billing_payments_total{outcome="expired",source="keeper",instance="two"}': '0x30 1x30',
  'billing_merchant_lamports_total{merchant="a",outcome="landed"}': growing(100_000),
  'billing_merchant_lamports_total{merchant="a",outcome="failed"}': growing(5000),
  'billing_payments_cents_total{kind="fee"}': growing(10),
  'billing_payments_cents_total{kind="fee_owed"}': level(0),
  billing_failed_transaction_lamports_total: growing(2000),
  billing_lamports_per_payment_sum: growing(5360),
  'billing_keeper_sol{keeper="a"}': level(2),
  'billing_keeper_sol{keeper="b"}': level(3),
  billing_keeper_rpc_reachable: level(1),
  'billing_keeper_endpoint_up{endpoint="a"}': level(1),
  'billing_keeper_endpoint_up{endpoint="b"}': level(1),
  'billing_keeper_endpoint_lag_slots{endpoint="a"}': level(0),
  'billing_keeper_endpoint_lag_slots{endpoint="b"}': level(2),
  'billing_rpc_calls_total{endpoint="a",outcome="ok"}': growing(100),
  'billing_rpc_calls_total{endpoint="a",outcome="refused"}': growing(50),
  'billing_rpc_calls_total{endpoint="a",outcome="timeout"}': growing(1),
  'billing_keeper_unreadable_transactions_total{reason="version"}': level(0),
  billing_webhook_oldest_due_seconds: level(1),
  'billing_webhook_attempts_total{outcome="delivered",answer="2xx"}': growing(60),
  'billing_webhook_attempts_total{outcome="retried",answer="5xx"}': growing(6),
  'billing_webhook_attempts_total{outcome="failed",answer="5xx"}': level(0),
  billing_webhook_stale_outcomes_total: level(0),
  'billing_default_partition_rows{table="events"}': level(0),
  'billing_http_request_duration_seconds_count{route="/a",status="200"}': growing(600),
  'billing_http_request_duration_seconds_count{route="/a",status="500"}': growing(1),
  'billing_http_request_duration_seconds_bucket{route="/a",le="0.1"}': growing(600),
  'billing_http_request_duration_seconds_bucket{route="/a",le="10"}': growing(601),
  'billing_http_request_duration_seconds_bucket{route="/a",le="+Inf"}': growing(601),
  // An export takes as long as it takes.
  'billing_http_request_duration_seconds_bucket{route="/a/export",le="0.1"}': level(0),
  'billing_http_request_duration_seconds_bucket{route="/a/export",le="10"}': growing(60),
  'billing_http_request_duration_seconds_bucket{route="/a/export",le="+Inf"}': growing(60),
};

/** The faulty series by alert; null is a missing series. */
const troubles: Record<string, Record<string, string | null>> = {
  BillingDaemonAbsent: { 'billing_ready{daemon="dispatch"}': null },
  BillingDaemonNotReady: { 'billing_ready{daemon="keeper"}': level(0) },
  BillingDaemonRestarting: { 'billing_daemons_lost{daemon="keeper"}': level(3) },
  BillingLoopFailing: {
    'billing_loop_failures_total{daemon="keeper",loop="settling",cause="other"}': growing(30),
  },
  BillingPostgresSilent: {
    'billing_postgres_connections_dropped_total{daemon="serve"}': '0x57 2x3',
  },
  BillingSecretsUndecipherable: { 'billing_undecipherable_secrets{daemon="dispatch"}': level(1) },
  BillingEventLoopBusy: { 'nodejs_eventloop_lag_p99_seconds{daemon="serve"}': level(0.8) },
  BillingPaymentsLate: { billing_due_oldest_seconds: level(1200) },
  BillingPaymentsUnsettled: { billing_attempts_open_oldest_seconds: level(1200) },
  BillingPaymentsExpiring: {
    'billing_payments_total{outcome="expired",source="keeper",instance="one"}': '0x40 1x20',
  },
  BillingTransactionsFailing: { billing_failed_transaction_lamports_total: growing(5000) },
  BillingCollectionRefused: { 'billing_keeper_alerts_total{reason="not_a_puller"}': '0x55 1x5' },
  BillingCollectionHeld: { 'billing_collection_held{scope="all"}': level(1) },
  BillingFeesOwed: { 'billing_payments_cents_total{kind="fee_owed"}': '0x30 5x30' },
  BillingMerchantCostsSol: {
    'billing_merchant_lamports_total{merchant="a",outcome="failed"}': growing(20_000),
  },
  BillingForeignPull: {
    'billing_payments_total{outcome="succeeded",source="foreign"}': '0x30 1x30',
  },
  BillingKeeperOutOfSol: { 'billing_keeper_sol{keeper="b"}': level(0.004) },
  BillingKeeperLowOnSol: { 'billing_keeper_sol{keeper="b"}': level(0.05) },
  BillingChainUnreachable: { billing_keeper_rpc_reachable: level(0) },
  BillingRpcEndpointDown: { 'billing_keeper_endpoint_up{endpoint="b"}': level(0) },
  BillingRpcEndpointBehind: { 'billing_keeper_endpoint_lag_slots{endpoint="b"}': level(400) },
  BillingRpcErrors: { 'billing_rpc_calls_total{endpoint="a",outcome="timeout"}': growing(100) },
  BillingTransactionsUnreadable: {
    'billing_keeper_unreadable_transactions_total{reason="version"}': '0x30 1x30',
  },
  BillingWebhooksLate: { billing_webhook_oldest_due_seconds: level(300) },
  BillingWebhooksFailing: {
    'billing_webhook_attempts_total{outcome="retried",answer="5xx"}': growing(600),
  },
  BillingWebhooksGivenUp: {
    'billing_webhook_attempts_total{outcome="failed",answer="5xx"}': '0x30 1x30',
  },
  BillingWebhooksSentTwice: { billing_webhook_stale_outcomes_total: '0x50 3x10' },
  BillingDefaultPartition: { 'billing_default_partition_rows{table="events"}': level(1) },
  BillingApiErrors: {
    'billing_http_request_duration_seconds_count{route="/a",status="500"}': growing(60),
  },
  BillingApiSlow: {
    'billing_http_request_duration_seconds_bucket{route="/a",le="0.1"}': growing(500),
  },
};

void t.test('every alert has a trouble that it is tried with', async (t) => {
  const { groups } = parse(await readFile(rules, 'utf8')) as {
    groups: { rules: { alert: string }[] }[];
  };
  t.same(
    Object.keys(troubles),
    groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)),
  );
  for (const [alert, changes] of Object.entries(troubles))
    for (const series of Object.keys(changes))
      t.ok(Object.hasOwn(well, series), `${alert}: ${series}`);
});

const sol = (values: string) => ({ 'billing_keeper_sol{keeper="a"}': values });
const expired = (one: string, two: string) => ({
  'billing_payments_total{outcome="expired",source="keeper",instance="one"}': one,
  'billing_payments_total{outcome="expired",source="keeper",instance="two"}': two,
});

interface Scenario {
  name: string;
  series: Record<string, string | null>;
  firing: string[];
}

const scenario = (
  name: string,
  changes: Record<string, string | null>,
  firing: string[],
): Scenario => ({ name, series: { ...well, ...changes }, firing });
const scenarios = [
  scenario('all is well', {}, []),
  scenario('SOL for two hours', sol('20-0.1x60'), ['BillingKeeperLowOnSol']),
  scenario('a withdrawal of SOL', sol('100x40 3x20'), []),
  scenario('a refill of SOL', sol('3x30 100x30'), []),
  scenario('SOL for a day', sol('150-0.1x60'), []),
  // Two expired payments may be from one keeper or two; a single expired payment does not alert.
  scenario('two expired payments of one keeper', expired('0x20 1x10 2x30', level(0)), [
    'BillingPaymentsExpiring',
  ]),
  scenario('one expired payment', expired('0x20 1x40', level(0)), []),
  ...Object.entries(troubles).map(([alert, changes]) => scenario(alert, changes, [alert])),
];

/** promtool's notation of a series, by the minute. */
function pointsOf(values: string): Series['points'] {
  return values
    .split(' ')
    .flatMap((part) => {
      const [, start = '', step = '0', count = '0'] =
        /^([\d.]+)([+-][\d.]+)?x(\d+)$/.exec(part) ?? [];
      return Array.from(
        { length: Number(count) + 1 },
        (_, n) => Number(start) + n * Number(step || 0),
      );
    })
    .map((value, minute) => ({ at: minute * 60, value }));
}

void t.test(
  'no alert fires in normal operation, and each fault fires exactly its alert',
  async (t) => {
    const { groups } = parse(await readFile(rules, 'utf8')) as {
      groups: { rules: { alert: string; expr: string; for?: string }[] }[];
    };
    const alerts = groups
      .flatMap(({ rules }) => rules)
      .map(({ alert, expr, for: wait = '0s' }) => ({
        alert,
        holds: promql(expr),
        wait: wait.endsWith('m') ? Number.parseInt(wait, 10) * 60 : Number.parseInt(wait, 10),
      }));
    const end = 3600;
    for (const { name, series, firing } of scenarios) {
      const recorded = Object.entries(series).flatMap(([text, values]) =>
        values === null
          ? []
          : readSamples(`${text} 0`).map((sample) => ({ ...sample, points: pointsOf(values) })),
      );
      const found = alerts.filter(({ holds, wait }) => {
        for (let at = end; at >= end - wait; at -= 60)
          if (holds(recorded, at).length === 0) return false;
        return true;
      });
      t.same(
        found.map(({ alert }) => alert),
        firing,
        name,
      );
    }
  },
);

void t.test('the same by promtool', async (t) => {
  const promtool = await installed(t, 'promtool');
  if (promtool === undefined) return;
  const tests = scenarios.map(({ name, series, firing }) => ({
    name,
    interval: '1m',
    input_series: Object.entries(series)
      .filter(([, values]) => values !== null)
      .map(([series, values]) => ({ series, values })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '60m',
        exp_samples: firing.map((alertname) => ({
          labels: `{alertname="${alertname}"}`,
          value: 1,
        })),
      },
    ],
  }));
  const file = join(t.testdir(), 'tests.yaml');
  await writeFile(file, stringify({ rule_files: [rules], evaluation_interval: '1m', tests }));
  const { stdout, stderr } = await execute(promtool, ['test', 'rules', file]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  t.match(stdout, /SUCCESS/, stdout + stderr);
});
