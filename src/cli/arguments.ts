// Parsers of flags for commander. Each error states the expected form; commander puts the flag's
// name before it (exit code 2).
import { InvalidArgumentError, Option, type Command } from 'commander';

export interface EnvFlag {
  envFile?: string;
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

export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

/** An amount of SOL such as 0.25. */
export function sol(value: string): number {
  if (!/^\d+(\.\d{1,9})?$/.test(value))
    throw new InvalidArgumentError('It must be an amount of SOL such as 0.25.');
  return Number(value);
}

/** A decimal amount with `decimals` decimals, as a bigint in its smallest unit. */
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

/** One of these values. */
export function oneOf<const T extends string>(...words: readonly T[]) {
  return (value: string): T => {
    const found = words.find((word) => word === value);
    if (found === undefined)
      throw new InvalidArgumentError(`It must be one of ${words.join(', ')}.`);
    return found;
  };
}

/** A comma-separated list of these values. */
export function listOf<const T extends string>(...words: readonly T[]) {
  const one = oneOf(...words);
  return (value: string): T[] => value.split(',').map((word) => one(word.trim()));
}

export type Finish = (code: number) => void;
