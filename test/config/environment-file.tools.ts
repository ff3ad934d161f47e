// The parser of environment files beside systemd's own, on random text. systemd's generator of
// user environments reads files by the parser of EnvironmentFile=, and prints what it has read.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import { parseEnvironmentFile } from '../../src/config/environment-file.ts';

const GENERATOR = '/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator';

/** A value as the generator prints it: quoted where a shell needs that. */
function unquoted(printed: string): string {
  if (!printed.startsWith('"')) return printed;
  const controls: Record<string, string> = { t: '\t', n: '\n', r: '\r' };
  return printed.slice(1, -1).replace(/\\(.)/gs, (_, char: string) => controls[char] ?? char);
}

void t.test(
  'systemd and billing read the same names and values from an environment file',
  async (t) => {
    const home = await mkdtemp(join(tmpdir(), 'billing-environment-'));
    t.teardown(() => rm(home, { recursive: true }));
    await mkdir(join(home, 'environment.d'));
    const bySystemd = async (text: string) => {
      await writeFile(join(home, 'environment.d', 'x.conf'), text);
      const env = { XDG_CONFIG_HOME: home, HOME: home };
      const { stdout } = await promisify(execFile)(GENERATOR, { env });
      const lines = stdout.split('\n').filter((line) => line !== '' && !line.startsWith('QT_'));
      return lines.map((line) => {
        const at = line.indexOf('=');
        return [line.slice(0, at), unquoted(line.slice(at + 1))];
      });
    };
    // Without $, which the generator expands, and EnvironmentFile= does not.
    const unit = fc.constantFrom(...Array.from('AB x=\t\n\r"\'\\#;`1&<{é'));
    const some = fc.string({ unit, maxLength: 30 });
    const file = fc.oneof(
      some,
      some.map((value) => `NAME=${value}`),
      some.map((value) => `N="${value}`),
    );
    await fc.assert(
      fc.asyncProperty(file, async (text) => {
        // The generator leaves out names without a value.
        const ours = Object.entries(parseEnvironmentFile(text)).filter(([, value]) => value !== '');
        const theirs = (await bySystemd(text)).filter(([, value]) => value !== '');
        t.same(ours.toSorted(), theirs.toSorted(), JSON.stringify(text));
      }),
      { numRuns: 500 },
    );
  },
);
