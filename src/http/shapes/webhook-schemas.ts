import { Type } from '@sinclair/typebox';
import { extraEventTypes } from '../../db/delivering/events.ts';
import { customHeaders, type Headers, MAX_HEADERS } from '../../domain/outbox/headers.ts';
import { invalidField } from '../../errors.ts';
import { failureMeanings } from '../../webhooks/errors.ts';
import { Id, meaning, nullable, oneOf, Time } from './fields.ts';

export const url = Type.String({
  format: 'http-url',
  description:
    'Must be HTTPS in production. Stored as it is called: normalized, without a fragment.',
  examples: ['https://coffee.example/hooks'],
});
const secret = Type.String({
  description: 'Key of the signatures of events. It is only shown once.',
  examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
});
export const extraEvents = Type.Array(oneOf(extraEventTypes, 'An opt-in event type.'), {
  uniqueItems: true,
  description: 'Opt-in event types, in addition to those that every endpoint gets.',
  examples: [['renewal_upcoming']],
  title: 'ExtraEvents',
});
/** Why a request to an endpoint got no response. */
export const requestFailure = nullable(
  meaning(
    failureMeanings,
    'The reason why there is no response; null with a response.',
    'RequestFailure',
  ),
);
const fields = {
  id: Id,
  appId: Id,
  url,
  extraEvents,
  createdAt: Time,
  previousSecretExpiresAt: nullable({
    ...Time,
    description: 'End of the time in which the previous secret signs as well.',
  }),
  disabledAt: nullable({
    ...Time,
    description: 'Nothing is queued for it and nothing sent since then; null while enabled.',
  }),
  disabledReason: nullable(
    meaning(
      {
        merchant: 'Disabled by PATCH.',
        failing: 'Disabled by the service after days of nothing but failures.',
      },
      'Why it is disabled.',
      'DisabledReason',
    ),
  ),
  headerNames: Type.Array(Type.String(), {
    description: 'Names of your own headers. Their values are encrypted and not shown.',
    examples: [['x-gateway-key']],
  }),
  maxPerSecond: nullable(
    Type.Integer({ description: 'Maximum number of requests per second; null: no limit.' }),
  ),
  failingSince: nullable({
    ...Time,
    description: 'The first failed request after the last successful one; null unless it fails.',
  }),
  lastSuccessAt: nullable({ ...Time, description: 'End of the last successful request.' }),
  lastErrorAt: nullable({ ...Time, description: 'End of the last failed request.' }),
  lastError: nullable(
    Type.String({
      description: 'Why the last failed request failed: an HTTP status or a code of the attempts.',
      examples: ['HTTP 503'],
    }),
  ),
  successRate: nullable(
    Type.Number({
      minimum: 0,
      maximum: 1,
      description:
        'Share of successful requests within the last 24 hours; null without one. These five fields are seconds late.',
    }),
  ),
};
/** Schemas of an endpoint's settings, for the requests that create or change an endpoint. */
export const settingsInput = {
  headers: Type.Optional(
    nullable(
      Type.Unsafe<Record<string, string>>({
        title: 'WebhookHeaders',
        type: 'object',
        additionalProperties: { type: 'string', maxLength: 1000 },
        maxProperties: MAX_HEADERS,
        description:
          'Your own headers of each request, up to 10, such as an authorization for a gateway. They replace all earlier ones; null removes them. Headers of the service and of the connection are refused.',
        examples: [{ 'x-gateway-key': 'a secret' }],
      }),
    ),
  ),
  maxPerSecond: Type.Optional(
    nullable(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        description: 'Maximum number of requests per second; null: no limit.',
      }),
    ),
  ),
};

/**
 * Converts the headers of a request body to the headers of webhooks. Throws VALIDATION_ERROR for a
 * header that cannot be sent.
 */
export function headersOf(headers: Record<string, string> | null): Headers {
  return customHeaders(headers ?? {}, (name, rule) => {
    throw invalidField(`headers.${name.slice(0, 100)}`, rule);
  });
}

export const Endpoint = Type.Object(fields, { title: 'WebhookEndpoint' });
export const RotatedEndpoint = Type.Object(
  { ...fields, secret },
  { title: 'RotatedWebhookEndpoint' },
);
export const NewEndpoint = Type.Object(
  {
    ...fields,
    secret,
    requeuedDeliveries: Type.Integer({
      description:
        'Number of pending deliveries of the previous endpoint, deleted within the last 7 days, that were queued for this one.',
    }),
  },
  { title: 'NewWebhookEndpoint' },
);
export const ChangedEndpoint = Type.Object(
  {
    ...fields,
    missedEvents: Type.Integer({
      description:
        'Number of events that it missed while disabled and that are queued now; 0 unless this request enabled it.',
    }),
  },
  { title: 'ChangedWebhookEndpoint' },
);
