// HTML of the browser pages, and of the page that is shown when a rate limit is reached or during
// an outage.
import { catalogues } from '../../words/catalogues.ts';
import { fill } from '../../words/fill.ts';
import type { Language } from '../../words/languages.ts';
import { escapeHtml } from './open-graph.ts';

/** Maps the name of an asset to the asset's file name under /assets/. */
export type Manifest = Readonly<Record<string, string>>;

export type PageName = 'subscribe' | 'account' | 'dashboard' | 'receipt';

/** The values from which documentOf() makes the HTML of a page. */
export interface Rendering {
  page: PageName;
  language: Language;
  /** Additional scripts, by their names in the manifest. */
  scripts: readonly string[];
  /**
   * Settings of this installation, written as meta elements `billing-<name>`. The HTML has no other
   * data.
   */
  settings: Readonly<Record<string, string>>;
}

/** The dashboard is in English. */
const dashboard = {
  title: 'Dashboard',
  fact: 'Nothing was changed: payments and webhooks continue without this page.',
};

/** Returns the URL of an asset. */
export function assetOf(manifest: Manifest, name: string): string {
  const file = manifest[name];
  if (file === undefined) throw new Error(`the manifest has no ${name}`);
  return `/assets/${file}`;
}

/** Returns the elements of `<head>` that every page has. */
export function headOf(manifest: Manifest, title: string): string {
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
 * Returns the HTML of a page. The script replaces the content of #root. If the script does not run,
 * the style sheet shows `.late` after some seconds.
 */
export function documentOf(
  manifest: Manifest,
  { page, language, scripts, settings }: Rendering,
): string {
  const words = catalogues[language].site;
  const { title, fact } = page === 'dashboard' ? dashboard : words[page];
  const tags = [...scripts, page].map(
    (name) => `<script type="module" src="${assetOf(manifest, name)}"></script>`,
  );
  const metas = Object.entries(settings).map(
    ([name, value]) => `<meta name="billing-${name}" content="${escapeHtml(value)}">`,
  );
  return `<!doctype html>
<html lang="${language}">
<head>
${headOf(manifest, title)}
${metas.join('\n')}
${tags.join('\n')}
</head>
<body>
<div id="root"><main class="boot">
<p class="muted loading" role="status">${words.loading}</p>
<div class="late">
<h1>${words.notStarted}</h1>
<p>${fact}</p>
<p><a class="button" href="">${words.loadAgain}</a></p>
<p class="muted">${words.otherwise}</p>
</div>
</main></div>
<noscript><main class="boot"><h1>${title}</h1><p>${words.needsScript}</p></main></noscript>
</body>
</html>
`;
}

/** Returns the page for a reached rate limit (`tooMany`) or an outage (`unavailable`). */
export function refusalOf(
  manifest: Manifest,
  { page, language }: Pick<Rendering, 'page' | 'language'>,
  reason: 'tooMany' | 'unavailable',
  seconds: number,
): string {
  const words = catalogues[language].site;
  const { title, fact } = page === 'dashboard' ? dashboard : words[page];
  return `<!doctype html>
<html lang="${language}">
<head>
${headOf(manifest, title)}
</head>
<body>
<main class="boot">
<h1>${words.oneMoment}</h1>
<p>${words[reason]}</p>
<p>${fact}</p>
<p>${fill(words.loadAgainIn, { seconds })}</p>
<p><a class="button" href="">${words.loadAgain}</a></p>
</main>
</body>
</html>
`;
}
