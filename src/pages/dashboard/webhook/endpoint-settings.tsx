import { type ReactElement, useState } from 'react';
import type { components } from '../../../client/openapi.ts';
import type { AppContext } from '../parts/app-context.ts';
import { Confirm } from '../parts/confirm.tsx';
import { objectOf, PairFields, type Pairs } from '../parts/metadata-fields.tsx';

type Endpoint = components['schemas']['WebhookEndpoint'];

const MAX_HEADERS = 10;

/**
 * Edits the custom headers of an endpoint's requests and the maximum number of requests per second.
 */
export function EndpointSettings({
  context: { session, app },
  endpoint,
  onClose,
  onDone,
}: {
  context: AppContext;
  endpoint: Endpoint;
  onClose: () => void;
  onDone: () => void;
}): ReactElement {
  const [rate, setRate] = useState(endpoint.maxPerSecond?.toString() ?? '');
  const [replaces, setReplaces] = useState(endpoint.headerNames.length === 0);
  const [pairs, setPairs] = useState<Pairs>([]);
  const run = async () => {
    if (!/^\d{0,4}$/.test(rate.trim()))
      throw new Error('Requests per second are a number from 1 to 1000, or empty for no limit.');
    const headers = objectOf(pairs);
    await session.client.patch('/merchant/apps/{appId}/webhooks/{webhookId}', {
      path: { appId: app.id, webhookId: endpoint.id },
      body: {
        maxPerSecond: rate.trim() === '' ? null : Number(rate),
        ...(replaces && { headers: Object.keys(headers).length === 0 ? null : headers }),
      },
    });
  };
  return (
    <Confirm title="Endpoint settings" button="Save" run={run} onClose={onClose} onDone={onDone}>
      <label>
        Requests per second at most
        <input
          value={rate}
          inputMode="numeric"
          placeholder="No limit"
          onChange={({ target }) => setRate(target.value)}
        />
      </label>
      {endpoint.headerNames.length > 0 && (
        <label className="choice">
          <input
            type="checkbox"
            checked={replaces}
            onChange={({ target }) => setReplaces(target.checked)}
          />
          <span>Replace your headers ({endpoint.headerNames.join(', ')})</span>
        </label>
      )}
      {replaces && (
        <>
          <PairFields
            legend="Your headers"
            pairs={pairs}
            most={MAX_HEADERS}
            nameExample="x-gateway-key"
            valueExample="a secret"
            onChange={setPairs}
          />
          <p className="muted small">
            Each request carries them. Their values are encrypted and not shown again.
          </p>
        </>
      )}
    </Confirm>
  );
}
