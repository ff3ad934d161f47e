import { useState } from 'react';
import type { ReactElement } from 'react';
import { encode } from 'uqr';
import { Button } from './parts.tsx';
import { foreign } from './text.ts';
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
 * Shows one button for each wallet of the browser. Without a wallet, shows links for getting one.
 */
export function WalletChoice({
  verb,
  wallets,
  onChoose,
}: {
  verb: string;
  wallets: readonly SolanaWallet[];
  onChoose: (wallet: SolanaWallet) => void;
}): ReactElement {
  if (wallets.length === 0) return <NoWallet verb={verb} />;
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

function NoWallet({ verb }: { verb: string }): ReactElement {
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
          <strong>This browser has no Solana wallet.</strong>
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
