import type { ReactElement } from 'react';
import { fill } from '../../words/fill.ts';
import { words } from './language.ts';
import { Button } from './parts.tsx';
import { switchZone, useUtc } from './time.tsx';

/** Shows the time zone of the page's times, with a button that switches the time zone. */
export function ZoneSwitch(): ReactElement {
  const isUtc = useUtc();
  const localZone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const name = localZone.split('/').at(-1)?.replaceAll('_', ' ') ?? localZone;
  return (
    <Button kind="link" onClick={switchZone}>
      {fill(words.zone, { zone: isUtc ? 'UTC' : name })}
      <span className="visually-hidden">
        {' '}
        {fill(words.showZone, { zone: isUtc ? localZone : 'UTC' })}
      </span>
    </Button>
  );
}
