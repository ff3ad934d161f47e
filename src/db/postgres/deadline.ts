// Postgres for an interactive screen: every query ends within the limit, even when the server or
// the network fails. The server cancels a slow statement; when nothing arrives, the pool is
// discarded and a new one opened.
import { messageOf, OperatorError } from '../../errors.ts';
import { connect, type Sql } from './connect.ts';

export interface Deadlined {
  /**
   * Throws an OperatorError for an error of Postgres, and when no answer arrives within the limit;
   * the statement may then have taken effect.
   */
  ask<T>(question: (sql: Sql) => PromiseLike<T>): Promise<T>;
  /** Closes every connection at once, without waiting for answers. */
  close(): void;
}

/** Connects on the first query. */
export function connectWithDeadline(
  url: string,
  { max, name, limitMs }: { max: number; name: string; limitMs: number },
): Deadlined {
  // The server's limit is shorter, so that a server that still answers keeps its connection.
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
