import { messageOf, OperatorError } from '../../errors.ts';

/**
 * Calls `load`, which imports optional packages. Throws an OperatorError when a package is not
 * installed.
 */
export async function withOptional<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const [, missing] = /^Cannot find package '([^']+)'/.exec(messageOf(error)) ?? [];
    if (missing === undefined) throw error;
    throw new OperatorError(
      `this needs the package ${missing}, which is optional and not installed: install without --omit=optional.`,
      1,
      { cause: error },
    );
  }
}
