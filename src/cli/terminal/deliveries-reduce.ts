// Computes the next state of the deliveries screen from an action. An action is a key press or the
// arrival of data. `press` handles the key presses of each mode.
import {
  type Action,
  type DeliveryFilter,
  type DetailMode,
  type ListMode,
  type ListView,
  type Mode,
  noFilter,
  noRows,
  optionsOf,
  type State,
} from './deliveries-state.ts';
import { parseMoment } from './time.ts';

/** Returns the state after `action`. Pure function. */
export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case 'key':
      return press(
        {
          ...state,
          message: null,
          replayed: state.replayed?.status?.isOver ? null : state.replayed,
        },
        action,
      );
    case 'list':
      return action.filter === state.filter ? withRows(state, action.list) : state;
    case 'apps':
      return { ...state, apps: action.apps };
    case 'preview':
      if (state.mode.name !== 'confirm' || state.mode.ids !== action.ids) return state;
      return {
        ...state,
        mode: { ...state.mode, preview: action.preview, failure: action.failure },
      };
    case 'replayed':
      return { ...replayed(state, action.ids), reads: state.reads + 1 };
    case 'refused':
      return { ...state, mode: backOf(state), message: action.text, reads: state.reads + 1 };
    case 'status':
      return state.replayed?.ids === action.ids
        ? { ...state, replayed: { ...state.replayed, status: action.status } }
        : state;
  }
}

/**
 * Returns the state after a replay. If the replay made one new delivery, this delivery is opened.
 * If the replay made several deliveries, the list opens at its newest row, and the line above the
 * keys shows the status of these deliveries.
 */
function replayed(state: State, ids: readonly string[]): State {
  const [only] = ids;
  const next = { ...state, marked: new Set<string>(), replayed: { ids, status: null } };
  if (state.mode.name !== 'confirm' || !state.mode.running || only === undefined)
    return { ...next, mode: backOf(state) };
  return ids.length === 1
    ? { ...next, mode: { name: 'detail', id: only, scroll: 0, attempt: null } }
    : { ...next, mode: { name: 'list' }, selected: null, index: 0, offset: 0 };
}

/** Returns the mode to show after a replay that the user confirmed. */
function backOf({ mode }: State): Mode {
  return mode.name === 'confirm' && mode.running ? mode.back : mode;
}

/** Shows new rows. The row under the cursor stays on its line of the screen. */
function withRows(state: State, list: ListView): State {
  const last = Math.max(0, list.rows.length - 1);
  if (state.selected === null) return { ...state, list, index: 0, offset: 0 };
  const at = list.rows.findIndex(({ id }) => id === state.selected);
  const index = at === -1 ? Math.min(state.index, last) : at;
  const selected = list.rows[index]?.id ?? state.selected;
  return {
    ...state,
    list,
    index,
    selected,
    offset: Math.max(0, state.offset + index - state.index),
  };
}

type Press = Extract<Action, { do: 'key' }>;

/** Returns the state after a key press in the current mode. */
function press(state: State, action: Press): State {
  const { key } = action;
  if (key === 'ctrl-c') return { ...state, quit: true };
  switch (state.mode.name) {
    case 'choose':
      return pressInChoice(state, state.mode, action);
    case 'enter':
      return pressInEntry(state, state.mode, action);
    case 'list':
      return pressInList(state, action);
    case 'detail':
      return pressInDetail(state, state.mode, action);
    case 'confirm':
      if (key === 'q') return { ...state, quit: true };
      if (key === 'y') {
        const { preview, failure } = state.mode;
        if (preview !== null && preview.count > 0)
          return { ...state, mode: { ...state.mode, running: true } };
        // The question is not shown yet, so the key is not an answer.
        if (preview === null && failure === null) return state;
      }
      // No key closes the dialog while the replay runs, because closing would not stop the replay.
      return state.mode.running ? state : { ...state, mode: state.mode.back };
    case 'help':
      return key === 'q' ? { ...state, quit: true } : { ...state, mode: state.mode.back };
  }
}

function pressInList(state: State, { key, page }: Press): State {
  const { rows } = state.list;
  const current = rows[state.index];
  switch (key) {
    case 'q':
      return { ...state, quit: true };
    case 'up':
    case 'k':
      return moveTo(state, state.index - 1, page);
    case 'down':
    case 'j':
      return moveTo(state, state.index + 1, page);
    case 'pageup':
      return moveTo(state, state.index - page, page);
    case 'pagedown':
      return moveTo(state, state.index + page, page);
    case 'home':
    case 'g':
      return { ...state, selected: null, index: 0, offset: 0 };
    case 'end':
    case 'G':
      return moveTo(state, rows.length - 1, page);
    case 'enter':
    case 'right':
      return current === undefined
        ? state
        : {
            ...state,
            selected: current.id,
            mode: { name: 'detail', id: current.id, scroll: 0, attempt: null },
          };
    case ' ': {
      if (current === undefined) return state;
      const marked = new Set(state.marked);
      if (!marked.delete(current.id)) marked.add(current.id);
      return moveTo({ ...state, marked, selected: current.id }, state.index + 1, page);
    }
    case 'c':
      return { ...state, marked: new Set() };
    case 'r': {
      const ids =
        state.marked.size > 0 ? [...state.marked] : current === undefined ? [] : [current.id];
      return ids.length === 0 ? state : askToReplay(state, ids, { name: 'list' });
    }
    case 's':
      return { ...state, mode: { name: 'choose', of: 'status', typed: '', at: 0 } };
    case 't':
      return { ...state, mode: { name: 'choose', of: 'type', typed: '', at: 0 } };
    case 'a':
      return { ...state, mode: { name: 'choose', of: 'app', typed: '', at: 0 } };
    case 'f':
      return { ...state, mode: { name: 'enter', of: 'since', typed: '', fault: null } };
    case 'u':
      return { ...state, mode: { name: 'enter', of: 'until', typed: '', fault: null } };
    case 'x':
      return withFilter(state, noFilter);
    case 'l':
      return { ...state, reads: state.reads + 1 };
    case '?':
    case 'h':
      return { ...state, mode: { name: 'help', back: { name: 'list' } } };
    default:
      return state;
  }
}

