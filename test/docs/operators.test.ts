// The shell blocks of the operators' pages as text. They are run by operators.long.ts.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { shellBlocks } from '../fixtures/shell-blocks.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const pages = ['operators.md', 'runbook.md'];

void t.test("no command in the operators' pages has a password among its arguments", async (t) => {
  // Builtins of the shell start no process, so their arguments are in no list of processes.
  const builtin = /^(export |printf |[A-Za-z_]+=)/;
  for (const page of pages)
    for (const { line, script } of shellBlocks(await readFile(join(root, 'docs', page), 'utf8')))
      for (const command of script.replaceAll(/<<SQL\n.*?\nSQL\n/gs, '\n').split('\n'))
        if (/\$\{?(DATABASE_URL|SOLANA_RPC_URL|password)\b|cat [^)]*(secret|key|url)/.test(command))
          t.match(command.trim(), builtin, `docs/${page}:${line}`);
});

void t.test("every block of commands in the operators' pages is run by a test", async (t) => {
  for (const page of pages) {
    const text = await readFile(join(root, 'docs', page), 'utf8');
    const blocks = shellBlocks(text);
    t.equal(
      blocks.length,
      text.match(/^```./gm)?.length,
      `${page} has no block in another language`,
    );
    for (const { needs, line } of blocks)
      t.ok(
        needs.every((need) => ['registry', 'postgres'].includes(need)),
        `${page}:${line}`,
      );
  }
});
