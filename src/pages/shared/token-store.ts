// Keeps the access token of each role in the tab's sessionStorage. A reload or another page in the
// tab then needs no new signature. Closing the tab deletes the token. No other tab can read the
// token.

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

/**
 * Calls `use` with sessionStorage and returns the result. Returns undefined when the browser
 * forbids storage.
 */
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

/** Returns the token of a role. Returns undefined when there is no token or it has expired. */
export function keptToken(role: Role): KeptToken | undefined {
  const text = withStorage((storage) => storage.getItem(placeOf(role))) ?? undefined;
  const kept = text === undefined ? undefined : (JSON.parse(text) as KeptToken);
  if (kept === undefined || Date.parse(kept.expiresAt) > Date.now()) return kept;
  dropToken(role);
  return undefined;
}