function pressInDetail(
  state: State,
  mode: DetailMode,
  { key, page, scrollMax, attempts }: Press,
): State {
  const scrolled = (scroll: number) => ({
    ...state,
    mode: { ...mode, scroll: Math.max(0, Math.min(scroll, scrollMax)) },
  });
  const shown = mode.attempt ?? attempts;
  switch (key) {
    case 'q':
      return { ...state, quit: true };
    case 'escape':
    case 'backspace':
      return { ...state, mode: { name: 'list' } };
    case 'up':
    case 'k':
      return scrolled(mode.scroll - 1);
    case 'down':
    case 'j':
      return scrolled(mode.scroll + 1);
    case 'pageup':
      return scrolled(mode.scroll - page);
    case 'pagedown':
    case ' ':
      return scrolled(mode.scroll + page);
    case 'home':
    case 'g':
      return scrolled(0);
    case 'end':
    case 'G':
      return scrolled(scrollMax);
    case 'left':
      return { ...state, mode: { ...mode, attempt: Math.max(1, shown - 1) } };
    case 'right':
      // null shows the newest attempt. If another attempt is made later, null shows that attempt.
      return { ...state, mode: { ...mode, attempt: shown + 1 >= attempts ? null : shown + 1 } };
    case 'n':
    case 'p': {
      const index = state.index + (key === 'n' ? 1 : -1);
      const row = state.list.rows[index];
      if (row === undefined) return state;
      return {
        ...moveTo(state, index, page),
        mode: { name: 'detail', id: row.id, scroll: 0, attempt: null },
      };
    }
    case 'r':
      return askToReplay(state, [mode.id], mode);
    case 'l':
      return { ...state, reads: state.reads + 1 };
    case '?':
    case 'h':
      return { ...state, mode: { name: 'help', back: mode } };
    default:
      return state;
  }
}

function pressInChoice(
  state: State,
  mode: Extract<Mode, { name: 'choose' }>,
  { key, types }: Press,
): State {
  const options = optionsOf(mode.of, mode.typed, { apps: state.apps, types });
  const at = Math.min(mode.at, Math.max(0, options.length - 1));
  switch (key) {
    case 'escape':
      return { ...state, mode: { name: 'list' } };
    case 'up':
      return { ...state, mode: { ...mode, at: Math.max(0, at - 1) } };
    case 'down':
      return { ...state, mode: { ...mode, at: Math.min(options.length - 1, at + 1) } };
    case 'enter': {
      const chosen = options[at];
      if (chosen === undefined) return state;
      // An endpoint belongs to one app. With another app, the filter's endpoint would match no
      // delivery, so choosing an app removes the endpoint from the filter.
      const changed =
        mode.of === 'app' ? { appId: chosen.value, endpointId: null } : { [mode.of]: chosen.value };
      return withFilter({ ...state, mode: { name: 'list' } }, { ...state.filter, ...changed });
    }
    default:
      return { ...state, mode: { ...mode, typed: typed(mode.typed, key), at: 0 } };
  }
}

function pressInEntry(
  state: State,
  mode: Extract<Mode, { name: 'enter' }>,
  { key, now }: Press,
): State {
  if (key === 'escape') return { ...state, mode: { name: 'list' } };
  if (key !== 'enter')
    return { ...state, mode: { ...mode, typed: typed(mode.typed, key), fault: null } };
  const text = mode.typed.trim();
  const time = text === '' ? null : parseMoment(text, now);
  if (time === undefined)
    return {
      ...state,
      mode: {
        ...mode,
        fault:
          'Type 2026-11-21 or 2026-11-21 09:00 (UTC), or 30m, 6h, 7d before now; nothing for no limit.',
      },
    };
  return withFilter({ ...state, mode: { name: 'list' } }, { ...state.filter, [mode.of]: time });
}

function typed(text: string, key: string): string {
  if (key === 'backspace') return Array.from(text).slice(0, -1).join('');
  return Array.from(key).length === 1 && text.length < 80 ? text + key : text;
}

function withFilter(state: State, filter: DeliveryFilter): State {
  return { ...state, filter, list: noRows, selected: null, index: 0, offset: 0 };
}

function askToReplay(state: State, ids: string[], back: ListMode | DetailMode): State {
  return {
    ...state,
    mode: { name: 'confirm', ids, preview: null, failure: null, running: false, back },
  };
}

function moveTo(state: State, wanted: number, page: number): State {
  const index = Math.max(0, Math.min(wanted, state.list.rows.length - 1));
  const offset = Math.max(Math.min(state.offset, index), index - page + 1);
  return { ...state, index, offset, selected: state.list.rows[index]?.id ?? null };
}
