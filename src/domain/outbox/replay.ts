// Replays: an event is queued again, as a new delivery to the current endpoint of its app. The new
// delivery gets six attempts of its own.
import { enableEndpoint, findReplaced } from '../../db/endpoints.ts';
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
 * Queues the event of a delivery again, whatever the delivery's status. Returns the id of the new
 * delivery. The caller checks that the delivery belongs to the merchant, and wakes the dispatchers
 * after the commit. Throws a ServiceError: CONFLICT if the app has no endpoint, NOT_FOUND if the
 * delivery was deleted.
 */
export async function replayDelivery(sql: Queryable, deliveryId: string): Promise<string> {
  const id = await insertReplay(sql, deliveryId);
  if (id !== undefined) return id;
  if ((await missingDeliveries(sql, [deliveryId])).length > 0)
    throw new ServiceError('NOT_FOUND', 'There is no such delivery.');
  throw noEndpoint();
}

/**
 * Queues an event for delivery, even if it was sent before. Returns the id of the new delivery.
 * Throws a ServiceError (CONFLICT) when the app has no endpoint.
 */
export async function replayEvent(sql: Queryable, eventId: string): Promise<string> {
  const id = await insertEventReplay(sql, eventId);
  if (id === undefined) throw noEndpoint();
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
   * Upper bound of the ids. Deliveries and events that are created later are not part of the
   * replay.
   */
  before: string;
  /**
   * An earlier, unfinished run with the same selection. The replay resumes this run. `matching`
   * also counts the events that this run has already queued.
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
 * transaction, so an interrupted replay with the same selection resumes at the cursor. No event is
 * queued twice, even by concurrent runs. Resolves with the number of events queued so far.
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
 * When an app gets a new endpoint within seven days after its previous endpoint was deleted, queues
 * the unfinished deliveries of the previous endpoint for the new endpoint. The deletion cancelled
 * these deliveries, or a dispatcher still has a claim on them. Runs in the transaction that stores
 * the new endpoint. Resolves with the number of queued deliveries.
 */
export async function requeueForNext(
  tx: Transaction,
  endpoint: { id: string; appId: string },
): Promise<number> {
  const replaced = await findReplaced(tx, endpoint);
  if (replaced === undefined) return 0;
  let total = 0;
  // Pending deliveries are queued before cancelled ones. A claimed delivery whose request fails
  // moves from pending to cancelled and never back, so this order misses no delivery. Each round
  // reads `until` again, so deliveries that the first round queued are newer than `until` of the
  // second round. No event is therefore queued twice.
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
 * Events are queued again from this many milliseconds before the endpoint was disabled. A
 * transaction may begin before the disabling and commit afterwards, so its events are older than
 * the disabling but have no delivery.
 */
const OVERLAP_MS = 60_000;

/**
 * Enables an endpoint and starts runs that queue (1) the deliveries that were cancelled when the
 * endpoint was disabled, and (2) the events created since then. Resolves with the number of events;
 * undefined when the endpoint was not disabled. The caller wakes the replay loop of `serve`.
 */
export async function enableWithReplay(
  tx: Transaction,
  { id, appId }: { id: string; appId: string },
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
  return missed;
}
