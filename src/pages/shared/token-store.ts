// Keeps the access token of each role in the tab's sessionStorage. A token survives a reload. The
// browser deletes the token with the tab, and no other tab can read the token. This file also keeps
// the way in which an account signs in.

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
export function withStorage<T>(use: (storage: Storage) => T): T | undefined {
  try {
    return use(sessionStorage);
  } catch {
    return undefined;
  }
}

export function keepToken(role: Role, token: KeptToken): void {
  withStorage((storage) => storage.setItem(placeOf(role), JSON.stringify(token)));
}

export function dropToken(role: Role): void {
  withStorage((storage) => storage.removeItem(placeOf(role)));
}

/** Returns the token of a role. Returns undefined when there is no token or it has expired. */
export function keptToken(role: Role): KeptToken | undefined {
  const text = withStorage((storage) => storage.getItem(placeOf(role))) ?? undefined;
  const stored = text === undefined ? undefined : (JSON.parse(text) as KeptToken);
  if (stored === undefined || Date.parse(stored.expiresAt) > Date.now()) return stored;
  dropToken(role);
  return undefined;
}

const wayPlaceOf = (wallet: string, address: string) => `billing-sign-in ${wallet} ${address}`;

/**
 * Stores the way in which an account of a wallet signed in, so that the next sign-in tries this way
 * first.
 */
export function keepWay(wallet: string, address: string, way: string): void {
  withStorage((storage) => storage.setItem(wayPlaceOf(wallet, address), way));
}

export function keptWay(wallet: string, address: string): string | undefined {
  return withStorage((storage) => storage.getItem(wayPlaceOf(wallet, address))) ?? undefined;
}
