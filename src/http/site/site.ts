// The browser pages. Documents are at /s/{planId}, /checkout/{checkoutSessionId}, /account and
// /dashboard; their HTML is in site-documents.ts. Receipts are at /receipts/ (receipts.ts). Scripts
// and styles are under /assets/. The build writes all files to dist/pages.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isUnavailable } from '../../db/postgres/outage.ts';
import { findPublicPlan } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import { ROOT } from '../../root.ts';
import type { Language } from '../../words/languages.ts';
import { type Api, type ApiDeps, idOf } from '../door/context.ts';
import { onError } from '../door/errors.ts';
import type { Gate } from '../door/gate.ts';
import { languageOf } from './accept-language.ts';
import { withPlanTags } from './open-graph.ts';
import { isReceiptPath, receiptRoutes } from './receipts.ts';
import {
  assetOf,
  documentOf,
  headOf,
  type Manifest,
  type PageName,
  refusalOf,
} from './site-documents.ts';
import { sitePaths } from './site-paths.ts';
import { STATEMENT_STYLE } from './statement-page.ts';
import { unsubscribeRoutes } from './unsubscribe.ts';

const built = new URL('dist/pages/', ROOT);

/** Value of Retry-After while the database is unavailable, in seconds. */
const RETRY_SECONDS = 5;

/** Additions to the content security policy of a page. */
interface Sources {
  readonly connections?: readonly string[];
  readonly forms?: "'self'" | "'none'";
  readonly styles?: readonly string[];
}

/** The content security policy of a page. */
const policyOf = ({ connections = [], forms = "'none'", styles = [] }: Sources) =>
  [
    "default-src 'none'",
    "script-src 'self'",
    ["style-src 'self'", ...styles].join(' '),
    // The icons of wallets are data: URLs.
    "img-src 'self' data:",
    ["connect-src 'self'", ...connections].join(' '),
    "base-uri 'none'",
    `form-action ${forms}`,
    "frame-ancestors 'none'",
  ].join('; ');

/**
 * Addresses of wallet apps on the same phone, for the Mobile Wallet Adapter. A request to the HTTP
 * address makes Chrome ask the user for permission (src/pages/shared/phone-wallet.ts).
 */
const WALLET_APPS = ['ws://localhost:*', 'http://localhost'];

const pages: Readonly<Record<string, PageName>> = {
  '/s/:planId': 'subscribe',
  '/checkout/:checkoutSessionId': 'subscribe',
  '/account': 'account',
  '/dashboard': 'dashboard',
};

/**
 * Whether the page may connect to wallet apps on the phone. Only Chrome on Android supports such
 * connections. A WebView is excluded, because the app around the WebView is usually a wallet
 * itself.
 */
function opensWalletApps(page: PageName, { headers }: FastifyRequest): boolean {
  const agent = headers['user-agent'] ?? '';
  return page !== 'dashboard' && /Android.*Chrome\//.test(agent) && !/; wv\)|Version\//.test(agent);
}

/** Returns the page of a route; undefined when the route has no page. */
function pageOf({ routeOptions: { url = '' } }: FastifyRequest): PageName | undefined {
  return isReceiptPath(url) ? 'receipt' : pages[url];
}

/** The dashboard is in English. */
const languageFor = (page: PageName, request: FastifyRequest): Language =>
  page === 'dashboard' ? 'en' : languageOf(request);

/**
 * Registers the pages. Logs a warning when `npm run build` has not built the pages. Requests for
 * documents count as public reads. Requests for files under /assets/ are not counted, because a
 * page without its files would stay empty.
 */
