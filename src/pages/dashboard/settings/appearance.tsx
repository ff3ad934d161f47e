import { type ReactElement, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';
import type { AppContext } from '../parts/app-context.ts';

interface CardProps {
  context: AppContext;
  onChanged: () => void;
}

/** Runs one request at a time. `problem` is the reason why the last request failed. */
function useAction(onChanged: () => void) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const run = (work: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(undefined);
    work()
      .then(onChanged, (error: unknown) => setProblem(wordsOf(error)))
      .finally(() => setBusy(false));
  };
  return { busy, problem, run };
}

/** Stores and deletes the logo of the app. */
export function Logo({ context: { session, app }, onChanged }: CardProps): ReactElement {
  const { busy, problem, run } = useAction(onChanged);
  const path = { appId: app.id };
  return (
    <section className="card form">
      <div>
        <h2>Logo</h2>
        <p className="muted small">
          Shown on the plan’s page and where its link is shared: PNG or WebP, at most 64 KiB and
          1024 by 1024 pixels.
        </p>
      </div>
      {app.logoUrl !== null && (
        <img className="logo" src={new URL(app.logoUrl).pathname} alt="The logo of this app" />
      )}
      <label>
        Image file
        <input
          type="file"
          accept="image/png,image/webp"
          disabled={busy}
          onChange={({ target }) => {
            const [chosen] = target.files ?? [];
            if (chosen === undefined) return;
            run(() => session.client.post('/merchant/apps/{appId}/logo', { path, body: chosen }));
            target.value = '';
          }}
        />
      </label>
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
      {app.logoUrl !== null && (
        <div className="actions">
          <Button
            kind="danger"
            busy={busy}
            onClick={() =>
              run(() => session.client.delete('/merchant/apps/{appId}/logo', { path }))
            }
          >
            Delete the logo
          </Button>
        </div>
      )}
    </section>
  );
}

/**
 * Shows whether the website was verified as the app's own, with a button that verifies the website.
 * Shows nothing when the app has no website.
 */
export function Website({ context: { session, app }, onChanged }: CardProps): ReactElement {
  const { busy, problem, run } = useAction(onChanged);
  const { id, websiteUrl, websiteProvenAt } = app;
  if (websiteUrl === null || !URL.canParse(websiteUrl)) return <></>;
  const { origin, host } = new URL(websiteUrl);
  return (
    <section className="card form">
      <div>
        <h2>Proof of the website</h2>
        <p className="muted small">
          {websiteProvenAt === null ? (
            `Until it is proven, the page names ${foreign(host, 60)} as what you say, without a link.`
          ) : (
            <>
              Proven <Time at={websiteProvenAt} />. The page links {foreign(host, 60)}.
            </>
          )}
        </p>
      </div>
      {websiteProvenAt === null && (
        <>
          <p>
            Put this at <code>{foreign(`${origin}/.well-known/billing.json`, 300)}</code>, without a
            redirect:
          </p>
          <pre tabIndex={0} aria-label="billing.json">
            <code>{JSON.stringify({ appId: id })}</code>
          </pre>
          {problem !== undefined && <Notice kind="warning">{problem}</Notice>}
          <div className="actions">
            <Button
              busy={busy}
              onClick={() =>
                run(() =>
                  session.client.post('/merchant/apps/{appId}/website/verify', {
                    path: { appId: id },
                  }),
                )
              }
            >
              Check it
            </Button>
          </div>
        </>
      )}
    </section>
  );
}
