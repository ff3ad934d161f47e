// Every sentence of service.md has a test of its name in this folder, or a reason why it cannot have one.
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { promisingNothing, sentences } from './sentences.ts';

const folder = new URL('.', import.meta.url);

void t.test('each sentence is tested once, or promises nothing and says why', async (t) => {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.test.ts'));
  const source = (await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')))).join('\n');
  const tested = [...source.matchAll(/\brule\(\s*(['"])((?:\\.|(?!\1).)*)\1,/g)].map(([, , name]) => name!.replace(/\\(.)/g, '$1'));
  for (const sentence of sentences) {
    const reason = promisingNothing[sentence];
    const count = tested.filter((name) => name === sentence).length;
    t.equal(count, reason === undefined ? 1 : 0, `${count} tests: ${sentence}`);
    if (reason !== undefined) t.ok(reason.length > 5, sentence);
  }
  t.equal(new Set(sentences).size, sentences.length);
});

void t.test('the list is the document, where it is at hand', async (t) => {
  // The shared folder beside the checkout, or beside the folder of worktrees.
  const places = ['../../../shared/service.md', '../../../../shared/service.md'].map((path) => new URL(path, import.meta.url));
  const texts = await Promise.all(places.map((place) => readFile(place, 'utf8').catch(() => undefined)));
  const document = texts.find((text) => text !== undefined);
  if (document === undefined) {
    t.comment('service.md is not beside this checkout: the list stands for it');
    return;
  }
  t.same(sentencesOf(document), [...sentences]);
});

/** Its sentences; headings, the heads of tables and what only numbers or names a list are none. */
function sentencesOf(document: string): string[] {
  const lines = document.split('\n').map((line) => line.trim());
  return lines.flatMap((line, place) => {
    if (line === '' || line.startsWith('#')) return [];
    if (line.startsWith('|')) {
      const isHead = /^\|[-| ]+\|$/.test(lines[place + 1] ?? '');
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
