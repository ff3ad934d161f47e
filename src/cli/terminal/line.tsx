import { Box, Text } from 'ink';
import type { ReactNode } from 'react';
import stringWidth from 'string-width';
import { hyperlink } from './print.ts';
import type { Size } from './screen.tsx';
import { cut, fit } from './width.ts';

export type Tone = 'plain' | 'head' | 'dim' | 'good' | 'bad' | 'warn' | 'chosen';

const styles: Record<
  Tone,
  { color?: string; bold?: boolean; dimColor?: boolean; inverse?: boolean }
> = {
  plain: {},
  head: { bold: true },
  dim: { dimColor: true },
  good: { color: 'green' },
  bad: { color: 'red' },
  warn: { color: 'yellow' },
  chosen: { inverse: true },
};

export interface Part {
  text: string;
  tone?: Tone;
  /** The URL that opens when the user clicks the text, if the terminal supports links (OSC 8). */
  link?: string;
}

/** Shows one line made of parts. Each text must have passed safeText or safeLines. */
export function Line({ parts }: { parts: readonly Part[] }): ReactNode {
  // ink gives an empty line no height, so an empty line gets a space.
  const shown = parts.some(({ text }) => text !== '') ? parts : [{ text: ' ' }];
  return (
    <Text wrap="truncate-end">
      {shown.map(({ text, tone = 'plain', link }, index) => (
        <Text key={index} {...styles[tone]}>
          {link === undefined ? text : hyperlink(text, link)}
        </Text>
      ))}
    </Text>
  );
}

/**
 * Shows one part at the left end of a line and, if there is room, another part at the right end.
 */
export function Ends({
  left,
  right,
  width,
}: {
  left: Part;
  right: Part;
  width: number;
}): ReactNode {
  const room = width - stringWidth(left.text) - 2;
  const end = cut(right.text, Math.max(0, room));
  return (
    <Line
      parts={[
        left,
        { text: ' '.repeat(Math.max(0, width - stringWidth(left.text) - stringWidth(end))) },
        { ...right, text: end },
      ]}
    />
  );
}

/**
 * The frame of every screen. `children` get the rows between head and foot. One row of the terminal
 * stays free. If the drawing filled the terminal, ink would clear the terminal before each drawing.
 */
export function Frame({
  size,
  head,
  foot,
  children,
}: {
  size: Size;
  head: ReactNode;
  foot: ReactNode;
  children: ReactNode;
}): ReactNode {
  return (
    <Box flexDirection="column" height={Math.max(1, size.rows - 1)} width={size.columns}>
      <Box flexDirection="column" flexShrink={0}>
        {head}
      </Box>
      <Box flexDirection="column" flexGrow={1} flexShrink={1} overflow="hidden">
        {/* Lines that do not fit are cut off at the bottom. If lines could shrink, they would
            overlap. */}
        <Box flexDirection="column" flexShrink={0}>
          {children}
        </Box>
      </Box>
      <Box flexDirection="column" flexShrink={0}>
        {foot}
      </Box>
    </Box>
  );
}

/** Shows keys and their actions in order of importance, as many as fit into `width`. */
export function Keys({
  keys,
  width,
}: {
  keys: readonly (readonly [string, string])[];
  width: number;
}): ReactNode {
  let used = 0;
  const shownKeys = keys.filter(
    ([key, does]) => (used += stringWidth(key) + stringWidth(does) + 3) <= width + 2,
  );
  return (
    <Line
      parts={shownKeys.flatMap(([key, does]) => [
        { text: key, tone: 'head' as const },
        { text: ` ${does}  `, tone: 'dim' as const },
      ])}
    />
  );
}

/**
 * Formats the cells of a table row. Each cell is cut or padded to its width, and two spaces
 * separate cells.
 */
export function cells(values: readonly (readonly [string, number])[]): string {
  return values.map(([text, width]) => fit(text, width)).join('  ');
}
