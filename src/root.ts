// The build puts all files directly into dist, so `../` is the package's folder from there too.

/** URL of the package's folder, with a slash at its end. */
export const ROOT = new URL('../', import.meta.url);
