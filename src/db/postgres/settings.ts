// Settings of every session. They are part of the connection's start, so they override those of the
// server, the database and the role.

/**
 * How values are written and what a statement sees: with another DateStyle, IntervalStyle or
 * bytea_output the driver misreads values, and in another isolation a claim fails with 40001.
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

/** The encoding of the database and of the connection (client_encoding, which the driver sets). */
export const ENCODING = 'UTF8';

/**
 * Settings of synchronous_commit under which a commit waits for the disk, and for that of each
 * synchronous standby.
 */
export const DURABLE_SETTINGS: readonly string[] = ['on', 'remote_apply'];
