// The language of a reader, from the Accept-Language header.
import type { FastifyRequest } from 'fastify';
import { isLanguage, type Language } from '../../words/languages.ts';

/**
 * Returns the language with the highest weight in the Accept-Language header. Ignores languages
 * that the pages do not have. Returns English if no language is left.
 */
export function languageOf(request: FastifyRequest): Language {
  return tagsOf(request).map(codeOf).find(isLanguage) ?? 'en';
}

/** Returns the browser's variant of the language, such as en-GB, or the language itself. */
export function localeOf(request: FastifyRequest, language: Language): string {
  const tag = tagsOf(request).find((one) => codeOf(one) === language) ?? language;
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag)[0] ?? language;
  } catch {
    return language;
  }
}

const codeOf = (tag: string) => tag.split('-', 1)[0] ?? '';

/** Returns the language tags that the browser accepts, best first. */
function tagsOf({ headers }: FastifyRequest): string[] {
  const offers = (headers['accept-language'] ?? '').split(',').map((offer) => {
    const [tag = '', ...parameters] = offer.trim().toLowerCase().split(';');
    const quality = parameters.map((one) => /^\s*q=(.*)$/.exec(one)?.[1]).find(Boolean);
    return {
      tag,
      weight: quality === undefined ? 1 : Number(quality),
    };
  });
  // sort() is stable, so languages with equal weights keep the order of the header.
  const wanted = offers.filter(({ weight }) => weight > 0).sort((a, b) => b.weight - a.weight);
  return wanted.map(({ tag }) => tag);
}
