// Reads the data of the deliveries screen from the API, which lists the deliveries of one app.
// Polls are less frequent than with the database, because the API limits a merchant's requests per
// minute.
import type { LogQuery } from '../../domain/outbox/delivery-log.ts';
import { OperatorError } from '../../errors.ts';
import { type ApiClient, ApiRefusal, type DeveloperApp } from '../develop/api-client.ts';
import type { DeliveriesSource, ListWatch } from '../terminal/deliveries-screen.tsx';
import type { DeliveryItem, ListView } from '../terminal/deliveries-state.ts';
import type { WholeItem } from '../terminal/delivery-lines.ts';
import { type Freshness, type Polling, startPolling } from '../terminal/poll.ts';
import { type Delivery, filtersOf, patiently, replayEach } from './delivery-requests.ts';

/**
 * Milliseconds between polls. The pause is long, because the API allows merchants of the tier Free
 * only 100 requests per minute.
 */
const POLL_MS = 5000;
const PAGE_ROWS = 100;
/**
 * Maximum number of rows on the screen. There is a maximum, because each poll reads all rows again.
 * Without the screen, the flag --limit can print more rows.
 */
const MAX_ROWS = 500;

interface Page<T> {
  data: T;
  /** The cursor of the next page. */
  next: string | undefined;
}

interface WholeDelivery extends Delivery {
  attemptLog: {
    number: number;
    startedAt: string;
    durationMs: number;
    httpStatus: number | null;
    error: string | null;
    response: string | null;
    address: string | null;
  }[];
}

/** Returns a source that reads from the API. It first shows the deliveries of `app`. */
export function openApiSource(
  client: ApiClient,
  app: DeveloperApp,
): DeliveriesSource & { close(): void } {
  return new ApiSource(client, app);
}

class ApiSource implements DeliveriesSource {
  readonly #client: ApiClient;
  #app: DeveloperApp;
  #apps: readonly DeveloperApp[];
  readonly #open = new Set<Polling>();
  readonly #closing = new AbortController();
  readonly #urls = new Map<string, string>();
  readonly #bodies = new Map<string, string>();
  #merchant: string | undefined;

  constructor(client: ApiClient, app: DeveloperApp) {
    this.#client = client;
    this.#app = app;
    this.#apps = [app];
  }

