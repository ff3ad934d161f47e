// Every catalogue has the texts of the English one and no other, with the same placeholders.
import { readdir } from 'node:fs/promises';
import t, { type Test } from 'tap';
import { catalogues } from '../../src/words/catalogues.ts';
import { languages } from '../../src/words/languages.ts';

/** The texts by their path, such as `panel.pay`. */
function texts(catalogue: object, path = ''): Map<string, string> {
  const found = new Map<string, string>();
  for (const [key, value] of Object.entries(catalogue) as [string, string | object][]) {
    const place = path === '' ? key : `${path}.${key}`;
    if (typeof value === 'string') found.set(place, value);
    else for (const [inner, text] of texts(value, place)) found.set(inner, text);
  }
  return found;
}

const placeholders = (text = '') => [...new Set(text.match(/\{\w+\}/g))].sort();
/** A form for one may leave out the number. */
const isSingular = (key: string) => key.endsWith('.one');

function compare(t: Test, words: object, english: Map<string, string>): void {
  const own = texts(words);
  t.same([...own.keys()].sort(), [...english.keys()].sort(), 'the same keys');
  for (const [key, text] of own) {
    t.not(text.trim(), '', `${key} has a text`);
    const wanted = placeholders(english.get(key));
    const given = placeholders(text);
    if (isSingular(key))
      t.same(
        given.filter((name) => name !== '{n}'),
        wanted.filter((name) => name !== '{n}'),
        key,
      );
    else t.same(given, wanted, `placeholders of ${key}`);
  }
}

void t.test('each language has a file with its texts', async (t) => {
  const files = await readdir(new URL('../../src/words/', import.meta.url));
  const found = files.filter((name) => name.endsWith('.json'));
  t.same(
    found.sort(),
    Object.keys(languages)
      .map((code) => `${code}.json`)
      .sort(),
  );
});

for (const [code, catalogue] of Object.entries(catalogues))
  void t.test(`the catalogue of ${code} is complete`, async (t) => {
    compare(t, catalogue, texts(catalogues.en));
  });

void t.test(
  'German and French state periods as recurring, and Japanese has one word for an account',
  async (t) => {
    const { de, fr, ja } = catalogues;
    for (const text of Object.values(de.pages.period.per)) t.match(text, /^(pro|alle) /);
    for (const text of Object.values(fr.pages.period.per)) t.notMatch(text, /^pour /);
    t.notMatch(JSON.stringify(ja), '口座');
  },
);
