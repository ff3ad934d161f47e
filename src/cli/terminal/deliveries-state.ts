// The state of the deliveries screen and the actions that change the state (deliveries-reduce.ts).
import type { Freshness } from './poll.ts';

export interface DeliveryItem {
  id: string;
  status: string;
  eventType: string;
  attempts: number;
  createdAt: Date;
  appName: string;
  url: string;
  /**
   * HTTP status of the last attempt. Null before the first attempt. If no response arrived,
   * lastStatus is null and lastError has the reason.
   */
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
  /** Whether older deliveries may exist. */
  more: boolean;
  /** Progress of the first poll: all deliveries queued since this time have been searched. */
  readBackTo: Date | null;
}

/** What a replay will do. The user sees it before confirming. */
export interface ReplayPreview {
  count: number;
  text: string;
  /** Runs the replay and resolves with the ids of the new deliveries. */
  run: () => Promise<string[]>;
}

/** The status of all deliveries of a replay. */
export interface ReplayStatus {
  text: string;
  /** True when no delivery of the replay is pending. */
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
  /** Id of the row under the cursor. null keeps the cursor on the first row. */
  selected: string | null;
  index: number;
  /** Index of the row at the top of the screen. */
  offset: number;
  marked: ReadonlySet<string>;
  apps: AppChoice[];
  mode: Mode;
  /** A message that disappears with the next key press. */
  message: string | null;
  /**
   * The last replay: the ids of the deliveries that it created, and its status, null until the
   * status is read. Cleared by the first key press after all these deliveries have ended.
   */
  replayed: { ids: readonly string[]; status: ReplayStatus | null } | null;
  /**
   * Number of times that the user asked to read the deliveries again. When this number changes, the
   * deliveries are read again.
   */
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

/**
 * Returns the choices that match the typed text. If no app matches and the text is an id, the id is
 * the only choice.
 */
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
