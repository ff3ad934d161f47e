import { type ReactElement, useCallback, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Button, Notice, Spinner } from '../../shared/parts.tsx';
import { type App, type AppContext, useResponse } from '../parts/app-context.ts';
import { orNull } from '../parts/typed.ts';
import { AppRules } from './app-rules.tsx';
import { Logo, Website } from './appearance.tsx';
import { Mails } from './mails.tsx';
import { Receipts } from './receipts.tsx';

/** Edits the data that subscribers see about the merchant and the app. */
export function Settings({
  context,
  onChanged,
}: {
  context: AppContext;
  onChanged: () => void;
}): ReactElement {
  const { session, app } = context;
  const ask = useCallback(() => session.client.get('/merchant/profile'), [session]);
  const { data, error, again } = useResponse(ask);
  return (
    <>
      <div className="view-head">
        <h1>Settings</h1>
      </div>
      <Fields
        title="This app"
        text="Subscribers see this on the plan’s page."
        fields={[
          ['name', 'Name', app.name],
          ['description', 'Description', app.description ?? ''],
          ['websiteUrl', 'Website', app.websiteUrl ?? ''],
          ['supportEmail', 'Support: mail address', app.supportEmail ?? '', 'help@coffee.example'],
          ['supportUrl', 'Support: page', app.supportUrl ?? '', 'https://coffee.example/help'],
          ['termsUrl', 'Terms', app.termsUrl ?? '', 'https://coffee.example/terms'],
          ['privacyUrl', 'Privacy notice', app.privacyUrl ?? '', 'https://coffee.example/privacy'],
          [
            'returnOrigins',
            'Sites that a checkout may lead back to',
            app.returnOrigins.join(' '),
            'https://coffee.example',
          ],
        ]}
        save={async (values) => {
          await session.client.patch('/merchant/apps/{appId}', {
            path: { appId: app.id },
            body: {
              name: values.name ?? app.name,
              description: orNull(values.description),
              websiteUrl: orNull(values.websiteUrl),
              supportEmail: orNull(values.supportEmail),
              supportUrl: orNull(values.supportUrl),
              termsUrl: orNull(values.termsUrl),
              privacyUrl: orNull(values.privacyUrl),
              returnOrigins: (values.returnOrigins ?? '').split(/[\s,]+/).filter(Boolean),
            } satisfies Partial<App>,
          });
          onChanged();
        }}
      />
      <AppRules context={context} onChanged={onChanged} />
      <Sponsorship context={context} onChanged={onChanged} />
      <Website context={context} onChanged={onChanged} />
      <Logo context={context} onChanged={onChanged} />
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      {data === undefined && error === undefined && <Spinner>Loading…</Spinner>}
      {data !== undefined && (
        <Fields
          title="You"
          text={`Tier: ${data.tier === 'pro' ? 'Pro' : 'Free'}. Your name is shown to subscribers, your e-mail address is not.`}
          fields={[
            ['name', 'Name', data.name ?? ''],
            ['email', 'E-mail', data.email ?? ''],
          ]}
          save={async (values) => {
            const email = orNull(values.email);
            await session.client.patch('/merchant/profile', {
              body: { name: orNull(values.name), ...(email !== data.email && { email }) },
            });
            again();
          }}
        />
      )}
      {data !== undefined && <Receipts context={context} profile={data} onChanged={again} />}
      {data !== undefined && <Mails context={context} profile={data} onChanged={again} />}
    </>
  );
}

/** Switches sponsoring for the app's subscribers on or off. */
function Sponsorship({
  context: { session, app },
  onChanged,
}: {
  context: AppContext;
  onChanged: () => void;
}): ReactElement {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const isOn = app.sponsorship === 'on';
  const change = () => {
    setBusy(true);
    setError(undefined);
    session.client
      .patch('/merchant/apps/{appId}', {
        path: { appId: app.id },
        body: { sponsorship: isOn ? 'off' : 'on' },
      })
      .then(onChanged, setError)
      .finally(() => setBusy(false));
  };
  return (
    <section className="card form" aria-label="Subscribers without SOL">
      <div>
        <h2>Subscribers without SOL</h2>
        <p className="muted small">
          {isOn
            ? 'Where this service offers it, it pays the network fee and the deposit: subscribers need USDC only, and sign once.'
            : 'Subscribers need SOL for the network fee and the deposit. Cancelling and closing stay free for them.'}
        </p>
      </div>
      {error !== undefined && <Notice kind="error">{wordsOf(error)}</Notice>}
      <div className="actions">
        <Button busy={busy} onClick={change}>
          {isOn ? 'Switch off' : 'Switch on'}
        </Button>
      </div>
    </section>
  );
}

function Fields({
  title,
  text,
  fields,
  save,
}: {
  title: string;
  text: string;
  fields: readonly (readonly [name: string, label: string, value: string, example?: string])[];
  save: (values: Partial<Record<string, string>>) => Promise<void>;
}): ReactElement {
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(fields.map(([name, , value]) => [name, value])),
  );
  const [busy, setBusy] = useState(false);
  const [message, setMessage] = useState<{ kind: 'success' | 'error'; text: string }>();
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        setBusy(true);
        save(values)
          .then(
            () => setMessage({ kind: 'success', text: 'Saved.' }),
            (error: unknown) => setMessage({ kind: 'error', text: wordsOf(error) }),
          )
          .finally(() => setBusy(false));
      }}
    >
      <div>
        <h2>{title}</h2>
        <p className="muted small">{text}</p>
      </div>
      {fields.map(([name, label, , example]) => (
        <label key={name}>
          {label}
          <input
            value={values[name] ?? ''}
            placeholder={example}
            onChange={({ target }) => setValues({ ...values, [name]: target.value })}
          />
        </label>
      ))}
      {message !== undefined && <Notice kind={message.kind}>{message.text}</Notice>}
      <div className="actions">
        <Button kind="primary" type="submit" busy={busy}>
          Save
        </Button>
      </div>
    </form>
  );
}
