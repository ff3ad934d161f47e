// The environment, read and cross-checked once at start: the only place that reads process.env. Every variable stands in `variables`, from
// which `.env.example` and the operators' table are generated.
import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import ipaddr from 'ipaddr.js';
import { messageOf, OperatorError } from './errors.ts';

/** What a command needs: a variable that is missing but not needed is no fault. */
export type Role = 'serve' | 'keeper' | 'dispatch' | 'admin' | 'developer';

type Environment = Record<string, string | undefined>;
type Cluster = 'mainnet-beta' | 'devnet' | 'localnet';

interface Variable<T> {
  name: string;
  about: string;
  /** What is used when the variable is absent; as an operator would write it. */
  fallback?: string;
  /** Who cannot start without it. */
  requiredBy?: readonly Role[];
  /** NAME_FILE may name a file that holds the value; never shown. */
  secret?: boolean;
  /** Throws an Error whose message says what would be right. */
  parse: (text: string) => T;
}

const text = (value: string) => value;

const oneOf =
  <const T extends string>(...options: readonly T[]) =>
  (value: string): T => {
    const found = options.find((option) => option === value);
    if (found === undefined) throw new Error(`must be one of ${options.join(', ')}`);
    return found;
  };

const integer = (min: number, max: number) => (value: string) => {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < min || number > max) throw new Error(`must be a whole number from ${min} to ${max}`);
  return number;
};

const url =
  (...protocols: string[]) =>
  (value: string): string => {
    const parsed = URL.canParse(value) ? new URL(value) : undefined;
    if (parsed === undefined || !protocols.includes(parsed.protocol)) {
      throw new Error(`must be a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`);
    }
    return value;
  };

const list =
  <T>(parse: (item: string) => T) =>
  (value: string): T[] =>
    value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== '')
      .map(parse);

const address = (value: string): string => {
  if (!/^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(value)) throw new Error('must be a Solana address in Base58');
  return value;
};

const cidr = (value: string): string => {
  if (!ipaddr.isValidCIDR(value)) throw new Error(`has "${value}", which is not a CIDR such as 10.0.0.0/8 or fd00::/8`);
  return value;
};

const nameServer = (value: string): string => {
  const [, host = value] = /^\[?([^\]]+?)\]?(?::\d+)?$/.exec(value) ?? [];
  if (!ipaddr.isValid(value) && !ipaddr.isValid(host))
    throw new Error(`has "${value}", which is not an address such as 9.9.9.9 or 127.0.0.1:53`);
  return value;
};

/** At least 32 bytes each: as hex or Base64 of that many bytes, or as 32 characters of text. Keys are derived from it by the users. */
const secrets = (value: string): string[] => {
  const all = list(text)(value);
  if (all.length === 0 || all.some((item) => Buffer.byteLength(item) < 32)) {
    throw new Error('must be at least 32 bytes (several, newest first, separated by commas, to rotate); try "openssl rand -base64 32"');
  }
  return all;
};

const flag = (value: string): boolean => oneOf('true', 'false')(value) === 'true';

