// What the values of arguments and flags may be, and --env-file. Each error states the expected
// form and has exit code 2. The parsers for commander throw InvalidArgumentError, to which
// commander adds the flag's name; the others throw OperatorError.
import { type Command, InvalidArgumentError, Option } from 'commander';
import { isId } from '../db/postgres/ids.ts';
import { OperatorError } from '../errors.ts';
import { parseMoment } from './terminal/time.ts';

/** Takes the exit code of the command. */
export type Finish = (code: number) => void;

export interface EnvFlag {
  envFile?: string;
}

/** The flags that most commands have. */
export interface CommonFlags extends EnvFlag {
  json?: boolean;
}

/** Adds --env-file; for every command that reads the configuration. */
export function withEnv(command: Command): Command {
  return command.addOption(
    new Option(
      '--env-file <path>',
      'read variables that are not in the environment from a .env file',
    ),
  );
}

/** A parser for commander: a whole number from `min` to `max`. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

/** A parser for commander: an amount of SOL such as 0.25. */
export function sol(value: string): number {
  if (!/^\d+(\.\d{1,9})?$/.test(value))
    throw new InvalidArgumentError('It must be an amount of SOL such as 0.25.');
  return Number(value);
}

/** A parser for commander: an amount with `decimals` decimals, as a bigint in its smallest unit. */
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

/** A parser for commander: one of these values. */
export function oneOf<const T extends string>(...words: readonly T[]) {
  return (value: string): T => {
    const found = words.find((word) => word === value);
    if (found === undefined)
      throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
    return found;
  };
}

/** A parser for commander: a comma-separated list of these values. */
export function listOf<const T extends string>(...words: readonly T[]) {
  const one = oneOf(...words);
  return (value: string): T[] => value.split(',').map((word) => one(word.trim()));
}

/** An id in lower case. */
export function parseId(text: string): string {
  const id = text.toLowerCase();
  if (!isId(id)) throw new OperatorError(`"${text}" is not an id: it should be a UUID.`, 2);
  return id;
}

/** A time, in UTC unless it has a zone; null for undefined. `flag` names it in the error. */
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
