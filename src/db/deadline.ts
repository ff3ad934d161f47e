// Postgres for an interactive screen: no question outlasts its limit, whatever happens to the server or the network. The server cancels a slow
// statement; when nothing arrives at all, the pool is thrown away and opened again.
import { OperatorError } from '../errors.ts';
import { connect, type Sql } from './connect.ts';

export interface Deadlined {
  /** Throws an OperatorError when there is no answer within the limit; what the statement did on the server is then not known. */
  ask<T>(question: (sql: Sql) => PromiseLike<T>): Promise<T>;
  /** Closes every connection at once, without waiting for answers. */
  close(): void;
}

/** Nothing is connected before the first question. */
export function connectWithDeadline(
  url: string,
  { max, name, limitMs }: { max: number; name: string; limitMs: number },
): Deadlined {
  // The server's limit comes first: as long as it answers at all, its connection is kept.
  const ms = Math.ceil(limitMs * 0.8);
  const limits = { statementMs: ms, lockMs: ms, idleInTransactionMs: limitMs, silentMs: limitMs };
  const open = () => connect(url, { max, name, limits });
  const drop = (gone: Sql) => {
    gone.end({ timeout: 0 }).catch(() => undefined);
  };
  let sql = open();
  let closed = false;
  return {
    async ask(question) {
      const asked = sql;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_resolve, reject) => {
        timer = setTimeout(() => {
          if (sql === asked && !closed) {
            sql = open();
            drop(asked);
          }
          reject(new OperatorError(`Postgres did not answer within ${limitMs / 1000} s`));
        }, limitMs);
      });
      const answer = Promise.resolve(question(asked));
      answer.catch(() => undefined);
      try {
        return await Promise.race([answer, late]);
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