const variables = {
  env: {
    name: 'BILLING_ENV',
    about: 'development or production: the marker of API keys (sk_test_, sk_live_), HTTPS and address rules for webhooks',
    fallback: 'development',
    parse: oneOf('development', 'production'),
  },
  databaseUrl: {
    name: 'DATABASE_URL',
    about: 'Postgres 14 or newer',
    requiredBy: ['serve', 'keeper', 'dispatch', 'admin'],
    secret: true,
    parse: url('postgres:', 'postgresql:'),
  },
  databasePool: { name: 'DATABASE_POOL', about: 'Postgres connections per process', fallback: '10', parse: integer(2, 1000) },
  rpcUrls: {
    name: 'SOLANA_RPC_URL',
    about: 'Solana JSON-RPC endpoints, comma-separated, in order of preference',
    requiredBy: ['serve', 'keeper'],
    secret: true,
    parse: list(url('http:', 'https:')),
  },
  wsUrls: {
    name: 'SOLANA_WS_URL',
    about: 'their WebSockets, in the same order; derived from SOLANA_RPC_URL when absent',
    secret: true,
    parse: list(url('ws:', 'wss:')),
  },
  wsAccounts: {
    name: 'SOLANA_WS_ACCOUNTS',
    about:
      "subscribers' token accounts that each keeper follows by WebSocket, 1,000 a connection, so that a revoked approval is seen within seconds; the sweep sees those of the others within ten minutes",
    fallback: '3000',
    parse: integer(0, 1_000_000),
  },
  rpcRate: {
    name: 'SOLANA_RPC_RATE',
    about: 'requests per second that each endpoint allows; 0 is no limit of ours',
    fallback: '0',
    parse: integer(0, 100_000),
  },
  cluster: {
    name: 'SOLANA_CLUSTER',
    about: 'mainnet-beta, devnet or localnet: picks the USDC mint, checked against the genesis hash',
    fallback: 'devnet',
    parse: oneOf<Cluster>('mainnet-beta', 'devnet', 'localnet'),
  },
  usdcMint: { name: 'USDC_MINT', about: 'overrides the mint of the cluster', parse: address },
  programId: { name: 'SUBSCRIPTIONS_PROGRAM_ID', about: 'overrides the address of the Subscriptions program', parse: address },
  keeperKeypair: {
    name: 'KEEPER_KEYPAIR',
    about: "path of the keeper's keypair in Solana CLI format, readable by its owner alone",
    requiredBy: ['keeper'],
    parse: text,
  },
  keeperAddress: {
    name: 'KEEPER_ADDRESS',
    about: 'the puller that plans must name; follows from KEEPER_KEYPAIR where that is given',
    requiredBy: ['serve'],
    parse: address,
  },
  treasury: {
    name: 'PLATFORM_TREASURY',
    about: 'the wallet that receives the platform fee and that plans must name as a destination',
    requiredBy: ['serve', 'keeper'],
    parse: address,
  },
  feeBps: {
    name: 'PLATFORM_FEE_BPS',
    about: 'platform fee in hundredths of a percent of the gross amount',
    fallback: '100',
    parse: integer(0, 10_000),
  },
  pastDueDays: {
    name: 'PAST_DUE_DAYS',
    about: 'days past due after which a subscription expires',
    fallback: '7',
    parse: integer(1, 365),
  },
  jwtSecrets: {
    name: 'JWT_SECRET',
    about: 'signs JWTs; at least 32 bytes, comma-separated to rotate (the first signs, all verify)',
    requiredBy: ['serve'],
    secret: true,
    parse: secrets,
  },
  encryptionKeys: {
    name: 'ENCRYPTION_KEY',
    about: 'encrypts webhook secrets at rest; at least 32 bytes, comma-separated to rotate (the first encrypts, all decrypt)',
    requiredBy: ['serve', 'dispatch'],
    secret: true,
    parse: secrets,
  },
  host: { name: 'HOST', about: 'address that serve listens on', fallback: '127.0.0.1', parse: text },
  port: { name: 'PORT', about: 'port that serve listens on', fallback: '3000', parse: integer(0, 65_535) },
  metricsPort: {
    name: 'METRICS_PORT',
    about: 'port of /metrics, /healthz and /readyz on loopback; the next free one is taken when it is in use; 0 is any',
    fallback: '9464',
    parse: integer(0, 65_535),
  },
  metricsHost: { name: 'METRICS_HOST', about: 'address of the metrics port', fallback: '127.0.0.1', parse: text },
  publicUrl: {
    name: 'PUBLIC_URL',
    about: 'base URL that clients use: issuer and audience of JWTs, domain of the sign-in message; http://HOST:PORT when absent',
    parse: url('http:', 'https:'),
  },
  corsOrigins: {
    name: 'CORS_ORIGINS',
    about: 'origins that browsers may call from, comma-separated',
    fallback: '',
    parse: list(url('http:', 'https:')),
  },
  trustProxy: {
    name: 'TRUST_PROXY',
    about: 'addresses or CIDRs of the proxies whose X-Forwarded-For is believed, comma-separated; none when empty',
    fallback: '',
    parse: list((item) => (ipaddr.isValid(item) ? item : cidr(item))),
  },
  webhookAllowCidrs: {
    name: 'WEBHOOK_ALLOW_CIDRS',
    about: 'private ranges that webhooks may be sent to nevertheless, comma-separated',
    fallback: '',
    parse: list(cidr),
  },
  webhookGuard: {
    name: 'WEBHOOK_GUARD',
    about: 'true refuses webhook targets at private addresses; always true in production, false by default in development',
    fallback: 'false',
    parse: flag,
  },
  webhookConcurrency: {
    name: 'WEBHOOK_CONCURRENCY',
    about: 'webhook requests in flight per process',
    fallback: '200',
    parse: integer(1, 10_000),
  },
  webhookEndpointConcurrency: {
    name: 'WEBHOOK_ENDPOINT_CONCURRENCY',
    about: 'webhook requests in flight per endpoint',
    fallback: '10',
    parse: integer(1, 1000),
  },
  webhookLease: {
    name: 'WEBHOOK_LEASE_SECONDS',
    about: 'seconds after which the endpoints of a dispatcher that died go to another; longer than the 5 s an endpoint has to answer',
    fallback: '20',
    parse: integer(1, 3600),
  },
  webhookNameServers: {
    name: 'WEBHOOK_DNS_SERVERS',
    about:
      'name servers (address or address:port, comma-separated) that look up webhook hosts where addresses are guarded; those of the system when empty',
    fallback: '',
    parse: list(nameServer),
  },
  deliveryRetentionDays: {
    name: 'DELIVERY_RETENTION_DAYS',
    about: 'days after which finished deliveries and their attempts are deleted; 0 keeps them for ever',
    fallback: '90',
    parse: integer(0, 36_500),
  },
  eventRetentionDays: {
    name: 'EVENT_RETENTION_DAYS',
    about: 'days after which events are deleted, and can no longer be replayed; 0 keeps them for ever',
    fallback: '730',
    parse: integer(0, 36_500),
  },
  apiUrl: {
    name: 'BILLING_API_URL',
    about: 'base URL of the API that billing listen and billing trigger talk to; https:// unless it is this machine',
    fallback: 'http://127.0.0.1:3000',
    parse: url('http:', 'https:'),
  },
  apiKey: {
    name: 'BILLING_API_KEY',
    about: "a merchant's API key, for billing listen and billing trigger alone",
    secret: true,
    parse: text,
  },
  logLevel: {
    name: 'LOG_LEVEL',
    about: 'trace, debug, info, warn, error, fatal or silent',
    fallback: 'info',
    parse: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  },
} satisfies Record<string, Variable<unknown>>;

