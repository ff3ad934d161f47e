// `billing login` stores a merchant's API key in the user's configuration directory, so that the
// commands that use the API need no other setting. `billing logout` removes the key.
import type { Command } from 'commander';
import { loadConfig } from '../../config/config.ts';
import {
  DEFAULT_PROFILE,
  profilesPath,
  removeProfile,
  saveProfile,
} from '../../config/profiles.ts';
import { interruptible } from '../../daemon/run.ts';
import { OperatorError } from '../../errors.ts';
import { findKey } from '../api-key.ts';
import { type CommonFlags, type SetExitCode, withEnv } from '../arguments.ts';
import { apiUrlOf, connect, type DeveloperFlags, explained } from '../session.ts';
import { print, printJson } from '../terminal/print.ts';
import { safeText } from '../terminal/safe-text.ts';

export function addLogin(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option('--api-url <url>', 'the API that the key is for; default: BILLING_API_URL')
    .option(
      '--api-key-file <path>',
      'file with the API key; default: BILLING_API_KEY, else a prompt on a terminal',
    )
    .option('--profile <name>', 'keep the key under this name', DEFAULT_PROFILE)
    .option('--json', 'print one JSON object')
    .action(async (flags: LoginFlags) => setExitCode(await login(flags)));
}

export function addLogout(command: Command, setExitCode: SetExitCode): void {
  command
    .option('--profile <name>', 'forget the key of this name', DEFAULT_PROFILE)
    .action(({ profile }: { profile: string }) => setExitCode(logout(profile)));
}

const NO_KEY =
  '"billing login" needs the API key: set BILLING_API_KEY, name a file with --api-key-file, or log in on a terminal, which asks for the key.';

interface LoginFlags extends DeveloperFlags, CommonFlags {
  profile: string;
}

/** Checks the key with the API and stores it. Returns the exit code. */
function login({ envFile, apiUrl, apiKeyFile, profile, json }: LoginFlags): Promise<number> {
  if (!/^[\w.-]{1,64}$/.test(profile))
    throw new OperatorError(
      '--profile must be a name of 1 to 64 letters, digits, dots, dashes and underscores.',
      2,
    );
  return interruptible(false, async (signal) => {
    const config = loadConfig('developer', { envFile });
    const url = apiUrlOf(apiUrl ?? config.apiUrl);
    const apiKey = await findKey(apiKeyFile, config.apiKey, { signal, missing: () => NO_KEY });
    const profileRequest = connect(url, apiKey).get('/merchant/profile', { signal });
    const merchant = await explained(url, profileRequest);
    saveProfile(profile, { apiUrl: url, apiKey });
    if (json === true) printJson({ profile, apiUrl: url, merchant, path: profilesPath() });
    else
      print(
        `Logged in at ${url} as ${safeText(merchant.name ?? merchant.wallet)}. ` +
          `The key is in ${profilesPath()}, under "${profile}".`,
      );
    return 0;
  });
}

/** Removes the profile's key from the file of profiles. The key stays valid until it is revoked. */
function logout(profile: string): number {
  if (!removeProfile(profile)) throw new OperatorError(`There is no profile "${profile}".`);
  print(
    `The key of "${profile}" is removed from ${profilesPath()}. It stays valid until it is revoked.`,
  );
  return 0;
}
