// Environment variables that describe the terminal.
type Environment = Record<string, string | undefined>;

/** Whether the user asks for text without colour (https://no-color.org). */
export function noColour(env: Environment = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

/**
 * Settles how a terminal is drawn on; false where it cannot be. React, ink and chalk read these variables when they are imported, so it comes before
 * that: without NODE_ENV React is its slow development build, which also keeps a record of every rendering; chalk does not know NO_COLOR
 * (https://no-color.org); with CI ink would draw nothing before the end, though there is a terminal.
 */
export function prepareTerminal(env: Environment = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
