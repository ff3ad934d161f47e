// Watches for webhook secrets that no configured key can decrypt. Such secrets appear, for example,
// after the restore of a dump that is older than a key rotation.
import { Gauge, type Registry } from 'prom-client';
import type { Config } from '../config/config.ts';
import { countForeignSecrets } from '../db/delivering/endpoints.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { fingerprintsOf } from '../domain/accounts/secrets.ts';
import type { Log } from '../log.ts';
import { startLoop } from '../loop.ts';

/** Interval of the checks. */
const CHECK_MS = 30_000;

/**
 * Counts the webhook secrets that no configured key can decrypt, at the start and every 30 s. Does
 * nothing when ENCRYPTION_KEY is not configured.
 */
export function watchSecrets(
  { config, sql, log }: { config: Config; sql: Sql; log: Log },
  registry: Registry,
): { trouble(): string | undefined; stop(): Promise<void> } {
  const { encryptionKeys } = config;
  if (encryptionKeys === undefined)
    return { trouble: () => undefined, stop: () => Promise.resolve() };
  const fingerprints = fingerprintsOf(encryptionKeys);
  const gauge = new Gauge({
    name: 'billing_undecipherable_secrets',
    help: 'Webhook secrets that were encrypted with a key that ENCRYPTION_KEY does not list',
    registers: [registry],
  });
  let count = 0;
  const loop = startLoop({
    name: 'checking secrets',
    idleMs: CHECK_MS,
    async turn() {
      const before = count;
      count = await countForeignSecrets(sql, fingerprints);
      gauge.set(count);
      if (count > 0 && before === 0)
        log.error({ count }, 'webhook secrets cannot be decrypted: ENCRYPTION_KEY lacks their key');
      return false;
    },
    onError: (error, failures) =>
      log.warn({ err: error, failures }, 'webhook secrets could not be counted'),
  });
  return {
    trouble: () =>
      count > 0
        ? `${count} webhook secrets were encrypted with a key that ENCRYPTION_KEY does not list`
        : undefined,
    stop: () => loop.stop(),
  };
}
