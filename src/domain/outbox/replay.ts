// Replays: each event is queued as a new delivery, with its own six attempts, to the live endpoint
// of the event's app.
import { findReplaced } from '../../db/endpoints.ts';
import type { Queryable, Sql, Transaction } from '../../db/postgres/connect.ts';
import type { Selection } from '../../db/replay-selection.ts';
import {
  countMatching,
  countUnsent,
  findOpenRun,
  insertEventReplay,
  insertReplay,
  insertRun,
  lockRequestedRun,
  lockRun,
  missingDeliveries,
  queueDeliveriesAgain,
  queuedMeanwhile,
  queueUnsent,
  readNow,
  sourcesExist,
  updateRun,
  type Matching,
  type ReplayRun,
  type Step,
} from '../../db/replays.ts';
import { OperatorError, ServiceError } from '../../errors.ts';

export type { Matching, ReplayRun, Selection };

/** The selection without any filter. */
export const everything: Selection = {
  ids: null,
  endpointId: null,
  appId: null,
  status: null,
  type: null,
  since: null,
  until: null,
};

/**
 * Queues the event of a delivery in any status again and returns the new delivery's id. The caller
 * has checked that the delivery belongs to the merchant, and wakes the dispatchers after its
 * commit. Throws a ServiceError: CONFLICT when the app has no live endpoint, NOT_FOUND when the
 * delivery was deleted meanwhile.
 */
export async function replayDelivery(sql: Queryable, deliveryId: string): Promise<string> {
  const id = await insertReplay(sql, deliveryId);
  if (id !== undefined) return id;
  if ((await missingDeliveries(sql, [deliveryId])).length > 0)
    throw new ServiceError('NOT_FOUND', 'There is no such delivery.');
  throw noEndpoint();
}

/**
 * Queues an event again, also one that was never sent, and returns the delivery's id. Throws a
 * ServiceError: CONFLICT when the app has no live endpoint.
 */
export async function replayEvent(sql: Queryable, eventId: string): Promise<string> {
  const id = await insertEventReplay(sql, eventId);
  if (id === undefined) throw noEndpoint();
  return id;
}

function noEndpoint(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The app has no webhook endpoint to send this to; create one first.',
  );
}

export interface ReplayPlan {
  matching: Matching[];
  /** Number of matches with a live endpoint. */
  deliverable: number;
  /** Rows created later are not part of the run. */
  before: string;
  /**
   * An unfinished run of the same selection, which the replay resumes. `matching` does not show how
   * much of it is already queued.
   */
  interrupted: ReplayRun | undefined;
}

/**
 * Counts the events that a replay would queue. Throws an OperatorError when a delivery, webhook
 * endpoint or app does not exist.
 */
export async function planReplay(sql: Sql, selection: Selection): Promise<ReplayPlan> {
  const exists = await sourcesExist(sql, selection);
  if (!exists.endpoint)
    throw new OperatorError(`There is no webhook endpoint ${selection.endpointId ?? ''}.`);
  if (!exists.app) throw new OperatorError(`There is no app ${selection.appId ?? ''}.`);
  if (selection.ids !== null) {
    const missing = await missingDeliveries(sql, selection.ids);
    if (missing.length > 0)
      throw new OperatorError(
        `There is no delivery ${missing.slice(0, 5).join(', ')}${missing.length > 5 ? ', ...' : ''}.`,
      );
  }
  const interrupted = await findOpenRun(sql, canonical(selection));
  const before = interrupted?.until ?? (await readNow(sql));
  const matching = [
    ...(selection.status === 'unsent' ? [] : await countMatching(sql, selection, before)),
    ...(takesUnsent(selection) ? await countUnsent(sql, selection, before) : []),
  ];
  return {
    matching,
    deliverable: matching.reduce((sum, { deliverable }) => sum + deliverable, 0),
    before,
    interrupted,
  };
}

export interface ReplayOptions {
  /** Rows per transaction. */
  batch?: number;
  /** Called after each commit. */
  onProgress?: (queued: number, total: number) => void;
  /** Stops after the current batch. */
  signal?: AbortSignal;
}

const BATCH_ROWS = 1000;

/**
 * Queues everything that `plan` counted, in batches; each batch moves the run's cursor in the same
 * transaction. After an interruption the same selection resumes at the cursor. Nothing is queued
 * twice, even by concurrent runs or by two runs planned at the same time. Returns the number queued
 * so far.
 */
