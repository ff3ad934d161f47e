import type { Variable } from './variable.ts';
import { variables } from './variables.ts';

/** Name, meaning, default and who requires it, of every variable, in order: for documents and --help. */
export function describeVariables(): Pick<
  Variable<unknown>,
  'name' | 'about' | 'fallback' | 'requiredBy' | 'secret'
>[] {
  return Object.values<Variable<unknown>>(variables);
}
