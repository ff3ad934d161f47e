// The completion scripts, generated from the tree of commands: that of bash in a real bash.
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { runShared } from '../../fixtures/command.ts';

const scriptOf = async (shell: string) => (await runShared(['completion', shell])).stdout;

void t.test('bash completes commands, subcommands and flags of the typed line', async (t) => {
  const file = join(t.testdir(), 'billing.bash');
  await writeFile(file, await scriptOf('bash'));
  /** What bash offers for these words, of which the last is being typed. */
  const offered = async (...words: string[]) => {
    const code = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _billing; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', code, file, 'billing', ...words]);
    return stdout
      .trim()
      .split('\n')
      .filter((word) => word !== '');
  };
  t.same((await offered('ke')).toSorted(), ['keeper', 'keys']);
  t.same((await offered('keys', '')).toSorted(), [
    '--help',
    'create',
    'help',
    'list',
    'reseal',
    'revoke',
  ]);
  t.same(await offered('keys', 'list', '--j'), ['--json']);
  t.same(await offered('status', '--max-f'), ['--max-failed']);
  t.same(await offered('status', '--env-file', ''), [], 'the default of bash: file names');
  t.same(await offered('status', '--json', '--env-file', 'x', '--nag'), ['--nagios']);
  t.ok((await offered('')).includes('serve'));
});

void t.test(
  'the completion scripts for zsh and fish contain every command and are valid',
  async (t) => {
    const [zsh, fish] = [await scriptOf('zsh'), await scriptOf('fish')];
    t.match(zsh, /^#compdef billing\n/);
    t.match(zsh, "'billing keys list')");
    t.match(zsh, "'--max-failed:limit for the deliveries");
    // zsh is not installed here. Except for one expansion, the script is also valid bash, and the
    // parser of bash finds an open quote or bracket.
    const file = join(t.testdir(), 'zsh');
    await writeFile(file, zsh.replace('${(@)words[2,CURRENT-1]}', '$@'));
    await promisify(execFile)('bash', ['-n', file]);
    const lines = fish.split('\n');
    t.ok(lines.some((line) => /^complete -c billing .*-a 'reconcile' -d '/.test(line)));
    t.ok(lines.some((line) => /"billing deliveries cancel"' .*-l 'webhook'/.test(line)));
    for (const line of lines) t.equal((line.match(/'/g) ?? []).length % 2, 0, line);
    t.match(await runShared(['completion', 'tcsh']), {
      code: 2,
      stderr: /It must be one of bash, zsh, fish/,
    });
  },
);
