// Reads the data of the deliveries screen from Postgres once a second. When a poll fails or times
// out, the screen shows the fault, and the next poll retries.
import {
  type DeliveryAttemptRow,
  countByStatus,
  findWholeDelivery,
  listAttempts,
  listAppNames,
  listReplaysOf,
  walkDeliveries,
  type LogFilters,
  type LoggedDelivery,
  type Walk,
  type WholeDelivery,
} from '../../db/delivering/deliveries.ts';
import type { Deadlined } from '../../db/postgres/deadline.ts';
import { createNotifier, DELIVERIES_QUEUED } from '../../db/postgres/notify.ts';
import type { SecretBox } from '../../domain/accounts/secrets.ts';
import { readLog, type LogQuery } from '../../domain/outbox/delivery-log.ts';
import { everything, planReplay, runReplay } from '../../domain/outbox/replay.ts';
import { messageOf } from '../../errors.ts';
import { signedHeaders, signingKeys } from '../../webhooks/sign.ts';
import type { DeliveriesSource, ListWatch } from '../terminal/deliveries-screen.tsx';
import type { ReplayStatus, ListView } from '../terminal/deliveries-state.ts';
import type { AttemptView, WholeItem } from '../terminal/delivery-lines.ts';
import type { Freshness, Polling } from '../terminal/poll.ts';
import { startPolling } from '../terminal/poll.ts';
import { record } from './recorded.ts';
import { describePlan, selectionInWords } from './replay-plan.ts';

// Number of rows read before the user scrolls.
const FIRST_ROWS = 100;
const APPS_SHOWN = 1000;

/**
 * Returns a source that reads from `database`. Without `secrets` the source cannot show signatures.
 */
export function openSource(
  database: Deadlined,
  secrets: SecretBox | undefined,
): DeliveriesSource & { close(): void } {
  const open = new Set<Polling>();
  const watching: typeof startPolling = (read, report) => {
    const started = startPolling(read, report);
    open.add(started);
    return {
      ...started,
      stop() {
        open.delete(started);
        started.stop();
      },
    };
  };

  return {
    watch: (filter, report) => watchList(database, watching, filter as LogQuery, report),
    watchOne(id, report) {
      let item: WholeItem | null | undefined;
      return watching(
        async () => {
          item = await database.ask(async (sql) => {
            const [delivery, attempts] = await Promise.all([
              findWholeDelivery(sql, id),
              listAttempts(sql, id),
            ]);
            return delivery === undefined ? null : wholeItem(delivery, attempts, secrets);
          });
          return false;
        },
        (freshness) => report({ item, ...freshness }),
      );
    },
    apps: () => database.ask((sql) => listAppNames(sql, APPS_SHOWN)),
    watchReplay: (ids, report) => watchReplay(database, watching, ids, report),
    previewReplay: (ids) => previewReplay(database, ids),
    close() {
      for (const each of open) each.stop();
    },
  };
}

/**
 * Reads a page of the delivery log every second. When the user scrolls, the page gets more rows.
 */
function watchList(
  database: Deadlined,
  watching: typeof startPolling,
  query: LogQuery,
  report: Parameters<DeliveriesSource['watch']>[1],
): ListWatch {
  let view: Omit<ListView, keyof Freshness> = { rows: [], more: false, readBackTo: null };
  let wanted = FIRST_ROWS;
  let next: string | null = null;
  let complete = false;
  const watch = watching(
    async (publish) => {
      // When the user scrolls near the end of the page, older rows are appended. Otherwise the
      // whole page is read again, starting at the newest row.
      const older = complete && next !== null && view.rows.length < wanted;
      const rows: LoggedDelivery[] = older ? (view.rows as LoggedDelivery[]).slice() : [];
      const limit = Math.max(wanted, view.rows.length) - rows.length;
      const walk = (filters: LogFilters, how: Walk) =>
        database.ask((sql) => walkDeliveries(sql, filters, how));
      let end: string | null = null;
      for await (const step of readLog(walk, query, {
        limit,
        ...(older && next !== null ? { before: next } : {}),
      })) {
        if (watch.stopped()) return false;
        rows.push(...step.rows);
        end = step.next;
        if (complete) continue;
        view = { rows: [...rows], more: end !== null, readBackTo: step.lookedBackTo };
        publish();
      }
      complete = true;
      next = end;
      view = { rows, more: next !== null, readBackTo: null };
      return next !== null && rows.length < wanted;
    },
    (freshness) => report({ ...view, ...freshness }),
  );
  return {
    ...watch,
    want(rows) {
      if (rows <= wanted) return;
      wanted = rows + FIRST_ROWS;
      watch.readNow();
    },
  };
}

