// Finds the methods of a path, for 405 with Allow.
import type { Api } from './context.ts';

/**
 * Collects the routes registered from now on and returns a function from a URL to its methods;
 * empty for an unknown path.
 */
export function watchMethods(api: Api): (url: string) => string[] {
  const routes: { fits: RegExp; method: string }[] = [];
  api.addHook('onRoute', ({ url, method }) => {
    const pattern = url.split('/').map((part) => (part.startsWith(':') ? '[^/]+' : literal(part)));
    for (const each of [method].flat())
      routes.push({ fits: new RegExp(`^${pattern.join('/')}$`), method: each });
  });
  return (url) => {
    const path = url.split('?', 1)[0] ?? '';
    return [...new Set(routes.filter(({ fits }) => fits.test(path)).map(({ method }) => method))];
  };
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
