// `billing trigger`: tests a receiver in development. The command sends a sample event to the app's
// endpoint and to `billing listen`.
import type { Command } from 'commander';
import { interruptible } from '../../daemon/run.ts';
import { sampleTypes, type SampleType } from '../../domain/outbox/samples.ts';
import { OperatorError } from '../../errors.ts';
import type { PingResult } from '../../webhooks/ping.ts';
import type { Finish } from '../arguments.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { safeText } from '../terminal/safe-text.ts';
import { appOf, openApi, type DeveloperFlags, withApp } from './api-client.ts';

interface SampleResponse extends PingResult {
  id: string;
  type: SampleType;
  webhookId: string | null;
  listeners: number;
}

export function addTrigger(command: Command, finish: Finish): void {
  withApp(command)
    .argument(
      '<type>',
      'subscription_created, payment_success, payment_failed, cancel_requested, cancel_finalized, cancel_forced, delegation_revoked, subscription_resumed, renewal_upcoming, plan_blocked, subscription_paused, subscription_unpaused, refund_recorded or ping',
    )
    .option('--json', 'print one JSON object')
    .action(async (type: string, flags: DeveloperFlags) => finish(await trigger(type, flags)));
}

/** Sends a sample event. Returns the exit code: 1 when the endpoint did not respond with 2xx. */
function trigger(type: string, flags: DeveloperFlags): Promise<number> {
  if (!sampleTypes.some((known) => known === type))
    throw new OperatorError(
      `"${type}" is not an event type: use one of ${sampleTypes.join(', ')}.`,
      2,
    );
  return interruptible(false, async (signal) => {
    const client = await openApi(flags, signal);
    try {
      const app = await appOf(client, flags.app, signal);
      const { data } = await withProgress('waiting for the endpoint', () =>
        client.call<SampleResponse>('POST', `/merchant/apps/${app.id}/events/sample`, {
          body: { type },
          signal,
        }),
      );
      const delivered = data.status !== null && data.status >= 200 && data.status < 300;
      if (flags.json === true) printJson(data);
      else print(describe(data, app.name));
      if (data.webhookId === null && data.listeners === 0)
        note('To receive it here: billing listen --forward-to http://localhost:3000/hook');
      return data.webhookId === null || delivered ? 0 : 1;
    } finally {
      await client.close();
    }
  });
}

function describe(
  { id, type, webhookId, status, durationMs, error, listeners }: SampleResponse,
  app: string,
): string {
  const sample = `Sample ${type} (${id}) of ${safeText(app)}`;
  const outcome =
    webhookId === null
      ? 'the app has no webhook endpoint'
      : status === null
        ? `the endpoint gave no answer (${safeText(error ?? 'error')})`
        : `the endpoint answered ${status} in ${durationMs} ms`;
  return `${sample}: ${outcome}; ${listeners === 1 ? '1 listener gets' : `${listeners} listeners get`} it.`;
}
