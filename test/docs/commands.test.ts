// Commands with their flags, npm scripts and variables in the pages must exist, and a test must run
// every block of code.
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { buildTree } from '../../src/cli.ts';
import { describeVariables } from '../../src/config/variables.ts';
import { blocksOf, pages, readPage } from '../fixtures/pages.ts';

const program = await buildTree(
  () => true,
  () => undefined,
);
const { scripts } = JSON.parse(
  await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
) as {
  scripts: Record<string, string>;
};

/** The reason why this is not a valid command line of billing; undefined if it is. */
function fault(line: string): string | undefined {
  let command = program;
  let isValue = false;
  for (const word of line.split(/\s+/).slice(1)) {
    const [flag = ''] = word.split('=');
    if (/^[|&;>)#]/.test(word)) return undefined;
    if (isValue) {
      isValue = false;
      continue;
    }
    if (flag === '--help') continue;
    if (flag.startsWith('--')) {
      const option = command.options.find(({ long }) => long === flag);
      if (option === undefined) return `${command.name()} has no ${flag}`;
      isValue = option.required && !word.includes('=');
      continue;
    }
    const below = command.commands.find((each) => each.name() === word);
    if (below !== undefined) command = below;
    else if (command.commands.length > 0 && /^[a-z]/.test(word))
      return `${command.name()} has no ${word}`;
  }
  return undefined;
}

void t.test('every billing command in the docs is a valid command line', async (t) => {
  let count = 0;
  for (const page of await pages()) {
    const text = (await readPage(page)).replaceAll(/(?:node )?\S*bin\/billing\.js/g, 'billing');
    const shown = [
      ...text.matchAll(/(?:`|^|\$\(|\| |xargs |exec serve )(billing (?:[a-z]+|--)[^`\n]*)/gm),
    ];
    for (const [, line = ''] of shown) {
      count += 1;
      t.equal(fault(line.replace(/ \| .*/, '')), undefined, `${page}: ${line}`);
    }
  }
  t.ok(count > 40, String(count));
  t.match(fault('billing keys reveal'), 'keys has no reveal');
  t.match(fault('billing keys list --all'), 'list has no --all');
});

void t.test('every npm script that the docs name exists', async (t) => {
  for (const page of await pages())
    for (const [, name = ''] of (await readPage(page)).matchAll(/npm run ([a-z:-]+)/g))
      t.type(scripts[name], 'string', `${page}: ${name}`);
  t.equal(
    scripts.sandbox,
    'node -- bin/billing.js sandbox',
    'what test/cli/local/sandbox-screen.long.ts starts',
  );
});

void t.test('every billing variable that the docs name is in the table of variables', async (t) => {
  const known = new Set([
    ...describeVariables().flatMap(({ name, secret }) => [
      name,
      ...(secret === true ? [`${name}_FILE`] : []),
    ]),
    // The default of --env-file, and of a receiver: "billing dev" writes it.
    ...['BILLING_ENV_FILE', 'WEBHOOK_SECRET'],
  ]);
  const families =
    /`((?:BILLING|SOLANA|KEEPER|PLATFORM|WEBHOOK|DATABASE|JWT|ENCRYPTION|METRICS|DELIVERY_RETENTION|EVENT_RETENTION)_[A-Z_]+)`/g;
  for (const page of await pages())
    for (const [, name = ''] of (await readPage(page)).matchAll(families))
      t.ok(known.has(name), `${page}: ${name}`);
});

/** Which test runs the blocks of a page in this language. */
const runners: Record<string, Record<string, string>> = {
  '../README.md': { sh: 'docs/readme.tools.ts', ts: 'client/package.test.ts' },
  'chain.md': { sh: 'docs/cheatcodes.tools.ts' },
  'development.md': { sql: 'db/postgres/migration-apply.test.ts' },
  'merchants.md': { ts: 'client/package.test.ts' },
  'operators.md': { sh: 'docs/operators.tools.ts' },
  'postgres-pair.md': { sh: 'failover/archived.ts' },
  'quick-start.md': { sh: 'docs/quick-start.tools.ts' },
  'runbook.md': { sh: 'docs/operators.tools.ts' },
  'subscribers.md': { ts: 'docs/subscribers.test.ts' },
  'terminal.md': { sh: 'docs/terminal.tools.ts' },
  'walk-through.md': { sh: 'docs/walk-through.tools.ts', js: 'docs/walk-through.tools.ts' },
  'webhooks.md': {
    sh: 'docs/webhooks.test.ts',
    ts: 'docs/webhooks.test.ts',
    python: 'docs/webhooks.tools.ts',
    go: 'docs/webhooks.tools.ts',
  },
};
const pictures = ['', 'mermaid', 'http'];

void t.test('every code block in the docs has a test that runs it', async (t) => {
  for (const page of await pages()) {
    const fences = [...(await readPage(page)).matchAll(/^```(\w*)/gm)]
      .filter((_, index) => index % 2 === 0)
      .map(([, language = '']) => language);
    const code = fences.filter((language) => !pictures.includes(language));
    t.same(
      code,
      (await blocksOf(page))
        .map(({ language }) => language)
        .filter((language) => !pictures.includes(language)),
      `${page}: the tests see them all`,
    );
    for (const language of code) {
      const runner = runners[page]?.[language];
      t.type(runner, 'string', `${page}: ${language}`);
      const text = await readFile(new URL(`../${runner ?? ''}`, import.meta.url), 'utf8');
      t.match(text, page.replace('../', ''), `${runner ?? ''} reads ${page}`);
    }
  }
});
