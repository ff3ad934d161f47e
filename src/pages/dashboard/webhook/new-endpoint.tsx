import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Button } from '../../shared/parts.tsx';
import { meanings } from '../parts/event-types.ts';

type ExtraEvent = components['schemas']['NewWebhookEndpoint']['extraEvents'][number];

/**
 * Descriptions of the optional event types. An endpoint receives an event of such a type only if
 * the merchant chooses the type.
 */
const extraEvents: Readonly<Record<ExtraEvent, string>> = {
  renewal_upcoming: `${meanings.renewal_upcoming}, and whether the wallet could pay it`,
  plan_blocked: meanings.plan_blocked,
  subscription_paused: meanings.subscription_paused,
  subscription_unpaused: meanings.subscription_unpaused,
  refund_recorded: meanings.refund_recorded,
  invoice_voided: meanings.invoice_voided,
  invoice_uncollectible: meanings.invoice_uncollectible,
  credit_changed: meanings.credit_changed,
};

const types = Object.keys(extraEvents) as ExtraEvent[];

/** The form that adds a webhook endpoint to an app. */
export function NewEndpoint({
  busy,
  create,
}: {
  busy: boolean;
  create: (url: string, extraEvents: ExtraEvent[]) => Promise<void>;
}): ReactElement {
  const [url, setUrl] = useState('');
  const [chosen, setChosen] = useState<readonly ExtraEvent[]>([]);
  const choose = (type: ExtraEvent, on: boolean) =>
    setChosen(types.filter((one) => (one === type ? on : chosen.includes(one))));
  return (
    <form
      className="card form"
      onSubmit={(event) => {
        event.preventDefault();
        void create(url, [...chosen]);
      }}
    >
      <h2>Add your endpoint</h2>
      <p className="muted">
        Your server gets an event for each payment, failure and cancellation, and the further ones
        that you choose.
      </p>
      <label>
        URL
        <input
          type="url"
          required
          value={url}
          maxLength={2048}
          placeholder="https://example.com/billing-webhook"
          onChange={({ target }) => setUrl(target.value)}
        />
      </label>
      <fieldset className="choices">
        <legend>Further events</legend>
        {types.map((type) => (
          <label key={type}>
            <input
              type="checkbox"
              checked={chosen.includes(type)}
              onChange={({ target }) => choose(type, target.checked)}
            />
            <span>
              <code>{type}</code> <span className="muted">{extraEvents[type]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div className="actions">
        <Button kind="primary" type="submit" busy={busy}>
          Add endpoint
        </Button>
      </div>
    </form>
  );
}
