// `billing deliveries` on a terminal. A DeliveriesSource reads data in the background and pushes it
// to the screen, so that the screen responds to keys immediately.
import { useApp } from 'ink';
import { type ReactNode, useEffect, useMemo, useReducer, useRef, useState } from 'react';
import { messageOf } from '../../errors.ts';
import { DeliveriesList, extent, filterInWords, toneOfStatus } from './deliveries-list.tsx';
import { reduce } from './deliveries-reduce.ts';
import {
  type Action,
  type AppChoice,
  type DeliveryFilter,
  type ReplayStatus,
  firstState,
  type ListView,
  type Mode,
  optionsOf,
  type ReplayPreview,
  type State,
} from './deliveries-state.ts';
import { deliveryLines, type StyledLine, type WholeItem } from './delivery-lines.ts';
import { Choice, Confirm, Entry, Help } from './dialogs.tsx';
import { Ends, Frame, Keys, Line, type Part } from './line.tsx';
import { type Freshness, freshness } from './poll.ts';
import { useKeys, useNow, useSize } from './screen.tsx';

export interface DetailView extends Freshness {
  /**
   * The delivery. Undefined before the first poll; null when the delivery was deleted in the
   * meantime.
   */
  item: WholeItem | null | undefined;
}

export interface ListWatch {
  /** Sets the maximum number of rows to read. */
  want(rows: number): void;
  /** Reads the rows now, without waiting for the next poll. */
  readNow(): void;
  stop(): void;
}

