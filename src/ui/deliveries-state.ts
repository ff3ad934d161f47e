// What the deliveries screen is in the middle of: every key press and every answer is an action, and one function says what comes of it.
import { press } from './deliveries-keys.ts';
import type { Freshness } from './freshness.ts';

export interface DeliveryItem {
  id: string;
  status: string;
  eventType: string;
  attempts: number;
  createdAt: Date;
  appName: string;
  url: string;
  /** Of the last attempt: its HTTP status, or why there was no answer. */
  lastStatus: number | null;
  lastError: string | null;
}

export interface DeliveryFilter {
  status: string | null;
  appId: string | null;
  endpointId: string | null;
  type: string | null;
  since: Date | null;
  until: Date | null;
}

export interface ListView extends Freshness {
  rows: DeliveryItem[];
  /** There may be older ones. */
  more: boolean;
  /** The first reading goes on: so far back it has come. */
  lookedBackTo: Date | null;
}

/** What a replay would do, before anybody has said yes. */
export interface Outlook {
  count: number;
  words: string;
  /** Does it and resolves with what came of it, in words. */
  run: () => Promise<string>;
}

export interface AppChoice {
  id: string;
  name: string;
}

export type ListMode = { name: 'list' };
export type DetailMode = { name: 'detail'; id: string; scroll: number; attempt: number | null };
export type Mode =
  | ListMode
  | DetailMode
  | { name: 'choose'; of: 'status' | 'type' | 'app'; typed: string; at: number }
  | { name: 'enter'; of: 'since' | 'until'; typed: string; fault: string | null }
  | { name: 'confirm'; ids: string[]; outlook: Outlook | null; trouble: string | null; running: boolean; back: ListMode | DetailMode }
  | { name: 'help'; back: ListMode | DetailMode };

export interface State {
  filter: DeliveryFilter;
  list: ListView;
  /** The row that the cursor is on; null: the first, whichever it is. */
  selected: string | null;
  index: number;
  /** The row at the top of the screen. */
  offset: number;
  marked: ReadonlySet<string>;
  apps: AppChoice[];
  mode: Mode;
  /** Told once, until the next key. */
  notice: string | null;
  /** Counts the wishes to look again now. */
  looks: number;
  quit: boolean;
}

export type Action =
  | { do: 'key'; key: string; page: number; scrollMax: number; attempts: number; now: Date; types: readonly string[] }
  | { do: 'list'; filter: DeliveryFilter; list: ListView }
  | { do: 'apps'; apps: AppChoice[] }
  | { do: 'outlook'; ids: string[]; outlook: Outlook | null; trouble: string | null }
  | { do: 'replayed'; words: string; done: boolean };

export const noRows: ListView = { rows: [], more: false, lookedBackTo: null, asOf: null, askedAt: null, trouble: null };
export const noFilter: DeliveryFilter = { status: null, appId: null, endpointId: null, type: null, since: null, until: null };
const statuses = ['pending', 'delivered', 'failed', 'cancelled'] as const;

export function firstState(filter: DeliveryFilter): State {
  return {
    filter,
    list: noRows,
    selected: null,
    index: 0,
    offset: 0,
    marked: new Set(),
    apps: [],
    mode: { name: 'list' },
    notice: null,
    looks: 0,
    quit: false,
  };
}

export interface Option {
  label: string;
  value: string | null;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** What can be chosen, by what has been typed so far; an app also by an id that is not in the list. */
export function optionsOf(
  of: 'status' | 'type' | 'app',
  typed: string,
  { apps, types }: { apps: AppChoice[]; types: readonly string[] },
): Option[] {
  const plain = of === 'status' ? statuses : types;
  const options: Option[] =
    of === 'app' ? apps.map(({ id, name }) => ({ label: `${name}  ${id}`, value: id })) : plain.map((value) => ({ label: value, value }));
  const wanted = typed.toLowerCase();
  const found = [{ label: 'any', value: null }, ...options].filter(({ label }) => label.toLowerCase().includes(wanted));
  return of === 'app' && uuid.test(typed) && found.length === 0 ? [{ label: typed, value: wanted }] : found;
}

export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case 'key':
      return press({ ...state, notice: null }, action);
    case 'list':
      return action.filter === state.filter ? withRows(state, action.list) : state;
    case 'apps':
      return { ...state, apps: action.apps };
    case 'outlook':
      if (state.mode.name !== 'confirm' || state.mode.ids !== action.ids) return state;
      return { ...state, mode: { ...state.mode, outlook: action.outlook, trouble: action.trouble } };
    case 'replayed': {
      const { mode } = state;
      const next = { ...state, notice: action.words, looks: state.looks + 1, ...(action.done ? { marked: new Set<string>() } : {}) };
      return mode.name === 'confirm' && mode.running ? { ...next, mode: mode.back } : next;
    }
  }
}

/** New rows move the cursor along with its row, which stays on its line of the screen. */
function withRows(state: State, list: ListView): State {
  const last = Math.max(0, list.rows.length - 1);
  if (state.selected === null) return { ...state, list, index: 0, offset: 0 };
  const at = list.rows.findIndex(({ id }) => id === state.selected);
  const index = at === -1 ? Math.min(state.index, last) : at;
  const selected = list.rows[index]?.id ?? state.selected;
  return { ...state, list, index, selected, offset: Math.max(0, state.offset + index - state.index) };
}
