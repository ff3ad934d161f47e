import { useState } from 'react';
import type { ReactElement } from 'react';
import { encode } from 'uqr';
import { Button } from './parts.tsx';
import { foreign } from './text.ts';
import type { Role } from './token-store.ts';
import { obstacleOf } from './wallet-sign-in.ts';
import type { SolanaWallet } from './wallets.ts';

/** Wallet apps that can open a page in their own browser, where the wallet is available. */
const browsers: readonly (readonly [
  name: string,
  open: (url: string, ref: string) => string,
  get: string,
])[] = [
  [
    'Phantom',
    (url, ref) => `https://phantom.app/ul/browse/${url}?ref=${ref}`,
    'https://phantom.com/download',
  ],
  [
    'Solflare',
    (url, ref) => `https://solflare.com/ul/v1/browse/${url}?ref=${ref}`,
    'https://solflare.com/download',
  ],
  [
    'Backpack',
    (url, ref) => `https://backpack.app/ul/v1/browse/${url}?ref=${ref}`,
    'https://backpack.app/download',
  ],
];

/**
 * Shows one button for each wallet of the browser that can sign in for the role, and the reason for
 * each that cannot. Without a wallet, shows links for getting one.
 */
export function WalletChoice({
  verb,
  role,
  wallets,
  onChoose,
}: {
  verb: string;
  role: Role;
  wallets: readonly SolanaWallet[];
  onChoose: (wallet: SolanaWallet) => void;
}): ReactElement {
  const usable = wallets.filter((wallet) => obstacleOf(wallet, role) === undefined);
  const others = wallets.filter((wallet) => !usable.includes(wallet));
  return (
    <>
      {usable.length === 0 ? (
        <NoWallet verb={verb} hasOthers={others.length > 0} />
      ) : (
        <Choices verb={verb} wallets={usable} onChoose={onChoose} />
      )}
      {others.map((wallet) => (
        <p key={wallet.name} className="muted">
          <bdi>{foreign(wallet.name, 40)}</bdi> cannot be used here: it {obstacleOf(wallet, role)}.
        </p>
      ))}
    </>
  );
}

function Choices({
  verb,
  wallets,
  onChoose,
}: {
  verb: string;
  wallets: readonly SolanaWallet[];
  onChoose: (wallet: SolanaWallet) => void;
}): ReactElement {
  return (
    <div className="wallets" role="group" aria-label={`${verb} with a wallet`}>
      {wallets.map((wallet) => (
        <Button key={wallet.name} kind="primary" onClick={() => onChoose(wallet)}>
          {/^data:image\//.test(wallet.icon) && (
            <img src={wallet.icon} alt="" width={22} height={22} />
          )}
          <span>
            {verb} with <bdi>{foreign(wallet.name, 40)}</bdi>
          </span>
        </Button>
      ))}
    </div>
  );
}

function NoWallet({ verb, hasOthers }: { verb: string; hasOthers: boolean }): ReactElement {
  const [onPhone] = useState(() => matchMedia('(pointer: coarse)').matches);
  const url = location.href.split('#', 1)[0] ?? '';
  if (onPhone)
    return (
      <>
        <p>{verb} in your wallet’s own browser:</p>
        <div className="wallets">
          {browsers.map(([name, open]) => (
            <a
              key={name}
              className="button plain"
              rel="noreferrer"
              href={open(encodeURIComponent(url), encodeURIComponent(location.origin))}
            >
              Open in {name}
            </a>
          ))}
        </div>
      </>
    );
  return (
    <div className="no-wallet">
      <div>
        <p>
          <strong>
            {hasOthers
              ? 'No wallet of this browser can sign in here.'
              : 'This browser has no Solana wallet.'}
          </strong>
        </p>
        <p className="muted">
          Scan the code to open this page with the wallet on your phone, or install one and load the
          page again:
        </p>
        <p className="links">
          {browsers.map(([name, , get]) => (
            <a key={name} href={get} target="_blank" rel="noreferrer noopener">
              {name}
            </a>
          ))}
        </p>
      </div>
      <QrCode text={url} />
    </div>
  );
}

/** Shows a text as a QR code. The code is dark on light in every colour scheme. */
function QrCode({ text }: { text: string }): ReactElement {
  const { data, size } = encode(text, { ecc: 'M', border: 2 });
  const path = data
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('');
  return (
    <svg
      className="qr"
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="QR code of this page"
      shapeRendering="crispEdges"
    >
      <path d={path} />
    </svg>
  );
}
