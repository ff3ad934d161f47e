// Feeds the screen of `billing sandbox` from the sandbox's database and chain.
import { createElement } from 'react';
import { eventTypes } from '../../db/delivering/events.ts';
import { listFlowPayments, listFlowWebhooks, readFlowTotals } from '../../db/operating/sandbox.ts';
import { withDeadline } from '../../db/postgres/deadline.ts';
import { secretBox } from '../../domain/accounts/secrets.ts';
import type { Sandbox } from '../../local/sandbox/start.ts';
import { openSource } from '../operate/deliveries-source.ts';
import { DeliveriesScreen } from '../terminal/deliveries-screen.tsx';
import { noFilter } from '../terminal/deliveries-state.ts';
import { startPolling } from '../terminal/poll.ts';
import {
  type Flow,
  SandboxScreen,
  type SandboxSource,
  type SandboxView,
  type SandboxCommand,
} from '../terminal/sandbox-screen.tsx';
import { showScreen } from '../terminal/screen.tsx';

/** The scenario's current step and outcome, as the screen shows them. */
export interface ScenarioProgress {
  step: string;
  outcome: SandboxView['outcome'];
}

// Number of rows read for each list, more than a screen can show.
const LISTED = 200;
/** Time limit of a query. */
const QUERY_TIMEOUT_MS = 5000;
const IDLE_MS = 250;

/**
 * Shows the screen until the user leaves or `signal` aborts. `showAccess` runs outside the screen,
 * on the normal terminal, and returns whether to show the screen again.
 */
export async function showSandbox(
  sandbox: Sandbox,
  progress: ScenarioProgress,
  wallets: string,
  showAccess: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const { databaseUrl, apiUrl } = sandbox.ready;
  const database = withDeadline(databaseUrl, {
    max: 3,
    name: 'billing sandbox screen',
    limitMs: QUERY_TIMEOUT_MS,
  });
  const source: SandboxSource = {
    apiUrl,
    pages: pagesOf(sandbox),
    wallets,
    watch(report) {
      let flow: Flow | null = null;
      return startPolling(
        async () => {
          const read = async (): Promise<Flow> => {
            const [totals, payments, webhooks, chainNow] = await Promise.all([
              database.ask(readFlowTotals),
              database.ask((sql) => listFlowPayments(sql, LISTED)),
              database.ask((sql) => listFlowWebhooks(sql, LISTED)),
              sandbox.chain.now(),
            ]);
            const chainTime = new Date(Number(chainNow) * 1000);
            return { totals, payments, webhooks, chainTime, restarts: restartsOf(sandbox) };
          };
          flow = await read();
          return false;
        },
        (freshness) => report({ flow, ...progress, ...freshness }),
        IDLE_MS,
      );
    },
  };
  try {
    while (!signal.aborted) {
      let command: SandboxCommand = 'leave';
      await showScreen(
        createElement(SandboxScreen, {
          source,
          onCommand: (chosen: SandboxCommand) => (command = chosen),
        }),
        signal,
      );
      switch (command as SandboxCommand) {
        case 'leave':
          return;
        case 'access':
          if (!(await showAccess())) return;
          break;
        case 'deliveries':
          await showDeliveries(database, sandbox, signal);
      }
    }
  } finally {
    database.close();
  }
}

const restartsOf = ({ processes }: Sandbox) =>
  Object.values(processes.daemons).reduce((sum, daemon) => sum + daemon.restarts(), 0);

const pagesOf = ({ pages }: Sandbox) =>
  [
    ['Subscribe', pages.subscribe],
    ['Account', pages.account],
    ['Dashboard', pages.dashboard],
  ] as const;

async function showDeliveries(
  database: Parameters<typeof openSource>[0],
  { processes }: Sandbox,
  signal: AbortSignal,
): Promise<void> {
  const source = openSource(database, secretBox([processes.encryptionKey]));
  try {
    await showScreen(
      createElement(DeliveriesScreen, { source, filter: noFilter, types: eventTypes }),
      signal,
    );
  } finally {
    source.close();
  }
}
