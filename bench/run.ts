// npm run bench -- <name> [--json] [--only <part>]: runs bench/<name>.ts, or only one of its parts,
// and prints figures and ratios.
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

/**
 * The results of a benchmark. The name of a figure includes its unit. A ratio compares two figures
 * of the same run.
 */
export interface Result {
  readonly figures: Readonly<Record<string, number>>;
  readonly ratios: Readonly<Record<string, number>>;
}

const names = readdirSync(new URL('.', import.meta.url))
  .filter((file) => file.endsWith('.ts') && file !== 'run.ts')
  .map((file) => file.slice(0, -'.ts'.length));

const { positionals, values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, only: { type: 'string' } },
  allowPositionals: true,
});
const [name] = positionals;
if (name === undefined || !names.includes(name)) {
  console.error(`usage: npm run bench -- <${names.join(' | ')}> [--json] [--only <part>]`);
  process.exit(2);
}

const { run } = (await import(new URL(`${name}.ts`, import.meta.url).href)) as {
  run: (part: string | undefined) => Promise<Result>;
};
const { figures, ratios } = await run(values.only);

const shown = (value: number) =>
  Number.isInteger(value) ? String(value) : value.toFixed(value < 10 ? 3 : 1);
const table = (title: string, rows: Readonly<Record<string, number>>) => {
  console.log(title);
  const width = Math.max(...Object.keys(rows).map((key) => key.length));
  for (const [key, value] of Object.entries(rows))
    console.log(`  ${key.padEnd(width)}  ${shown(value)}`);
};

if (values.json) console.log(JSON.stringify({ figures, ratios }));
else {
  table('figures', figures);
  table('ratios', ratios);
}
process.exit(0);
