// The types of events and their meanings.
import type { components } from '../../../client/openapi.ts';

export type EventType = components['schemas']['Event']['type'];
export type SampleType = components['schemas']['SampleEvent']['type'];
export type DeliveredType = components['schemas']['Delivery']['eventType'];

export const meanings: Readonly<Record<EventType, string>> = {
  subscription_created: 'a wallet subscribed',
  payment_success: 'a payment was collected',
  payment_failed: 'a payment failed',
  cancel_requested: 'a cancellation was asked for',
  cancel_finalized: 'a subscription ended',
  cancel_forced: 'you ended a subscription at once',
  delegation_revoked: 'a wallet withdrew its approval',
  subscription_resumed: 'a cancellation was taken back',
  renewal_upcoming: 'a payment is due soon',
  plan_blocked: 'a plan’s payments cannot be collected',
  subscription_paused: 'you paused a subscription',
  subscription_unpaused: 'its payments go on',
  refund_recorded: 'a refund is final on chain',
  invoice_voided: 'you forgave an invoice',
  invoice_uncollectible: 'an invoice was given up',
  credit_changed: 'a customer’s credit changed',
  endpoint_disabled: 'your endpoint was disabled',
};

export const meaningOf = (type: string): string =>
  (meanings as Readonly<Record<string, string>>)[type] ?? '';

/** The types in the list of events. */
export const eventTypes = Object.keys(meanings) as readonly EventType[];
/** The types that are sent to endpoints. */
export const deliveredTypes = eventTypes.filter(
  (type): type is DeliveredType => type !== 'endpoint_disabled',
);
/** The types that a test event can have. */
export const sampleTypes: readonly SampleType[] = ['ping', ...deliveredTypes];

/** Formats an event type for reading: `payment_success` becomes `payment success`. */
export const typeText = (type: string): string => type.replaceAll('_', ' ');
