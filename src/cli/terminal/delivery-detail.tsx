import type { ReactNode } from 'react';
import { toneOfStatus } from './deliveries-list.tsx';
import type { StyledLine, WholeItem } from './delivery-lines.ts';
import type { Freshness } from './freshness.ts';
import { Line } from './line.tsx';

export interface DetailView extends Freshness {
  /** undefined: not read yet; null: deleted since. */
  item: WholeItem | null | undefined;
}

/** The lines of a delivery that are in view. */
export function DeliveryDetail({
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