type Variables = typeof variables;
type Parsed<V> = V extends { parse: (text: string) => infer T } ? (V extends { fallback: string } ? T : T | undefined) : never;
type Values = { readonly [Key in keyof Variables]: Parsed<Variables[Key]> };

/** The whole configuration, frozen. What a role requires is present for that role: `required` narrows it. */
export type Config = Values & { readonly publicUrl: string };

/** The fields that must be there, as non-optional; throws an Error (a bug of ours: loadConfig has already refused) when one is not. */
export function required<K extends keyof Config>(config: Config, ...keys: K[]): { [Key in K]: NonNullable<Config[Key]> } {
  return Object.fromEntries(
    keys.map((key) => {
      if (config[key] === undefined) throw new Error(`${key} is not configured`);
      return [key, config[key]];
    }),
  ) as { [Key in K]: NonNullable<Config[Key]> };
}

/** Name, meaning, default and who requires it, of every variable, in order: for documents and --help. */
export function describeVariables(): Pick<Variable<unknown>, 'name' | 'about' | 'fallback' | 'requiredBy' | 'secret'>[] {
  return Object.values<Variable<unknown>>(variables);
}

/**
 * Reads and validates everything for `role`. Throws one OperatorError (exit code 2) that names every wrong variable and what would be right.
 * `envFile` names a file in .env format whose values apply where the environment has none.
 */
