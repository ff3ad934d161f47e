// The signals for an operator: /readyz, `billing status`, and the alerts whose expression is true
// in a Prometheus server that scrapes the daemons.
import { setTimeout as pause } from 'node:timers/promises';
import { type Prometheus, startPrometheus } from '../fixtures/prometheus.ts';
import { type Daemon, type Ground, names } from './ground.ts';

const readyMs = 250;
const alertsMs = 250;
const statusMs = 5000;
const askMs = 3000;

export interface Sight {
  /** Seconds after the beginning. */
  seconds: number;
  by: string;
}

/** Polls while it runs; each source has its current signals by name. */
export class Lookout {
  readonly #ground: Ground;
  readonly #shown = new Map<string, Set<string>>();
  readonly #stopping = new AbortController();
  #prometheus: Prometheus | undefined;
  #running: Promise<unknown> = Promise.resolve();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** `scrapeSeconds` defaults to the value of deploy/prometheus/prometheus.yaml. */
  async start(scrapeSeconds?: number): Promise<void> {
    const prometheus = await startPrometheus(
      names.map((name) => new URL(this.#ground.metricsUrls[name]).host),
      scrapeSeconds,
    );
    this.#prometheus = prometheus;
    this.#running = Promise.all([
      ...names.map((name) => this.#every(readyMs, () => this.#askReady(name))),
      this.#every(alertsMs, async () => {
        this.#shown.set('alerts', await prometheus.activeAlerts());
      }),
      this.#every(statusMs, () => this.#askStatus()),
    ]);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    try {
      await this.#running;
    } finally {
      await this.#prometheus?.stop();
    }
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
}

async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
