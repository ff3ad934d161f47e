import { type ReactElement, type SubmitEvent, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import type { AppContext } from '../parts/app-context.ts';
import { orNull } from '../parts/typed.ts';

type Profile = components['schemas']['Profile'];

/** Edits the merchant's details on receipts, and whether the service stores the buyers' details. */
export function Receipts({
  context: { session },
  profile,
  onChanged,
}: {
  context: AppContext;
  profile: Profile;
  onChanged: () => void;
}): ReactElement {
  const [legalName, setLegalName] = useState(profile.legalName ?? '');
  const [legalAddress, setLegalAddress] = useState(profile.legalAddress ?? '');
  const [taxId, setTaxId] = useState(profile.taxId ?? '');
  const [keepBuyerDetails, setKeep] = useState(profile.keepBuyerDetails);
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'error'; text: string }>();
  const save = (event: SubmitEvent) => {
    event.preventDefault();
    setBusy(true);
    session.client
      .patch('/merchant/profile', {
        body: {
          legalName: orNull(legalName),
          legalAddress: orNull(legalAddress),
          taxId: orNull(taxId),
          keepBuyerDetails,
        },
      })
      .then(
        () => {
          setMessage({ kind: 'success', text: 'Saved.' });
          onChanged();
        },
        (error: unknown) => setMessage({ kind: 'error', text: wordsOf(error) }),
      )
      .finally(() => setBusy(false));
  };
  return (
    <form className="card form" onSubmit={save}>
      <div>
        <h2>Receipts</h2>
        <p className="muted small">
          Each payment has a receipt, which the subscriber opens from “My subscriptions” and you get
          as receiptUrl in payment_success. It names you as the seller.
        </p>
      </div>
      <label>
        Legal name
        <input
          value={legalName}
          placeholder="Coffee Ltd"
          onChange={({ target }) => setLegalName(target.value)}
        />
      </label>
      <label>
        Address
        <textarea
          value={legalAddress}
          rows={3}
          onChange={({ target }) => setLegalAddress(target.value)}
        />
      </label>
      <label>
        Tax id
        <input value={taxId} onChange={({ target }) => setTaxId(target.value)} />
      </label>
      <label className="check">
        <input
          type="checkbox"
          checked={keepBuyerDetails}
          onChange={({ target }) => setKeep(target.checked)}
        />
        <span>
          Keep what buyers type on their receipts
          <span className="muted small">
            {' '}
            Name, address, tax id and a text, shown on their later receipts too. Without it they are
            on the printed page only; switching it off deletes what is kept.
          </span>
        </span>
      </label>
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      <div className="actions">
        <Button kind="primary" type="submit" busy={busy}>
          Save
        </Button>
      </div>
    </form>
  );
}
