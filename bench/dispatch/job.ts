// The job of the compared queues: sign the body, post it with undici, log the attempt. As in the
// dispatcher, attempts are logged in batches, and a job ends when its attempt is logged.
import { setImmediate } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { signedHeaders, signingKeys } from '../../src/webhooks/sign.ts';

export interface Payload {
  id: string;
  url: string;
  body: string;
}

interface Entry {
  row: {
    jobId: string;
    startedAt: number;
    durationMs: number;
    httpStatus: number;
    response: string;
  };
  written: () => void;
  failed: (error: unknown) => void;
}

export interface Sender {
  /** Sends one payload. Resolves when its attempt is logged. */
  send(payload: Payload): Promise<void>;
  /** Sends payloads concurrently and logs their attempts in one statement. */
  sendAll(payloads: Payload[]): Promise<void>;
  close(): Promise<void>;
}

/**
 * Creates a sender. `log` is a connection pool of a database with the table of createAttemptLog().
 */
export function createSender(log: Sql, origins: string[], connections: number): Sender {
  const keys = signingKeys(generateWebhookSecret());
  const pools = new Map(
    origins.map((origin) => [
      origin,
      new Pool(origin, { connections, headersTimeout: 5000, bodyTimeout: 5000 }),
    ]),
  );
  let waiting: Entry[] = [];
  let writing: Promise<void> | undefined;

  const post = async ({ id, url, body }: Payload): Promise<Entry['row']> => {
    const { origin, pathname } = new URL(url);
    const bytes = Buffer.from(body);
    const startedAt = Date.now();
    const answer = await pools.get(origin)!.request({
      method: 'POST',
      path: pathname,
      headers: signedHeaders([keys], id, Math.floor(startedAt / 1000), body),
      body: bytes,
    });
    const response = Buffer.from(await answer.body.arrayBuffer()).toString('hex');
    if (answer.statusCode !== 200) throw new Error(`the receiver answered ${answer.statusCode}`);
    return {
      jobId: id,
      startedAt,
      durationMs: Date.now() - startedAt,
      httpStatus: answer.statusCode,
      response,
    };
  };
  const write = async (rows: Entry['row'][]) => {
    await log`
      insert into attempts (job_id, number, started_at, duration_ms, http_status, response, address)
      select "jobId", 1, to_timestamp("startedAt" / 1000), "durationMs", "httpStatus", decode(response, 'hex'), '127.0.0.1'
      from json_to_recordset(${JSON.stringify(rows)}::text::json)
        as given ("jobId" uuid, "startedAt" float8, "durationMs" int, "httpStatus" int, response text)`;
  };
  const drain = async () => {
    await setImmediate();
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        await write(batch.map(({ row }) => row));
        for (const { written } of batch) written();
      } catch (error) {
        for (const { failed } of batch) failed(error);
      }
    }
    writing = undefined;
  };

  return {
    async send(payload) {
      const row = await post(payload);
      await new Promise<void>((written, failed) => {
        waiting.push({ row, written, failed });
        writing ??= drain();
      });
    },
    async sendAll(payloads) {
      await write(await Promise.all(payloads.map(post)));
    },
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()));
    },
  };
}

/** Creates a table with the same columns as the dispatcher's own log of attempts. */
export async function createAttemptLog(sql: Sql): Promise<void> {
  await sql`
    create table attempts (
      job_id uuid not null, number int not null check (number > 0), started_at timestamptz not null,
      duration_ms int not null check (duration_ms >= 0), http_status int, error text, response bytea, address text,
      primary key (job_id, number))`;
}
