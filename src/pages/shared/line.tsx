import type { ReactElement, ReactNode } from 'react';

/** A name and its value, inside a list of class `lines`. */
export function Line({ name, children }: { name: ReactNode; children: ReactNode }): ReactElement {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
