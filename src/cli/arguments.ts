// Parsers of arguments and flags, and the --env-file flag. A parser that refuses a text throws an
// error that states the expected form. The error ends the command with exit code 2. Parsers for
// commander throw InvalidArgumentError. The other parsers throw OperatorError.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isId } from '../db/postgres/ids.ts';
import { OperatorError } from '../errors.ts';
import { parseMoment } from './terminal/time.ts';

/** Receives the exit code of a command when the command ends. */
export type SetExitCode = (code: number) => void;

export interface EnvFlag {
  envFile?: string;
}

/** The flags that most commands have. */
export interface CommonFlags extends EnvFlag {
  json?: boolean;
}

/** Adds --env-file to a command. Every command that reads the configuration has this flag. */
export function withEnv(command: Command): Command {
  return command.addOption(
    new Option(
      '--env-file <path>',
      'read variables that are not in the environment from a file of lines NAME=value, as systemd reads it',
    ).env('BILLING_ENV_FILE'),
  );
}

/** Returns a parser for commander that accepts a whole number from `min` to `max`. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

/** A parser for commander that accepts an amount of SOL such as 0.25. */
export function sol(value: string): number {
  if (!/^\d+(\.\d{1,9})?$/.test(value))
    throw new InvalidArgumentError('It must be an amount of SOL such as 0.25.');
  return Number(value);
}

/**
 * Returns a parser for commander that accepts an amount with at most `decimals` decimals. The
 * parser returns a bigint in the smallest unit: with 6 decimals, 0.25 is 250000n.
 */
export function decimal(decimals: number) {
  return (value: string): bigint => {
    const [, whole = '', fraction = ''] = /^(\d{1,9})(?:\.(\d+))?$/.exec(value) ?? [];
    if (whole === '' || fraction.length > decimals)
      throw new InvalidArgumentError(
        `It must be an amount such as 0.25, with at most ${decimals} decimals.`,
      );
    return BigInt(whole + fraction.padEnd(decimals, '0'));
  };
}

/** Returns a parser for commander that accepts one of `words`. */
export function oneOf<const T extends string>(...words: readonly T[]) {
  return (value: string): T => {
    const found = words.find((word) => word === value);
    if (found === undefined)
      throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
    return found;
  };
}

/** Returns a parser for commander that accepts a comma-separated list of `words`. */
export function listOf<const T extends string>(...words: readonly T[]) {
  const one = oneOf(...words);
  return (value: string): T[] => value.split(',').map((word) => one(word.trim()));
}

/** Returns the UUID in lower case. Throws an OperatorError (exit code 2) when `text` is no UUID. */
export function parseId(text: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw new OperatorError(`"${text}" is not an id: it should be a UUID.`, 2);
  return id;
}

/**
 * Returns the text of --reason. Throws an OperatorError (exit code 2) when the text is empty or too
 * long.
 */
export function parseReason(text: string): string {
  const reason = text.trim();
  if (reason === '' || reason.length > 500)
    throw new OperatorError('--reason must be a text of 1 to 500 characters.', 2);
  return reason;
}

/**
 * Parses a time, in UTC unless the text has a zone. Returns null for undefined. Throws an
 * OperatorError (exit code 2) that names `flag`.
 */
export function parseTime(flag: string, text: string | undefined): Date | null {
  if (text === undefined) return null;
  const time = parseMoment(text, new Date());
  if (time === undefined) {
    throw new OperatorError(
      `${flag} must be a time such as 2026-11-21T09:00:00Z or "2026-11-21 09:00" (UTC), or 30m, 6h, 7d before now, not "${text}".`,
      2,
    );
  }
  return time;
}
