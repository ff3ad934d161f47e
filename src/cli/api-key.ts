// Finds the API key of a command: in a file, in the configuration, or at a prompt.
import { readFile } from 'node:fs/promises';
import { messageOf, OperatorError } from '../errors.ts';
import { askSecret, canAsk } from './terminal/ask.ts';

/**
 * Returns the key from the file `file`, else the key `configured`, else the key that the user types
 * at a prompt. Throws an OperatorError (exit code 2) if the key is malformed. Throws one with the
 * message `missing` if there is no key and no terminal to ask on.
 */
export async function findKey(
  file: string | undefined,
  configured: string | undefined,
  asking: Asking,
): Promise<string> {
  const key = file !== undefined ? await readKey(file) : (configured ?? (await askForKey(asking)));
  const fault = keyFault(key);
  if (fault !== undefined)
    throw new OperatorError(
      `The API key ${file === undefined ? '' : `in ${file} `}is malformed: ${fault}.`,
      2,
    );
  return key;
}

/**
 * Minimum and maximum number of characters after sk_test_ or sk_live_ in a key. These characters
 * are 32 bytes in Base58.
 */
const keyLengths = { least: 40, most: 44 };

/**
 * Returns why `key` is not an API key, or undefined when its form is valid. The text never quotes
 * the key.
 */
export function keyFault(key: string): string | undefined {
  const [, marker, secret = ''] = /^(sk_test_|sk_live_)?([^]*)$/.exec(key) ?? [];
  if (key === '') return 'it is empty';
  if (/\s/.test(key)) return 'it has white space inside; a key is one word';
  if (key.startsWith('eyJ'))
    return 'it is an access token of a wallet sign-in; POST /merchant/api-keys makes a key with it';
  if (key.startsWith('whsec_')) return "it is a webhook endpoint's signing secret";
  if (marker === undefined)
    return 'it should start with sk_test_ (or sk_live_); POST /merchant/api-keys makes one';
  if (/[^1-9A-HJ-NP-Za-km-z]/.test(secret))
    return `it has a character after ${marker} that no key has (keys are Base58)`;
  const { least, most } = keyLengths;
  if (secret.length < least || secret.length > most)
    return `it has ${secret.length} characters after ${marker} and should have ${most - 1} or ${most}, so it was not copied whole or alone`;
  return undefined;
}

async function readKey(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    throw new OperatorError(`--api-key-file cannot be read: ${messageOf(error)}`, 2, {
      cause: error,
    });
  }
}

interface Asking {
  signal: AbortSignal;
  missing: () => string;
}

async function askForKey({ signal, missing }: Asking): Promise<string> {
  if (!canAsk()) throw new OperatorError(missing(), 2);
  return askSecret('API key', signal);
}
