// Shows foreign text safely: characters that change the text direction, or are invisible, are shown
// by their code.
import { replaceHidden } from '../../format.ts';

/** Text of another party, safe within a sentence of the page, cut at `maxLength` characters. */
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

/** The start and end of an address. */
export function shortAddress(address: string): string {
  return address.length > 12 ? `${address.slice(0, 4)}…${address.slice(-4)}` : address;
}

/** A URL of another party if it is safe to link to: http or https without credentials. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text === null || text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.username === '' ? url.href : undefined;
}
