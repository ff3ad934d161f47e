// Cursors of keyset pages. A cursor contains the id of the last row and a MAC that covers the list
// and the caller, so that only cursors issued here for the same list and caller are accepted.
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

export interface Cursors {
  /** Issues the cursor of a row id. `scope` names the list and the caller. */
  issue(id: string, scope: string): string;
  /** Returns the id in a cursor; undefined when the cursor was not issued for this scope. */
  read(cursor: string, scope: string): string | undefined;
  /**
   * `seal` issues a cursor that contains a text, for a list whose position is not a row id.
   * `unseal` returns the text, or undefined when the cursor was not issued for this scope.
   */
  seal(position: string, scope: string): string;
  unseal(cursor: string, scope: string): string | undefined;
}

const ID_LENGTH = 16;
const MAC_LENGTH = 12;

/**
 * `secrets` are the secrets in JWT_SECRET, from which HKDF derives the cursor keys. The first
 * secret issues cursors; cursors of all secrets are accepted.
 */
export function createCursors(secrets: readonly string[]): Cursors {
  const keys = secrets.map((secret) =>
    Buffer.from(hkdfSync('sha256', secret, '', 'billing page cursor', 32)),
  );
  const mac = (key: Buffer, id: Buffer, scope: string) =>
    createHmac('sha256', key).update(id).update(scope).digest().subarray(0, MAC_LENGTH);
  return {
    issue(id, scope) {
      const bytes = Buffer.from(id.replaceAll('-', ''), 'hex');
      return Buffer.concat([bytes, mac(keys[0] ?? Buffer.alloc(0), bytes, scope)]).toString(
        'base64url',
      );
    },
    read(cursor, scope) {
      const bytes = Buffer.from(cursor, 'base64url');
      if (bytes.length !== ID_LENGTH + MAC_LENGTH || bytes.toString('base64url') !== cursor)
        return undefined;
      const id = bytes.subarray(0, ID_LENGTH);
      if (!keys.some((key) => timingSafeEqual(mac(key, id, scope), bytes.subarray(ID_LENGTH))))
        return undefined;
      return id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
    },
    seal(place, scope) {
      const bytes = Buffer.from(place);
      return Buffer.concat([
        mac(keys[0] ?? Buffer.alloc(0), bytes, `place ${scope}`),
        bytes,
      ]).toString('base64url');
    },
    unseal(cursor, scope) {
      const bytes = Buffer.from(cursor, 'base64url');
      if (bytes.length < MAC_LENGTH) return undefined;
      const position = bytes.subarray(MAC_LENGTH);
      return keys.some((key) =>
        timingSafeEqual(mac(key, position, `place ${scope}`), bytes.subarray(0, MAC_LENGTH)),
      )
        ? position.toString()
        : undefined;
    },
  };
}
