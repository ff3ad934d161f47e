// The signals for an operator: /readyz, `billing status`, and the alerts whose expression is true
// for the scraped samples.
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { parse } from 'yaml';
import { readSamples } from '../fixtures/promql.ts';
import { promql, type Series } from '../fixtures/promql-value.ts';
import { type Daemon, type Ground, names } from './ground.ts';

const deploy = new URL('../../deploy/prometheus/', import.meta.url);
const readyMs = 250;
const statusMs = 5000;
const askMs = 3000;
/** Seconds of points that are kept: more than any alert reads. */
const keptSeconds = 2 * 3600;

export interface Sight {
  /** Seconds after the beginning. */
  seconds: number;
  by: string;
}

interface Alert {
  name: string;
  holds: ReturnType<typeof promql>;
}

/** Polls while it runs; each source has its current signals by name. */
export class Lookout {
  readonly #ground: Ground;
  readonly #shown = new Map<string, Set<string>>();
  readonly #series = new Map<string, Series>();
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** `scrapeSeconds` is that of deploy/prometheus/prometheus.yaml unless it is given. */
  async start(scrapeSeconds?: number): Promise<void> {
    const read = async <T>(name: string) =>
      parse(await readFile(new URL(name, deploy), 'utf8')) as T;
    const { groups } = await read<{ groups: { rules: { alert: string; expr: string }[] }[] }>(
      'alerts.yaml',
    );
    const alerts = groups
      .flatMap(({ rules }) => rules)
      .map(({ alert, expr }) => ({ name: alert, holds: promql(expr) }));
    const { global } = await read<{ global: { scrape_interval: string } }>('prometheus.yaml');
    const scrapeMs = (scrapeSeconds ?? Number.parseInt(global.scrape_interval, 10)) * 1000;
    this.#running = Promise.all([
      ...names.map((name) => this.#every(readyMs, () => this.#askReady(name))),
      this.#every(scrapeMs, () => this.#scrape(alerts)),
      this.#every(statusMs, () => this.#askStatus()),
    ]);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Watches from now on for a new signal; only for those that `by` matches, if given. */
  watch(by?: RegExp): { stop(): Promise<Sight | undefined> } {
    const beganAt = performance.now();
    let known = this.#all();
    let sight: Sight | undefined;
    const ended = new AbortController();
    const looking = (async () => {
      while (sight === undefined && !ended.signal.aborted) {
        const all = this.#all();
        const found = [...all].find((text) => !known.has(text) && (by?.test(text) ?? true));
        if (found !== undefined)
          sight = { seconds: (performance.now() - beganAt) / 1000, by: found };
        // An initial signal only counts after it has disappeared and reappeared.
        known = new Set([...known].filter((text) => all.has(text)));
        await rest(50, ended.signal);
      }
    })();
    return {
      async stop() {
        ended.abort();
        await looking;
        return sight;
      },
    };
  }

  #all(): Set<string> {
    return new Set([...this.#shown.values()].flatMap((texts) => [...texts]));
  }

  async #every(ms: number, look: () => Promise<void>): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await look();
      await rest(ms, this.#stopping.signal);
    }
  }

  async #askReady(name: Daemon): Promise<void> {
    const fault = await fetch(`${this.#ground.metricsUrls[name]}/readyz`, {
      signal: AbortSignal.timeout(askMs),
    }).then(
      async (answer) => {
        const text = await answer.text();
        return answer.ok ? undefined : text.trim().slice(0, 100);
      },
      () => 'no answer',
    );
    this.#shown.set(name, new Set(fault === undefined ? [] : [`${name} is not ready: ${fault}`]));
  }

  async #askStatus(): Promise<void> {
    const { stdout } = await this.#ground.commandOverWires('status', '--json');
    let found: { problems: string[]; errors: { at: string; id: string; detail: string }[] };
    try {
      found = JSON.parse(stdout) as typeof found;
    } catch {
      return;
    }
    const errors = found.errors.map(({ at, id, detail }) => `${detail} (${id}, ${at})`);
    // A problem's numbers change while it lasts.
    const problems = found.problems.map((problem) => problem.replaceAll(/\d+/g, 'n'));
    this.#shown.set('status', new Set([...problems, ...errors].map((text) => `status: ${text}`)));
  }

  async #scrape(alerts: readonly Alert[]): Promise<void> {
    const at = Date.now() / 1000;
    await Promise.all(
      names.map(async (name) => {
        const text = await fetch(`${this.#ground.metricsUrls[name]}/metrics`, {
          signal: AbortSignal.timeout(askMs),
        }).then(
          (answer) => answer.text(),
          () => '',
        );
        this.#record(name, text, at);
      }),
    );
    const series = [...this.#series.values()];
    const firing = alerts.filter(({ holds }) => holds(series, at).length > 0);
    this.#shown.set('alerts', new Set(firing.map(({ name }) => name)));
  }

  /** As Prometheus does: a series that a scrape lacks has ended. */
  #record(instance: Daemon, text: string, at: number): void {
    const found = new Map(
      readSamples(text).map(({ metric, labels, value }) => [
        `${metric} ${JSON.stringify({ ...labels, instance })}`,
        { metric, labels: { ...labels, instance }, value },
      ]),
    );
    for (const [key, { metric, labels }] of found)
      if (!this.#series.has(key)) this.#series.set(key, { metric, labels, points: [] });
    for (const [key, { labels, points }] of this.#series) {
      if (labels.instance !== instance) continue;
      const value = found.get(key)?.value ?? null;
      if (value !== null || points.at(-1)?.value !== null) points.push({ at, value });
      while ((points[0]?.at ?? at) < at - keptSeconds) points.shift();
    }
  }
}

async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