  /**
   * Sends a GET request. If the API responds 429, waits for Retry-After and sends the request
   * again.
   */
  readonly #get = async <T>(path: string): Promise<Page<T>> => {
    const { signal } = this.#closing;
    const { data, headers } = await patiently(signal, () =>
      this.#client.call<T>('GET', path, { signal }),
    );
    const next = headers['x-next-cursor'];
    return { data, next: typeof next === 'string' ? next : undefined };
  };

  readonly #poll = (read: () => Promise<boolean>, report: (fresh: Freshness) => void): Polling => {
    const started = startPolling(read, report, POLL_MS);
    this.#open.add(started);
    return {
      ...started,
      stop: () => {
        this.#open.delete(started);
        started.stop();
      },
    };
  };

  watch(filter: LogQuery, report: (list: ListView) => void): ListWatch {
    let view: Pick<ListView, 'rows' | 'more'> = { rows: [], more: false };
    let wanted = PAGE_ROWS;
    const watch = this.#poll(
      async () => {
        await this.#choose(filter.appId);
        view = await this.#rows(filter, wanted);
        return view.more && view.rows.length < Math.min(wanted, MAX_ROWS);
      },
      (fresh) => report({ ...view, readBackTo: null, ...fresh }),
    );
    return {
      ...watch,
      want(rows) {
        if (rows <= wanted || wanted >= MAX_ROWS) return;
        wanted = Math.min(MAX_ROWS, rows + PAGE_ROWS);
        watch.readNow();
      },
    };
  }

  async #rows(query: LogQuery, wanted: number): Promise<Pick<ListView, 'rows' | 'more'>> {
    await this.#readUrls();
    const of = query.endpointId === null ? '' : `webhooks/${query.endpointId}/`;
    const rows: DeliveryItem[] = [];
    let cursor: string | undefined;
    do {
      const parameters = new URLSearchParams({
        limit: String(PAGE_ROWS),
        ...filtersOf(query),
        ...(cursor !== undefined && { cursor }),
      });
      const page = await this.#get<Delivery[]>(
        `/merchant/apps/${this.#app.id}/${of}deliveries?${parameters.toString()}`,
      );
      rows.push(...page.data.map((row) => this.#item(row)));
      cursor = page.next;
    } while (cursor !== undefined && rows.length < wanted);
    return { rows, more: cursor !== undefined };
  }

  /**
   * Switches to the app with this id. If the id is null, switches to the merchant's only app.
   * Throws an OperatorError if there is no such app, or if the id is null and the merchant has
   * several apps.
   */
  async #choose(id: string | null): Promise<void> {
    if (id === this.#app.id) return;
    if (!this.#apps.some((app) => app.id === id)) await this.apps();
    const found = id === null ? this.#only() : this.#apps.find((app) => app.id === id);
    if (found === undefined) throw new OperatorError(`There is no app ${id ?? ''}.`);
    this.#app = found;
    this.#urls.clear();
  }

  #only(): DeveloperApp | undefined {
    if (this.#apps.length === 1) return this.#apps[0];
    throw new OperatorError('The API lists the deliveries of one app: press a to choose it');
  }

  async apps(): Promise<DeveloperApp[]> {
    const { data } = await this.#get<DeveloperApp[]>('/merchant/apps?limit=100');
    this.#apps = data;
    return data;
  }

  watchOne(
    id: string,
    report: Parameters<DeliveriesSource['watchOne']>[1],
  ): { readNow(): void; stop(): void } {
    let item: WholeItem | null | undefined;
    return this.#poll(
      async () => {
        item = await this.#whole(id);
        return false;
      },
      (fresh) => report({ item, ...fresh }),
    );
  }

  /**
   * Reads a delivery with its attempts and body. Returns null when the API no longer has the
   * delivery.
   */
  async #whole(id: string): Promise<WholeItem | null> {
    const app = `/merchant/apps/${this.#app.id}`;
    try {
      const { data } = await this.#get<WholeDelivery>(`${app}/deliveries/${id}`);
      const body = this.#bodies.get(data.eventId) ?? (await this.#readBody(app, data.eventId));
      return {
        ...this.#item(data),
        appId: this.#app.id,
        webhookId: data.webhookId,
        eventId: data.eventId,
        merchant: await this.#readMerchant(),
        replayOf: data.replayOf,
        nextAttemptAt: timeIn(data.nextAttemptAt),
        finishedAt: timeIn(data.finishedAt),
        endpointDeletedAt: null,
        body,
        attemptLog: data.attemptLog.map(({ startedAt, response, ...attempt }) => ({
          ...attempt,
          startedAt: new Date(startedAt),
          response: response === null ? null : Buffer.from(response),
          headers: 'The headers are not shown: the API does not return signatures.',
        })),
      };
    } catch (error) {
      if (error instanceof ApiRefusal && error.status === 404) return null;
      throw error;
    }
  }

  async #readBody(app: string, eventId: string): Promise<string> {
    const { data } = await this.#get<{ body: string }>(`${app}/events/${eventId}`);
    this.#bodies.set(eventId, data.body);
    return data.body;
  }

  async #readMerchant(): Promise<string> {
    if (this.#merchant === undefined) {
      const { data } = await this.#get<{ wallet: string; name: string | null }>(
        '/merchant/profile',
      );
      this.#merchant = data.name === null ? data.wallet : `${data.name} ${data.wallet}`;
    }
    return this.#merchant;
  }

  async #readUrls(): Promise<void> {
    if (this.#urls.size > 0) return;
    const path = `/merchant/apps/${this.#app.id}/webhooks?limit=100`;
    const { data } = await this.#get<{ id: string; url: string }[]>(path);
    for (const { id, url } of data) this.#urls.set(id, url);
  }

  #item({ id, status, eventType, attempts, createdAt, webhookId }: Delivery): DeliveryItem {
    return {
      id,
      status,
      eventType,
      attempts,
      createdAt: new Date(createdAt),
      appName: this.#app.name,
      // The API does not list a deleted endpoint, so the row shows the endpoint's id.
      url: this.#urls.get(webhookId) ?? webhookId,
      lastStatus: null,
      lastError: null,
    };
  }

  previewReplay(ids: string[]): ReturnType<DeliveriesSource['previewReplay']> {
    if (ids.length > PAGE_ROWS)
      return Promise.reject(
        new OperatorError(
          `Over the API at most ${PAGE_ROWS} are replayed at once; "billing replay" takes filters`,
        ),
      );
    const { signal } = this.#closing;
    const app = `/merchant/apps/${this.#app.id}`;
    const progress = { update: () => undefined };
    return Promise.resolve({
      count: ids.length,
      text: `${ids.length} marked: each is sent to the app's endpoint of today.`,
      run: () => replayEach(this.#client, app, ids, { signal, progress }),
    });
  }

  /**
   * Polls the newest PAGE_ROWS deliveries: all that a replay queues, as a rule. A delivery of the
   * replay that newer ones have pushed off that page is read by its id until it has ended.
   */
  watchReplay(
    ids: readonly string[],
    report: Parameters<DeliveriesSource['watchReplay']>[1],
  ): { stop(): void } {
    const path = `/merchant/apps/${this.#app.id}/deliveries`;
    const known = new Map<string, string>();
    const watch = this.#poll(
      async () => {
        const { data } = await this.#get<Delivery[]>(`${path}?limit=${PAGE_ROWS}`);
        const listed = new Map(data.map(({ id, status }) => [id, status]));
        for (const id of ids) {
          const status = listed.get(id) ?? known.get(id) ?? 'pending';
          const isUnknown = status === 'pending' && !listed.has(id);
          known.set(
            id,
            isUnknown ? (await this.#get<Delivery>(`${path}/${id}`)).data.status : status,
          );
        }
        const counts = new Map<string, number>();
        for (const status of known.values()) counts.set(status, (counts.get(status) ?? 0) + 1);
        const parts = [...counts].map(([status, count]) => `${count} ${status}`).join(', ');
        const isOver = !counts.has('pending');
        report({ text: `Queued ${ids.length} again: ${parts}.`, isOver });
        if (isOver) watch.stop();
        return false;
      },
      () => undefined,
    );
    return watch;
  }

  close(): void {
    this.#closing.abort();
    for (const each of this.#open) each.stop();
  }
}

const timeIn = (text: string | null) => (text === null ? null : new Date(text));
