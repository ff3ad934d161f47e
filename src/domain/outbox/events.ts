// The outbox: an event is written in the same database transaction as the change that it reports.
// Event ids contain the creation time, so a time range is a range of ids.
import {
  type CustomerEventContext,
  type CustomerEventType,
  insertEvents,
  takeSequences,
  type EventContext,
  type EventType,
  type PlanEventContext,
  type PlanEventType,
} from '../../db/delivering/events.ts';
import { readCreditContexts } from '../../db/money/credit-lists.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { timeOfId } from '../../db/postgres/ids.ts';
import { currentTraceparent } from '../../trace.ts';
import { accessUntil } from '../accounts/access.ts';

export type SubscriptionEventType = Exclude<EventType, PlanEventType | CustomerEventType>;

type Extra = Record<
  string,
  string | number | boolean | bigint | Date | null | readonly Readonly<Record<string, string>>[]
>;

/**
 * An event about one change of a subscription. `extra` contains the data fields that only this
 * event type has. Amounts (bigint) and Dates in `extra` are sent as strings.
 */
export interface NewEvent {
  subscriptionId: string;
  type: SubscriptionEventType;
  extra?: Extra;
}

/**
 * Writes events and queues their deliveries in the caller's transaction. The caller must first
 * write the changes that the events report, because this function reads the subscriptions. Events
 * of one subscription keep their order. Resolves with the names of apps and endpoints to notify
 * after the commit (db/postgres/notify.ts).
 */
export async function appendEvents(
  sql: Transaction,
  events: readonly NewEvent[],
): Promise<Set<string>> {
  const queued = new Set<string>();
  let rest = [...events];
  while (rest.length > 0) {
    // Each round assigns one sequence number per subscription. If a subscription has several
    // events, the first event is written in the first round, the second event in the second round,
    // and so on.
    const round = new Map<string, NewEvent>();
    const later: NewEvent[] = [];
    for (const event of rest) {
      if (round.has(event.subscriptionId)) later.push(event);
      else round.set(event.subscriptionId, event);
    }
    const contexts = await takeSequences(sql, [...round.keys()]);
    if (contexts.length !== round.size)
      throw new Error(`events for ${round.size} subscriptions, of which ${contexts.length} exist`);
    const endpoints = await storeEvents(
      sql,
      contexts.map((context) => ({ context, ...(round.get(context.subscriptionId) as NewEvent) })),
    );
    for (const endpointId of endpoints) queued.add(endpointId);
    rest = later;
  }
  return queued;
}

/**
 * Writes events and queues their deliveries. The events already have their sequence numbers, and
 * each subscription has at most one event. Resolves with the names of apps and endpoints to notify
 * (db/postgres/notify.ts).
 */
export function storeEvents(
  sql: Transaction,
  newEvents: readonly (Omit<NewEvent, 'subscriptionId'> & { context: EventContext })[],
): Promise<string[]> {
  return insertEvents(
    sql,
    newEvents.map(({ context, type, extra }) => {
      const { eventId: id, appId, subscriptionId, sequence } = context;
      return {
        id,
        appId,
        subscriptionId,
        sequence,
        type,
        body: eventBody(context, type, extra),
        traceparent: currentTraceparent(),
      };
    }),
  );
}

/**
 * Builds the body of an event. The body is stored once, and each delivery sends exactly the stored
 * bytes (docs/contract.md, Events).
 */
export function eventBody(
  context: EventContext,
  type: SubscriptionEventType,
  extra: Extra = {},
): string {
  return JSON.stringify({
    id: context.eventId,
    type,
    createdAt: timeOfId(context.eventId),
    data: {
      appId: context.appId,
      subscriptionId: context.subscriptionId,
      subscriptionPda: context.subscriptionPda,
      planId: context.planId,
      planName: context.planName,
      subscriberWallet: context.subscriberWallet,
      merchantWallet: context.merchantWallet,
      status: context.status,
      paidThrough: context.paidThrough,
      accessUntil: accessUntil(context),
      externalId: context.externalId,
      metadata: JSON.parse(context.metadata) as Record<string, string>,
      ownIdsFrom: context.ownIdsFrom,
      sequence: Number(context.sequence),
      ...textOf(extra),
    },
  });
}

/**
 * Builds the body of an event about a plan or a customer. Such an event has no subscription and no
 * sequence number.
 */
export function unnumberedEventBody<T extends PlanEventType | CustomerEventType>(
  { eventId: id, ...about }: T extends PlanEventType ? PlanEventContext : CustomerEventContext,
  type: T,
  extra: Extra = {},
): string {
  const data = { ...about, ...textOf(extra) };
  return JSON.stringify({ id, type, createdAt: timeOfId(id), data });
}

/**
 * Writes an event about a plan and queues its delivery. Resolves with the names of apps and
 * endpoints to notify (db/postgres/notify.ts).
 */
export function storePlanEvent(
  sql: Transaction,
  { eventId: id, appId, planId, planPda, planName, merchantWallet }: PlanEventContext,
  type: PlanEventType,
  extra: Extra,
): Promise<string[]> {
  const plan = { eventId: id, appId, planId, planPda, planName, merchantWallet };
  const body = unnumberedEventBody(plan, type, extra);
  const traceparent = currentTraceparent();
  return insertEvents(sql, [
    { id, appId, subscriptionId: null, sequence: null, type, body, traceparent },
  ]);
}

/**
 * Writes the events about movements of credit that this transaction has just written. Resolves with
 * the names of apps and endpoints to notify (db/postgres/notify.ts).
 */
export async function storeCreditEvents(
  sql: Transaction,
  movementIds: readonly string[],
): Promise<string[]> {
  if (movementIds.length === 0) return [];
  const traceparent = currentTraceparent();
  const type = 'credit_changed';
  const contexts = await readCreditContexts(sql, movementIds);
  return insertEvents(
    sql,
    contexts.map(({ amount, reason, balance, ...customer }) => {
      const { eventId: id, appId } = customer;
      const body = unnumberedEventBody(customer, type, { amount, reason, balance });
      return { id, appId, subscriptionId: null, sequence: null, type, body, traceparent };
    }),
  );
}

function textOf(extra: Extra) {
  return Object.fromEntries(
    Object.entries(extra).map(([name, value]) => [
      name,
      typeof value === 'bigint' ? value.toString() : value,
    ]),
  );
}
