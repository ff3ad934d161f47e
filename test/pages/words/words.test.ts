// Every catalogue has every text of the English one, with the same placeholders.
import t from 'tap';
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
const english = texts(en);

for (const code of Object.keys(languages).filter((one) => one !== 'en'))
  void t.test(`the catalogue of ${code} is complete`, async (t) => {
    const { words } = (await import(`../../../src/pages/words/${code}.ts`)) as { words: object };
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
  });
