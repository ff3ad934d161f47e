// Makes text of other parties (names, URLs, a merchant's response) safe for a terminal: every
// character that is not printable is escaped.
import { isUtf8 } from 'node:buffer';
import { replaceHidden } from '../../format.ts';

const short: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/**
 * Returns the text as one line. A newline becomes \n, an escape character \x1b, a direction
 * override \u202e.
 */
export function safeText(text: string): string {
  return replaceHidden(
    text,
    (character) => short[character] ?? spelled(character.codePointAt(0) ?? 0),
  );
}

/**
 * Escapes every character in JSON text that could control a terminal. The JSON value stays the
 * same.
 */
export function safeJson(json: string): string {
  return replaceHidden(json, (character) =>
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`,
    ).join(''),
  );
}

/** Splits the text into lines and makes each line safe. A tab becomes two spaces. */
export function safeLines(text: string): string[] {
  return text.split(/\r\n|\n/).map((line) => safeText(line.replaceAll('\t', '  ')));
}

function spelled(code: number): string {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\u{${hex}}`;
}

/**
 * Returns bytes as lines of text. A byte that is not valid UTF-8 becomes \xNN. If more than a tenth
 * of the bytes are not valid UTF-8, or a byte is zero, the result is a hex dump.
 */
export function bytesAsLines(bytes: Buffer): string[] {
  if (isUtf8(bytes) && !bytes.includes(0)) return safeLines(bytes.toString('utf8'));
  const { text, strangers } = decode(bytes);
  if (bytes.includes(0) || strangers > bytes.length / 10) return hexDump(bytes);
  // decode() has escaped the bytes that are not valid UTF-8.
  return safeLines(text);
}

/**
 * Decodes UTF-8. A byte that is not valid UTF-8 becomes \xNN. `strangers` is the number of these
 * bytes.
 */
function decode(bytes: Buffer): { text: string; strangers: number } {
  let text = '';
  let strangers = 0;
  for (let at = 0; at < bytes.length;) {
    const length = lengthAfter(bytes[at] ?? 0);
    const character = bytes.subarray(at, at + length);
    if (character.length === length && isUtf8(character)) {
      text += character.toString('utf8');
      at += length;
    } else {
      text += spelled(bytes[at] ?? 0);
      strangers += 1;
      at += 1;
    }
  }
  return { text, strangers };
}

/** Returns the length in bytes of a UTF-8 character whose first byte is `lead`. */
function lengthAfter(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

function hexDump(bytes: Buffer): string[] {
  return Array.from({ length: Math.ceil(bytes.length / 16) }, (_, line) => {
    const part = bytes.subarray(line * 16, line * 16 + 16);
    const hex = [...part].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.toString('latin1').replace(/[^\x20-\x7e]/g, '.');
    return `${(line * 16).toString(16).padStart(4, '0')}  ${hex.padEnd(47)}  ${text}`;
  });
}
