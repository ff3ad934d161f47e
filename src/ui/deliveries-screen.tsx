// `billing deliveries` on a terminal. What it knows comes from a source that never makes it wait: views arrive when they do, keys are answered at once.
import { useApp } from 'ink';
import { type ReactNode, useEffect, useMemo, useReducer, useRef, useState } from 'react';
import { DeliveriesList, extent, filterInWords } from './deliveries-list.tsx';
import {
  type AppChoice,
  type DeliveryFilter,
  firstState,
  type ListView,
  optionsOf,
  type Outlook,
  reduce,
  type State,
} from './deliveries-state.ts';
import { DeliveryDetail, type DetailView } from './delivery-detail.tsx';
import { deliveryLines } from './delivery-lines.ts';
import { Choice, Confirm, Entry, Help } from './dialogs.tsx';
import { freshness } from './freshness.ts';
import { useKeys } from './keys.ts';
import { Ends, Frame, Keys, Line } from './line.tsx';
import { useNow, useSize } from './screen.tsx';

export interface ListWatch {
  /** Wants this many rows, when there are so many. */
  want(rows: number): void;
  /** Reads again now. */
  look(): void;
  stop(): void;
}

export interface DeliveriesSource {
  /** Tells of the deliveries that match, now and whenever they have been read again. */
  watch(filter: DeliveryFilter, tell: (list: ListView) => void): ListWatch;
  watchOne(id: string, tell: (detail: DetailView) => void): { look(): void; stop(): void };
  apps(): Promise<AppChoice[]>;
  /** What replaying these would do. */
  outlook(ids: string[]): Promise<Outlook>;
}

interface Props {
  source: DeliveriesSource;
  filter: DeliveryFilter;
  types: readonly string[];
}

const listKeys = [
  ['q', 'leave'],
  ['?', 'keys'],
  ['Enter', 'open'],
  ['r', 'replay'],
  ['space', 'mark'],
  ['s', 'status'],
  ['a', 'app'],
  ['t', 'type'],
  ['f', 'since'],
  ['u', 'until'],
  ['x', 'clear filters'],
  ['l', 'look again'],
] as const;
const detailKeys = [
  ['Esc', 'back'],
  ['q', 'leave'],
  ['r', 'replay'],
  ['left right', 'attempt'],
  ['n p', 'next, previous'],
  ['up down', 'scroll'],
] as const;
const dialogKeys = [
  ['Esc', 'back'],
  ['ctrl-C', 'leave'],
] as const;

const unread: DetailView = { item: undefined, asOf: null, askedAt: null, trouble: null };
// Title, filter, and under the body the extent and the keys.
const frameLines = 4;

const words = (error: unknown) => (error instanceof Error ? error.message : String(error));

