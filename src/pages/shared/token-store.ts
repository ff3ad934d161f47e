// Keeps the access token of each role in the tab's sessionStorage, so that a reload and another
// page of the tab need no new signature. It ends with the tab, and no other tab can read it.

export type Role = 'merchant' | 'subscriber';

export interface KeptToken {
  readonly token: string;
  readonly expiresAt: string;
  /** The account that signed in. */
  readonly address: string;
  /** Name of the wallet that signed in. */
  readonly wallet: string;
}

const placeOf = (role: Role) => `billing-token-${role}`;

/** Runs `use` on the storage. Returns undefined where the browser allows none. */
function withStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}

export function keepToken(role: Role, kept: KeptToken): void {
  withStorage((storage) => storage.setItem(placeOf(role), JSON.stringify(kept)));
}

export function dropToken(role: Role): void {
  withStorage((storage) => storage.removeItem(placeOf(role)));
}

/** Returns the token of a role unless its hour is over. */
export function keptToken(role: Role): KeptToken | undefined {
  const text = withStorage((storage) => storage.getItem(placeOf(role))) ?? undefined;
  const kept = text === undefined ? undefined : (JSON.parse(text) as KeptToken);
  if (kept === undefined || Date.parse(kept.expiresAt) > Date.now()) return kept;
  dropToken(role);
  return undefined;
}