export interface DeliveriesSource {
  /** Calls `report` with the deliveries that match `filter`, now and after each poll. */
  watch(filter: DeliveryFilter, report: (list: ListView) => void): ListWatch;
  watchOne(id: string, report: (detail: DetailView) => void): { readNow(): void; stop(): void };
  apps(): Promise<AppChoice[]>;
  /** Calls `report` with the status of the deliveries `ids` until all of them have finished. */
  watchReplay(ids: readonly string[], report: (status: ReplayStatus) => void): { stop(): void };
  /** Describes the replay of the deliveries `ids` without running the replay. */
  previewReplay(ids: string[]): Promise<ReplayPreview>;
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

const unread: DetailView = { item: undefined, asOf: null, waitingSince: null, failure: null };
// Number of lines outside the body: the title and the filter above, footOf() and Keys below.
const FRAME_LINES = 4;

export function DeliveriesScreen({ source, filter, types }: Props): ReactNode {
  const { exit } = useApp();
  const size = useSize();
  const now = useNow();
  const [state, dispatch] = useReducer(reduce, filter, firstState);
  const { mode } = state;
  const openId = idOf(state);
  const detail = useDetail(source, openId, state.reads);
  const height = Math.max(1, size.rows - 1 - FRAME_LINES);
  const page = Math.max(1, height - 1);

  useList(source, state, page, (list) => dispatch({ do: 'list', filter: state.filter, list }));
  useEffect(() => {
    if (state.quit) exit();
  }, [state.quit, exit]);
  useApps(source, mode, dispatch);
  useReplay(source, mode, dispatch);
  useReplayStatus(source, state, dispatch);

  const attempt = mode.name === 'detail' ? mode.attempt : null;
  const lines = useMemo(
    () =>
      detail.item === undefined || detail.item === null
        ? []
        : deliveryLines(detail.item, attempt, { width: size.columns, now }),
    [detail.item, attempt, size.columns, now],
  );
  const scrollMax = Math.max(0, lines.length - height);
  const attempts = detail.item?.attemptLog.length ?? 0;
  useKeys((key) => dispatch({ do: 'key', key, page, scrollMax, attempts, now: new Date(), types }));

  const fresh = freshness(openId === null ? state.list : detail, now);
  const app = state.filter.appId;
  const appName = state.apps.find(({ id }) => id === app)?.name ?? state.list.rows[0]?.appName;
  const keys = mode.name === 'list' ? listKeys : mode.name === 'detail' ? detailKeys : dialogKeys;
  const below =
    mode.name === 'detail' && scrollMax > 0
      ? `lines ${mode.scroll + 1} to ${mode.scroll + height} of ${lines.length}`
      : extent(state);
  return (
    <Frame
      size={size}
      head={
        <>
          <Ends
            left={{ text: openId === null ? 'Deliveries' : 'Delivery', tone: 'head' }}
            right={fresh}
            width={size.columns}
          />
          <Line parts={[{ text: filterInWords(state.filter, appName), tone: 'dim' }]} />
        </>
      }
      foot={
        <>
          <Line parts={footOf(state, below)} />
          <Keys keys={keys} width={size.columns} />
        </>
      }
    >
      <Body
        state={state}
        types={types}
        width={size.columns}
        height={height}
        detail={{ view: detail, lines, scrollMax }}
      />
    </Frame>
  );
}

/**
 * Returns the line above the keys: a message, or the cursor position and the status of a replay.
 */
function footOf({ message, replayed }: State, below: string): readonly Part[] {
  if (message !== null) return [{ text: message, tone: 'warn' }];
  const status = replayed?.status?.text;
  return [
    { text: below, tone: 'dim' },
    ...(status === undefined ? [] : [{ text: `${below === '' ? '' : ' · '}${status}` }]),
  ];
}

interface BodyProps {
  state: State;
  types: readonly string[];
  width: number;
  height: number;
  detail: { view: DetailView; lines: ReturnType<typeof deliveryLines>; scrollMax: number };
}

/**
 * Shows the part of the screen between title and keys. The content of this part depends on the
 * mode.
 */
function Body({ state, types, width, height, detail }: BodyProps): ReactNode {
  const { mode, apps } = state;
  switch (mode.name) {
    case 'list':
      return <DeliveriesList state={state} width={width} height={height} />;
    case 'detail':
      return (
        <DeliveryDetail
          view={detail.view}
          lines={detail.lines}
          scroll={Math.min(mode.scroll, detail.scrollMax)}
          height={height}
        />
      );
    case 'choose':
      return (
        <Choice
          mode={mode}
          options={optionsOf(mode.of, mode.typed, { apps, types })}
          height={height}
        />
      );
    case 'enter':
      return <Entry mode={mode} />;
    case 'confirm':
      return <Confirm mode={mode} width={width} />;
    case 'help':
      return <Help />;
  }
}

/** Shows the lines of a delivery that fit on the screen. */
function DeliveryDetail({
  view,
  lines,
  scroll,
  height,
}: {
  view: DetailView;
  lines: StyledLine[];
  scroll: number;
  height: number;
}): ReactNode {
  if (view.item === null)
    return (
      <Line parts={[{ text: 'This delivery is gone: it was older than is kept.', tone: 'warn' }]} />
    );
  if (view.item === undefined) return <Line parts={[{ text: 'Reading...', tone: 'dim' }]} />;
  const { status } = view.item;
  return lines
    .slice(scroll, scroll + height)
    .map((line, index) => (
      <Line
        key={index}
        parts={[scroll + index === 1 ? { ...line, tone: toneOfStatus[status] ?? 'plain' } : line]}
      />
    ));
}

/** Reads the apps when the user is about to choose an app. */
function useApps(source: DeliveriesSource, mode: Mode, dispatch: (action: Action) => void): void {
  const choosing = mode.name === 'choose' && mode.of === 'app';
  useEffect(() => {
    if (!choosing) return;
    source.apps().then(
      (apps) => dispatch({ do: 'apps', apps }),
      // If the apps cannot be read, the user can still type an app's id. The error is not shown
      // here, because the list of deliveries shows why reading fails.
      () => undefined,
    );
  }, [source, choosing]);
}

/** Reads the preview of a replay. Runs the replay once the user has confirmed. */
function useReplay(source: DeliveriesSource, mode: Mode, dispatch: (action: Action) => void): void {
  const replayIds = mode.name === 'confirm' ? mode.ids : null;
  useEffect(() => {
    if (replayIds === null) return;
    source.previewReplay(replayIds).then(
      (preview) => dispatch({ do: 'preview', ids: replayIds, preview, failure: null }),
      (error: unknown) =>
        dispatch({ do: 'preview', ids: replayIds, preview: null, failure: messageOf(error) }),
    );
  }, [source, replayIds]);
  const running = mode.name === 'confirm' && mode.running ? mode.preview : null;
  useEffect(() => {
    running?.run().then(
      (ids) => dispatch({ do: 'replayed', ids }),
      (error: unknown) =>
        dispatch({
          do: 'refused',
          text: `${messageOf(error)}. Look at the list before you try again: some may be queued.`,
        }),
    );
  }, [running]);
}

/** Watches the status of the deliveries of the last replay. */
function useReplayStatus(
  source: DeliveriesSource,
  { replayed }: State,
  dispatch: (action: Action) => void,
): void {
  const ids = replayed?.ids;
  useEffect(() => {
    if (ids === undefined || ids.length === 0) return;
    const watching = source.watchReplay(ids, (status) => dispatch({ do: 'status', ids, status }));
    return () => watching.stop();
  }, [source, ids]);
}

function idOf({ mode }: State): string | null {
  const shown = 'back' in mode ? mode.back : mode;
  return shown.name === 'detail' ? shown.id : null;
}

/**
 * Watches the deliveries that match the filter. The source reads two screens ahead of the scroll
 * position.
 */
function useList(
  source: DeliveriesSource,
  { filter, reads, offset }: State,
  page: number,
  report: (list: ListView) => void,
): void {
  const watch = useRef<ListWatch>(undefined);
  useEffect(() => {
    const watching = source.watch(filter, report);
    watch.current = watching;
    return () => watching.stop();
  }, [source, filter]);
  useEffect(() => {
    watch.current?.want(offset + 3 * page);
  }, [filter, offset, page]);
  useEffect(() => {
    if (reads > 0) watch.current?.readNow();
  }, [reads]);
}

/** Watches the delivery `id`. Late reports about another delivery are dropped. */
function useDetail(source: DeliveriesSource, id: string | null, reads: number): DetailView {
  const [latest, setLatest] = useState<{ id: string | null; view: DetailView }>({
    id: null,
    view: unread,
  });
  const watch = useRef<{ readNow(): void; stop(): void }>(undefined);
  useEffect(() => {
    if (id === null) return;
    const watching = source.watchOne(id, (view) => setLatest({ id, view }));
    watch.current = watching;
    return () => watching.stop();
  }, [source, id]);
  useEffect(() => {
    if (reads > 0) watch.current?.readNow();
  }, [reads]);
  return latest.id === id ? latest.view : unread;
}
