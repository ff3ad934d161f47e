// Every catalogue has every text of the English one, with the same placeholders. So have the texts
// that the server writes into pages.
import t, { type Test } from 'tap';
import { siteWords } from '../../../src/http/site/site-words.ts';
import { en } from '../../../src/pages/words/en.ts';
import { languages } from '../../../src/pages/words/languages.ts';

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

for (const code of Object.keys(languages).filter((one) => one !== 'en'))
  void t.test(`the catalogue of ${code} is complete`, async (t) => {
    const { words } = (await import(`../../../src/pages/words/${code}.ts`)) as { words: object };
    compare(t, words, texts(en));
  });

void t.test('a period is said as one that repeats, and an account by one name', async (t) => {
  const [{ words: de }, { words: fr }, { words: ja }] = await Promise.all([
    import('../../../src/pages/words/de.ts'),
    import('../../../src/pages/words/fr.ts'),
    import('../../../src/pages/words/ja.ts'),
  ]);
  for (const text of Object.values(de.period.per)) t.match(text, /^(pro|alle) /);
  for (const text of Object.values(fr.period.per)) t.notMatch(text, /^pour /);
  t.notMatch(JSON.stringify(ja), '口座');
});

void t.test('the server has its texts in the languages of the pages', async (t) => {
  t.same(Object.keys(siteWords), Object.keys(languages));
  for (const words of Object.values(siteWords)) compare(t, words, texts(siteWords.en));
});
