// API keys that `billing login` keeps: profiles.json in the user's configuration directory. Each
// key is kept with the URL of its API, so that a key is never sent to another service.
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { messageOf, OperatorError } from '../errors.ts';

export interface Profile {
  apiUrl: string;
  apiKey: string;
}

export const DEFAULT_PROFILE = 'default';

/** Returns the path of profiles.json (XDG Base Directory Specification). */
export function profilesPath(env: NodeJS.ProcessEnv = process.env): string {
  const configHome = env.XDG_CONFIG_HOME ?? '';
  // The specification says that a relative path must be ignored.
  const directory = configHome.startsWith('/')
    ? configHome
    : join(env.HOME ?? homedir(), '.config');
  return join(directory, 'billing', 'profiles.json');
}

/** Returns the profile, or undefined when it does not exist. Throws as readProfiles does. */
export function findProfile(name: string): Profile | undefined {
  return readProfiles().get(name);
}

/**
 * Returns all profiles by name. Throws an OperatorError (exit code 2) when other users can read the
 * file, or when the file cannot be read. `anyMode`: the caller replaces the file, so its mode does
 * not matter.
 */
function readProfiles({ anyMode = false } = {}): Map<string, Profile> {
  const path = profilesPath();
  try {
    const { mode } = statSync(path);
    if (!anyMode && (mode & 0o077) !== 0)
      throw new OperatorError(
        `${path} has API keys, and other users can read it: chmod 600 ${path}`,
        2,
      );
    return profilesIn(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return new Map();
    // The message of a JSON error is not shown, because it quotes the file, which contains keys.
    const why = code === undefined ? 'it is not the JSON that "billing login" writes' : code;
    throw new OperatorError(`${path} cannot be read (${why}): remove it and log in again.`, 2);
  }
}

function profilesIn(json: unknown): Map<string, Profile> {
  return new Map(
    Object.entries(json as Record<string, Partial<Profile>>).map(([name, profile]) => {
      const { apiUrl, apiKey } = profile;
      if (typeof apiUrl !== 'string' || typeof apiKey !== 'string')
        throw new TypeError('a profile lacks apiUrl or apiKey');
      return [name, { apiUrl, apiKey }];
    }),
  );
}

/**
 * Adds or replaces a profile in a file that is made anew. Throws an OperatorError when the file
 * cannot be written.
 */
export function saveProfile(name: string, profile: Profile): void {
  write(readProfiles({ anyMode: true }).set(name, profile));
}

/** Removes a profile. Returns false when no profile has this name. */
export function removeProfile(name: string): boolean {
  const profiles = readProfiles();
  const existed = profiles.delete(name);
  if (existed) write(profiles);
  return existed;
}

/** Replaces the file atomically. Only the owner can read the file and its directory. */
function write(profiles: ReadonlyMap<string, Profile>): void {
  const path = profilesPath();
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const text = `${JSON.stringify(Object.fromEntries(profiles), null, 2)}\n`;
    // The file mode applies only to a new file, so a file that was left behind is removed first.
    rmSync(`${path}.new`, { force: true });
    writeFileSync(`${path}.new`, text, { mode: 0o600, flag: 'wx' });
    renameSync(`${path}.new`, path);
  } catch (error) {
    throw new OperatorError(`${path} cannot be written: ${messageOf(error)}`, 1, { cause: error });
  }
}
