// The browser pages. Documents are at /s/{planId}, /checkout/{checkoutSessionId}, /account and
// /dashboard. Their scripts and styles are under /assets/. The build writes all files to
// dist/pages.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyReply } from 'fastify';
import { findPublicPlan } from '../db/plans.ts';
import { type Api, type ApiDeps, idOf } from './context.ts';
import { escapeHtml, withPlanTags } from './open-graph.ts';
import { sitePaths } from './site-paths.ts';

/** Maps the name of an asset to its file name under /assets/. */
type Manifest = Readonly<Record<string, string>>;

const built = new URL('../../dist/pages/', import.meta.url);

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Wallets have icons as data: URLs.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const documents: readonly { url: string; page: string; title: string }[] = [
  { url: '/s/:planId', page: 'subscribe', title: 'Subscribe' },
  { url: '/checkout/:checkoutSessionId', page: 'subscribe', title: 'Subscribe' },
  { url: '/account', page: 'account', title: 'My subscriptions' },
  { url: '/dashboard', page: 'dashboard', title: 'Dashboard' },
];

/** Registers the pages. Logs a warning when `npm run build` has not built the pages. */
export function siteRoutes(api: Api, deps: ApiDeps): void {
  const { cluster, environment, log, onrampUrl } = deps;
  const manifest = readManifest();
  if (manifest === undefined) {
    log.warn('the browser pages are not built: run "npm run build"');
    return;
  }
  // The pages include a demo wallet for trying the pages out. The URL's fragment holds the key of
  // the demo wallet.
  const demo = environment === 'development' && cluster === 'localnet';
  for (const { url, page, title } of documents) {
    const html = documentOf(manifest, { page, title, cluster, demo, onrampUrl });
    api.get<{ Params: { planId?: string } }>(url, async ({ params }, reply) =>
      guarded(reply)
        .header('cache-control', 'no-cache')
        .type('text/html; charset=utf-8')
        .send(await withTags(deps, html, params.planId)),
    );
  }
  const paths = documents.map(({ url }) => url);
  sitePaths(api, paths, `/assets/${manifest.icon ?? ''}`);
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
 * Returns the HTML of a plan's page with its Open Graph tags. Without the plan, returns the page as
 * it is: its script then says why there is nothing to show.
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

function guarded(reply: FastifyReply): FastifyReply {
  return reply
    .header('content-security-policy', policy)
    .header('cross-origin-resource-policy', 'same-origin')
    .header('x-frame-options', 'DENY')
    .header('permissions-policy', 'camera=(), geolocation=(), microphone=(), payment=()');
}

function readManifest(): Manifest | undefined {
  const file = new URL('manifest.json', built);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Manifest) : undefined;
}

/** Returns the HTML of a page. The only data in the HTML are the settings of this installation. */
function documentOf(
  manifest: Manifest,
  {
    page,
    title,
    cluster,
    demo,
    onrampUrl,
  }: {
    page: string;
    title: string;
    cluster: string;
    demo: boolean;
    onrampUrl: string | undefined;
  },
): string {
  const asset = (name: string) => {
    const file = manifest[name];
    if (file === undefined) throw new Error(`the manifest has no ${name}`);
    return `/assets/${file}`;
  };
  const catalogues = Object.keys(manifest)
    .filter((name) => name.startsWith('words-'))
    .map((name) => `<meta name="billing-${name}" content="${asset(name)}">`);
  const onramp =
    onrampUrl === undefined
      ? []
      : [`<meta name="billing-onramp" content="${escapeHtml(onrampUrl)}">`];
  const scripts = (demo ? ['demo-wallet', page] : [page]).map(
    (name) => `<script type="module" src="${asset(name)}"></script>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<meta name="billing-cluster" content="${cluster}">
${[...catalogues, ...onramp].join('\n')}
<title>${title}</title>
<link rel="icon" type="image/svg+xml" href="${asset('icon')}">
<link rel="stylesheet" href="${asset('style')}">
${scripts.join('\n')}
</head>
<body>
<div id="root"><main class="boot"><p class="muted" role="status">Loading…</p></main></div>
<noscript><main class="boot"><h1>${title}</h1><p>This page needs JavaScript to talk to your wallet.</p></main></noscript>
</body>
</html>
`;
}
