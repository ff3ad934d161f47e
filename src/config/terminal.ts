// Environment variables that describe the terminal.
/** Tells whether the user disabled colours (https://no-color.org). */
export function noColour(env: NodeJS.ProcessEnv = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

/**
 * Prepares the environment before React, ink and chalk are imported, because these packages read
 * the environment on import. React needs NODE_ENV for its fast build. chalk ignores NO_COLOR. With
 * CI set, ink draws only at the end. Returns false when the terminal cannot be drawn on.
 */
export function prepareTerminal(env: NodeJS.ProcessEnv = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
