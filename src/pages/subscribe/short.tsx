import type { ReactElement } from 'react';
import { formatExact, formatSolShort } from '../shared/money.ts';
import { Button, Notice } from '../shared/parts.tsx';
import type { Standing } from '../shared/session.ts';

/** Shows the amounts of USDC and SOL that the wallet lacks. */
export function Short({
  standing,
  again,
}: {
  standing: Standing;
  again: () => void;
}): ReactElement {
  const usdc = BigInt(standing.usdcNeeded) - BigInt(standing.usdc);
  const sol = BigInt(standing.lamportsNeeded) - BigInt(standing.lamports);
  return (
    <>
      <h2>Your wallet needs more</h2>
      <Notice kind="warning">Nothing was paid. Add the missing amount, then check again.</Notice>
      <table className="balances">
        <thead>
          <tr>
            <th scope="col">
              <span className="visually-hidden">Token</span>
            </th>
            <th scope="col">You have</th>
            <th scope="col">Needed</th>
            <th scope="col">Missing</th>
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
      <p className="muted">
        SOL pays the network: a fee, and deposits that you get back when you close the subscription.
      </p>
      <Button kind="primary" onClick={again}>
        Check again
      </Button>
    </>
  );
}
