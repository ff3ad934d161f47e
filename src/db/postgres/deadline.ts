// Postgres access for an interactive screen. Every query ends within the time limit, even when the
// server or the network fails. After a timeout the pool is replaced by a new pool.
import { messageOf, OperatorError } from '../../errors.ts';
import { connect, type ConnectOptions, type Sql } from './connect.ts';
import { limitsWithin } from './settings.ts';

export interface Deadlined {
  /**
   * Runs a query. Throws an OperatorError for a Postgres error, and when no response arrives within
   * the limit. After such a timeout, the statement may still have taken effect.
   */
  ask<T>(question: (sql: Sql) => PromiseLike<T>): Promise<T>;
  /** Closes all connections at once, without waiting for responses. */
  close(): void;
}

/** Creates a pool with a time limit per query. The pool connects on the first query. */
export function withDeadline(
  url: string,
  { limitMs, ...options }: Omit<ConnectOptions, 'limits'> & { limitMs: number },
): Deadlined {
  const open = () => connect(url, { ...options, limits: limitsWithin(limitMs) });
  const drop = (gone: Sql) => {
    gone.end({ timeout: 0 }).catch(() => undefined);
  };
  let sql = open();
  let closed = false;
  return {
    async ask(question) {
      const current = sql;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => {
          if (sql === current && !closed) {
            sql = open();
            drop(current);
          }
          reject(new OperatorError(`Postgres did not answer within ${limitMs / 1000} s`));
        }, limitMs);
      });
      const response = Promise.resolve(question(current));
      response.catch(() => undefined);
      try {
        return await Promise.race([response, late]);
      } catch (error) {
        if (error instanceof OperatorError) throw error;
        throw new OperatorError(`Postgres: ${messageOf(error)}`, 1, { cause: error });
      } finally {
        clearTimeout(timer);
      }
    },
    close() {
      closed = true;
      drop(sql);
    },
  };
}
