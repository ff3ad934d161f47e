// Reads and cross-checks the environment once at startup. Only files in config/ read process.env.
import { messageOf, OperatorError } from '../errors.ts';
import { type Environment, readSettings } from './settings.ts';
import { unknownNames } from './unknown-names.ts';
import { type ConfigRole, type Variable, type Values, variables } from './variables.ts';

/**
 * The whole configuration, frozen. All fields that the role requires are present, and `required`
 * narrows their types.
 */
export type Config = Values & {
  readonly publicUrl: string;
  /**
   * The value of DATABASE_URL, which the daemons use. `databaseUrl` can have another value: when a
   * command runs and DATABASE_DIRECT_URL is set, `databaseUrl` is the value of DATABASE_DIRECT_URL.
   */
  readonly daemonDatabaseUrl: string | undefined;
  /**
   * The value of BILLING_API_URL, or undefined if the variable is not set. (`apiUrl` has the
   * default if the variable is not set.)
   */
  readonly givenApiUrl: string | undefined;
  /**
   * The keypair, address and treasury in use: the first entries of keeperKeypairs, keeperAddresses
   * and treasuries.
   */
  readonly keeperKeypair: string | undefined;
  readonly keeperAddress: string | undefined;
  readonly treasury: string | undefined;
};

/**
 * Returns the given fields as non-optional. Throws an Error when a field is missing. A missing
 * field is a bug here, because loadConfig() has already reported missing variables that the role
 * requires.
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
 * lists every wrong variable with its expected form.
 */
export function loadConfig(role: ConfigRole, environment: Environment = {}): Config {
  const { config, faults } = examineConfig(role, environment);
  if (config !== undefined) return config;
  throw new OperatorError(
    `The configuration is invalid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`,
    2,
  );
}

/**
 * Reads the configuration of `role`. `faults` has one sentence for each wrong or missing variable.
 * If there are faults, `config` is undefined.
 */
export function examineConfig(
  role: ConfigRole,
  environment: Environment = {},
): { config: Config | undefined; faults: string[] } {
  const { names, settings } = readSettings(environment);
  const faults = unknownNames(names);
  const values: Record<string, unknown> = {};
  for (const [key, variable] of Object.entries<Variable<unknown>>(variables)) {
    const { text, fault } = settings[key as keyof Values];
    try {
      if (fault !== undefined) throw new Error(fault);
      if (text !== undefined) values[key] = variable.parse(text);
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
  if (faults.length > 0) return { config: undefined, faults };
  const givenApiUrl = settings.apiUrl.from === 'default' ? undefined : config.apiUrl;
  return { config: Object.freeze({ ...derive(role, config), givenApiUrl }), faults };
}

/** Adds the fields that follow from the variables. */
function derive(role: ConfigRole, config: Config): Omit<Config, 'givenApiUrl'> {
  const { publicUrl: given } = config as { publicUrl: string | undefined };
  const publicUrl = given ?? defaultUrl(config);
  return {
    ...config,
    publicUrl,
    // Commands need session state (locks, long statements). DATABASE_URL may name a pooler, which
    // keeps no session state, so commands prefer DATABASE_DIRECT_URL.
    databaseUrl: isDaemon(role)
      ? config.databaseUrl
      : (config.databaseDirectUrl ?? config.databaseUrl),
    daemonDatabaseUrl: config.databaseUrl,
    webhookGuard: config.webhookGuard || config.env === 'production' || !isLoopback(publicUrl),
    keeperKeypair: config.keeperKeypairs?.[0],
    keeperAddress: config.keeperAddresses?.[0],
    treasury: config.treasuries?.[0],
  };
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
  if (config.smtpUrl !== undefined && role === 'dispatch') {
    if (config.mailFrom === undefined)
      faults.push('MAIL_FROM is required beside SMTP_URL: the sender of e-mails.');
    if (publicUrl === undefined)
      faults.push('PUBLIC_URL is required beside SMTP_URL: the base of the links in e-mails.');
  }
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
