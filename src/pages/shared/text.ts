// Shows foreign text safely: characters that change the text direction, or are invisible, are shown
// by their code.
const hidden =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Others' text, safe to stand between ours, cut at `most` characters. */
export function foreign(text: string | null | undefined, most = 200): string {
  const safe = (text ?? '').replace(
    hidden,
    (character) => `\u27e8${character.charCodeAt(0).toString(16).padStart(4, '0')}\u27e9`,
  );
  const characters = Array.from(safe);
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : safe;
}

/** The start and end of an address. */
export function shortAddress(address: string): string {
  return address.length > 12 ? `${address.slice(0, 4)}…${address.slice(-4)}` : address;
}

/** Others' URL where it is safe to link to: http or https without credentials. */
export function safeUrl(text: string | null | undefined): string | undefined {
  if (text === null || text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return /^https?:$/.test(url.protocol) && url.username === '' ? url.href : undefined;
}
