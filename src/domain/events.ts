// The outbox: an event is written in the transaction of the change that it reports. Its time is that of its id, so a span of time is a span of ids.
import type { Transaction } from '../db/connect.ts';
import {
  insertEvents,
  takeSequences,
  type EventContext,
  type EventType,
  type PlanEventType,
} from '../db/events.ts';
import { timeOfId } from '../db/ids.ts';
import { accessUntil } from './access.ts';

export type SubscriptionEventType = Exclude<EventType, PlanEventType>;

type Extra = Record<string, string | number | boolean | bigint | Date | null>;

/** One thing that happened to a subscription. `extra` holds the data fields of its type; amounts as bigint base units and times as Date become strings. */
export interface Happening {
  subscriptionId: string;
  type: SubscriptionEventType;
  extra?: Extra;
}

/**
 * Writes one event for each happening and queues its delivery, inside the caller's transaction, after the caller has written the change itself
 * (status and paidThrough are read here). Happenings of one subscription keep their order. Returns the names (db/notify.ts) of
 * the apps and of the endpoints for which deliveries were queued: the caller notifies of them after its commit.
 */
export async function appendEvents(
  sql: Transaction,
  happenings: readonly Happening[],
): Promise<Set<string>> {
  const queued = new Set<string>();
  let rest = [...happenings];
  while (rest.length > 0) {
    // A subscription's counter moves by one at a time, so its second event waits for the next round.
    const round = new Map<string, Happening>();
    const later: Happening[] = [];
    for (const happening of rest) {
      if (round.has(happening.subscriptionId)) later.push(happening);
      else round.set(happening.subscriptionId, happening);
    }
    const contexts = await takeSequences(sql, [...round.keys()]);
    if (contexts.length !== round.size)
      throw new Error(`events for ${round.size} subscriptions, of which ${contexts.length} exist`);
    const endpoints = await storeEvents(
      sql,
      contexts.map((context) => ({ context, ...(round.get(context.subscriptionId) as Happening) })),
    );
    for (const endpointId of endpoints) queued.add(endpointId);
    rest = later;
  }
  return queued;
}

/** Writes events whose sequence numbers are taken, each of another subscription, and queues their deliveries; returns whom to notify. */
export function storeEvents(
  sql: Transaction,
  told: readonly (Omit<Happening, 'subscriptionId'> & { context: EventContext })[],
): Promise<string[]> {
  return insertEvents(
    sql,
    told.map(({ context, type, extra }) => {
      const { eventId: id, appId, subscriptionId, sequence } = context;
      return {
        id,
        appId,
        subscriptionId,
        sequence,
        type,
        createdAt: timeOfId(id),
        body: eventBody(context, type, extra),
      };
    }),
  );
}

/** The text that is stored once and sent byte for byte (docs/contract.md, Events). */
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
      sequence: Number(context.sequence),
      ...textOf(extra),
    },
  });
}

/** What an event of a plan reports. */
export interface PlanEventContext {
  /** Its time is the event's. */
  eventId: string;
  appId: string;
  planId: string;
  planPda: string;
  planName: string;
  merchantWallet: string;
}

/** The same for an event of a plan, which has no subscription and no sequence number. */
export function planEventBody(
  { eventId: id, ...plan }: PlanEventContext,
  type: PlanEventType,
  extra: Extra = {},
): string {
  return JSON.stringify({ id, type, createdAt: timeOfId(id), data: { ...plan, ...textOf(extra) } });
}

/** Writes an event of a plan and queues its delivery; returns whom to notify. */
export function storePlanEvent(
  sql: Transaction,
  { eventId: id, appId, planId, planPda, planName, merchantWallet }: PlanEventContext,
  type: PlanEventType,
  extra: Extra,
): Promise<string[]> {
  const plan = { eventId: id, appId, planId, planPda, planName, merchantWallet };
  const body = planEventBody(plan, type, extra);
  const createdAt = timeOfId(id);
  return insertEvents(sql, [
    { id, appId, subscriptionId: null, sequence: null, type, createdAt, body },
  ]);
}

function textOf(extra: Extra) {
  return Object.fromEntries(
    Object.entries(extra).map(([name, value]) => [
      name,
      typeof value === 'bigint' ? value.toString() : value,
    ]),
  );
}
