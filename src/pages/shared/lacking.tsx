import type { ReactElement, ReactNode } from 'react';
import { formatUsdc } from '../../format.ts';
import { fill } from '../../words/fill.ts';
import { onrampUrl } from './installation.ts';
import { locale, words } from './language.ts';
import { type Balances, missingOf } from './missing.ts';
import { formatExact, formatSolShort, formatToCent, upToCent } from './money.ts';
import { Copy } from './parts.tsx';
import { QrCode } from './qr-code.tsx';

/**
 * Shows how much USDC and SOL a wallet lacks, and the wallet's address for receiving both. Missing
 * USDC is rounded up to the cent, because the price of a part of a period changes while the money
 * is sent. `children` appear below the heading.
 */
export function Lacking({
  of,
  needsSol,
  address,
  children,
}: {
  of: Balances;
  needsSol: boolean;
  address: string;
  children?: ReactNode;
}): ReactElement {
  const text = words.short;
  const { usdc: exact, lamports } = missingOf(of, needsSol);
  const usdc = upToCent(exact);
  const lacks = usdc === 0n ? 'sol' : lamports === 0n ? 'usdc' : 'both';
  const amounts = [
    ...(usdc > 0n ? [`${formatExact(usdc)} USDC`] : []),
    ...(lamports > 0n ? [`${formatSolShort(lamports)} SOL`] : []),
  ];
  const list = new Intl.ListFormat(locale, { type: 'conjunction' }).format(amounts);
  return (
    <>
      <h2>{text[lacks]}</h2>
      {children}
      <BalanceTable of={of} missing={{ usdc, lamports }} needsSol={needsSol} />
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
    </>
  );
}

function BalanceTable({
  of,
  missing: { usdc, lamports },
  needsSol,
}: {
  of: Balances;
  missing: { usdc: bigint; lamports: bigint };
  needsSol: boolean;
}): ReactElement {
  const text = words.short;
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
          <td>{formatExact(of.usdc)}</td>
          <td>{usdc > 0n ? formatExact(upToCent(of.usdcNeeded)) : formatToCent(of.usdcNeeded)}</td>
          <td className={usdc > 0n ? 'missing' : ''}>{usdc > 0n ? formatExact(usdc) : '–'}</td>
        </tr>
        {needsSol && (
          <tr>
            <th scope="row">SOL</th>
            <td>{formatSolShort(of.lamports)}</td>
            <td>{formatSolShort(of.lamportsNeeded)}</td>
            <td className={lamports > 0n ? 'missing' : ''}>
              {lamports > 0n ? formatSolShort(lamports) : '–'}
            </td>
          </tr>
        )}
      </tbody>
    </table>
  );
}
