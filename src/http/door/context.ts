// Dependencies of the API, the caller of a request, and look-ups that several routes share.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from 'fastify';
import { type AppRow, findApps } from '../../db/accounts/apps.ts';
import type { MerchantRow, Tier } from '../../db/accounts/merchants.ts';
import { findEndpoint, type EndpointRow } from '../../db/delivering/endpoints.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { isId } from '../../db/postgres/ids.ts';
import type { Reports } from '../../db/postgres/reports.ts';
import type { Environment } from '../../domain/accounts/keys.ts';
import type { SecretBox } from '../../domain/accounts/secrets.ts';
import type { WebsiteAnswer } from '../../domain/accounts/website.ts';
import type { ChainSender, BillingAddresses } from '../../domain/chain-reads.ts';
import type { SponsorParts } from '../../domain/offers/offer.ts';
import type { Requester } from '../../domain/outbox/replay-quota.ts';
import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Ping, PingResult } from '../../webhooks/ping.ts';
import { addressSubject, networksOf } from './addresses.ts';
import { createBatch, type Find } from './batch.ts';
import type { Crowded } from './connections.ts';
import type { PlaceKind } from './waiting.ts';

export interface ApiDeps {
  sql: Sql;
  reports: Reports;
  /**
   * Returns why this process is not ready, for example during an outage of Postgres. Returns
   * undefined when the process is ready. /readyz calls this function.
   */
  trouble?: () => string | undefined;
  /**
   * Tells whether this process stops soon. /readyz then responds 503, and each response closes its
   * connection, so that clients and proxies use another process.
   */
  isStopping?: () => boolean;
  log: Log;
  chain: ChainSender;
  network: BillingAddresses;
  /** SOLANA_CLUSTER. The sign-in message shows the cluster. */
  cluster: string;
  environment: Environment;
  publicUrl: string;
  /**
   * `approval`: a new merchant can only read until an operator approves the merchant. Default:
   * `open`.
   */
  merchants?: 'open' | 'approval';
  /** URL that the pages show for reporting abuse. */
  reportUrl?: string | undefined;
  /** URL with which merchants contact the operator. Shown on the dashboard. */
  contactUrl?: string | undefined;
  jwtSecrets: readonly string[];
  secretBox: SecretBox;
  /**
   * URL of a service where a wallet can buy USDC, with the placeholders {address} and {amount}. If
   * the URL is missing, the pages show no link.
   */
  onrampUrl?: string | undefined;
  /** Budgets of sponsored transactions, and the platform fee. Undefined if nothing is sponsored. */
  sponsoring?: SponsorParts['sponsoring'];
  /** Minimum price of a plan per period, in USDC base units. */
  planMinimumAmount: bigint;
  /** Rate limit of each tier, in requests per minute. */
  requestsPerMinute: Record<Tier, number>;
  /** Origins that CORS allows. */
  corsOrigins: readonly string[];
  /**
   * Origins whose pages may sign in merchants, in addition to the origin of publicUrl. CORS allows
   * these origins too.
   */
  dashboardOrigins: readonly string[];
  /** Addresses and CIDRs of trusted proxies. X-Forwarded-For is read only from these proxies. */
  trustProxy: readonly string[];
  /** Maximum number of open connections per address, except for trusted proxies. */
  connectionsPerAddress: number;
  /** Called for each connection that is closed because a limit is reached. Used for metrics. */
  onConnectionRefused?: (limit: Crowded) => void;
  /**
   * Sends a signed event to a webhook endpoint and waits up to 5 s for the response. The default
   * event is a ping.
   */
  ping: (target: Omit<Ping, 'config'> & { now: number }) => Promise<PingResult>;
  /**
   * Reads a file of at most 4 KiB from a merchant's website and waits up to 5 s for the response.
   * The website's addresses are checked like the addresses of webhook endpoints.
   */
  readSmallFile: (file: { origin: string; path: string }) => Promise<WebsiteAnswer>;
  /** Throws when the host of a webhook URL is an IP address that must not receive webhooks. */
  checkWebhookHost: (hostname: string) => void;
  /** Called for each response, to record its metrics. */
  onResponse: (response: {
    method: string;
    route: string;
    status: number;
    seconds: number;
  }) => void;
  /**
   * Wakes dispatchers. Called after deliveries were queued. With `appId`, requests that wait for
   * events of the app are also woken.
   */
  wakeDispatchers: (appId?: string) => void;
  /** Wakes keepers. Called after subscriptions became due. */
  wakeKeepers: () => void;
  /** Wakes the worker that runs replays (workOnReplays in domain/outbox/replay.ts). */
  wakeReplays: () => void;
}

export type Api = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

