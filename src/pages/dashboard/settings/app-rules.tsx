import { type ReactElement, useState } from 'react';
import { wordsOf } from '../../shared/errors.ts';
import { Notice } from '../../shared/parts.tsx';
import type { App, AppContext } from '../parts/app-context.ts';

type Rule = 'planChanges' | 'onePerCustomer' | 'ownIdsBySubscriber' | 'registerUnclaimed';

const rules: readonly (readonly [rule: Rule, text: string, hint: string])[] = [
  [
    'planChanges',
    'Subscribers may change to other plans of this app',
    'Otherwise a plan changes by a checkout link that you make.',
  ],
  [
    'onePerCustomer',
    'One live subscription for each of your customers',
    'A second one with the same id is refused, unless its checkout link allows it.',
  ],
  [
    'ownIdsBySubscriber',
    'A wallet may set your customer’s id and metadata itself',
    'Nobody has verified them then. Checkout links and your server can always set them.',
  ],
  [
    'registerUnclaimed',
    'Register subscriptions that this service did not offer',
    'Otherwise one that a wallet made on chain by itself is only listed as unregistered.',
  ],
];

/** Switches the app's rules on and off. Each change is saved immediately. */
export function AppRules({
  context: { session, app },
  onChanged,
}: {
  context: AppContext;
  onChanged: () => void;
}): ReactElement {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const change = (body: Partial<Pick<App, Rule>>) => {
    setBusy(true);
    setProblem(undefined);
    session.client
      .patch('/merchant/apps/{appId}', { path: { appId: app.id }, body })
      .then(onChanged, (error: unknown) => setProblem(wordsOf(error)))
      .finally(() => setBusy(false));
  };
  return (
    <section className="card form" aria-label="Rules of this app">
      <h2>Rules of this app</h2>
      {rules.map(([rule, text, hint]) => (
        <label key={rule} className="choice">
          <input
            type="checkbox"
            checked={app[rule]}
            disabled={busy}
            onChange={({ target }) => change({ [rule]: target.checked })}
          />
          <span>
            {text} <span className="muted small">{hint}</span>
          </span>
        </label>
      ))}
      {problem !== undefined && <Notice kind="error">{problem}</Notice>}
    </section>
  );
}
