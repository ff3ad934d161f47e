// All environment variables. The operators' table and `.env.example` are generated from this list.
import ipaddr from 'ipaddr.js';
import { mailVariables } from './mail-variables.ts';
import { pageVariables } from './page-variables.ts';
import {
  address,
  baseUrl,
  cidr,
  flag,
  integer,
  list,
  listOf,
  nameServer,
  oneOf,
  origin,
  secrets,
  text,
  url,
} from './parse.ts';
import { paymentVariables } from './payment-variables.ts';
import { primaryUrl, replicaUrl } from './postgres-url.ts';

export const variables = {
  env: {
    name: 'BILLING_ENV',
    about:
      'development or production: the marker of API keys (sk_test_, sk_live_), HTTPS and address rules for webhooks',
    fallback: 'development',
    parse: oneOf('development', 'production'),
  },
  databaseUrl: {
    name: 'DATABASE_URL',
    about:
      'Postgres 14 or newer, as a URL of libpq: postgres://user:password@db1:5432,db2:5432/billing?sslmode=verify-full; of several hosts the primary is used',
    requiredBy: ['serve', 'keeper', 'dispatch', 'admin', 'reconcile'],
    secret: true,
    parse: primaryUrl,
  },
  databaseDirectUrl: {
    name: 'DATABASE_DIRECT_URL',
    about:
      'the URL of Postgres itself where DATABASE_URL leads to a pooler in transaction mode (PgBouncer): for notifications, migrations and commands; needs "billing migrate --roles" with both',
    secret: true,
    parse: primaryUrl,
  },
  reportsDatabaseUrl: {
    name: 'REPORTS_DATABASE_URL',
    about:
      'a replica of the database, from which serve reads analytics and exports, with the age of the data in X-Data-Age; default: the primary',
    secret: true,
    parse: replicaUrl,
  },
  databasePool: {
    name: 'DATABASE_POOL',
    about: 'Postgres connections per process; behind a pooler these are connections to the pooler',
    fallback: '10',
    parse: integer(2, 1000),
  },
  rpcUrls: {
    name: 'SOLANA_RPC_URL',
    about:
      'Solana JSON-RPC endpoints, comma-separated, in order of preference; URLs of one host and port count as one where two have to agree',
    requiredBy: ['serve', 'keeper', 'reconcile'],
    secret: true,
    parse: list(url('http:', 'https:')),
  },
  wsUrls: {
    name: 'SOLANA_WS_URL',
    about:
      'WebSocket URLs of the endpoints, in the same order; default: derived from SOLANA_RPC_URL',
    secret: true,
    parse: list(url('ws:', 'wss:')),
  },
  wsAccounts: {
    name: 'SOLANA_WS_ACCOUNTS',
    about:
      "subscribers' token accounts that each keeper follows by WebSocket, 1,000 per connection, so that a revoked or renewed approval or a top-up is seen within seconds; the sweep covers the others within SWEEP_MINUTES",
    fallback: '3000',
    parse: integer(0, 1_000_000),
  },
  sweepMinutes: {
    name: 'SWEEP_MINUTES',
    about:
      'minutes in which the keepers read every subscription on chain once, independent of the streams; after a lost message of a stream they read all at once; a lower value finds other missed changes sooner and costs more requests',
    fallback: '720',
    parse: integer(1, 1440),
  },
  rpcRate: {
    name: 'SOLANA_RPC_RATE',
    about:
      'requests per second of all keepers together to each endpoint, not counting sent transactions; they share it by leases in Postgres, so give at least as many as keepers; sponsored transactions, refunds and registrations use at most three quarters, payments the rest and what is free; 0: no limit',
    fallback: '0',
    parse: integer(0, 100_000),
  },
  serveRpcRate: {
    name: 'SOLANA_SERVE_RATE',
    about:
      'the same for all serve processes together, beside the rate of the keepers; sends count too; requests of the API share RPC requests, and wallets take turns; 0: no limit',
    fallback: '10',
    parse: integer(0, 100_000),
  },
  sendUrls: {
    name: 'SOLANA_SEND_URL',
    about: 'endpoints to which transactions are sent, comma-separated; default: SOLANA_RPC_URL',
    secret: true,
    parse: list(url('http:', 'https:')),
  },
  sendRate: {
    name: 'SOLANA_SEND_RATE',
    about: 'transactions per second of all keepers together to each endpoint; 0: no limit',
    fallback: '0',
    parse: integer(0, 100_000),
  },
  transactionVersion: {
    name: 'SOLANA_TRANSACTION_VERSION',
    about:
      'version of the transactions that a keeper signs: 1 (ten payments each), legacy (two or three), or auto (1 if the cluster supports it)',
    fallback: 'auto',
    parse: oneOf<'auto' | '1' | 'legacy'>('auto', '1', 'legacy'),
  },
  cluster: {
    name: 'SOLANA_CLUSTER',
    about:
      'mainnet-beta, devnet or localnet: picks the USDC mint, checked against the genesis hash',
    fallback: 'devnet',
    parse: oneOf<'mainnet-beta' | 'devnet' | 'localnet'>('mainnet-beta', 'devnet', 'localnet'),
  },
  usdcMint: { name: 'USDC_MINT', about: 'overrides the mint of the cluster', parse: address },
  programId: {
    name: 'SUBSCRIPTIONS_PROGRAM_ID',
    about: 'overrides the address of the Subscriptions program',
    parse: address,
  },
  keeperKeypairs: {
    name: 'KEEPER_KEYPAIR',
    about:
      "paths of the keeper's keypairs in Solana CLI format, comma-separated, each readable only by its owner; the first is in use",
    requiredBy: ['keeper'],
    parse: listOf(1, 4, text),
  },
  keeperAddresses: {
    name: 'KEEPER_ADDRESS',
    about:
      'the pullers that plans name, comma-separated, at most 4: the one in use, then standbys; default: the address of KEEPER_KEYPAIR',
    requiredBy: ['serve'],
    parse: listOf(1, 4, address),
  },
  treasuries: {
    name: 'PLATFORM_TREASURY',
    about:
      'the wallet that receives the platform fee, then its backups, comma-separated, at most 3; plans name all of them as destinations',
    requiredBy: ['serve', 'keeper'],
    parse: listOf(1, 3, address),
  },
  feeBps: {
    name: 'PLATFORM_FEE_BPS',
    about: 'platform fee in hundredths of a percent of the gross amount',
    fallback: '100',
    parse: integer(0, 10_000),
  },
  windowSeconds: {
    name: 'COLLECTION_WINDOW_SECONDS',
    about:
      'renewals are collected together at multiples of this many seconds of chain time, so that several payments share a transaction; at most a fortieth of the period and a quarter of the grace of a plan; 0: each when it falls due',
    fallback: '900',
    parse: integer(0, 86_400),
  },
  ...paymentVariables,
  jwtSecrets: {
    name: 'JWT_SECRET',
    about: 'signs JWTs; at least 32 bytes, comma-separated to rotate (the first signs, all verify)',
    requiredBy: ['serve'],
    secret: true,
    parse: secrets,
  },
  encryptionKeys: {
    name: 'ENCRYPTION_KEY',
    about:
      'encrypts webhook secrets at rest; at least 32 bytes, comma-separated to rotate (the first encrypts, all decrypt)',
    requiredBy: ['serve', 'dispatch'],
    secret: true,
    parse: secrets,
  },
  host: {
    name: 'HOST',
    about: 'address that serve listens on',
    fallback: '127.0.0.1',
    parse: text,
  },
  port: {
    name: 'PORT',
    about: 'port that serve listens on',
    fallback: '3000',
    parse: integer(0, 65_535),
  },
  metricsPort: {
    name: 'METRICS_PORT',
    about:
      'port of /metrics, /healthz and /readyz on loopback; if it is in use, the next free one; 0: any free port',
    fallback: '9464',
    parse: integer(0, 65_535),
  },
  metricsHost: {
    name: 'METRICS_HOST',
    about: 'address of the metrics port',
    fallback: '127.0.0.1',
    parse: text,
  },
  shutdownDelay: {
    name: 'SHUTDOWN_DELAY',
    about:
      'seconds after SIGTERM in which serve still answers requests while /readyz says 503, so that load balancers send no more; under Kubernetes the readiness probe’s period times its failures and 5, and terminationGracePeriodSeconds at least 15 more; 0 under systemd',
    fallback: '0',
    parse: integer(0, 120),
  },
  publicUrl: {
    name: 'PUBLIC_URL',
    about:
      'base URL that clients use: issuer and audience of JWTs, domain of the sign-in message, base of the links to checkouts and receipts; default: http://HOST:PORT',
    parse: baseUrl,
  },
  merchants: {
    name: 'MERCHANTS',
    about:
      'open: any wallet can sign in as a merchant; approval: a new merchant can only read until "billing merchants approve"',
    fallback: 'open',
    parse: oneOf<'open' | 'approval'>('open', 'approval'),
  },
  ...pageVariables,
  corsOrigins: {
    name: 'CORS_ORIGINS',
    about:
      'origins from which browsers may call the API and sign in subscribers to the apps that list the origin in returnOrigins, comma-separated',
    fallback: '',
    parse: list(origin),
  },
  dashboardOrigins: {
    name: 'DASHBOARD_ORIGINS',
    about:
      'origins, beside that of PUBLIC_URL, whose pages may sign in merchants, comma-separated; browsers may call the API from them too',
    fallback: '',
    parse: list(origin),
  },
  trustProxy: {
    name: 'TRUST_PROXY',
    about:
      'addresses or CIDRs of the proxies whose X-Forwarded-For is trusted, comma-separated; empty: none',
    fallback: '',
    parse: list((item) => (ipaddr.isValid(item) ? item : cidr(item))),
  },
  connectionsPerAddress: {
    name: 'CONNECTIONS_PER_ADDRESS',
    about:
      'connections that one address may hold to a serve process (which holds 2,000 in all); proxies of TRUST_PROXY are exempt',
    fallback: '200',
    parse: integer(1, 2000),
  },
  webhookAllowCidrs: {
    name: 'WEBHOOK_ALLOW_CIDRS',
    about: 'private ranges that are allowed as webhook targets, comma-separated',
    fallback: '',
    parse: list(cidr),
  },
  webhookDenyCidrs: {
    name: 'WEBHOOK_DENY_CIDRS',
    about: 'ranges that are refused as webhook targets, even public ones, comma-separated',
    fallback: '',
    parse: list(cidr),
  },
  webhookGuard: {
    name: 'WEBHOOK_GUARD',
    about:
      'true refuses webhook targets at private addresses; always true in production and when PUBLIC_URL is not a loopback address',
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
    about: 'webhook requests in flight per endpoint, of all dispatchers together',
    fallback: '10',
    parse: integer(1, 1000),
  },
  webhookHostConcurrency: {
    name: 'WEBHOOK_HOST_CONCURRENCY',
    about:
      'webhook requests in flight per host name, of all its endpoints and all dispatchers together; never less than WEBHOOK_ENDPOINT_CONCURRENCY',
    fallback: '40',
    parse: integer(1, 10_000),
  },
  webhookLease: {
    name: 'WEBHOOK_LEASE_SECONDS',
    about:
      'seconds after which another dispatcher may claim the deliveries of one that died; must exceed the 5 s that an endpoint has to answer',
    fallback: '10',
    parse: integer(1, 3600),
  },
  webhookProxy: {
    name: 'WEBHOOK_PROXY',
    about:
      'URL of an HTTP proxy through which webhooks are sent by CONNECT, with user and password if it wants them; hosts are judged and resolved before, and the proxy gets their addresses',
    secret: true,
    parse: url('http:', 'https:'),
  },
  endpointDisableDays: {
    name: 'ENDPOINT_DISABLE_DAYS',
    about:
      'days of nothing but failures after which a webhook endpoint is disabled until its merchant enables it again; 0: never',
    fallback: '0',
    parse: integer(0, 365),
  },
  ...mailVariables,
  webhookNameServers: {
    name: 'WEBHOOK_DNS_SERVERS',
    about:
      'name servers (address or address:port, comma-separated) that resolve webhook hosts while WEBHOOK_GUARD is on; empty: those of the system',
    fallback: '',
    parse: list(nameServer),
  },
  deliveryRetentionDays: {
    name: 'DELIVERY_RETENTION_DAYS',
    about:
      'days to keep finished deliveries and their attempts, which are dropped by the month; 0 keeps them forever',
    fallback: '90',
    parse: integer(0, 36_500),
  },
  eventRetentionDays: {
    name: 'EVENT_RETENTION_DAYS',
    about:
      'days to keep events for lists and replays; they are dropped by the month; 0 keeps them forever',
    fallback: '730',
    parse: integer(0, 36_500),
  },
  apiUrl: {
    name: 'BILLING_API_URL',
    about:
      'base URL of the API for billing listen, trigger, deliveries, replay, mcp and login; https:// unless it is on this machine',
    fallback: 'http://127.0.0.1:3000',
    parse: baseUrl,
  },
  apiKey: {
    name: 'BILLING_API_KEY',
    about: "a merchant's API key for the same commands; default: the one that billing login keeps",
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
type Parsed<V> = V extends { parse: (text: string) => infer T }
  ? V extends { fallback: string }
    ? T
    : T | undefined
  : never;

/** Type of the parsed values, by the keys of `variables`. */
export type Values = { readonly [Key in keyof Variables]: Parsed<Variables[Key]> };
/** The role of a process. The role decides which variables are required. */
export type ConfigRole = 'serve' | 'keeper' | 'dispatch' | 'admin' | 'reconcile' | 'developer';

export interface Variable<T> {
  name: string;
  about: string;
  /** Default, as an operator would write it. */
  fallback?: string;
  /** Roles that cannot start without the variable. */
  requiredBy?: readonly ConfigRole[];
  /**
   * True when the value must not be shown. Instead of a secret variable NAME, an operator may set
   * NAME_FILE, the path of a file with the value.
   */
  secret?: boolean;
  /** Parses the value. Throws an Error whose message states the expected form. */
  parse: (text: string) => T;
}

/** Lists every variable, in the order of the documentation. */
export function describeVariables(): Variable<unknown>[] {
  return Object.values<Variable<unknown>>(variables);
}
