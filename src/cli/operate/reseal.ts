// `billing keys reseal`: re-encrypts webhook secrets with the newest ENCRYPTION_KEY, so that older
// keys can be removed from the list.
import { required } from '../../config/config.ts';
import { runCommand } from '../../daemon/run.ts';
import { listSealedSecrets, replaceSealedSecret } from '../../db/endpoints.ts';
import { FIRST_ID } from '../../db/postgres/ids.ts';
import { secretBox } from '../../domain/accounts/secrets.ts';
import { OperatorError } from '../../errors.ts';
import { answer, answerJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';

export interface ResealFlags {
  envFile?: string;
  json?: boolean;
}

const BATCH = 500;

/**
 * Re-encrypts the secrets of all live endpoints. Returns the exit code: 1 when no key decrypts a
 * secret.
 */
export function reseal({ envFile, json = false }: ResealFlags): Promise<number> {
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
        const rows = await listSealedSecrets(sql, { after, limit: BATCH });
        const sealed = rows.flatMap(({ id, secret, previousSecret }) =>
          [secret, previousSecret].flatMap((before) => (before === null ? [] : [{ id, before }])),
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
        if (rows.length < BATCH) return;
      }
    });
    if (json) answerJson({ resealed, current, unreadable });
    else {
      answer(`${resealed} secrets were re-encrypted with the newest key; ${current} already were.`);
      for (const id of unreadable)
        answer(`Webhook ${id}: encrypted with a key that ENCRYPTION_KEY does not list.`);
    }
    return unreadable.length === 0 ? 0 : 1;
  });
}

/** The decrypted secret; undefined when no key decrypts it. */
function open(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
