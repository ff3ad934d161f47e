// The fragment of the dashboard's URL: `#/subscriptions/<id>?app=<id>`. With the app's id in the
// URL, a reload or a shared link opens the same app. Links inside the dashboard omit the app's id,
// and the page adds it.

/** The filters of a view, by name. The URL keeps the filters when the page is reloaded. */
export type Filters = Readonly<Record<string, string | undefined>>;

export interface Hash {
  /** Name of the view. The overview has the empty name. */
  readonly view: string;
  /** Id of the one object that the view shows, such as a subscription; or the text of a search. */
  readonly id: string | undefined;
  readonly app: string | undefined;
  readonly filters: Filters;
}

export function readHash(hash: string): Hash {
  const [path = '', query] = hash.replace(/^#\/?/, '').split('?');
  const [view = '', id] = path
    .split('/')
    .filter((part) => part !== '')
    .map(decoded);
  const { app, ...filters }: Filters = Object.fromEntries(new URLSearchParams(query));
  return { view, id, app, filters };
}

export function formatHash({
  view,
  id,
  app,
  filters = {},
}: Omit<Hash, 'filters'> & Partial<Pick<Hash, 'filters'>>): string {
  const path = [view, ...(id === undefined ? [] : [id])].map(encodeURIComponent).join('/');
  const query = Object.entries({ app, ...filters }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${encodeURIComponent(name)}=${encodeURIComponent(value)}`],
  );
  return `#/${path}${query.length === 0 ? '' : `?${query.join('&')}`}`;
}

/** Decodes a part of the fragment. Returns a badly encoded part unchanged. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
