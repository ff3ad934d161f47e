import { type ReactElement, useEffect, useRef } from 'react';
import { Lacking } from '../shared/lacking.tsx';
import { words } from '../shared/language.ts';
import { missingOf } from '../shared/missing.ts';
import { Button, Notice, Spinner } from '../shared/parts.tsx';
import type { Session, Standing } from '../shared/session.ts';
import type { Flow } from './flow.ts';

/** Interval (ms) at which the page polls the wallet's balances. */
const WATCH_MS = 4000;

/**
 * Shows how much USDC and SOL the wallet lacks. The page polls the wallet's balances and subscribes
 * once the balances suffice.
 */
export function Short({
  standing,
  needsSol,
  isLate,
  session: { address },
  flow,
}: {
  standing: Standing;
  needsSol: boolean;
  /** Whether the wallet signed a sponsored transaction and the service then did not pay. */
  isLate: boolean;
  session: Session;
  flow: Flow;
}): ReactElement {
  const text = words.short;
  const watch = useRef(flow.watch);
  watch.current = flow.watch;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') watch.current();
    }, WATCH_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <Lacking of={standing} needsSol={needsSol} address={address}>
        {isLate && <Notice kind="warning">{text.late}</Notice>}
      </Lacking>
      <Spinner>{text.watching}</Spinner>
      <Button onClick={flow.again}>{text.check}</Button>
      {missingOf(standing, needsSol).lamports > 0n && <p className="muted small">{text.why}</p>}
    </>
  );
}
