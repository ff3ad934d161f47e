// What is known of an environment variable.

/** The variables that a command needs; others may be missing. */
export type Role = 'serve' | 'keeper' | 'dispatch' | 'admin' | 'reconcile' | 'developer';

export interface Variable<T> {
  name: string;
  about: string;
  /** Default, as an operator would write it. */
  fallback?: string;
  /** Who cannot start without it. */
  requiredBy?: readonly Role[];
  /** NAME_FILE may name a file that holds the value; never shown. */
  secret?: boolean;
  /** Throws an Error whose message says what would be right. */
  parse: (text: string) => T;
}
