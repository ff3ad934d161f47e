// Routes of an app's event feed: a long poll for `billing listen`, and sample events for `billing
// trigger`.
import { randomUUID } from 'node:crypto';
import { finished } from 'node:stream';
import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { listEndpoints } from '../../db/delivering/endpoints.ts';
import { countReaders, removeReader, renewReader } from '../../db/delivering/event-readers.ts';
import { readClock } from '../../db/postgres/clock.ts';
import type { Cursors } from '../../domain/accounts/cursors.ts';
import { openSecrets } from '../../domain/outbox/endpoints.ts';
import { EventFeed, startFeed, type FeedPage } from '../../domain/outbox/event-feed.ts';
import { createSample, sampleTypes } from '../../domain/outbox/samples.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { type Api, type ApiDeps, merchantOf, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, nullable, oneOf, PathId, Time } from '../shapes/fields.ts';
import { requestFailure } from '../shapes/webhook-schemas.ts';

/** Maximum time in seconds that a request waits for events. Common proxies time out later. */
const MAX_WAIT_SECONDS = 15;
/**
 * A reader is a client of the event feed, such as `billing listen`. A request of a reader lasts at
 * most `wait` seconds. The reader then has this many seconds to forward the events and to send the
 * next request. Otherwise the reader no longer counts as a current reader of the app.
 */
const BETWEEN_SECONDS = 15;
/** Maximum number of waiting requests per merchant in this process. */
const MAX_WAITING = 4;

const FeedEvent = Type.Object(
  {
    id: Id,
    type: oneOf(sampleTypes, 'The event type.'),
    createdAt: Time,
    body: Type.String({ description: 'The payload, byte for byte as it is signed and sent.' }),
    sample: Type.Boolean({
      description: 'Whether it is a sample event that the merchant triggered.',
    }),
  },
  { title: 'FeedEvent' },
);
const Feed = Type.Object(
  {
    events: Type.Array(FeedEvent, {
      description: 'Oldest first; empty if there are no new events.',
    }),
    cursor: Type.String({ description: 'The next value of "after".' }),
  },
  { title: 'Feed' },
);
const Sample = Type.Object(
  {
    id: Id,
    type: oneOf(sampleTypes, 'The event type.'),
    body: Type.String({ description: 'The payload as it was sent.' }),
    webhookId: nullable(
      Type.String({
        description: 'URL of the endpoint that it was sent to; null if the app has none.',
      }),
    ),
    status: nullable(
      Type.Integer({
        description: 'HTTP status of the response; null without a response.',
      }),
    ),
    durationMs: nullable(
      Type.Number({ description: 'Milliseconds until the response or the failure.' }),
    ),
    error: requestFailure,
    response: nullable(Type.String({ description: 'The start of the response body.' })),
    listeners: Type.Integer({
      description:
        'Number of readers of the app’s event feed ("billing listen"), which also get the event.',
    }),
  },
  { title: 'SampleEvent' },
);
const params = Type.Object({ appId: PathId });
const tags = ['events'];

export function eventFeedRoutes(api: Api, deps: ApiDeps, cursors: Cursors): void {
  nextRoute(api, deps, cursors);
  sampleRoute(api, deps);
}

const nextQuery = Type.Object(
  {
    after: Type.Optional(
      Type.String({ maxLength: 8000, description: 'The cursor of the previous response.' }),
    ),
    wait: Type.Integer({
      minimum: 0,
      maximum: MAX_WAIT_SECONDS,
      default: 0,
      description: 'Seconds to wait for the first event.',
    }),
    limit: Type.Integer({
      minimum: 1,
      maximum: 100,
      default: 100,
      description: 'Events per response.',
    }),
  },
  { additionalProperties: false },
);

/** The decoded content of a cursor. */
interface FeedPosition extends FeedPage {
  /** Id of the reader in event_readers. All cursors of one `billing listen` have the same id. */
  reader: string;
}

