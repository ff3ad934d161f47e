// Reads the text of every variable, and where the text comes from: the environment, the file of
// --env-file, or the default. The text of a secret variable NAME may also be in a file, whose path
// is then the value of NAME_FILE.
import { readFileSync } from 'node:fs';
import { messageOf, OperatorError } from '../errors.ts';
import { parseEnvironmentFile } from './environment-file.ts';
import { type Values, type Variable, variables } from './variables.ts';

export interface Environment {
  env?: NodeJS.ProcessEnv;
  /** An environment file (environment-file.ts). The environment takes precedence over the file. */
  envFile?: string | undefined;
}

export interface Setting {
  /** The text as an operator wrote it, or the default. Undefined when the variable has no value. */
  text: string | undefined;
  from: 'environment' | 'env file' | 'default' | 'unset';
  /** Path of the file with the value, if the variable NAME was given as NAME_FILE. */
  file: string | undefined;
  /** Why the value cannot be read. */
  fault: string | undefined;
}

/**
 * Reads all variables. `names` lists every name that the environment or `envFile` sets, including
 * unknown names. Throws an OperatorError (exit code 2) when `envFile` cannot be read.
 */
export function readSettings({ env = process.env, envFile }: Environment = {}): {
  names: string[];
  settings: Record<keyof Values, Setting>;
} {
  const file = envFile === undefined ? {} : withoutEmpty(readEnvFile(envFile));
  const fromEnvironment = withoutEmpty(env);
  const environment: NodeJS.ProcessEnv = { ...file, ...fromEnvironment };
  const settings = Object.fromEntries(
    Object.entries<Variable<unknown>>(variables).map(([key, variable]) => [
      key,
      settingOf(variable, environment, (name) =>
        name in fromEnvironment ? 'environment' : 'env file',
      ),
    ]),
  );
  return {
    names: Object.keys(environment),
    settings: settings as Record<keyof Values, Setting>,
  };
}

function settingOf(
  { name, secret, fallback }: Variable<unknown>,
  environment: NodeJS.ProcessEnv,
  fromOf: (name: string) => Setting['from'],
): Setting {
  const value = environment[name];
  const path = secret === true ? environment[`${name}_FILE`] : undefined;
  if (path === undefined) {
    if (value !== undefined)
      return { text: value, from: fromOf(name), file: undefined, fault: undefined };
    const from = fallback === undefined ? 'unset' : 'default';
    return { text: fallback, from, file: undefined, fault: undefined };
  }
  const found = { from: fromOf(`${name}_FILE`), file: path };
  if (value !== undefined)
    return { ...found, text: undefined, fault: `and ${name}_FILE are both given; keep one` };
  try {
    return { ...found, text: readFileSync(path, 'utf8').trim(), fault: undefined };
  } catch (error) {
    const fault = `cannot be read from ${name}_FILE: ${messageOf(error)}`;
    return { ...found, text: undefined, fault };
  }
}

function withoutEmpty(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
}

function readEnvFile(path: string): NodeJS.ProcessEnv {
  try {
    return parseEnvironmentFile(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new OperatorError(`The environment file ${path} cannot be read: ${messageOf(error)}`, 2, {
      cause: error,
    });
  }
}
