// `billing keys`: lists, creates and revokes API keys on behalf of a merchant.
import { runCommand } from '../../daemon/run.ts';
import { insertApiKey, listKeysAdmin, revokeLiveKey } from '../../db/api-keys.ts';
import { generateKey } from '../../domain/accounts/keys.ts';
import { OperatorError } from '../../errors.ts';
import { merchantOf, parseId } from '../lookups.ts';
import { answer, answerJson, note } from '../terminal/print.ts';
import { printList } from './print-list.ts';

export interface KeyFlags {
  envFile?: string;
  json?: boolean;
}

/** Lists the keys of one merchant, or of all. Returns the exit code. */
export function listKeys(
  merchant: string | undefined,
  { envFile, json = false }: KeyFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql }) => {
    const merchantId = merchant === undefined ? null : (await merchantOf(sql, merchant)).id;
    await printList({
      what: 'keys',
      json,
      page: (after, limit) => listKeysAdmin(sql, { merchantId, after, limit }),
      head: ['ID', 'PREFIX', 'MERCHANT', 'CREATED', 'LAST USED', 'REVOKED'],
      row: ({ id, prefix, wallet, createdAt, lastUsedAt, revokedAt }) => [
        id,
        prefix,
        wallet,
        createdAt,
        lastUsedAt,
        revokedAt,
      ],
      none: 'There are no keys.',
    });
    return 0;
  });
}

/**
 * Creates a key and prints only the key on stdout, so that it can be piped. Returns the exit code.
 */
export function createKey(merchant: string, { envFile, json = false }: KeyFlags): Promise<number> {
  return runCommand(envFile, async ({ sql, config }) => {
    const { id: merchantId, wallet } = await merchantOf(sql, merchant);
    const { key, prefix, hash } = generateKey(config.env);
    const id = await insertApiKey(sql, merchantId, { prefix, hash });
    if (json) answerJson({ id, key, prefix, merchantId, wallet });
    else answer(key);
    note(
      `Key ${id} of ${wallet}, for ${config.env}. It is shown this once; revoke it with: billing keys revoke ${id}`,
    );
    return 0;
  });
}

/**
 * Revokes a key. Returns the exit code; throws an OperatorError when the key is unknown or already
 * revoked.
 */
export function revokeKey(keyId: string, { envFile, json = false }: KeyFlags): Promise<number> {
  const id = parseId(keyId);
  return runCommand(envFile, async ({ sql }) => {
    const revoked = await revokeLiveKey(sql, id);
    if (revoked === undefined)
      throw new OperatorError(`There is no key ${id}. "billing keys list" shows them.`);
    const { key, already } = revoked;
    if (already)
      throw new OperatorError(
        `Key ${id} was already revoked, at ${key.revokedAt?.toISOString() ?? ''}. Nothing was changed.`,
      );
    if (json) answerJson(key);
    else
      answer(
        `Revoked ${key.prefix}... (${id}) of ${key.wallet}. The next request with it gets 401.`,
      );
    return 0;
  });
}
