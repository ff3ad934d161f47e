// CSV as spreadsheets read it (RFC 4180).
import { Type } from '@sinclair/typebox';
import { stringify } from 'csv-stringify/sync';
import { oneOf } from './fields.ts';

const options = {
  record_delimiter: 'windows',
  cast: { string: harmless, date: (date: Date) => date.toISOString(), bigint: String },
} as const;

/** Query parameter that adds a byte order mark to the start of the file. */
export const bom = Type.Optional(
  oneOf(
    ['0', '1'],
    '1: the file begins with a byte order mark, by which a spreadsheet knows UTF-8.',
  ),
);

/** The header line. If `hasMark` is set, a byte order mark precedes the line. */
export const csvHead = (columns: readonly string[], hasMark: boolean): string =>
  (hasMark ? '\uFEFF' : '') + stringify([[...columns]], options);

/**
 * Returns one line of CSV for each row. A line has the fields named in `columns`, in that order.
 */
export const csvLines = (rows: readonly object[], columns: readonly string[]): string =>
  stringify([...rows], { ...options, columns: [...columns] });

/**
 * Escapes text that a spreadsheet would run as a formula. Formulas after a semicolon are also
 * escaped, because some locales separate cells with semicolons.
 */
function harmless(text: string): string {
  return text.replace(/(^|;)(?=\s*[=+\-@\t\r＝＋－＠])/g, "$1'");
}
