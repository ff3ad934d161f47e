import t from 'tap';
import { foreign } from '../../../src/pages/shared/text.ts';

void t.test('foreign text shows hidden and direction-changing characters by code', async (t) => {
  t.equal(foreign('a\u{e0041}\u0600\u{1d173}\ue000b'), 'a⟨e0041⟩⟨0600⟩⟨1d173⟩⟨e000⟩b');
  t.equal(foreign('gpj\u202eexe\u200b'), 'gpj⟨202e⟩exe⟨200b⟩');
  t.equal(foreign('Zürich\n\t東京 🎉'), 'Zürich\n\t東京 🎉');
});

void t.test('foreign text is cut by characters', async (t) => {
  t.equal(foreign('🎉🎉🎉🎉', 3), '🎉🎉…');
  t.equal(foreign(null), '');
});
