// Environment variables that describe the terminal.
/** Whether the user wants no colour (https://no-color.org). */
export function noColour(env: NodeJS.ProcessEnv = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

/**
 * Sets the environment for drawing on the terminal; false when that is not possible. Call it before
 * importing React, ink and chalk, which read it on import: without NODE_ENV React uses its slow
 * development build, chalk ignores NO_COLOR, and with CI ink draws nothing until the end.
 */
export function prepareTerminal(env: NodeJS.ProcessEnv = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