export async function runReplay(
  sql: Sql,
  selection: Selection,
  plan: ReplayPlan,
  { batch = BATCH_ROWS, onProgress, signal }: ReplayOptions = {},
): Promise<{ queued: number; finished: boolean }> {
  const open = await startReplay(sql, selection, plan, null);
  let { queued } = open;
  while (signal?.aborted !== true) {
    const step = await sql.begin(async (tx) => {
      const run = await lockRun(tx, open.id);
      return run === undefined ? undefined : queueStep(tx, run, batch);
    });
    if (step === undefined) return { queued, finished: true };
    queued = step.queued;
    onProgress?.(queued, open.total);
    if (step.finished) return { queued, finished: true };
  }
  return { queued, finished: false };
}

/**
 * Starts the run of a plan, or returns the open run of the same selection. `appId`: the app, when
 * its merchant starts the run through the API.
 */
export function startReplay(
  sql: Queryable,
  selection: Selection,
  plan: ReplayPlan,
  appId: string | null,
): Promise<ReplayRun> {
  return insertRun(sql, {
    appId,
    selection: canonical(selection),
    until: plan.before,
    total: plan.deliverable,
  });
}

/**
 * Queues one batch of the runs started through the API; a loop of `serve` calls it. Returns whether
 * more may be left.
 */
export function workOnReplays(sql: Sql, batch = BATCH_ROWS): Promise<boolean> {
  return sql.begin(async (tx) => {
    const run = await lockRequestedRun(tx);
    if (run === undefined) return false;
    await queueStep(tx, run, batch);
    return true;
  });
}

/**
 * Requeues for a new endpoint the unfinished deliveries of the app's previous endpoint, if that was
 * deleted within seven days: those that the deletion cancelled, and those that a dispatcher has
 * claimed. Runs in the transaction that stores the endpoint. Returns how many were queued.
 */
export async function requeueForNext(
  tx: Transaction,
  endpoint: { id: string; appId: string },
): Promise<number> {
  const replaced = await findReplaced(tx, endpoint);
  if (replaced === undefined) return 0;
  let total = 0;
  // A claimed delivery whose request fails moves from pending to cancelled and never back, so this
  // order misses none. `until` is read again for the second round, so that a replay from the first
  // round counts as newer and the delivery is not queued twice.
  for (const status of ['pending', 'cancelled']) {
    const selection = { ...everything, endpointId: replaced, status };
    const until = await readNow(tx);
    let cursor: string | null = null;
    for (let seen = BATCH_ROWS; seen === BATCH_ROWS;) {
      const step: Step = await queueDeliveriesAgain(tx, selection, { cursor, until }, BATCH_ROWS);
      ({ seen, last: cursor } = step);
      total += step.queued;
    }
  }
  return total;
}

/** Queues the next batch of a locked run. */
async function queueStep(
  tx: Transaction,
  run: ReplayRun,
  batch: number,
): Promise<{ queued: number; finished: boolean }> {
  const selection = selectionOf(run);
  const meanwhile = run.cursor === null ? await queuedMeanwhile(tx, run) : undefined;
  if (meanwhile !== undefined) {
    await updateRun(tx, run.id, { stage: run.stage, cursor: null, queued: 0, finished: true });
    return { queued: meanwhile, finished: true };
  }
  const fromDeliveries = run.stage === 'deliveries' && selection.status !== 'unsent';
  const {
    seen,
    queued: added,
    last,
  } = await (fromDeliveries ? queueDeliveriesAgain : queueUnsent)(tx, selection, run, batch);
  const exhausted = seen < batch;
  const goesOn = fromDeliveries && exhausted && takesUnsent(selection);
  await updateRun(tx, run.id, {
    stage: goesOn || !fromDeliveries ? 'events' : 'deliveries',
    cursor: goesOn ? null : (last ?? run.cursor),
    queued: added,
    finished: exhausted && !goesOn,
  });
  return { queued: run.queued + added, finished: exhausted && !goesOn };
}

/**
 * Whether a selection includes events that were never queued: only a selection by app, and without
 * another status.
 */
function takesUnsent({ appId, status }: Selection): boolean {
  return appId !== null && (status === null || status === 'unsent');
}

/** Parses the text that `canonical` writes. */
function selectionOf({ selection }: ReplayRun): Selection {
  const { since, until, ...rest } = JSON.parse(selection) as Selection & {
    since: string | null;
    until: string | null;
  };
  const time = (text: string | null) => (text === null ? null : new Date(text));
  return { ...rest, since: time(since), until: time(until) };
}

function canonical({ ids, endpointId, appId, status, type, since, until }: Selection): string {
  return JSON.stringify({
    ids: ids === null ? null : [...new Set(ids)].sort(),
    endpointId,
    appId,
    status,
    type,
    since,
    until,
  });
}
