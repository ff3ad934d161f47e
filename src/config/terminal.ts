// Environment variables that describe the terminal.
/** Tells whether the user disabled colours (https://no-color.org). */
export function noColour(env: NodeJS.ProcessEnv = process.env): boolean {
  return (env.NO_COLOR ?? '') !== '';
}

/**
 * Prepares the environment. Call this before React, ink and chalk are imported, because these
 * packages read the environment on import. NODE_ENV=production selects React's fast build. If
 * NO_COLOR is set, FORCE_COLOR=0 is set too, because chalk ignores NO_COLOR. CI is removed, because
 * with CI ink draws nothing until the end. Returns false when the terminal cannot be drawn on.
 */
export function prepareTerminal(env: NodeJS.ProcessEnv = process.env): boolean {
  env.NODE_ENV ??= 'production';
  if (noColour(env)) env.FORCE_COLOR = '0';
  delete env.CI;
  delete env.CONTINUOUS_INTEGRATION;
  return env.TERM !== 'dumb';
}
