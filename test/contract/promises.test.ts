// Each promise of docs/contract.md has one test of its name in this folder, and the page keeps
// every sentence of the service description.
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { promises } from './promises.ts';
import { kept, promisingNothing } from './service-description.ts';

const folder = new URL('.', import.meta.url);

void t.test('each promise of docs/contract.md has exactly one test', async (t) => {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.test.ts'));
  const source = (
    await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')))
  ).join('\n');
  const tested = [...source.matchAll(/\brule\(\s*(['"])((?:\\.|(?!\1).)*)\1,/g)].map(([, , name]) =>
    name!.replace(/\\(.)/g, '$1'),
  );
  t.ok(promises.length > 100, String(promises.length));
  t.same(tested.toSorted(), promises.toSorted());
  t.equal(new Set(promises).size, promises.length);
});

void t.test(
  'each promise is linked to exactly one sentence of the service description',
  async (t) => {
    t.same(Object.values(kept).toSorted(), promises.toSorted());
  },
);

// CI has the description beside the checkout, or beside the folder of worktrees.
const places = ['../../../shared/service.md', '../../../../shared/service.md'].map(
  (path) => new URL(path, import.meta.url),
);
const descriptions = await Promise.all(
  places.map((place) => readFile(place, 'utf8').catch(() => undefined)),
);
const description = descriptions.find((text) => text !== undefined);
const skip = description === undefined && 'the service description is not beside this checkout';

void t.test(
  'every sentence of the service description is linked to a promise or listed as promising nothing',
  { skip },
  async (t) => {
    t.same(
      sentencesOf(description ?? '').toSorted(),
      [...Object.keys(kept), ...promisingNothing].toSorted(),
    );
  },
);

/**
 * The sentences of the description, without headings, heads of tables and the words that only
 * number or name a list.
 */
function sentencesOf(document: string): string[] {
  const lines = document.split('\n').map((line) => line.trim());
  return lines.flatMap((line, index) => {
    if (line === '' || line.startsWith('#')) return [];
    if (line.startsWith('|')) {
      const isHead = /^\|[-| ]+\|$/.test(lines[index + 1] ?? '');
      if (isHead || /^\|[-| ]+\|$/.test(line)) return [];
      return line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim())
        .join(' | ');
    }
    return line
      .replace(/^(- |\d+\. )/, '')
      .split(/(?<=[.!?])\s+(?=[A-Z`])/)
      .filter((text) => !/^([A-D]\.|Notes:|Rules:)$/.test(text));
  });
}
