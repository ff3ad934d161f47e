/** Returns typed text without the spaces around it, and null when nothing is typed. */
export const orNull = (text = ''): string | null => (text.trim() === '' ? null : text.trim());
