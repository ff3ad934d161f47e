import { randomBytes } from 'node:crypto';
import t from 'tap';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';

const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
const secret = `whsec_${randomBytes(32).toString('base64')}`;

void t.test('a sealed secret opens only for the same row and under a listed key', (t) => {
  const sealed = secretBox([oldKey]).seal(secret, 'row-1');
  t.equal(secretBox([oldKey]).open(sealed, 'row-1'), secret);
  t.equal(secretBox([newKey, oldKey]).open(sealed, 'row-1'), secret, 'after a rotation');
  t.throws(() => secretBox([newKey]).open(sealed, 'row-1'), /ENCRYPTION_KEY does not list/);
  t.throws(() => secretBox([oldKey]).open(sealed, 'row-2'), 'another row');
  t.end();
});

void t.test('a sealed secret with one changed bit is refused', (t) => {
  const box = secretBox([newKey]);
  const sealed = box.seal(secret, 'row');
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    t.throws(() => box.open(changed, 'row'), `byte ${at}`);
  }
  t.end();
});

void t.test('a sealed secret differs each time and does not contain the secret', (t) => {
  const box = secretBox([newKey]);
  const sealed = box.seal(secret, 'row');
  t.notSame(box.seal(secret, 'row'), sealed);
  t.notOk(sealed.includes(secret.slice(6, 20)));
  t.end();
});
