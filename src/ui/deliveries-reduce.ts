// The next state of the deliveries screen after an action: a key press, or a result that arrived.
import { press } from './deliveries-keys.ts';
import type { Action, ListView, State } from './deliveries-state.ts';

/** The state after `action`. Pure. */
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
      return {
        ...state,
        mode: { ...state.mode, outlook: action.outlook, trouble: action.trouble },
      };
    case 'replayed': {
      const { mode } = state;
      const next = {
        ...state,
        notice: action.words,
        looks: state.looks + 1,
        ...(action.done ? { marked: new Set<string>() } : {}),
      };
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
  return {
    ...state,
    list,
    index,
    selected,
    offset: Math.max(0, state.offset + index - state.index),
  };
}