export function DeliveriesScreen({ source, filter, types }: Props): ReactNode {
  const { exit } = useApp();
  const size = useSize();
  const now = useNow();
  const [state, dispatch] = useReducer(reduce, filter, firstState);
  const { mode } = state;
  const openId = idOf(state);
  const detail = useDetail(source, openId, state.looks);
  const height = Math.max(1, size.rows - 1 - frameLines);
  const page = Math.max(1, height - 1);

  useList(source, state, page, (list) => dispatch({ do: 'list', filter: state.filter, list }));
  useEffect(() => {
    if (state.quit) exit();
  }, [state.quit, exit]);
  useEffect(() => {
    if (mode.name !== 'choose' || mode.of !== 'app') return;
    source.apps().then(
      (apps) => dispatch({ do: 'apps', apps }),
      // A whole id can be typed all the same, and the list tells of the trouble.
      () => undefined,
    );
  }, [source, mode.name, mode.name === 'choose' && mode.of]);
  const asked = mode.name === 'confirm' ? mode.ids : null;
  useEffect(() => {
    if (asked === null) return;
    source.outlook(asked).then(
      (outlook) => dispatch({ do: 'outlook', ids: asked, outlook, trouble: null }),
      (error: unknown) => dispatch({ do: 'outlook', ids: asked, outlook: null, trouble: words(error) }),
    );
  }, [source, asked]);
  const running = mode.name === 'confirm' && mode.running ? mode.outlook : null;
  useEffect(() => {
    running?.run().then(
      (done) => dispatch({ do: 'replayed', words: done, done: true }),
      (error: unknown) =>
        dispatch({ do: 'replayed', words: `${words(error)}. Look at the list before you try again: some may be queued.`, done: false }),
    );
  }, [running]);

  const attempt = mode.name === 'detail' ? mode.attempt : null;
  const lines = useMemo(
    () => (detail.item === undefined || detail.item === null ? [] : deliveryLines(detail.item, attempt, { width: size.columns, now })),
    [detail.item, attempt, size.columns, now],
  );
  const scrollMax = Math.max(0, lines.length - height);
  const attempts = detail.item?.attemptLog.length ?? 0;
  useKeys((key) => dispatch({ do: 'key', key, page, scrollMax, attempts, now: new Date(), types }));

  const fresh = freshness(openId === null ? state.list : detail, now);
  const app = state.filter.appId;
  const appName = state.apps.find(({ id }) => id === app)?.name ?? state.list.rows[0]?.appName;
  const title = openId === null ? 'Deliveries' : 'Delivery';
  const keys = mode.name === 'list' ? listKeys : mode.name === 'detail' ? detailKeys : dialogKeys;
  const below =
    mode.name === 'detail' && scrollMax > 0 ? `lines ${mode.scroll + 1} to ${mode.scroll + height} of ${lines.length}` : extent(state);
  return (
    <Frame
      size={size}
      head={
        <>
          <Ends left={{ text: title, tone: 'head' }} right={fresh} width={size.columns} />
          <Line parts={[{ text: filterInWords(state.filter, appName), tone: 'dim' }]} />
        </>
      }
      foot={
        <>
          <Line parts={[state.notice === null ? { text: below, tone: 'dim' } : { text: state.notice, tone: 'warn' }]} />
          <Keys keys={keys} width={size.columns} />
        </>
      }
    >
      {mode.name === 'list' && <DeliveriesList state={state} width={size.columns} height={height} />}
      {mode.name === 'detail' && <DeliveryDetail view={detail} lines={lines} scroll={Math.min(mode.scroll, scrollMax)} height={height} />}
      {mode.name === 'choose' && (
        <Choice mode={mode} options={optionsOf(mode.of, mode.typed, { apps: state.apps, types })} height={height} />
      )}
      {mode.name === 'enter' && <Entry mode={mode} />}
      {mode.name === 'confirm' && <Confirm mode={mode} width={size.columns} />}
      {mode.name === 'help' && <Help />}
    </Frame>
  );
}

function idOf({ mode }: State): string | null {
  const shown = 'back' in mode ? mode.back : mode;
  return shown.name === 'detail' ? shown.id : null;
}

/** Keeps watching what the filter asks for, with a screen more than is scrolled to. */
function useList(source: DeliveriesSource, { filter, looks, offset }: State, page: number, tell: (list: ListView) => void): void {
  const watch = useRef<ListWatch>(undefined);
  useEffect(() => {
    const watching = source.watch(filter, tell);
    watch.current = watching;
    return () => watching.stop();
  }, [source, filter]);
  useEffect(() => {
    watch.current?.want(offset + 3 * page);
  }, [filter, offset, page]);
  useEffect(() => {
    if (looks > 0) watch.current?.look();
  }, [looks]);
}

/** Keeps watching one delivery; what was told of another is not shown for it. */
function useDetail(source: DeliveriesSource, id: string | null, looks: number): DetailView {
  const [told, setTold] = useState<{ id: string | null; view: DetailView }>({ id: null, view: unread });
  const watch = useRef<{ look(): void; stop(): void }>(undefined);
  useEffect(() => {
    if (id === null) return;
    const watching = source.watchOne(id, (view) => setTold({ id, view }));
    watch.current = watching;
    return () => watching.stop();
  }, [source, id]);
  useEffect(() => {
    if (looks > 0) watch.current?.look();
  }, [looks]);
  return told.id === id ? told.view : unread;
}
