// Makes text of other parties safe to show. Characters that are invisible or change the text
// direction are replaced by their codes.
import { replaceHidden } from '../../format.ts';

/**
 * Makes text of another party safe inside a sentence of the page, and cuts it to `maxLength`
 * characters.
 */
export function foreign(text: string | null | undefined, maxLength = 200): string {
  const safe = replaceHidden(text ?? '', (character) =>
    character === '\n' || character === '\t' ? character : codeOf(character),
  );
  const characters = Array.from(safe);
  return characters.length > maxLength ? `${characters.slice(0, maxLength - 1).join('')}…` : safe;
}

function codeOf(character: string): string {
  return `⟨${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}⟩`;
}

/** Shortens an address to its start and its end. */
export function shortAddress(address: string): string {
  return address.length > 12 ? `${address.slice(0, 4)}…${address.slice(-4)}` : address;
}

/**
 * Returns a URL of another party if a link to it is safe: http or https without credentials.
 * Otherwise returns undefined.
 */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text === null || text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.username === '' ? url.href : undefined;
}
