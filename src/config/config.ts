// Reads and cross-checks the environment once at startup. Only files in config/ read process.env.
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { messageOf, OperatorError } from '../errors.ts';
import { unknownNames } from './unknown-names.ts';
import { type ConfigRole, type Variable, type Values, variables } from './variables.ts';

/**
 * The whole configuration, frozen. All fields that the role requires are present, and `required`
 * narrows their types.
 */
export type Config = Values & {
  readonly publicUrl: string;
  /**
   * The value of DATABASE_URL, also in commands. The field `databaseUrl` of a command has the value
   * of DATABASE_DIRECT_URL if that variable is set.
   */
  readonly daemonDatabaseUrl: string | undefined;
  /**
   * keeperKeypair, keeperAddress and treasury are the first entries of their lists. The first
   * entries are in use.
   */
  readonly keeperKeypair: string | undefined;
  readonly keeperAddress: string | undefined;
  readonly treasury: string | undefined;
};

/**
 * Returns the given fields as non-optional. Throws an Error when a field is missing. This would be
 * a bug, because loadConfig() reports missing required fields.
 */
export function required<K extends keyof Config>(
  config: Config,
  ...keys: K[]
): { [Key in K]: NonNullable<Config[Key]> } {
  return Object.fromEntries(
    keys.map((key) => {
      if (config[key] === undefined) throw new Error(`${key} is not configured`);
      return [key, config[key]];
    }),
  ) as { [Key in K]: NonNullable<Config[Key]> };
}

/**
 * Reads and validates the configuration of `role`. Throws one OperatorError (exit code 2) that
 * lists every wrong variable with its expected form. `envFile` is a file in .env format; the
 * environment takes precedence over the file.
 */
export function loadConfig(
  role: ConfigRole,
  { env = process.env, envFile }: { env?: NodeJS.ProcessEnv; envFile?: string | undefined } = {},
): Config {
  const environment: NodeJS.ProcessEnv = {
    ...(envFile === undefined ? {} : readEnvFile(envFile)),
    ...withoutEmpty(env),
  };
  const faults = unknownNames(Object.keys(environment));
  const values: Record<string, unknown> = {};
  for (const [key, variable] of Object.entries<Variable<unknown>>(variables)) {
    try {
      const given = valueOf(variable, environment);
      if (given !== undefined) values[key] = variable.parse(given);
      else if (variable.fallback !== undefined) values[key] = variable.parse(variable.fallback);
      else if (variable.requiredBy?.includes(role) === true)
        faults.push(`${variable.name} is required: ${variable.about}.`);
    } catch (error) {
      faults.push(`${variable.name} ${messageOf(error)}.`);
    }
  }
  const config = values as unknown as Config;
  faults.push(...crossCheck(config), ...(isDaemon(role) ? contradictions(config, role) : []));
  if (role === 'reconcile' && (config.keeperAddresses ?? config.keeperKeypairs) === undefined)
    faults.push(
      'KEEPER_ADDRESS (or KEEPER_KEYPAIR) is required: the keeper whose pulls are compared.',
    );
  if (faults.length > 0) {
    throw new OperatorError(
      `The configuration is invalid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`,
      2,
    );
  }
  const publicUrl =
    (values.publicUrl as string | undefined)?.replace(/\/+$/, '') ?? defaultUrl(config);
  return Object.freeze({
    ...config,
    publicUrl,
    // A command uses DATABASE_DIRECT_URL if it is set. Commands need session state (locks, long
    // statements), and a pooler does not keep session state.
    databaseUrl: isDaemon(role)
      ? config.databaseUrl
      : (config.databaseDirectUrl ?? config.databaseUrl),
    daemonDatabaseUrl: config.databaseUrl,
    webhookGuard: config.webhookGuard || config.env === 'production' || !isLoopback(publicUrl),
    keeperKeypair: config.keeperKeypairs?.[0],
    keeperAddress: config.keeperAddresses?.[0],
    treasury: config.treasuries?.[0],
  });
}

function isDaemon(role: ConfigRole): boolean {
  return role === 'serve' || role === 'keeper' || role === 'dispatch';
}

/** Finds values that are valid on their own but contradict each other. */
function contradictions(config: Config, role: ConfigRole): string[] {
  const faults: string[] = [];
  const { publicUrl } = config as { publicUrl: string | undefined };
  if (config.env === 'production' && role === 'serve') {
    if (publicUrl === undefined)
      faults.push('PUBLIC_URL is required where BILLING_ENV is production.');
    else if (new URL(publicUrl).protocol !== 'https:')
      faults.push('PUBLIC_URL must start with https:// where BILLING_ENV is production.');
  }
  if (config.env === 'development' && config.cluster === 'mainnet-beta')
    faults.push('SOLANA_CLUSTER is mainnet-beta, so BILLING_ENV must be production.');
  return faults;
}

function defaultUrl({ host, port }: Config): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/**
 * Tells whether only this machine can reach a URL. The URL's host is then localhost, a name under
 * localhost or a loopback address.
 */
function isLoopback(url: string): boolean {
  return /^(.*\.)?localhost$|^127(\.\d+){3}$|^\[::1\]$/.test(new URL(url).hostname);
}

function crossCheck(config: Config): string[] {
  const faults: string[] = [];
  if (
    config.rpcUrls !== undefined &&
    config.wsUrls !== undefined &&
    config.wsUrls.length !== config.rpcUrls.length
  ) {
    faults.push(
      `SOLANA_WS_URL has ${config.wsUrls.length} entries and SOLANA_RPC_URL ${config.rpcUrls.length}; there must be one for each.`,
    );
  }
  if (config.databaseDirectUrl !== undefined && config.databaseUrl === undefined)
    faults.push('DATABASE_URL is required beside DATABASE_DIRECT_URL: the URL of the pooler.');
  if (config.rpcUrls?.length === 0) faults.push('SOLANA_RPC_URL must name at least one endpoint.');
  return faults;
}

function valueOf(
  { name, secret }: Variable<unknown>,
  environment: NodeJS.ProcessEnv,
): string | undefined {
  const path = environment[`${name}_FILE`];
  if (secret !== true || path === undefined) return environment[name];
  if (environment[name] !== undefined) throw new Error(`and ${name}_FILE are both given; keep one`);
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new Error(`cannot be read from ${name}_FILE: ${messageOf(error)}`, { cause: error });
  }
}

function withoutEmpty(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
}

function readEnvFile(path: string): NodeJS.ProcessEnv {
  try {
    return parseEnv(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new OperatorError(`The environment file ${path} cannot be read: ${messageOf(error)}`, 2, {
      cause: error,
    });
  }
}