/** The merchant that sent a request. Authentication reads the merchant's row for each request. */
export interface MerchantCaller extends MerchantRow {
  role: 'merchant';
  via: 'token' | 'key';
  /** Who acts for the merchant: the wallet, or the prefix of the API key. */
  actor: string;
  /** Time of the sign-in (Unix seconds) if a page got the token; null for a program or a key. */
  pageSignInAt: number | null;
}

export interface SubscriberCaller {
  role: 'subscriber';
  wallet: string;
  /**
   * Origin of the foreign page that got the token. The token is then valid only for the apps whose
   * returnOrigins contain this origin (bound.ts). Null for a token that is valid for all apps.
   */
  boundTo: string | null;
}

export type Caller = MerchantCaller | SubscriberCaller;

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * True if suspended accounts may call the route. GET routes do not need this flag, because
     * suspended accounts may always read. Handlers that receive signed transactions accept only
     * transactions of some purposes from suspended accounts.
     */
    openToSuspended?: true;
    /** For a route whose requests wait: the kind of waiting limit that applies (waiting.ts). */
    waits?: PlaceKind;
    /**
     * True for a route that, past a per-minute rate limit, responds with what this process has
     * cached. The route reads `refusal` of its request.
     */
    answersKnown?: true;
    /**
     * True for a route whose response contains a new key or secret. The sign-in of a page must then
     * be at most five minutes old.
     */
    asksFreshSignIn?: true;
  }
  interface FastifyInstance {
    /**
     * Returns the HTTP methods for which a path has routes. Returns an empty list for an unknown
     * path.
     */
    methodsOf: (url: string) => string[];
  }
  interface FastifyRequest {
    caller: Caller | null;
    /** Start of the request by performance.now(). */
    startedAt: number;
    /**
     * False for a `polling` request beyond the limit of waiting requests. It gets its response at
     * once.
     */
    mayWait: boolean;
    /**
     * The rate-limit error of a request to a route with `answersKnown`. Thrown if no cached answer
     * exists. Null below the limit.
     */
    refusal: ServiceError | null;
  }
}

/**
 * Returns the app and the address for the daily limits of replays (domain/outbox/replay-quota.ts).
 * The address is null for a Pro merchant, who has no limit per address.
 */
export function requesterOf(request: FastifyRequest, appId: string): Requester {
  const { tier } = merchantOf(request);
  return { appId, address: tier === 'pro' ? null : addressSubject(request.ip) };
}

/** Returns a text that identifies the caller among all merchants and subscribers. */
export function callerKey(caller: Caller): string {
  return caller.role === 'merchant' ? `merchant:${caller.id}` : `subscriber:${caller.wallet}`;
}

/**
 * Returns the path of a request in the fair queue for chain reads (shared-chain.ts): the networks
 * of the client's address, widest first, then the caller. Without a caller, the path ends with the
 * wallet that the body names.
 */
export function callerPath({ ip, caller, body }: FastifyRequest): string[] {
  const named = (body as { wallet?: unknown } | null | undefined)?.wallet;
  const wallet = caller === null ? named : callerKey(caller);
  return [...networksOf(ip), ...(typeof wallet === 'string' ? [wallet] : [])];
}

/**
 * Returns the calling merchant. Throws for any other caller, so only routes for merchants may use
 * merchantOf.
 */
export function merchantOf({ caller }: FastifyRequest): MerchantCaller {
  if (caller?.role !== 'merchant') throw new Error('a merchant route without a merchant');
  return caller;
}

/**
 * Returns the calling subscriber. Throws for any other caller, so only routes for subscribers may
 * use subscriberOf.
 */
export function subscriberOf({ caller }: FastifyRequest): SubscriberCaller {
  if (caller?.role !== 'subscriber') throw new Error('a subscriber route without a subscriber');
  return caller;
}

/**
 * Returns `text`, an id from the request's path, in lower case. Throws NOT_FOUND for a malformed
 * id, because no row can have such an id.
 */
export function idOf(text: string, noun: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw absent(noun);
  return id;
}

export function absent(noun: string): ServiceError {
  return new ServiceError('NOT_FOUND', `There is no such ${noun}.`);
}

export function foreign(noun: string): ServiceError {
  return new ServiceError('FORBIDDEN', `This ${noun} belongs to another account.`);
}

type FindApp = Find<{ id: string }, AppRow>;
const appsOf = new WeakMap<Sql, FindApp>();

/** Returns the function that looks up apps in batches in the database `sql`. */
export function findAppIn(sql: Sql): FindApp {
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
 * Returns the app whose id is in the request's path. Throws NOT_FOUND when the app does not exist,
 * FORBIDDEN when the app belongs to another merchant.
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
 * Returns the live webhook endpoint whose id is in the request's path. Throws NOT_FOUND when the
 * endpoint does not exist, FORBIDDEN when the endpoint's app belongs to another merchant.
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
