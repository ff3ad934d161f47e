import type { ReactElement } from 'react';
import { words } from '../shared/language.ts';
import { formatExact, formatSolShort } from '../shared/money.ts';
import { Button } from '../shared/parts.tsx';
import type { Standing } from '../shared/session.ts';

/** Shows the amounts of USDC and SOL that the wallet lacks. */
export function Short({
  standing,
  again,
}: {
  standing: Standing;
  again: () => void;
}): ReactElement {
  const text = words.short;
  const usdc = BigInt(standing.usdcNeeded) - BigInt(standing.usdc);
  const sol = BigInt(standing.lamportsNeeded) - BigInt(standing.lamports);
  const lacks = usdc <= 0n ? 'sol' : sol <= 0n ? 'usdc' : 'both';
  return (
    <>
      <h2>{text[lacks]}</h2>
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
          <tr>
            <th scope="row">SOL</th>
            <td>{formatSolShort(standing.lamports)}</td>
            <td>{formatSolShort(standing.lamportsNeeded)}</td>
            <td className={sol > 0n ? 'missing' : ''}>{sol > 0n ? formatSolShort(sol) : '–'}</td>
          </tr>
        </tbody>
      </table>
      <p className="muted">{text.why}</p>
      <Button kind="primary" onClick={again}>
        {text.check}
      </Button>
    </>
  );
}
