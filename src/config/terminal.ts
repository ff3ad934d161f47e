// Environment variables that describe the terminal.
/** Tells whether the user disabled colours (https://no-color.org). */
export function noColour(env: NodeJS.ProcessEnv = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

/**
 * Prepares the environment for drawing on the terminal. Returns false when drawing is not possible.
 * Call it before importing React, ink and chalk, which read the environment on import. Without
 * NODE_ENV React uses its slow development build, chalk ignores NO_COLOR, and with CI set ink draws
 * only at the end.
 */
export function prepareTerminal(env: NodeJS.ProcessEnv = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
