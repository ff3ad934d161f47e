// What the API is given, and what every route can ask of it. Nothing here listens or reads the environment.
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AppRow, findApps } from '../db/apps.ts';
import type { Sql } from '../db/connect.ts';
import { findEndpoint, type EndpointRow } from '../db/endpoints.ts';
import { isId } from '../db/ids.ts';
import type { MerchantRow, Tier } from '../db/merchants.ts';
import type { ChainSender, Network } from '../domain/network.ts';
import type { Environment } from '../domain/keys.ts';
import type { SecretBox } from '../domain/secrets.ts';
import { ServiceError } from '../errors.ts';
import { createBatch, type Find } from './batch.ts';
import type { Log } from '../log.ts';

export interface ApiDeps {
  sql: Sql;
  /** A small pool of its own for analytics, exports and the counts of replays, which read more than other routes. */
  reports: Sql;
  /** What Postgres and the loops of this process suffer from, for /readyz. */
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
  /** Base units; a plan may not collect less per period. */
  planMinimumAmount: bigint;
  /** Requests per minute and tier. */
  requestsPerMinute: Record<Tier, number>;
  /** Origins that browsers may call from. */
  corsOrigins: readonly string[];
  /** Addresses and CIDRs of the proxies whose X-Forwarded-For is believed. */
  trustProxy: readonly string[];
  /** Sends a signed ping, or the event given, to a webhook endpoint and waits for the answer, 5 s at the most. */
  ping: (target: {
    appId: string;
    webhookId: string;
    url: string;
    /** Unix ms of the database's clock. */
    now: number;
    secret: string;
    previousSecret?: string;
    event?: { id: string; body: string };
  }) => Promise<PingResult>;
  /** Throws when webhooks may not be sent to this host of a URL, an address that is refused. */
  checkWebhookHost: (hostname: string) => void;
  /** Called for each answer, for metrics. */
  onAnswer: (answer: { method: string; route: string; status: number; seconds: number }) => void;
  /** Deliveries were queued; where events were written, they are of this app, and who waits for them is woken. */
  wakeDispatchers: (appId?: string) => void;
  /** Subscriptions became due. */
  wakeKeepers: () => void;
  /** A replay was asked for (domain/replay.ts, workOnReplays). */
  wakeReplays: () => void;
}

export interface PingResult {
  /** null when there was no answer. */
  status: number | null;
  durationMs: number;
  /** Why there was no answer. */
  error: string | null;
  /** The start of the answer's body. */
  response: string | null;
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** The merchant's row, as it was read for this request. */
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
    /** The methods that a path takes. */
    methodsOf: (url: string) => string[];
  }
  interface FastifyRequest {
    caller: Caller | null;
    /** By performance.now(). */
    startedAt: number;
  }
}

/** The merchant that calls; only on routes that let merchants alone in. */
export function merchantOf({ caller }: FastifyRequest): MerchantCaller {
  if (caller?.role !== 'merchant') throw new Error('a merchant route without a merchant');
  return caller;
}

/** The subscriber that calls; only on routes that let subscribers alone in. */
export function subscriberOf({ caller }: FastifyRequest): SubscriberCaller {
  if (caller?.role !== 'subscriber') throw new Error('a subscriber route without a subscriber');
  return caller;
}

/** An id out of a path, in lower case. Throws NOT_FOUND when it has not the form of one: nothing can be there. */
export function idOf(text: string, what: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw absent(what);
  return id;
}

export function absent(what: string): ServiceError {
  return new ServiceError('NOT_FOUND', `There is no such ${what}.`);
}

export function foreign(what: string): ServiceError {
  return new ServiceError('FORBIDDEN', `This ${what} belongs to somebody else.`);
}

type FindApp = Find<{ id: string }, AppRow>;
const appsOf = new WeakMap<Sql, FindApp>();

/** Looks apps up, those that requests of one event-loop turn ask for together. */
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

/** The merchant's app of this path. Throws NOT_FOUND when there is none, FORBIDDEN when it is another merchant's. */
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

/** The live webhook endpoint of this path. Throws NOT_FOUND, or FORBIDDEN when the app is another merchant's. */
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
