// Colour on a terminal alone, and never where NO_COLOR asks for none.
import { styleText } from 'node:util';
import { noColour } from '../config/terminal.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Puts a style around a text where the stream shows colours, and leaves it alone where it does not. */
export type Paint = (style: Style, text: string) => string;

/** How to paint on this stream. */
export function painter(stream: NodeJS.WriteStream): Paint {
  // A stream that is not a terminal lacks this method, though its type has it.
  if (!stream.isTTY || noColour() || !stream.hasColors()) return plain;
  return (style, text) => styleText(style, text);
}

/** No colour at all. */
export const plain: Paint = (_style, text) => text;