/**
 * Plans a replay of the deliveries `ids`. Returns the plan as text and a function that runs the
 * replay.
 */
async function previewReplay(
  database: Deadlined,
  ids: string[],
): ReturnType<DeliveriesSource['previewReplay']> {
  const selection = { ...everything, ids };
  const plan = await database.ask((sql) => planReplay(sql, selection));
  const { interrupted, deliverable } = plan;
  return {
    count:
      interrupted === undefined ? deliverable : Math.max(0, interrupted.total - interrupted.queued),
    text: describePlan(plan),
    run: () =>
      database.ask(async (sql) => {
        await record(sql, 'deliveries replay', selectionInWords({ ids }, plan.deliverable), {});
        await runReplay(sql, selection, plan);
        const notifier = createNotifier(sql, DELIVERIES_QUEUED);
        notifier.notify();
        await notifier.flush();
        return listReplaysOf(sql, ids, plan.before);
      }),
  };
}

/** Polls the status of the deliveries `ids` every second until none of them is pending. */
function watchReplay(
  database: Deadlined,
  watching: typeof startPolling,
  ids: readonly string[],
  report: (status: ReplayStatus) => void,
): { stop(): void } {
  const watch = watching(
    async () => {
      const counts = await database.ask((sql) => countByStatus(sql, ids));
      const parts = counts.map(({ status, count }) => `${count} ${status}`).join(', ');
      const isOver = !counts.some(({ status }) => status === 'pending');
      report({ text: `Queued ${ids.length} again: ${parts}.`, isOver });
      if (isOver) watch.stop();
      return false;
    },
    () => undefined,
  );
  return watch;
}

function wholeItem(
  delivery: WholeDelivery,
  attempts: DeliveryAttemptRow[],
  secrets: SecretBox | undefined,
): WholeItem {
  const { merchantWallet, merchantName } = delivery;
  const headersOf = headers(delivery, secrets);
  const attemptLog: AttemptView[] = attempts.map((attempt) => ({
    ...attempt,
    headers: headersOf(attempt.startedAt),
  }));
  return {
    ...delivery,
    merchant: merchantName === null ? merchantWallet : `${merchantName} ${merchantWallet}`,
    attemptLog,
  };
}

/**
 * Returns a function that computes the headers of an attempt from its start time. Headers are not
 * stored. They depend only on the body, the secret and the start time.
 */
function headers(
  delivery: WholeDelivery,
  secrets: SecretBox | undefined,
): (startedAt: Date) => string[] | string {
  if (secrets === undefined) return () => 'The signature is not shown: ENCRYPTION_KEY is not set.';
  const { webhookId, eventId, body } = delivery;
  const keysOf = (sealed: Buffer) => signingKeys(secrets.open(sealed, webhookId));
  return (startedAt) => {
    const [newest, ...others] = secretsAt(delivery, startedAt);
    if (newest === undefined)
      return 'The signature is not shown: the secret was rotated twice since.';
    try {
      const keys = [keysOf(newest), others[0] && keysOf(others[0])] as const;
      return signedHeaders(keys, eventId, Math.floor(startedAt.getTime() / 1000), body);
    } catch (error) {
      return `The signature is not shown: ${messageOf(error)}.`;
    }
  };
}

/**
 * Returns the sealed secrets that signed an attempt started at `startedAt`, newest first. The list
 * is empty when later rotations removed those secrets.
 */
function secretsAt(
  { secret, previousSecret, previousSince, rotatedAt, previousUntil }: WholeDelivery,
  startedAt: Date,
): Buffer[] {
  if (rotatedAt === null || previousSecret === null || previousUntil === null) return [secret];
  if (startedAt >= rotatedAt)
    return startedAt < previousUntil ? [secret, previousSecret] : [secret];
  return previousSince === null || startedAt >= previousSince ? [previousSecret] : [];
}
