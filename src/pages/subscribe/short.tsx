import { type ReactElement, useEffect, useRef } from 'react';
import { formatUsdc } from '../../format.ts';
import { onrampUrl } from '../shared/installation.ts';
import { fill, locale, words } from '../shared/language.ts';
import { formatExact, formatSolShort } from '../shared/money.ts';
import { Button, Copy, Notice, Spinner } from '../shared/parts.tsx';
import { QrCode } from '../shared/qr-code.tsx';
import type { Session, Standing } from '../shared/session.ts';
import type { Flow } from './flow.ts';
import { missingOf } from './missing.ts';

/** Interval (ms) at which the page polls the wallet's balances. */
const WATCH_MS = 4000;

/**
 * Shows how much USDC and SOL the wallet lacks, and the wallet's address for receiving both. The
 * page polls the wallet's balances and subscribes once the balances suffice.
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
  const { usdc, lamports } = missingOf(standing, needsSol);
  const lacks = usdc === 0n ? 'sol' : lamports === 0n ? 'usdc' : 'both';
  const amounts = [
    ...(usdc > 0n ? [`${formatExact(usdc)} USDC`] : []),
    ...(lamports > 0n ? [`${formatSolShort(lamports)} SOL`] : []),
  ];
  const list = new Intl.ListFormat(locale, { type: 'conjunction' }).format(amounts);
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
      <h2>{text[lacks]}</h2>
      {isLate && <Notice kind="warning">{text.late}</Notice>}
      <Balances standing={standing} needsSol={needsSol} />
      <div className="no-wallet">
        <div>
          <p>{fill(text.send, { amounts: list })}</p>
          <p className="whole-address">
            <code>{address}</code>
            <Copy text={address} label={fill(words.copy, { what: words.yourAddress })} />
          </p>
        </div>
        <QrCode text={address} label={text.qr} />
      </div>
      {onrampUrl !== '' && usdc > 0n && (
        <a
          className="button primary"
          href={onrampUrl
            .replace('{address}', encodeURIComponent(address))
            .replace('{amount}', encodeURIComponent(formatUsdc(usdc)))}
          target="_blank"
          rel="noreferrer noopener"
        >
          {text.buy}
          <span aria-hidden="true"> ↗</span>
        </a>
      )}
      <Spinner>{text.watching}</Spinner>
      <Button onClick={flow.again}>{text.check}</Button>
      {lamports > 0n && <p className="muted small">{text.why}</p>}
    </>
  );
}

function Balances({ standing, needsSol }: { standing: Standing; needsSol: boolean }): ReactElement {
  const text = words.short;
  const { usdc, lamports } = missingOf(standing, needsSol);
  return (
    <table className="balances">
      <thead>
        <tr>
          <th scope="col">
            <span className="visually-hidden">{text.token}</span>
          </th>
          <th scope="col">{text.have}</th>
          <th scope="col">{text.needed}</th>
          <th scope="col">{text.missing}</th>
        </tr>
      </thead>
      <tbody>
        <tr>
          <th scope="row">USDC</th>
          <td>{formatExact(standing.usdc)}</td>
          <td>{formatExact(standing.usdcNeeded)}</td>
          <td className={usdc > 0n ? 'missing' : ''}>{usdc > 0n ? formatExact(usdc) : '–'}</td>
        </tr>
        {needsSol && (
          <tr>
            <th scope="row">SOL</th>
            <td>{formatSolShort(standing.lamports)}</td>
            <td>{formatSolShort(standing.lamportsNeeded)}</td>
            <td className={lamports > 0n ? 'missing' : ''}>
              {lamports > 0n ? formatSolShort(lamports) : '–'}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
