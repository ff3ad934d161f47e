// Types that describe an environment variable.

/** Decides which variables are required. */
export type ConfigRole = 'serve' | 'keeper' | 'dispatch' | 'admin' | 'reconcile' | 'developer';

export interface Variable<T> {
  name: string;
  about: string;
  /** Default, as an operator would write it. */
  fallback?: string;
  /** Roles that cannot start without it. */
  requiredBy?: readonly ConfigRole[];
  /** The value is never shown, and NAME_FILE may name a file that contains it. */
  secret?: boolean;
  /** Throws an Error whose message states the expected form. */
  parse: (text: string) => T;
}
