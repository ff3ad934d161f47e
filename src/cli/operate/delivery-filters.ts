// Parses the flags of `billing deliveries` and `billing replay` into filters. Each error is an
// OperatorError (exit code 2) that states the expected form.
import type { DeliveryRow } from '../../db/delivering/deliveries.ts';
import { type EventType, eventTypes } from '../../db/delivering/events.ts';
import type { LogQuery } from '../../domain/outbox/delivery-log.ts';
import type { Selection } from '../../domain/outbox/replay.ts';
import { OperatorError } from '../../errors.ts';
import { parseId, parseTime } from '../arguments.ts';
import type { DeveloperFlags } from '../session.ts';

/** The flags of a command that uses the database or the API. */
export interface ApiFlags extends DeveloperFlags {
  api?: boolean;
}

interface FilterFlags extends ApiFlags {
  status?: string;
  webhook?: string;
  type?: string;
  since?: string;
  until?: string;
}

export interface DeliveriesFlags extends FilterFlags {
  limit?: number;
}

export interface ReplayFlags extends FilterFlags {
  reason?: string;
  dryRun?: boolean;
  yes?: boolean;
}

const DELIVERY_STATUSES = [
  'pending',
  'delivered',
  'failed',
  'cancelled',
] as const satisfies readonly DeliveryRow['status'][];
const REPLAY_STATUSES = [...DELIVERY_STATUSES, 'retrying', 'unsent'] as const;

/** Parses the filters of `billing deliveries`. */
export function parseQuery({
  status,
  app,
  webhook,
  type,
  since,
  until,
}: DeliveriesFlags): LogQuery & { type: EventType | null } {
  const query = {
    status: status === undefined ? null : parseStatus(status, DELIVERY_STATUSES),
    appId: app === undefined ? null : parseId(app),
    endpointId: webhook === undefined ? null : parseId(webhook),
    type: type === undefined ? null : parseType(type),
    since: parseTime('--since', since),
    until: parseTime('--until', until),
  };
  if (query.since !== null && query.until !== null && query.since >= query.until)
    throw new OperatorError('--since must be before --until.', 2);
  return query;
}

/**
 * Parses the ids and flags that select deliveries for `billing replay`. Over the API a replay is
 * limited to one app, and --app is optional when the merchant has only one app.
 */
export function parseSelection(
  ids: string[],
  { webhook, app, status: wanted, type, since, until }: ReplayFlags,
  overApi = false,
): Selection & { status: (typeof REPLAY_STATUSES)[number] | null; type: EventType | null } {
  const filtered = [webhook, overApi ? undefined : app, wanted, type, since, until].some(
    (filter) => filter !== undefined,
  );
  if (ids.length > 0 && filtered)
    throw new OperatorError('Give delivery ids or filters, not both.', 2);
  if (overApi && webhook !== undefined)
    throw new OperatorError(
      'Over the API a replay selects by app: use --app instead of --webhook.',
      2,
    );
  if (!overApi && ids.length === 0 && (webhook === undefined) === (app === undefined)) {
    throw new OperatorError(
      'Say what to replay: delivery ids, or --webhook <id>, or --app <id>.',
      2,
    );
  }
  const status = wanted === undefined ? null : parseStatus(wanted, REPLAY_STATUSES);
  if (status === 'unsent' && app === undefined && !overApi)
    throw new OperatorError(
      '--status unsent needs --app: an event that was never sent has no webhook.',
      2,
    );
  return {
    ids: ids.length === 0 ? null : [...new Set(ids.map(parseId))],
    endpointId: webhook === undefined ? null : parseId(webhook),
    appId: app === undefined ? null : parseId(app),
    status,
    type: type === undefined ? null : parseType(type),
    since: parseTime('--since', since),
    until: parseTime('--until', until),
  };
}

function parseStatus<T extends string>(text: string, statuses: readonly T[]): T {
  const found = statuses.find((status) => status === text);
  if (found === undefined)
    throw new OperatorError(`--status must be one of ${statuses.join(', ')}.`, 2);
  return found;
}

function parseType(text: string): EventType {
  const found = eventTypes.find((type) => type === text);
  if (found === undefined)
    throw new OperatorError(`--type must be one of ${eventTypes.join(', ')}.`, 2);
  return found;
}
