import { type ReactNode, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { Boundary } from './parts.tsx';
import { RenewalDialog } from './renewal.tsx';

/** Renders a page into the document. */
export function mount(page: ReactNode): void {
  const root = document.getElementById('root');
  if (root === null) throw new Error('the document has no root');
  createRoot(root).render(
    <StrictMode>
      <Boundary>
        {page}
        <RenewalDialog />
      </Boundary>
    </StrictMode>,
  );
}
