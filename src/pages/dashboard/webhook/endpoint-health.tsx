import type { ReactElement } from 'react';
import type { components } from '../../../client/openapi.ts';
import { Button, Notice } from '../../shared/parts.tsx';
import { foreign } from '../../shared/text.ts';
import { Time } from '../../shared/time.tsx';

type Endpoint = components['schemas']['WebhookEndpoint'];

/** Shows the health of a webhook endpoint, with a button that enables a disabled endpoint. */
export function EndpointHealth({
  endpoint,
  busy,
  enable,
}: {
  endpoint: Endpoint;
  busy: boolean;
  enable: () => void;
}): ReactElement {
  const { disabledAt, disabledReason, failingSince, lastSuccessAt, lastError } = endpoint;
  const { successRate, headerNames, maxPerSecond } = endpoint;
  return (
    <>
      {disabledAt !== null && (
        <Notice kind="warning" title="This endpoint is disabled.">
          <p>
            {disabledReason === 'failing'
              ? 'All of its requests failed for days. '
              : 'You disabled it. '}
            Since <Time at={disabledAt} /> nothing was sent. Enabling it sends what it missed.
          </p>
          <Button busy={busy} onClick={enable}>
            Enable it
          </Button>
        </Notice>
      )}
      {disabledAt === null && failingSince !== null && (
        <Notice kind="warning" title="Requests fail.">
          Since <Time at={failingSince} />, the last one with {foreign(lastError, 60)}.
        </Notice>
      )}
      <p className="muted small">
        {lastSuccessAt === null ? (
          'No request has succeeded yet.'
        ) : (
          <>
            Last success <Time at={lastSuccessAt} />.
          </>
        )}
        {successRate !== null &&
          ` In the last 24 hours ${percent(successRate)} of its requests succeeded.`}
        {maxPerSecond !== null && ` At most ${maxPerSecond} requests per second.`}
        {headerNames.length > 0 && ` Your headers: ${headerNames.join(', ')}.`}
      </p>
    </>
  );
}

/** Formats a success rate, rounded down. 100% therefore means that no request failed. */
function percent(rate: number): string {
  return `${Math.floor(rate * 1000) / 10}%`;
}
