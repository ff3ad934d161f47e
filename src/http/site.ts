// The browser pages. Documents are at /s/{planId}, /checkout/{checkoutSessionId}, /account and
// /dashboard. Their scripts and styles are under /assets/. The build writes all files to
// dist/pages.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyError, FastifyReply } from 'fastify';
import { findPublicPlan } from '../db/plans.ts';
import { isUnavailable } from '../db/postgres/outage.ts';
import { ServiceError } from '../errors.ts';
import { type Api, type ApiDeps, idOf } from './context.ts';
import { onError } from './errors.ts';
import type { Gate } from './gate.ts';
import { escapeHtml, withPlanTags } from './open-graph.ts';
import { sitePaths } from './site-paths.ts';

/** Maps the name of an asset to the asset's file name under /assets/. */
type Manifest = Readonly<Record<string, string>>;

const built = new URL('../../dist/pages/', import.meta.url);

/** Value of Retry-After while the database is unavailable, in seconds. */
const RETRY_SECONDS = 5;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // The icons of wallets are data: URLs.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

interface Document {
  page: string;
  title: string;
  /** Text that the page shows when its script does not run. */
  fact: string;
}

const subscribe: Document = {
  page: 'subscribe',
  title: 'Subscribe',
  fact: 'Nothing was signed and nothing was paid by opening this page.',
};
const account: Document = {
  page: 'account',
  title: 'My subscriptions',
  fact: 'Nothing was changed: your subscriptions continue as they are.',
};
const dashboard: Document = {
  page: 'dashboard',
  title: 'Dashboard',
  fact: 'Nothing was changed: payments and webhooks continue without this page.',
};
const documents: Readonly<Record<string, Document>> = {
  '/s/:planId': subscribe,
  '/checkout/:checkoutSessionId': subscribe,
  '/account': account,
  '/dashboard': dashboard,
};

/**
 * Registers the pages. Logs a warning when `npm run build` has not built the pages. Requests for
 * documents count as public reads. Requests for files under /assets/ are not counted, because an
 * opened page without its files would stay empty.
 */
export function siteRoutes(api: Api, deps: ApiDeps, gate: Gate): void {
  const { cluster, environment, onrampUrl = '', reportUrl = '', log } = deps;
  const manifest = readManifest();
  if (manifest === undefined) {
    log.warn('the browser pages are not built: run "npm run build"');
    return;
  }
  // The pages include a demo wallet for trying the pages out. The URL's fragment holds the key of
  // the demo wallet.
  const demo = environment === 'development' && cluster === 'localnet';
  const settings = { cluster, report: reportUrl, onramp: onrampUrl, ...cataloguesOf(manifest) };
  void api.register(async (scope: Api) => {
    scope.addHook('onRequest', (request, reply) => gate.publicRead(request, reply));
    scope.setErrorHandler<FastifyError>((error, request, reply) => {
      const document = documents[request.routeOptions.url ?? ''];
      const reason = reasonOf(error);
      if (document === undefined || reason === undefined) return onError(error, request, reply);
      if (!reply.hasHeader('retry-after')) reply.header('retry-after', RETRY_SECONDS);
      const seconds = Number(reply.getHeader('retry-after'));
      return sendPage(
        reply.code(reason.status),
        refusalOf(manifest, document, reason.text, seconds),
        'no-store',
      );
    });
    for (const [url, document] of Object.entries(documents)) {
      const html = documentOf(manifest, document, { demo, settings });
      scope.get<{ Params: { planId?: string } }>(url, async ({ params: { planId } }, reply) =>
        sendPage(reply, await withTags(deps, html, planId), 'no-cache'),
      );
    }
  });
  sitePaths(api, Object.keys(documents), `/assets/${manifest.icon ?? ''}`);
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
 * Returns the HTML of a plan's page with its Open Graph tags. If the plan cannot be read, returns
 * `html` unchanged. The page's script then shows the reason.
 */
async function withTags(
  { sql, publicUrl }: ApiDeps,
  html: string,
  planId: string | undefined,
): Promise<string> {
  if (planId === undefined) return html;
  try {
    const plan = await findPublicPlan(sql, idOf(planId, 'plan'));
    return plan === undefined ? html : withPlanTags(html, plan, publicUrl);
  } catch {
    return html;
  }
}

function sendPage(reply: FastifyReply, html: string, cacheControl: string): FastifyReply {
  return reply
    .header('content-security-policy', policy)
    .header('cross-origin-resource-policy', 'same-origin')
    .header('x-frame-options', 'DENY')
    .header('permissions-policy', 'camera=(), geolocation=(), microphone=(), payment=()')
    .header('cache-control', cacheControl)
    .type('text/html; charset=utf-8')
    .send(html);
}

/**
 * If a later request may succeed after this error, returns the HTTP status and the reason for the
 * response. Returns undefined for all other errors.
 */
function reasonOf(error: FastifyError): { status: number; text: string } | undefined {
  if (error instanceof ServiceError && error.code === 'RATE_LIMITED')
    return { status: 429, text: 'Too many requests came from your network within a minute.' };
  return isUnavailable(error)
    ? { status: 503, text: 'The service does not reach its database at the moment.' }
    : undefined;
}

function readManifest(): Manifest | undefined {
  const file = new URL('manifest.json', built);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Manifest) : undefined;
}

