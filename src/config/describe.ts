import type { Variable } from './variable.ts';
import { variables } from './variables.ts';

/** Name, description, default and requiring roles of every variable, in order; for the documents. */
export function describeVariables(): Pick<
  Variable<unknown>,
  'name' | 'about' | 'fallback' | 'requiredBy' | 'secret'
>[] {
  return Object.values<Variable<unknown>>(variables);
}
