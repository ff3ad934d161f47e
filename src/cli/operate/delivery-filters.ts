// Filters of deliveries on the command line.
import type { DeliveryRow } from '../../db/deliveries.ts';
import { eventTypes } from '../../db/events.ts';
import { OperatorError } from '../../errors.ts';

export const deliveryStatuses = [
  'pending',
  'delivered',
  'failed',
  'cancelled',
] as const satisfies readonly DeliveryRow['status'][];

/** Throws an OperatorError (exit code 2) for an unknown status. */
export function parseStatus(text: string): DeliveryRow['status'] {
  const found = deliveryStatuses.find((status) => status === text);
  if (found === undefined)
    throw new OperatorError(`--status must be one of ${deliveryStatuses.join(', ')}.`, 2);
  return found;
}

/** Throws an OperatorError (exit code 2) for an unknown event type. */
export function parseType(text: string): string {
  if (!eventTypes.some((known) => known === text))
    throw new OperatorError(`--type must be one of ${eventTypes.join(', ')}.`, 2);
  return text;
}