export function loadConfig(role: Role, { env = process.env, envFile }: { env?: Environment; envFile?: string | undefined } = {}): Config {
  const faults: string[] = [];
  const environment = { ...(envFile === undefined ? {} : readEnvFile(envFile)), ...withoutEmpty(env) };
  const values: Record<string, unknown> = {};
  for (const [key, variable] of Object.entries<Variable<unknown>>(variables)) {
    try {
      const given = valueOf(variable, environment);
      if (given !== undefined) values[key] = variable.parse(given);
      else if (variable.fallback !== undefined) values[key] = variable.parse(variable.fallback);
      else if (variable.requiredBy?.includes(role) === true) faults.push(`${variable.name} is required: ${variable.about}.`);
    } catch (error) {
      faults.push(`${variable.name} ${messageOf(error)}.`);
    }
  }
  const config = values as unknown as Config;
  faults.push(...crossCheck(config));
  if (faults.length > 0) {
    throw new OperatorError(`The configuration is not right:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`, 2);
  }
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  return Object.freeze({
    ...config,
    publicUrl: (values.publicUrl as string | undefined)?.replace(/\/+$/, '') ?? `http://${host}:${config.port}`,
    webhookGuard: config.webhookGuard || config.env === 'production',
  });
}

/** What systemd tells a service about itself (sd_notify(3), sd_watchdog_enabled(3)). */
export interface Supervision {
  /** The socket that takes messages. */
  readonly socket: string;
  /** Milliseconds within which a sign of life is expected; undefined when none is. */
  readonly watchdogMs: number | undefined;
  /** Where systemd-notify is looked for. */
  readonly path: string;
}

/** Read from the environment that systemd gives with Type=notify; undefined when no supervisor asks to be told. */
export function supervision(env: Environment = process.env): Supervision | undefined {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: interval, WATCHDOG_PID: pid } = env;
  if (socket === undefined || socket === '') return undefined;
  const watched = /^[1-9]\d*$/.test(interval ?? '') && (pid === undefined || pid === String(process.pid));
  return { socket, watchdogMs: watched ? Number(interval) / 1000 : undefined, path: env.PATH ?? '/usr/bin:/bin' };
}

function crossCheck(config: Config): string[] {
  const faults: string[] = [];
  if (config.rpcUrls !== undefined && config.wsUrls !== undefined && config.wsUrls.length !== config.rpcUrls.length) {
    faults.push(
      `SOLANA_WS_URL has ${config.wsUrls.length} entries and SOLANA_RPC_URL ${config.rpcUrls.length}; there must be one for each.`,
    );
  }
  if (config.rpcUrls?.length === 0) faults.push('SOLANA_RPC_URL must name at least one endpoint.');
  return faults;
}

function valueOf({ name, secret }: Variable<unknown>, environment: Environment): string | undefined {
  const path = environment[`${name}_FILE`];
  if (secret !== true || path === undefined) return environment[name];
  if (environment[name] !== undefined) throw new Error(`and ${name}_FILE are both given; keep one`);
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new Error(`cannot be read from ${name}_FILE: ${messageOf(error)}`, { cause: error });
  }
}

/** Whether the user asks for text without colour (https://no-color.org). */
export function noColour(env: Environment = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

function withoutEmpty(env: Environment): Environment {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
}

function readEnvFile(path: string): Environment {
  try {
    return parseEnv(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new OperatorError(`The environment file ${path} cannot be read: ${messageOf(error)}`, 2, { cause: error });
  }
}

/**
 * Settles how a terminal is drawn on; false where it cannot be. React, ink and chalk read these variables when they are imported, so it comes before
 * that: without NODE_ENV React is its slow development build, which also keeps a record of every rendering; chalk does not know NO_COLOR
 * (https://no-color.org); with CI ink would draw nothing before the end, though there is a terminal.
 */
export function prepareTerminal(env: Environment = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
