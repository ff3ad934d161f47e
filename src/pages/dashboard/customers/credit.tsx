import { type ReactElement, useCallback, useRef, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { CreditTable } from '../../shared/credit-table.tsx';
import { ListOf } from '../../shared/list-parts.tsx';
import { parseUsdc } from '../../shared/money.ts';
import { usePages } from '../../shared/pages.ts';
import { Button, Usdc } from '../../shared/parts.tsx';
import type { Column } from '../../shared/table.tsx';
import { foreign, shortAddress } from '../../shared/text.ts';
import type { AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';

type Movement = components['schemas']['CreditMovement'];
type Kind = 'grant' | 'take back';

/** A wallet, shortened, or the prefix of an API key. */
const byName = (by: string) => (by.startsWith('sk_') ? by : shortAddress(by));

const note: Column<Movement> = {
  head: 'Your reason',
  cell: ({ note: text, notedBy }) =>
    text === null ? (
      '–'
    ) : (
      <>
        <bdi>{foreign(text, 500)}</bdi>
        <span className="reason muted small">
          {' '}
          by <code title={notedBy ?? undefined}>{byName(notedBy ?? '')}</code>
        </span>
      </>
    ),
};

/** The newest movements of the sums are at most this many. */
const NEWEST = 20;

/**
 * Shows the credit of a customer with its newest movements, grants credit and takes it back.
 * `customerId` is the customer whose credit is changed; undefined if there are several.
 */
export function Credit({
  context,
  of: { credit, creditMovements },
  customerId,
  onChanged,
}: {
  context: AppContext;
  of: Pick<components['schemas']['CustomerSums'], 'credit' | 'creditMovements'>;
  customerId: string | undefined;
  onChanged: () => void;
}): ReactElement {
  const [kind, setKind] = useState<Kind>();
  const [isWhole, setWhole] = useState(false);
  const close = () => setKind(undefined);
  return (
    <>
      <div className="view-head">
        <h2>Credit</h2>
        {customerId !== undefined && (
          <div className="actions">
            <Button onClick={() => setKind('grant')}>Grant credit</Button>
            {credit !== '0' && (
              <Button onClick={() => setKind('take back')}>Take credit back</Button>
            )}
          </div>
        )}
      </div>
      <p>
        <Usdc units={credit} /> left.{' '}
        <span className="muted">The next invoices in this app take it. It is never paid out.</span>
      </p>
      {isWhole && customerId !== undefined ? (
        <AllMovements context={context} customerId={customerId} />
      ) : (
        creditMovements.length > 0 && <CreditTable rows={creditMovements} columns={[note]} />
      )}
      {!isWhole && customerId !== undefined && creditMovements.length === NEWEST && (
        <div>
          <Button onClick={() => setWhole(true)}>Show older ones</Button>
        </div>
      )}
      {kind !== undefined && customerId !== undefined && (
        <Change
          context={context}
          customerId={customerId}
          kind={kind}
          onClose={close}
          onDone={() => {
            close();
            setWhole(false);
            onChanged();
          }}
        />
      )}
    </>
  );
}

function AllMovements({
  context: { session, app },
  customerId,
}: {
  context: AppContext;
  customerId: string;
}): ReactElement {
  const { client } = session;
  const open = useCallback(
    () =>
      client.pages('/merchant/apps/{appId}/customers/{customerId}/credits', {
        path: { appId: app.id, customerId },
      }),
    [client, app.id, customerId],
  );
  const list = usePages(open);
  return (
    <ListOf list={list} empty="No credit was made yet.">
      <CreditTable rows={list.rows} columns={[note]} />
    </ListOf>
  );
}

function Change({
  context: { session, app },
  customerId,
  kind,
  onClose,
  onDone,
}: {
  context: AppContext;
  customerId: string;
  kind: Kind;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [amount, setAmount] = useState('');
  const [reason, setReason] = useState('');
  // A repeated submission after a lost answer has the same key, so it changes the credit once.
  const idempotencyKey = useRef(crypto.randomUUID());
  const isGrant = kind === 'grant';
  const run = async () => {
    const units = parseUsdc(amount);
    if (units === undefined) throw new Error('The amount is more than 0, such as 9.50.');
    await session.client.post('/merchant/apps/{appId}/customers/{customerId}/credits', {
      path: { appId: app.id, customerId },
      body: { amount: isGrant ? units : `-${units}`, reason },
      idempotencyKey: idempotencyKey.current,
    });
  };
  return (
    <Confirm
      title={isGrant ? 'Grant credit' : 'Take credit back'}
      button={isGrant ? 'Grant' : 'Take back'}
      isDangerous={!isGrant}
      {...{ run, onClose, onDone }}
    >
      <label>
        Amount in USDC
        <input
          value={amount}
          required
          autoFocus
          inputMode="decimal"
          onChange={({ target }) => setAmount(target.value)}
        />
      </label>
      <label>
        Reason
        <input
          value={reason}
          required
          maxLength={500}
          onChange={({ target }) => setReason(target.value)}
        />
      </label>
      <p className="muted small">
        {isGrant
          ? 'An overdue payment is tried again at once, less the credit. Only you see the reason.'
          : 'At most what is left can be taken back. Only you see the reason.'}
      </p>
    </Confirm>
  );
}
