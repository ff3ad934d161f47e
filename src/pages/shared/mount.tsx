import { type ReactElement, type ReactNode, StrictMode, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { AccountDialog } from './account-dialog.tsx';
import { setLanguage } from './language-choice.ts';
import { LanguageChange } from './language-switch.tsx';
import { Boundary } from './parts.tsx';
import { addPhoneWallet } from './phone-wallet.ts';
import { RenewalDialog } from './renewal.tsx';
import { TapDialog } from './tap-dialog.tsx';

/**
 * Renders a page into the document. With `isTranslated`, the page is in the reader's language.
 * `page` is called again each time the reader changes the language.
 */
export async function mount(page: () => ReactNode, { isTranslated = false } = {}): Promise<void> {
  const root = document.getElementById('root');
  if (root === null) throw new Error('the document has no root');
  if (isTranslated) await setLanguage();
  void addPhoneWallet();
  createRoot(root).render(
    <StrictMode>
      <Root page={page} />
    </StrictMode>,
  );
}

function Root({ page }: { page: () => ReactNode }): ReactElement {
  const [, setChanges] = useState(0);
  return (
    <LanguageChange value={() => setChanges((changes) => changes + 1)}>
      <Boundary>
        {page()}
        <RenewalDialog />
        <AccountDialog />
        <TapDialog />
      </Boundary>
    </LanguageChange>
  );
}
