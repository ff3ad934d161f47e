// What a scenario may do to the two Postgres servers, however they are run.
import type { Sql } from '../../src/db/postgres/connect.ts';

export interface Database {
  /** The superuser's URL for the daemons' machines. */
  url: string;
  /** Connected to the server that is the primary now. */
  sql(): Sql;
}

export interface Cluster extends Database {
  /** The primary's machine dies; resolves when the standby is the primary. */
  crash(): Promise<void>;
  /** The primary's machine stops in its tracks; resolves when the standby is the primary. */
  freeze(): Promise<void>;
  /** The standby dies while commits wait for it; resolves when they no longer do. */
  loseStandby(): Promise<void>;
  /** Both servers are restarted for maintenance. */
  restart(): Promise<void>;
}

export type OnStop = (close: () => unknown) => void;
