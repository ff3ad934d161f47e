// Compares the pages with the code: file names, states, layers, connections. A renamed file or
// state fails until the page is updated.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { testDatabase } from '../fixtures/postgres.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (name: string) => readFile(join(root, name), 'utf8');
const pages = ['architecture.md', 'development.md', 'operators.md', 'terminal.md'];

async function filesUnder(folder: string): Promise<string[]> {
  const found = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length));
}

void t.test('every source file that the docs mention exists', async (t) => {
  const files = (
    await Promise.all(['src', 'test', 'bench', 'scripts', 'docs', 'sql', 'program'].map(filesUnder))
  ).flat();
  for (const page of pages) {
    const text = await read(`docs/${page}`);
    const named = new Set(text.match(/(?<![\w/.*-])[\w@./-]+\.(?:tsx?|sql)\b/g));
    for (const name of named)
      t.ok(
        files.some((file) => file === name || file.endsWith(`/${name}`)),
        `docs/${page} names ${name}`,
      );
    for (const [, folder = ''] of text.matchAll(/(?<!\w)(src\/[a-z]+)\//g))
      t.ok(
        files.some((file) => file.startsWith(`${folder}/`)),
        `docs/${page} names ${folder}/`,
      );
  }
});

void t.test('the source tree in architecture.md lists every folder of src', async (t) => {
  const text = await read('docs/architecture.md');
  const folders = await readdir(join(root, 'src'), { withFileTypes: true });
  const tree = /## The source\n+```\n([^]*?)```/.exec(text)?.[1] ?? '';
  for (const entry of folders)
    if (entry.isDirectory()) t.match(tree, new RegExp(`\\b${entry.name}/`), entry.name);
});

/** The states of the diagram that follows this heading. */
function diagram(text: string, heading: string): string[] {
  const part = text.slice(text.indexOf(`## ${heading}\n`));
  const [, drawn = ''] = /```mermaid\nstateDiagram-v2\n([^]*?)```/.exec(part) ?? [];
  const states = [...drawn.matchAll(/(\w+|\[\*\]) --> (\w+|\[\*\])/g)].flatMap(
    ([, from = '', to = '']) => [from, to],
  );
  return [...new Set(states)].filter((state) => state !== '[*]').toSorted();
}

void t.test(
  'the state diagrams in architecture.md have exactly the states that CHECK constraints allow',
  async (t) => {
    const { sql } = await testDatabase(t);
    const text = await read('docs/architecture.md');
    const allowed = async (table: string, column: string) => {
      const rows = await sql<{ rule: string }[]>`
      select pg_get_constraintdef(oid) as rule from pg_constraint where conrelid = ${table}::regclass and contype = 'c'`;
      const rule = rows.find((row) => row.rule.startsWith(`CHECK ((${column} = ANY (ARRAY[`))?.rule;
      return [...(rule ?? '').matchAll(/'(\w+)'/g)].map(([, state = '']) => state).toSorted();
    };
    t.same(diagram(text, 'A subscription'), await allowed('subscriptions', 'status'));
    // A payment that is claimed has no attempt yet, and a claimed delivery is a queued one with a
    // claim.
    t.same(
      diagram(text, 'A payment'),
      ['claimed', ...(await allowed('payment_attempts', 'state'))].toSorted(),
    );
    t.same(
      diagram(text, 'A delivery'),
      ['claimed', 'queued', ...(await allowed('deliveries', 'status'))].toSorted(),
    );
  },
);

void t.test('every import follows the direction that development.md states', async (t) => {
  const text = await read('docs/development.md');
  const order = /`(cli -> [^`]+ -> config)`/.exec(text)?.[1] ?? '';
  const layers = order.split(' -> ').map((layer) => layer.split(/, | \| /));
  t.ok(layers.length > 4, order);
  const levelOf = (file: string) => {
    const [, name = ''] = /^src\/(\w+)/.exec(file) ?? [];
    return layers.findIndex((layer) => layer.includes(name));
  };
  const sources = (await filesUnder('src')).filter((file) => /\.tsx?$/.test(file));
  for (const file of sources) {
    const from = levelOf(file);
    if (from < 0) continue;
    for (const [, path = ''] of (await read(file)).matchAll(/ from '(\.[^']+)'/g)) {
      const target = join(file, '..', path);
      const to = levelOf(target);
      const [, own] = file.split('/');
      const [, other] = target.split('/');
      if (to >= 0 && own !== other && to < from) t.fail(`${file} imports ${target}`);
    }
  }
});

void t.test(
  'the number of Postgres connections in operators.md equals that in the code',
  async (t) => {
    const words = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
    const text = (await read('docs/operators.md')).replaceAll(/\s+/g, ' ');
    const numberIn = async (file: string, name: string) =>
      Number(new RegExp(`const ${name} = (\\d+);`).exec(await read(file))?.[1]);
    const reports = await numberIn('src/db/postgres/reports.ts', 'CONNECTIONS');
    // And one for claims.
    const queue = (await numberIn('src/dispatch/dispatcher.ts', 'QUEUE_CONNECTIONS')) + 1;
    t.ok(
      text.includes(`\`serve\` ${words[reports]} more for analytics and exports`),
      String(reports),
    );
    t.ok(text.includes(`\`dispatch\` ${words[queue]} more for its queue`), String(queue));
  },
);
