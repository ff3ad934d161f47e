// State of the deliveries screen and the actions that change it (deliveries-reduce.ts).
import type { Freshness } from './poll.ts';

export interface DeliveryItem {
  id: string;
  status: string;
  eventType: string;
  attempts: number;
  createdAt: Date;
  appName: string;
  url: string;
  /** Of the last attempt: its HTTP status, or why there was no response. */
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
  /** Progress of the first read: the time back to which it has read. */
  readBackTo: Date | null;
}

/** What a replay will do, before it is confirmed. */
export interface ReplayPreview {
  count: number;
  text: string;
  /** Runs the replay and resolves with the new deliveries. */
  run: () => Promise<string[]>;
}

/** The state of the deliveries of a replay. */
export interface ReplayStatus {
  text: string;
  /** No delivery is pending any more. */
  isOver: boolean;
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
  | {
      name: 'confirm';
      ids: string[];
      preview: ReplayPreview | null;
      failure: string | null;
      running: boolean;
      back: ListMode | DetailMode;
    }
  | { name: 'help'; back: ListMode | DetailMode };

export interface State {
  filter: DeliveryFilter;
  list: ListView;
  /** The row that the cursor is on; null: always the first row. */
  selected: string | null;
  index: number;
  /** The row at the top of the screen. */
  offset: number;
  marked: ReadonlySet<string>;
  apps: AppChoice[];
  mode: Mode;
  /** Shown until the next key. */
  message: string | null;
  /** The new deliveries of the last replay, until a key is pressed after all have ended. */
  replayed: { ids: readonly string[]; status: ReplayStatus | null } | null;
  /** Number of reads that the user asked for. */
  reads: number;
  quit: boolean;
}

export type Action =
  | {
      do: 'key';
      key: string;
      page: number;
      scrollMax: number;
      attempts: number;
      now: Date;
      types: readonly string[];
    }
  | { do: 'list'; filter: DeliveryFilter; list: ListView }
  | { do: 'apps'; apps: AppChoice[] }
  | { do: 'preview'; ids: string[]; preview: ReplayPreview | null; failure: string | null }
  | { do: 'replayed'; ids: string[] }
  | { do: 'refused'; text: string }
  | { do: 'status'; ids: readonly string[]; status: ReplayStatus };

export const noRows: ListView = {
  rows: [],
  more: false,
  readBackTo: null,
  asOf: null,
  waitingSince: null,
  failure: null,
};
export const noFilter: DeliveryFilter = {
  status: null,
  appId: null,
  endpointId: null,
  type: null,
  since: null,
  until: null,
};
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
    message: null,
    replayed: null,
    reads: 0,
    quit: false,
  };
}

export interface Option {
  label: string;
  value: string | null;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The choices that match the typed text; an app also by an id that is not in the list. */
export function optionsOf(
  of: 'status' | 'type' | 'app',
  typed: string,
  { apps, types }: { apps: AppChoice[]; types: readonly string[] },
): Option[] {
  const plain = of === 'status' ? statuses : types;
  const options: Option[] =
    of === 'app'
      ? apps.map(({ id, name }) => ({ label: `${name}  ${id}`, value: id }))
      : plain.map((value) => ({ label: value, value }));
  const wanted = typed.toLowerCase();
  const found = [{ label: 'any', value: null }, ...options].filter(({ label }) =>
    label.toLowerCase().includes(wanted),
  );
  return of === 'app' && uuid.test(typed) && found.length === 0
    ? [{ label: typed, value: wanted }]
    : found;
}
