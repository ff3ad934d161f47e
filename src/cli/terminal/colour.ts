// Colours, only on a terminal and without NO_COLOR.
import { styleText } from 'node:util';
import { noColour } from '../../config/terminal.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Adds a style to a text if the stream shows colours. */
export type Paint = (style: Style, text: string) => string;

/** The painter for this stream. */
export function painter(stream: NodeJS.WriteStream): Paint {
  // A stream that is not a terminal lacks this method, though its type has it.
  if (!stream.isTTY || noColour() || !stream.hasColors()) return plain;
  return (style, text) => styleText(style, text);
}

/** No colour at all. */
export const plain: Paint = (_style, text) => text;
