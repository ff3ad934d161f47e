import type { ReactElement } from 'react';
import { Line } from '../../shared/line.tsx';
import { foreign } from '../../shared/text.ts';

/** Shows the metadata of a subscription. */
export function Metadata({ of }: { of: Readonly<Record<string, string>> }): ReactElement {
  return (
    <dl className="lines card">
      {Object.entries(of).map(([name, value]) => (
        <Line key={name} name={foreign(name, 60)}>
          <bdi>{foreign(value, 500)}</bdi>
        </Line>
      ))}
    </dl>
  );
}
