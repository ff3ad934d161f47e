// Settings of every session. The driver sends them when it connects, so they override the settings
// of the server, the database and the role.

/**
 * The format of values and the isolation of transactions. With another DateStyle, IntervalStyle or
 * bytea_output the driver misreads values. With another isolation level a claim fails with 40001.
 */
export const SESSION_SETTINGS: Readonly<Record<string, string>> = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
};

/** The encoding of the database, and of the connection (the driver sets client_encoding). */
export const ENCODING = 'UTF8';

/**
 * Values of synchronous_commit with which a commit waits for its own disk and for the disks of all
 * synchronous standbys.
 */
export const DURABLE_SETTINGS: readonly string[] = ['on', 'remote_apply'];
