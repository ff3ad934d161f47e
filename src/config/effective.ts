// The effective value of each variable, without secrets, and where the value comes from.
import type { Config } from './config.ts';
import { describeDatabase } from './postgres-url.ts';
import { type Environment, readSettings, type Setting } from './settings.ts';
import { type Values, type Variable, variables } from './variables.ts';

export interface EffectiveSetting {
  name: string;
  /**
   * The value, or null when the variable has no value. Of a secret value, only the part that may be
   * shown.
   */
  value: string | null;
  /** `derived` is a value that follows from other variables. */
  from: Setting['from'] | 'derived';
  /** Path of the file with the value, if the variable NAME was given as NAME_FILE. */
  file: string | null;
}

const HIDDEN = '(secret)';

/** Lists every variable. `config` is undefined when a variable is wrong. */
export function effectiveSettings(
  environment: Environment,
  config: Config | undefined,
): EffectiveSetting[] {
  const { settings } = readSettings(environment);
  return Object.entries<Variable<unknown>>(variables).map(([key, variable]) => {
    const { text, from, file = null } = settings[key as keyof Values];
    const derived = config === undefined ? undefined : derivedValue(key, text, config);
    if (derived !== undefined)
      return { name: variable.name, value: derived, from: 'derived', file };
    const value = text === undefined ? null : shown(key, variable, text);
    return { name: variable.name, value, from, file };
  });
}

/**
 * Returns the value that the service uses instead of `text`, or undefined if the service uses
 * `text`. (1) A missing PUBLIC_URL is derived from other variables. (2) If `text` switches the SSRF
 * guard off, the guard is still on in production and when others can reach the service.
 */
function derivedValue(key: string, text: string | undefined, config: Config): string | undefined {
  if (key === 'publicUrl' && text === undefined) return config.publicUrl;
  const guard = String(config.webhookGuard);
  return key === 'webhookGuard' && guard !== text ? guard : undefined;
}

/**
 * Returns `text` if the variable is not secret. Of a secret URL, returns only the parts that are
 * not secret, such as the host. Of any other secret, returns HIDDEN.
 */
function shown(key: string, { secret }: Variable<unknown>, text: string): string {
  if (secret !== true) return text;
  try {
    if (/database(Direct)?Url$/i.test(key)) return describeDatabase(text);
    if (/urls$/i.test(key) || key === 'webhookProxy')
      return text
        .split(',')
        .map((url) => `${new URL(url.trim()).origin} ${HIDDEN}`)
        .join(', ');
  } catch {
    // If the URL cannot be parsed, any part of it may be the password, so the whole value is
    // hidden.
  }
  return HIDDEN;
}
