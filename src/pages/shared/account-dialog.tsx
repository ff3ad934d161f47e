// The dialog that asks which account to use when a wallet shares several accounts with the page.
import type { WalletAccount } from '@wallet-standard/base';
import type { ReactElement } from 'react';
import { declined } from './errors.ts';
import { Fill } from './fill.tsx';
import { words } from './language.ts';
import { Button, Dialog } from './parts.tsx';
import { createSlot } from './slot.ts';
import { foreign, shortAddress } from './text.ts';

interface Question {
  readonly wallet: string;
  readonly accounts: readonly WalletAccount[];
  readonly choose: (account: WalletAccount) => void;
  readonly refuse: () => void;
}

const dialog = createSlot<Question>();

/**
 * Asks which of the accounts the page uses. Rejects when the user closes the dialog, and when the
 * page asks again before the user has chosen.
 */
export function askAccount(
  wallet: string,
  accounts: readonly WalletAccount[],
): Promise<WalletAccount> {
  dialog.current?.refuse();
  return new Promise<WalletAccount>((resolve, reject) => {
    dialog.show({
      wallet,
      accounts,
      choose(account) {
        dialog.show(undefined);
        resolve(account);
      },
      refuse() {
        dialog.show(undefined);
        reject(declined());
      },
    });
  });
}

/** Renders the dialog while the page waits for the user to choose an account. */
export function AccountDialog(): ReactElement {
  const question = dialog.useCurrent();
  if (question === undefined) return <></>;
  const { wallet, accounts, choose, refuse } = question;
  const text = words.choice.account;
  return (
    <Dialog title={text.title} onClose={refuse}>
      <p>
        <Fill text={text.text} wallet={<bdi>{foreign(wallet, 40)}</bdi>} />
      </p>
      <div className="wallets" role="group" aria-label={text.title}>
        {accounts.map((account) => (
          <Button key={account.address} onClick={() => choose(account)}>
            {account.label !== undefined && <bdi>{foreign(account.label, 40)}</bdi>}{' '}
            <code title={account.address}>{shortAddress(account.address)}</code>
          </Button>
        ))}
      </div>
      <div className="actions end">
        <Button onClick={refuse}>{words.stopWaiting}</Button>
      </div>
    </Dialog>
  );
}