function assetOf(manifest: Manifest, name: string): string {
  const file = manifest[name];
  if (file === undefined) throw new Error(`the manifest has no ${name}`);
  return `/assets/${file}`;
}

/**
 * Returns the page settings `words-<language>`. Each setting is the URL of a language's word list.
 */
function cataloguesOf(manifest: Manifest): Record<string, string> {
  const names = Object.keys(manifest).filter((name) => name.startsWith('words-'));
  return Object.fromEntries(names.map((name) => [name, assetOf(manifest, name)]));
}

/** The elements of `<head>` that every page has. */
function headOf(manifest: Manifest, title: string): string {
  return `<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="${assetOf(manifest, 'icon')}">
<link rel="stylesheet" href="${assetOf(manifest, 'style')}">`;
}

/**
 * Returns the HTML of a page. The only data in the HTML are the settings of this installation. The
 * script replaces the content of #root. If the script does not run, the style sheet shows `.late`
 * after some seconds.
 */
function documentOf(
  manifest: Manifest,
  { page, title, fact }: Document,
  { demo, settings }: { demo: boolean; settings: Readonly<Record<string, string>> },
): string {
  const scripts = (demo ? ['demo-wallet', page] : [page]).map(
    (name) => `<script type="module" src="${assetOf(manifest, name)}"></script>`,
  );
  const metas = Object.entries(settings).map(
    ([name, value]) => `<meta name="billing-${name}" content="${escapeHtml(value)}">`,
  );
  return `<!doctype html>
<html lang="en">
<head>
${headOf(manifest, title)}
${metas.join('\n')}
${scripts.join('\n')}
</head>
<body>
<div id="root"><main class="boot">
<p class="muted" role="status">Loading…</p>
<div class="late">
<h1>This page has not started</h1>
<p>${fact}</p>
<p><a class="button" href="">Load the page again</a></p>
<p class="muted">If that does not help, turn off extensions that block scripts, or try another browser or network.</p>
</div>
</main></div>
<noscript><main class="boot"><h1>${title}</h1><p>This page needs JavaScript to talk to your wallet.</p></main></noscript>
</body>
</html>
`;
}

/** Returns the page that is sent instead of a document that cannot be sent at the moment. */
function refusalOf(
  manifest: Manifest,
  { title, fact }: Document,
  reason: string,
  seconds: number,
): string {
  return `<!doctype html>
<html lang="en">
<head>
${headOf(manifest, title)}
</head>
<body>
<main class="boot">
<h1>One moment, please</h1>
<p>${reason}</p>
<p>${fact}</p>
<p>Load the page again in ${seconds} seconds.</p>
<p><a class="button" href="">Load the page again</a></p>
</main>
</body>
</html>
`;
}
