import type { ReactElement } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Notice, Spinner } from '../../shared/parts.tsx';

/** Shows that data is being loaded, or why the request for the data failed. */
export function Loading({ error }: { error: unknown }): ReactElement {
  if (error === undefined) return <Spinner>Loading…</Spinner>;
  return <Notice kind="error">{wordsOf(error)}</Notice>;
}
