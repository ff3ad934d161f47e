import { useState } from 'react';
import type { ReactElement } from 'react';
import { fill } from '../../words/fill.ts';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Button } from './parts.tsx';
import { isPhoneWallet } from './phone-wallet.ts';
import { QrCode } from './qr-code.tsx';
import { foreign } from './text.ts';
import type { Role } from './token-store.ts';
import { obstacleOf } from './wallet-sign-in.ts';
import type { SolanaWallet } from './wallets.ts';

/**
 * Wallet apps with a built-in browser. A page that is opened in that browser can use the wallet.
 */
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

/** What the user does with the chosen wallet. */
type Verb = 'subscribe' | 'signIn';

/**
 * Shows a button for each wallet that can sign in for the role. For each other wallet of the
 * browser, shows why the page cannot use it. If no wallet of the browser can sign in, shows links
 * to wallet apps.
 */
export function WalletChoice({
  verb,
  role,
  wallets,
  onChoose,
}: {
  verb: Verb;
  role: Role;
  wallets: readonly SolanaWallet[];
  onChoose: (wallet: SolanaWallet) => void;
}): ReactElement {
  const usable = wallets.filter((wallet) => obstacleOf(wallet, role) === undefined);
  const others = wallets.filter((wallet) => !usable.includes(wallet));
  return (
    <>
      {usable.length > 0 && <Choices verb={verb} wallets={usable} onChoose={onChoose} />}
      {usable.every(isPhoneWallet) && <NoWallet verb={verb} hasOthers={others.length > 0} />}
      {others.map((wallet) => (
        <p key={wallet.name} className="muted">
          <Fill
            text={words.obstacle[obstacleOf(wallet, role) ?? 'messages']}
            wallet={<bdi>{foreign(wallet.name, 40)}</bdi>}
          />
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
  verb: Verb;
  wallets: readonly SolanaWallet[];
  onChoose: (wallet: SolanaWallet) => void;
}): ReactElement {
  return (
    <div className="wallets" role="group" aria-label={words.choice[verb].group}>
      {wallets.map((wallet) => (
        <Button
          key={wallet.name}
          kind="primary"
          icon={
            /^data:image\//.test(wallet.icon) && (
              <img src={wallet.icon} alt="" width={22} height={22} />
            )
          }
          onClick={() => onChoose(wallet)}
        >
          <Fill text={words.choice[verb].with} wallet={<bdi>{foreign(wallet.name, 40)}</bdi>} />
        </Button>
      ))}
    </div>
  );
}

function NoWallet({ verb, hasOthers }: { verb: Verb; hasOthers: boolean }): ReactElement {
  const [onPhone] = useState(() => matchMedia('(pointer: coarse)').matches);
  const url = location.href.split('#', 1)[0] ?? '';
  if (onPhone)
    return (
      <>
        <p>{words.choice[verb].inBrowser}</p>
        <div className="wallets">
          {browsers.map(([name, open]) => (
            <a
              key={name}
              className="button plain"
              rel="noreferrer"
              href={open(encodeURIComponent(url), encodeURIComponent(location.origin))}
            >
              {fill(words.choice.openIn, { wallet: name })}
            </a>
          ))}
        </div>
      </>
    );
  return (
    <div className="no-wallet">
      <div>
        <p>
          <strong>{hasOthers ? words.choice.noneUsable : words.choice.none}</strong>
        </p>
        <p className="muted">{words.choice.scan}</p>
        <p className="links">
          {browsers.map(([name, , get]) => (
            <a key={name} href={get} target="_blank" rel="noreferrer noopener">
              {name}
            </a>
          ))}
        </p>
      </div>
      <QrCode text={url} label={words.choice.qr} />
    </div>
  );
}
