// `billing keys`: lists, creates and revokes API keys for a merchant. `keys reseal` encrypts the
// webhook secrets again with the newest ENCRYPTION_KEY.
import type { Command } from 'commander';
import { required } from '../../config/config.ts';
import { runCommand } from '../../daemon/run.ts';
import { insertApiKey, listKeysAdmin, revokeLiveKey } from '../../db/accounts/api-keys.ts';
import { listSealedSecrets, replaceSealedSecret } from '../../db/delivering/endpoints.ts';
import { FIRST_ID } from '../../db/postgres/ids.ts';
import { generateKey } from '../../domain/accounts/keys.ts';
import { secretBox } from '../../domain/accounts/secrets.ts';
import { OperatorError } from '../../errors.ts';
import { type CommonFlags, type SetExitCode, parseId, withEnv } from '../arguments.ts';
import { print, printJson, note } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { merchantOf } from './named-merchant.ts';
import { printList } from './print-list.ts';
import { type ReasonFlag, record, recorded, withReason } from './recorded.ts';

export function addKeys(keys: Command, setExitCode: SetExitCode): void {
  withEnv(
    keys
      .command('list')
      .description('lists keys, newest first, including revoked ones; never the secrets'),
  )
    .argument('[merchant]', 'id or wallet; default: every merchant')
    .option('--json', 'print one line of JSON per key')
    .action(async (merchant: string | undefined, flags: CommonFlags) =>
      setExitCode(await listKeys(merchant, flags)),
    );
  const changing = (name: string, description: string) =>
    withReason(withEnv(keys.command(name).description(description))).option(
      '--json',
      'print one JSON object',
    );
  changing('create', 'creates a key and prints it once, on stdout; only its hash is stored')
    .argument('<merchant>', 'id or wallet')
    .action(async (merchant: string, flags: ReasonFlag) =>
      setExitCode(await createKey(merchant, flags)),
    );
  changing('revoke', 'revokes a key immediately and permanently')
    .argument('<keyId>', 'the id that "keys list" shows')
    .action(async (keyId: string, flags: ReasonFlag) => setExitCode(await revokeKey(keyId, flags)));
  changing(
    'reseal',
    'encrypts webhook secrets with the newest ENCRYPTION_KEY, so that older ones can be dropped',
  ).action(async (flags: ReasonFlag) => setExitCode(await reseal(flags)));
}

function listKeys(
  merchant: string | undefined,
  { envFile, json = false }: CommonFlags,
): Promise<number> {
  return runCommand(envFile, async ({ sql }) => {
    const merchantId = merchant === undefined ? null : (await merchantOf(sql, merchant)).id;
    await printList({
      noun: 'keys',
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

/** Creates a key. Stdout has only the key, so that scripts can pipe it. Returns the exit code. */
function createKey(merchant: string, flags: ReasonFlag): Promise<number> {
  const { envFile, json = false } = flags;
  return runCommand(envFile, async ({ sql, config }) => {
    const { id: merchantId, wallet } = await merchantOf(sql, merchant);
    const { key, prefix, hash } = generateKey(config.env);
    const id = await recorded(
      sql,
      'keys create',
      flags,
      (tx) => insertApiKey(tx, merchantId, { prefix, hash }),
      (made) => `key ${made} of merchant ${wallet}`,
    );
    if (json) printJson({ id, key, prefix, merchantId, wallet });
    else print(key);
    note(
      `Key ${id} of ${wallet}, for ${config.env}. It is shown this once; revoke it with: billing keys revoke ${id}`,
    );
    return 0;
  });
}

/**
 * Revokes a key. Returns the exit code. Throws an OperatorError when the key is unknown or already
 * revoked.
 */
function revokeKey(keyId: string, flags: ReasonFlag): Promise<number> {
  const { envFile, json = false } = flags;
  const id = parseId(keyId);
  return runCommand(envFile, async ({ sql }) => {
    const revoked = await recorded(
      sql,
      'keys revoke',
      flags,
      (tx) => revokeLiveKey(tx, id),
      (found) =>
        found?.already === false ? `key ${id} of merchant ${found.key.wallet}` : undefined,
    );
    if (revoked === undefined)
      throw new OperatorError(`There is no key ${id}. "billing keys list" shows them.`);
    const { key, already } = revoked;
    if (already)
      throw new OperatorError(
        `Key ${id} was already revoked, at ${key.revokedAt?.toISOString() ?? ''}. Nothing was changed.`,
      );
    if (json) printJson(key);
    else
      print(
        `Revoked ${key.prefix}... (${id}) of ${key.wallet}. The next request with it gets 401.`,
      );
    return 0;
  });
}

const SECRETS_AT_ONCE = 500;

/**
 * Encrypts the secrets of all live endpoints again with the newest key. Returns the exit code: 1
 * when a secret cannot be decrypted with any key.
 */
function reseal(flags: ReasonFlag): Promise<number> {
  const { envFile, json = false } = flags;
  return runCommand(envFile, async ({ sql, config }) => {
    if (config.encryptionKeys === undefined)
      throw new OperatorError(
        'ENCRYPTION_KEY is required: the new key first, then those that secrets are encrypted with.',
        2,
      );
    const box = secretBox(required(config, 'encryptionKeys').encryptionKeys);
    let resealed = 0;
    let current = 0;
    const unreadable: string[] = [];
    await withProgress('re-encrypting webhook secrets', async () => {
      let after = FIRST_ID;
      for (;;) {
        const rows = await listSealedSecrets(sql, { after, limit: SECRETS_AT_ONCE });
        const sealed = rows.flatMap(({ id, secret, previousSecret, headers }) =>
          [secret, previousSecret, headers].flatMap((before) =>
            before === null ? [] : [{ id, before }],
          ),
        );
        for (const { id, before } of sealed) {
          if (box.isCurrent(before)) current += 1;
          else {
            const opened = open(() => box.open(before, id));
            if (opened === undefined) unreadable.push(id);
            else if (await replaceSealedSecret(sql, { id, before, secret: box.seal(opened, id) }))
              resealed += 1;
          }
        }
        after = rows.at(-1)?.id ?? after;
        if (rows.length < SECRETS_AT_ONCE) return;
      }
    });
    if (resealed > 0) await record(sql, 'keys reseal', `${resealed} webhook secrets`, flags);
    if (json) printJson({ resealed, current, unreadable });
    else {
      print(`${resealed} secrets were re-encrypted with the newest key; ${current} already were.`);
      for (const id of unreadable)
        print(`Webhook ${id}: encrypted with a key that ENCRYPTION_KEY does not list.`);
    }
    return unreadable.length === 0 ? 0 : 1;
  });
}

/** Returns the decrypted secret, or undefined when no key decrypts the secret. */
function open(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
