// Replays. A replay queues an event again, as a new delivery with six attempts to the current
// endpoint of the event's app. If the selection has the status `retrying`, nothing is queued.
// Instead, pending deliveries that failed before are made due now.
import { enableEndpoint, findReplaced } from '../../db/delivering/endpoints.ts';
import type { Selection } from '../../db/delivering/replay-selection.ts';
import {
  bringForward,
  countFinishedRuns,
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
} from '../../db/delivering/replays.ts';
import type { Queryable, Sql, Transaction } from '../../db/postgres/connect.ts';
import { OperatorError, ServiceError } from '../../errors.ts';
import { countMissed, countReplay, type Requester } from './replay-quota.ts';

export type { Matching, ReplayRun, Selection };

/** A selection without any filter, which matches all deliveries. */
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
 * Queues the event of a delivery again, whatever the delivery's status, and returns the new
 * delivery's id. The caller checks that the merchant owns the delivery, and wakes the dispatchers
 * after the commit. Throws CONFLICT if the app has no endpoint or its quota of replays is spent.
 * Throws NOT_FOUND if the delivery was deleted.
 */
export async function replayDelivery(
  tx: Transaction,
  deliveryId: string,
  requester: Requester,
): Promise<string> {
  const id = await insertReplay(tx, deliveryId);
  if (id !== undefined) {
    await countReplay(tx, requester, 1);
    return id;
  }
  if ((await missingDeliveries(tx, [deliveryId])).length > 0)
    throw new ServiceError('NOT_FOUND', 'There is no such delivery.');
  throw noEndpoint();
}

/**
 * Queues an event for delivery, even if the event was sent before. Returns the id of the new
 * delivery. Throws CONFLICT when the app has no endpoint or its daily quota of replays is used up.
 */
export async function replayEvent(
  tx: Transaction,
  eventId: string,
  requester: Requester,
): Promise<string> {
  const id = await insertEventReplay(tx, eventId);
  if (id === undefined) throw noEndpoint();
  await countReplay(tx, requester, 1);
  return id;
}

function noEndpoint(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The app has no webhook endpoint to send this to: create one, or enable the disabled one.',
  );
}

export interface ReplayPlan {
  matching: Matching[];
  /** Number of matching events whose app has an endpoint to which they can be delivered. */
  deliverable: number;
  /**
   * Deliveries and events that are created after this time (as text) are not part of the replay.
   */
  before: string;
  /** Number of finished runs with the same selection. */
  finishedBefore: number;
  /**
   * An earlier, unfinished run with the same selection, which the replay resumes. `matching`
   * includes the events that the earlier run has already queued.
   */
  interrupted: ReplayRun | undefined;
}

/**
 * Counts the events that a replay of `selection` would queue. Throws an OperatorError when a
 * delivery, webhook endpoint or app in the selection does not exist.
 */
export async function planReplay(sql: Queryable, selection: Selection): Promise<ReplayPlan> {
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
  const finishedBefore = await countFinishedRuns(sql, canonical(selection));
  const before = interrupted?.until ?? (await readNow(sql));
  const matching = [
    ...(selection.status === 'unsent' ? [] : await countMatching(sql, selection, before)),
    ...(takesUnsent(selection) ? await countUnsent(sql, selection, before) : []),
  ];
  return {
    matching,
    deliverable: matching.reduce((sum, { deliverable }) => sum + deliverable, 0),
    before,
    finishedBefore,
    interrupted,
  };
}

export interface ReplayOptions {
  /** Number of deliveries or events per database transaction. */
  batch?: number;
  /** Called after each batch is committed, with the number of events queued so far and in total. */
  onProgress?: (queued: number, total: number) => void;
  /** When this signal aborts, the replay stops after the current batch. */
  signal?: AbortSignal;
}

const BATCH_ROWS = 1000;

/**
 * Queues all events that `plan` counted, in batches. Each batch stores the run's cursor in the same
 * transaction. An interrupted replay therefore resumes at the cursor, and no event is queued twice,
 * even by concurrent runs. Resolves with the number of events queued so far.
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
 * Starts a run for `plan`, or returns the unfinished run with the same selection. `appId` is the
 * app for which a merchant starts the run through the API; otherwise it is null.
 */
function startReplay(
  sql: Queryable,
  selection: Selection,
  plan: ReplayPlan,
  appId: string | null,
): Promise<ReplayRun> {
  return insertRun(sql, {
    appId,
    selection: canonical(selection),
    until: plan.before,
    finishedBefore: plan.finishedBefore,
    total: plan.deliverable,
  });
}

/**
 * Starts a replay run for a merchant, and counts the deliveries that the run queues. Nothing is
 * counted if the selection has the status `retrying`, because such a run queues no new deliveries.
 * Nothing is counted either if the run continues an interrupted run.
 */
