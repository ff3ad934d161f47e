// Reads the migrations of this build: the files of sql/, split into statements.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { ROOT } from '../../root.ts';

const directory = new URL('sql/', ROOT);

export interface Migration {
  version: number;
  name: string;
  text: string;
  checksum: string;
  /**
   * The oldest release that can run on the schema after this migration. A comment in the
   * migration's file names the release: "-- min_release: 0.1.0".
   */
  minRelease: string | null;
}

export interface Statement {
  /** The statement as written in the file, with its comments. */
  text: string;
  /**
   * The statement on one line, in lower case. Comments, string contents and function bodies are
   * removed.
   */
  form: string;
}

/** Reads the migrations of this build, in order. */
export async function listMigrations(): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, directory), 'utf8');
      return {
        version: Number(name.slice(0, 4)),
        name,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
        minRelease: /^-- min_release: (\d+\.\d+\.\d+)$/m.exec(text)?.[1] ?? null,
      };
    }),
  );
}

/** Returns the version of the newest migration that this build knows. */
export async function knownSchema(): Promise<number> {
  return (await listMigrations()).at(-1)?.version ?? 0;
}

/**
 * Tells whether each statement of the file runs by itself, outside a transaction block. A line
 * "-- concurrently" in the file says so.
 */
export function runsInSteps({ text }: Pick<Migration, 'text'>): boolean {
  return /^-- concurrently$/m.test(text);
}

/**
 * Tells whether a statement of such a file is repeated in batches of rows. A line "-- batches"
 * above the statement says so.
 */
export function runsInBatches({ text }: Statement): boolean {
  return /^-- batches$/m.test(text);
}

/** Splits the text of a migration into its statements. */
export function statementsOf(text: string): Statement[] {
  const ends = [...text.matchAll(OPAQUE)].filter(([found]) => found === ';');
  const places = [...ends.map(({ index }) => index), text.length];
  return places
    .map((end, index) => text.slice(index === 0 ? 0 : (places[index - 1] ?? 0) + 1, end))
    .map((statement) => ({ text: statement.trim(), form: formOf(statement) }))
    .filter(({ form }) => form !== '');
}

/** Comments, strings, bodies of functions, and the ends of statements. */
const OPAQUE = /--[^\n]*|'(?:[^']|'')*'|(\$\w*\$).*?\1|;/gs;

function formOf(statement: string): string {
  return statement
    .replaceAll(OPAQUE, (found) => (found.startsWith('--') ? ' ' : "''"))
    .replaceAll(/\s+/g, ' ')
    .trim()
    .toLowerCase();
}
