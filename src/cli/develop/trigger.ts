// `billing trigger`: tests a receiver. The command sends a sample event to the app's endpoint and
// to `billing listen`.
import type { Command } from 'commander';
import type { components } from '../../client/client.ts';
import { interruptible } from '../../daemon/run.ts';
import { sampleFields, sampleTypes, type SampleType } from '../../domain/outbox/samples.ts';
import { OperatorError } from '../../errors.ts';
import type { SetExitCode } from '../arguments.ts';
import { appOf, type DeveloperFlags, withApp, withSession } from '../session.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { safeText } from '../terminal/safe-text.ts';
import { typeFault } from './event-types.ts';

interface TriggerFlags extends DeveloperFlags {
  data?: string;
}

export function addTrigger(command: Command, setExitCode: SetExitCode): void {
  withApp(command)
    .argument('<type>', sampleTypes.join(', '))
    .option(
      '--data <json>',
      'a JSON object whose fields replace those of data, such as \'{"externalId": "customer-7"}\'',
    )
    .option('--json', 'print one JSON object')
    .action(async (type: string, flags: TriggerFlags) => setExitCode(await trigger(type, flags)));
}

/** Sends a sample event. Returns the exit code: 1 when the endpoint did not respond with 2xx. */
function trigger(type: string, flags: TriggerFlags): Promise<number> {
  const fault = typeFault(type);
  if (fault !== undefined) throw new OperatorError(fault, 2);
  const sampleData = flags.data === undefined ? undefined : dataOf(flags.data);
  return interruptible(false, async (signal) => {
    return withSession(flags, signal, async (session) => {
      const app = await appOf(session, flags.app, signal);
      const data = await withProgress('waiting for the endpoint', () =>
        session.client.post('/merchant/apps/{appId}/events/sample', {
          path: { appId: app.id },
          body: { type: type as SampleType, ...(sampleData !== undefined && { data: sampleData }) },
          signal,
        }),
      );
      const added = fieldsBeside(data.type, sampleData);
      if (added.length > 0)
        note(`A ${data.type} of the service has no ${added.join(', ')}: sent as --data has it.`);
      const delivered = data.status !== null && data.status >= 200 && data.status < 300;
      if (flags.json === true) printJson(data);
      else print(describe(data, app.name));
      if (data.webhookId === null && data.listeners === 0)
        note('To receive it here: billing listen --forward-to http://localhost:3000/hook');
      return data.webhookId === null || delivered ? 0 : 1;
    });
  });
}

/** Fields that the sample of this type does not have, in quotes. */
function fieldsBeside(type: SampleType, data: object = {}): string[] {
  const fields = sampleFields(type);
  return Object.keys(data).flatMap((name) =>
    fields.includes(name) ? [] : [`"${safeText(name)}"`],
  );
}

function dataOf(text: string): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === 'object' && data !== null && !Array.isArray(data))
      return data as Record<string, unknown>;
  } catch {
    // The error below covers text that is not JSON and JSON that is not an object.
  }
  throw new OperatorError('--data must be a JSON object such as {"externalId": "customer-7"}.', 2);
}

function describe(
  {
    id,
    type,
    webhookId,
    status,
    durationMs,
    error,
    listeners,
  }: components['schemas']['SampleEvent'],
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
