// Every variable there is: the operators' table and `.env.example` are generated from it.
import ipaddr from 'ipaddr.js';
import { address, cidr, flag, integer, list, nameServer, oneOf, secrets, text, url } from './parse.ts';

/** What a command needs: a variable that is missing but not needed is no fault. */
export type Role = 'serve' | 'keeper' | 'dispatch' | 'admin' | 'developer';

type Cluster = 'mainnet-beta' | 'devnet' | 'localnet';

export interface Variable<T> {
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

/** In the order of the table. */
export const variables = {
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
    fallback: '10',
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

/** What the variables say, by the name that each has in the code. */
export type Values = { readonly [Key in keyof Variables]: Parsed<Variables[Key]> };

/** Name, meaning, default and who requires it, of every variable, in order: for documents and --help. */
export function describeVariables(): Pick<Variable<unknown>, 'name' | 'about' | 'fallback' | 'requiredBy' | 'secret'>[] {
  return Object.values<Variable<unknown>>(variables);
}