export function siteRoutes(api: Api, deps: ApiDeps, gate: Gate): void {
  const { cluster, environment, onrampUrl = '', reportUrl = '', contactUrl = '', log } = deps;
  const manifest = readManifest();
  if (manifest === undefined) {
    log.warn('the browser pages are not built: run "npm run build"');
    return;
  }
  // For local trials, the pages offer a demo wallet, whose key is in the URL's fragment.
  const demo = environment === 'development' && cluster === 'localnet';
  const settings = {
    cluster,
    report: reportUrl,
    onramp: onrampUrl,
    'qr-code': assetOf(manifest, 'qr-code'),
    ...cataloguesOf(manifest),
  };
  const walletApps = { 'wallet-apps': assetOf(manifest, 'mobile-wallet') };
  void api.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.publicRead(request, reply));
    sendRefusals(scope, manifest);
    receiptRoutes(scope, deps, {
      head: (title) => headOf(manifest, title),
      script: assetOf(manifest, 'receipt'),
      send: (reply, html) => sendPage(reply, html, 'private, no-store', { forms: "'self'" }),
    });
    for (const [url, page] of Object.entries(pages))
      scope.get<{ Params: { planId?: string } }>(url, async (request, reply) => {
        const onPhone = opensWalletApps(page, request);
        const html = documentOf(manifest, {
          page,
          language: languageFor(page, request),
          scripts: demo ? ['demo-wallet'] : [],
          settings: {
            ...settings,
            ...(onPhone && walletApps),
            ...(page === 'dashboard' && { contact: contactUrl }),
          },
        });
        const tagged = await withTags(deps, html, request.params.planId);
        return sendPage(reply, tagged, 'no-cache', {
          connections: onPhone ? WALLET_APPS : [],
          // The dashboard opens a statement as a blob. The dashboard's policy also applies to the
          // blob, so the policy must allow the style of statements.
          styles: page === 'dashboard' ? [STATEMENT_STYLE] : [],
        });
      });
  });
  void api.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.publicRead(request, reply));
    unsubscribeRoutes(scope, deps, {
      head: (title) => headOf(manifest, title),
      send: (reply, html) => sendPage(reply, html, 'no-store', { forms: "'self'" }),
    });
  });
  sitePaths(api, Object.keys(pages), `/assets/${manifest.icon ?? ''}`);
  void api.register(fastifyStatic, {
    root: fileURLToPath(new URL('assets/', built)),
    prefix: '/assets/',
    index: false,
    decorateReply: false,
    schemaHide: true,
    preCompressed: true,
    wildcard: false,
    maxAge: '365d',
    immutable: true,
    setHeaders: (response) => {
      response.setHeader('cross-origin-resource-policy', 'same-origin');
    },
  });
}

/**
 * When a rate limit is reached or during an outage, responds with a page in the request's language.
 */
function sendRefusals(scope: Api, manifest: Manifest): void {
  scope.setErrorHandler<FastifyError>((error, request, reply) => {
    const page = pageOf(request);
    const reason = refusalFor(error);
    if (page === undefined || reason === undefined) return onError(error, request, reply);
    if (!reply.hasHeader('retry-after')) reply.header('retry-after', RETRY_SECONDS);
    const seconds = Number(reply.getHeader('retry-after'));
    const language = languageFor(page, request);
    const html = refusalOf(manifest, { page, language }, reason.text, seconds);
    return sendPage(reply.code(reason.status), html, 'no-store');
  });
}

/**
 * Returns the HTML of a plan's page with its Open Graph tags. If the plan cannot be read, or its
 * merchant is suspended, returns `html` unchanged. The page's script then shows the reason.
 */
async function withTags(
  { sql, publicUrl }: ApiDeps,
  html: string,
  planId: string | undefined,
): Promise<string> {
  if (planId === undefined) return html;
  try {
    const plan = await findPublicPlan(sql, idOf(planId, 'plan'));
    return plan?.available !== true ? html : withPlanTags(html, plan, publicUrl);
  } catch {
    return html;
  }
}

function sendPage(
  reply: FastifyReply,
  html: string,
  cacheControl: string,
  sources: Sources = {},
): FastifyReply {
  return reply
    .header('content-security-policy', policyOf(sources))
    .header('vary', 'accept-language, user-agent')
    .header('cross-origin-resource-policy', 'same-origin')
    .header('x-frame-options', 'DENY')
    .header('permissions-policy', 'camera=(), geolocation=(), microphone=(), payment=()')
    .header('cache-control', cacheControl)
    .type('text/html; charset=utf-8')
    .send(html);
}

/**
 * Returns the HTTP status and the text for a reached rate limit or an outage. Returns undefined for
 * all other errors.
 */
function refusalFor(
  error: FastifyError,
): { status: number; text: 'tooMany' | 'unavailable' } | undefined {
  if (error instanceof ServiceError && error.code === 'RATE_LIMITED')
    return { status: 429, text: 'tooMany' };
  return isUnavailable(error) ? { status: 503, text: 'unavailable' } : undefined;
}

function readManifest(): Manifest | undefined {
  const file = new URL('manifest.json', built);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Manifest) : undefined;
}

/**
 * Returns the page settings `words-<language>`. Each setting is the URL of a language's word list.
 */
function cataloguesOf(manifest: Manifest): Record<string, string> {
  const names = Object.keys(manifest).filter((name) => name.startsWith('words-'));
  return Object.fromEntries(names.map((name) => [name, assetOf(manifest, name)]));
}