function nextRoute(api: Api, deps: ApiDeps, cursors: Cursors): void {
  const { sql } = deps;
  const feed = new EventFeed(sql);
  const places = new WaitingPlaces();
  api.addHook('preClose', (done) => {
    places.close();
    done();
  });
  const scopeOf = (request: FastifyRequest, appId: string) =>
    `feed ${appId} ${merchantOf(request).id}`;

  api.get(
    '/apps/:appId/events/next',
    {
      config: { waits: 'events' },
      schema: {
        summary: 'Follow the events of an app',
        description:
          'Long poll. Without "after": only a cursor of the current position. With "after": the events since that position, each once, waiting up to "wait" seconds for the first.',
        tags,
        params,
        querystring: nextQuery,
        response: { 200: success(Feed), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { after, wait, limit } = request.query;
      const cursor =
        after === undefined ? null : cursors.unseal(after, scopeOf(request, request.params.appId));
      if (cursor === undefined)
        throw invalidField('after', 'was not issued for the events of this app');
      const { id } = await ownApp(deps, request, request.params.appId);
      const position = cursor === null ? null : (JSON.parse(cursor) as FeedPosition);
      const reader = position?.reader ?? randomUUID();
      const seal = (page: FeedPage) =>
        cursors.seal(
          JSON.stringify({ ...page, reader } satisfies FeedPosition),
          scopeOf(request, id),
        );
      const stay = () =>
        renewReader(sql, { id: reader, appId: id, seconds: wait + BETWEEN_SECONDS });
      if (position === null) {
        const page = await startFeed(sql);
        await stay();
        return ok({ events: [], cursor: seal(page) });
      }
      const { rows, next } = await places.use(request, reply, wait, async (signal) => {
        const until = await stay();
        const page = await feed.next(id, position, { limit, waitMs: wait * 1000, signal });
        if (signal.aborted) await removeReader(sql, { id: reader, until });
        return page;
      });
      const events = rows.map(({ type, ...event }) => ({
        ...event,
        type: type as (typeof sampleTypes)[number],
      }));
      return ok({ events, cursor: seal(next) });
    },
  );
}

/** Limits the number of requests of one merchant that wait for events in this process. */
class WaitingPlaces {
  readonly #taken = new Map<string, number>();
  readonly #closing = new AbortController();

  close(): void {
    this.#closing.abort();
  }

  /**
   * Runs `work` and counts the request as waiting until `work` ends. The signal that `work`
   * receives aborts when the client disconnects or the server closes. Throws RATE_LIMITED if
   * `waitSeconds` is above 0 and MAX_WAITING requests of the merchant already wait.
   */
  async use<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    waitSeconds: number,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { id } = merchantOf(request);
    const others = this.#taken.get(id) ?? 0;
    if (waitSeconds > 0 && others >= MAX_WAITING) {
      reply.header('retry-after', 1);
      throw new ServiceError('RATE_LIMITED', `${MAX_WAITING} requests already wait for events.`);
    }
    const disconnected = new AbortController();
    // finished() calls back even if the client has disconnected before this call.
    const unwatch = finished(reply.raw, () => disconnected.abort());
    this.#taken.set(id, others + 1);
    try {
      return await work(AbortSignal.any([this.#closing.signal, disconnected.signal]));
    } finally {
      const left = (this.#taken.get(id) ?? 1) - 1;
      if (left === 0) this.#taken.delete(id);
      else this.#taken.set(id, left);
      unwatch();
    }
  }
}

function sampleRoute(api: Api, deps: ApiDeps): void {
  const { sql, environment, secretBox, ping, wakeDispatchers } = deps;
  api.post(
    '/apps/:appId/events/sample',
    {
      config: { waits: 'servers' },
      schema: {
        summary: 'Send a sample event',
        description:
          'Sends a sample event to the app’s webhook endpoint immediately, without retries, and to the readers of the app’s event feed. data.test is true and data.sequence is 0, unlike in a real event. It is not added to the event log. In production it names made-up rows only: "data" is FORBIDDEN there.',
        tags,
        params,
        body: Type.Object(
          {
            type: oneOf(sampleTypes, 'The event type of the sample.'),
            data: Type.Optional(
              Type.Record(Type.String(), Type.Unknown(), {
                description: 'Fields that replace those of the sample’s data.',
              }),
            ),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Sample), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const { type, data } = request.body;
      // In production, custom data is refused. Otherwise a leaked API key could produce signed
      // events about real customers.
      if (environment === 'production' && data !== undefined)
        throw new ServiceError(
          'FORBIDDEN',
          '"data" can only be given in development: leave it out.',
        );
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      const [endpoint] = await listEndpoints(sql, appId);
      const webhookId = endpoint?.id ?? null;
      const merchantWallet = merchantOf(request).wallet;
      const event = await createSample(sql, type, { appId, webhookId, merchantWallet }, data);
      wakeDispatchers(appId);
      const listeners = await countReaders(sql, appId);
      const secrets =
        endpoint === undefined ? undefined : await openSecrets(sql, secretBox, endpoint.id);
      if (endpoint === undefined || secrets === undefined) {
        return ok({
          ...event,
          type,
          webhookId: null,
          status: null,
          durationMs: null,
          error: null,
          response: null,
          listeners,
        });
      }
      const sent = await ping({
        now: await readClock(sql),
        appId,
        webhookId: endpoint.id,
        url: endpoint.url,
        ...secrets,
        event,
      });
      return ok({ ...event, type, webhookId, ...sent, listeners });
    },
  );
}