export async function requestReplay(
  tx: Transaction,
  selection: Selection,
  plan: ReplayPlan,
  requester: Requester,
): Promise<ReplayRun> {
  if (plan.interrupted === undefined && selection.status !== 'retrying')
    await countReplay(tx, requester, plan.deliverable);
  return startReplay(tx, selection, plan, requester.appId);
}

/**
 * Queues one batch of a run that was started through the API. A loop of `serve` calls this
 * function. Resolves with false when no such run is open.
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
 * If the app's previous endpoint was deleted in the last seven days, queues the unfinished
 * deliveries of that endpoint for the new endpoint. Runs in the transaction that stores the new
 * endpoint. Resolves with the number of queued deliveries.
 */
export async function requeueForNext(
  tx: Transaction,
  endpoint: { id: string; appId: string },
  requester: Requester,
): Promise<number> {
  const replaced = await findReplaced(tx, endpoint);
  if (replaced === undefined) return 0;
  let total = 0;
  // Round 1 queues pending deliveries, round 2 cancelled ones. If the request of a pending delivery
  // fails during round 1, the delivery becomes cancelled and round 2 finds it. Round 2 skips the
  // events that round 1 queued, because only the newest delivery of an event is selected, and
  // theirs belongs to the new endpoint.
  for (const status of ['pending', 'cancelled']) {
    // Deliveries that an operator cancelled while the previous endpoint was in use are not queued.
    const finishedSince = status === 'cancelled' ? replaced.endedAt : null;
    const selection = { ...everything, endpointId: replaced.id, status, finishedSince };
    const until = await readNow(tx);
    let cursor: string | null = null;
    for (let seen = BATCH_ROWS; seen === BATCH_ROWS;) {
      const step: Step = await queueDeliveriesAgain(tx, selection, { cursor, until }, BATCH_ROWS);
      ({ seen, last: cursor } = step);
      total += step.queued;
    }
  }
  await countMissed(tx, requester, total);
  return total;
}

/** Queues the next batch of a run. The caller has locked the row of the run. */
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
  } = await stepOf(fromDeliveries, selection)(tx, selection, run, batch);
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

function stepOf(fromDeliveries: boolean, { status }: Selection): typeof queueUnsent {
  if (!fromDeliveries) return queueUnsent;
  return status === 'retrying' ? bringForward : queueDeliveriesAgain;
}

/**
 * Returns whether a selection includes events that were never queued for delivery: it selects an
 * app, and either the status `unsent` or all statuses.
 */
function takesUnsent({ appId, status }: Selection): boolean {
  return appId !== null && (status === null || status === 'unsent');
}

/** Parses the selection of a run, which canonical() has written as text. */
function selectionOf({ selection }: ReplayRun): Selection {
  const {
    since,
    until,
    finishedSince = null,
    ...rest
  } = JSON.parse(selection) as Selection & {
    since: string | null;
    until: string | null;
    finishedSince?: string | null;
  };
  const time = (text: string | null) => (text === null ? null : new Date(text));
  return { ...rest, since: time(since), until: time(until), finishedSince: time(finishedSince) };
}

function canonical(selection: Selection): string {
  const { ids, endpointId, appId, status, type, since, until, finishedSince = null } = selection;
  return JSON.stringify({
    ids: ids === null ? null : [...new Set(ids)].sort(),
    endpointId,
    appId,
    status,
    type,
    since,
    until,
    ...(finishedSince !== null && { finishedSince }),
  });
}

/**
 * A transaction that begins before an endpoint is disabled and commits afterwards stores its events
 * without deliveries. The replay therefore also covers this many milliseconds before the disabling.
 */
const OVERLAP_MS = 60_000;

/**
 * Enables an endpoint and starts runs that queue the missed events: (1) those of the deliveries
 * that were cancelled when the endpoint was disabled, and (2) those created since then. Resolves
 * with the number of missed events, or undefined if the endpoint was not disabled. The caller wakes
 * the replay loop of `serve`.
 */
export async function enableWithReplay(
  tx: Transaction,
  { id, appId }: { id: string; appId: string },
  requester: Requester,
): Promise<number | undefined> {
  const disabledAt = await enableEndpoint(tx, id);
  if (disabledAt === undefined) return undefined;
  const since = new Date(disabledAt.getTime() - OVERLAP_MS);
  let missed = 0;
  for (const selection of [
    { ...everything, endpointId: id, status: 'cancelled', finishedSince: disabledAt },
    { ...everything, appId, status: 'unsent', since },
  ]) {
    const plan = await planReplay(tx, selection);
    missed += plan.deliverable;
    if (plan.deliverable > 0) await startReplay(tx, selection, plan, appId);
  }
  await countMissed(tx, requester, missed);
  return missed;
}
