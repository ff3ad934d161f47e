import { type ReactElement, useCallback, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { wordsOf } from '../../shared/errors.ts';
import { ListOf } from '../../shared/list-parts.tsx';
import { usePages } from '../../shared/pages.ts';
import { Badge, Button, Dialog, Notice } from '../../shared/parts.tsx';
import { signAgain } from '../../shared/session.ts';
import { hiddenHead, Table } from '../../shared/table.tsx';
import { Time } from '../../shared/time.tsx';
import { type AppContext } from '../parts/app-context.ts';
import { Secret } from '../parts/secret.tsx';

type ApiKey = components['schemas']['ApiKey'];

/** Lists the API keys for the merchant's servers, and creates and revokes keys. */
export function ApiKeys({ context: { session } }: { context: AppContext }): ReactElement {
  const open = useCallback(() => session.client.pages('/merchant/api-keys'), [session]);
  const list = usePages(open);
  const [newKey, setMade] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey>();
  const [problem, setProblem] = useState<string>();

  const make = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const client = await signAgain(session);
      setMade((await client.post('/merchant/api-keys')).key);
      list.refresh();
    } catch (error) {
      setProblem(wordsOf(error));
    }
    setBusy(false);
  };
  const revoke = async ({ id }: ApiKey) => {
    setBusy(true);
    try {
      await session.client.delete('/merchant/api-keys/{keyId}', { path: { keyId: id } });
      setRevoking(undefined);
      list.refresh();
    } catch (error) {
      setProblem(wordsOf(error));
    }
    setBusy(false);
  };

  return (
    <>
      <div className="view-head">
        <h1>API keys</h1>
        <Button kind="primary" busy={busy} onClick={() => void make()}>
          New key
        </Button>
      </div>
      <p className="muted">
        A key lets your server do everything but manage keys. Keep it out of web pages and apps. See
        the <a href="/docs">API reference</a>. Your wallet signs before a key is made.
      </p>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
      <ListOf list={list} empty={<strong>No keys yet</strong>}>
        <Table
          label="API keys"
          rows={list.rows}
          columns={[
            { head: 'Key', cell: ({ prefix }) => <code>{prefix}…</code> },
            {
              head: 'Status',
              cell: ({ revokedAt }) => <Badge status={revokedAt === null ? 'active' : 'revoked'} />,
            },
            { head: 'Created', cell: ({ createdAt }) => <Time at={createdAt} /> },
            {
              head: 'Last used',
              cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : <Time at={lastUsedAt} />),
            },
            {
              head: hiddenHead('Actions'),
              isNumber: true,
              cell: (key) =>
                key.revokedAt === null && (
                  <Button
                    kind="link"
                    aria-label={`Revoke ${key.prefix}`}
                    onClick={() => setRevoking(key)}
                  >
                    Revoke
                  </Button>
                ),
            },
          ]}
        />
      </ListOf>
      {newKey !== undefined && (
        <Secret
          title="Your new key"
          secret={newKey}
          label="Copy the key"
          text="This key is shown once. Store it on your server now; it cannot be shown again."
          onClose={() => setMade(undefined)}
        />
      )}
      {revoking !== undefined && (
        <Dialog title="Revoke this key?" onClose={() => setRevoking(undefined)}>
          <p>
            <code>{revoking.prefix}…</code> stops working with the next request, for good.
          </p>
          <div className="actions end">
            <Button onClick={() => setRevoking(undefined)}>Keep it</Button>
            <Button kind="danger" busy={busy} onClick={() => void revoke(revoking)}>
              Revoke
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
