import type { ReactElement, ReactNode } from 'react';
import { explain } from './errors.ts';
import { words } from './language.ts';
import type { PagedList } from './pages.ts';
import { Button, Explained, Skeleton } from './parts.tsx';

/**
 * Shows the rows of a list with a button for the next page, and the loading, empty and failed
 * states.
 */
export function ListOf<T>({
  list,
  empty,
  children,
}: {
  list: PagedList<T>;
  empty: ReactNode;
  children: ReactNode;
}): ReactElement {
  return (
    <>
      {list.error !== undefined && (
        <Explained kind="error" title={words.listFailed} of={explain(list.error)}>
          {' '}
          <Button kind="link" onClick={list.refresh}>
            {words.tryAgain}
          </Button>
        </Explained>
      )}
      {!list.loaded && list.error === undefined && <Skeleton />}
      {list.loaded && list.rows.length === 0 && <div className="empty">{empty}</div>}
      {list.rows.length > 0 && children}
      {list.more && list.rows.length > 0 && (
        <div>
          <Button busy={list.busy} onClick={list.next}>
            {words.showMore}
          </Button>
        </div>
      )}
    </>
  );
}
