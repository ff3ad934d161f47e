// Dependencies of the API, the caller of a request, and look-ups that all routes share.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify';
import { type AppRow, findApps } from '../db/apps.ts';
import { findEndpoint, type EndpointRow } from '../db/endpoints.ts';
import type { MerchantRow, Tier } from '../db/merchants.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { isId } from '../db/postgres/ids.ts';
import type { Environment } from '../domain/accounts/keys.ts';
import type { SecretBox } from '../domain/accounts/secrets.ts';
import type { ChainSender, Network } from '../domain/subscribing/chain-reads.ts';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Ping, PingResult } from '../webhooks/ping.ts';
import { createBatch, type Find } from './batch.ts';

export interface ApiDeps {
  sql: Sql;
  /**
   * A separate small pool for analytics, exports and replay counts, which read more rows than other
   * routes.
   */
  reports: Sql;
  /**
   * The reason why this process is not ready (Postgres or one of its loops), for /readyz; undefined
   * when it is.
   */
  trouble?: () => string | undefined;
  log: Log;
  chain: ChainSender;
  network: Network;
  /** SOLANA_CLUSTER, shown in the sign-in message. */
  cluster: string;
  environment: Environment;
  publicUrl: string;
  jwtSecrets: readonly string[];
  secretBox: SecretBox;
  /** Minimum amount of a plan per period, in base units. */
  planMinimumAmount: bigint;
  /** Requests per minute and tier. */
  requestsPerMinute: Record<Tier, number>;
  /** Origins allowed by CORS. */
  corsOrigins: readonly string[];
  /** Origins whose pages may sign in merchants, beside that of publicUrl; CORS allows them too. */
  dashboardOrigins: readonly string[];
  /** Addresses and CIDRs of proxies whose X-Forwarded-For is trusted. */
  trustProxy: readonly string[];
  /**
   * Sends a signed ping, or the given event, to a webhook endpoint and waits up to 5 s for the
   * response.
   */
  ping: (target: Omit<Ping, 'config'> & { now: number }) => Promise<PingResult>;
  /** Throws when the host of a URL is an address to which webhooks must not be sent. */
  checkWebhookHost: (hostname: string) => void;
  /** Called for each response, for metrics. */
  onResponse: (response: {
    method: string;
    route: string;
    status: number;
    seconds: number;
  }) => void;
  /**
   * Wakes dispatchers after deliveries were queued. With `appId`, also wakes requests that wait for
   * the app's events.
   */
  wakeDispatchers: (appId?: string) => void;
  /** Wakes keepers after subscriptions became due. */
  wakeKeepers: () => void;
  /** Wakes the replay worker (domain/replay.ts, workOnReplays). */
  wakeReplays: () => void;
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** The merchant's row, read for this request. */
export interface MerchantCaller extends MerchantRow {
  role: 'merchant';
  via: 'token' | 'key';
}

export interface SubscriberCaller {
  role: 'subscriber';
  wallet: string;
}

export type Caller = MerchantCaller | SubscriberCaller;

declare module 'fastify' {
  interface FastifyInstance {
    /** The methods of a path; empty for an unknown path. */
    methodsOf: (url: string) => string[];
  }
  interface FastifyRequest {
    caller: Caller | null;
    /** By performance.now(). */
    startedAt: number;
  }
}

/** The caller as one text, unique across merchants and subscribers. */
export function callerKey(caller: Caller): string {
  return caller.role === 'merchant' ? `merchant:${caller.id}` : `subscriber:${caller.wallet}`;
}

/** The calling merchant. Only for routes that admit merchants only. */
export function merchantOf({ caller }: FastifyRequest): MerchantCaller {
  if (caller?.role !== 'merchant') throw new Error('a merchant route without a merchant');
  return caller;
}

/** The calling subscriber. Only for routes that admit subscribers only. */
export function subscriberOf({ caller }: FastifyRequest): SubscriberCaller {
  if (caller?.role !== 'subscriber') throw new Error('a subscriber route without a subscriber');
  return caller;
}

/**
 * An id from a path, in lower case. Throws NOT_FOUND when it is malformed, because no row can have
 * it.
 */
export function idOf(text: string, what: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw absent(what);
  return id;
}

export function absent(what: string): ServiceError {
  return new ServiceError('NOT_FOUND', `There is no such ${what}.`);
}

export function foreign(what: string): ServiceError {
  return new ServiceError('FORBIDDEN', `This ${what} belongs to another account.`);
}

type FindApp = Find<{ id: string }, AppRow>;
const appsOf = new WeakMap<Sql, FindApp>();

/** The batched look-up of apps for a pool. */
function findAppIn(sql: Sql): FindApp {
  const find =
    appsOf.get(sql) ??
    createBatch<{ id: string }, AppRow>(
      (wanted) =>
        findApps(
          sql,
          wanted.map(({ id }) => id),
        ),
      ({ id }) => id,
    );
  appsOf.set(sql, find);
  return find;
}

/**
 * The app of the path. Throws NOT_FOUND when it does not exist, FORBIDDEN when it belongs to
 * another merchant.
 */
export async function ownApp(
  { sql }: ApiDeps,
  request: FastifyRequest,
  appId: string,
): Promise<AppRow> {
  const app = await findAppIn(sql)({ id: idOf(appId, 'app') });
  if (app === undefined) throw absent('app');
  if (app.merchantId !== merchantOf(request).id) throw foreign('app');
  return app;
}

/**
 * The live webhook endpoint of the path. Throws NOT_FOUND, or FORBIDDEN when the app belongs to
 * another merchant.
 */
export async function ownEndpoint(
  deps: ApiDeps,
  request: FastifyRequest,
  { appId, webhookId }: { appId: string; webhookId: string },
): Promise<EndpointRow> {
  const app = await ownApp(deps, request, appId);
  const endpoint = await findEndpoint(deps.sql, idOf(webhookId, 'webhook endpoint'));
  if (endpoint?.appId !== app.id) throw absent('webhook endpoint');
  return endpoint;
}
