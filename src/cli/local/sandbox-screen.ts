// The screen of `billing sandbox`, with data from the sandbox's database and chain.
import { createElement } from 'react';
import { eventTypes } from '../../db/events.ts';
import { withDeadline } from '../../db/postgres/deadline.ts';
import { listFlowPayments, listFlowWebhooks, readFlowTotals } from '../../db/sandbox.ts';
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
  type Wish,
} from '../terminal/sandbox-screen.tsx';
import { showScreen } from '../terminal/screen.tsx';

/** Progress of the scenario, for the screen. */
export interface Story {
  act: string;
  outcome: SandboxView['outcome'];
}

// Rows per list: more than fit on a screen.
const LISTED = 200;
const LIMIT_MS = 5000;
const IDLE_MS = 250;

/**
 * Shows the screen until the user leaves or `signal` aborts. `showAccess` runs on the restored
 * terminal and returns whether to continue.
 */
export async function showSandbox(
  sandbox: Sandbox,
  story: Story,
  showAccess: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<void> {
  const { databaseUrl, apiUrl } = sandbox.ready;
  const database = withDeadline(databaseUrl, {
    max: 3,
    name: 'billing sandbox screen',
    limitMs: LIMIT_MS,
  });
  const source: SandboxSource = {
    apiUrl,
    watch(tell) {
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
            const restarts = Object.values(sandbox.processes.daemons).reduce(
              (sum, daemon) => sum + daemon.restarts(),
              0,
            );
            return {
              totals,
              payments,
              webhooks,
              chainTime: new Date(Number(chainNow) * 1000),
              restarts,
            };
          };
          flow = await read();
          return false;
        },
        (freshness) => tell({ flow, ...story, ...freshness }),
        IDLE_MS,
      );
    },
  };
  try {
    while (!signal.aborted) {
      let wish: Wish = 'leave';
      await showScreen(
        createElement(SandboxScreen, { source, onWish: (wanted: Wish) => (wish = wanted) }),
        signal,
      );
      switch (wish as Wish) {
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
