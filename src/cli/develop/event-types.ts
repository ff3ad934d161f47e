// The event types as arguments, with a suggestion for a mistyped one.
import { InvalidArgumentError } from 'commander';
import { closest } from '../../config/unknown-names.ts';
import { sampleTypes, type SampleType } from '../../domain/outbox/samples.ts';

/** Returns the reason why the text is not an event type; undefined if it is one. */
export function typeFault(text: string): string | undefined {
  if (sampleTypes.some((type) => type === text)) return undefined;
  const [nearest = '', letters = Infinity] = closest(text, sampleTypes);
  // With more wrong letters, another type is as likely to be meant.
  const isNear = letters <= Math.ceil(text.length / 3);
  const hint = isNear ? ` Did you mean ${nearest}?` : '';
  return `"${text}" is not an event type.${hint} The types are ${sampleTypes.join(', ')}.`;
}

/** A parser for commander that accepts a comma-separated list of event types. */
export function eventTypesOf(value: string): SampleType[] {
  return value.split(',').map((part) => {
    const type = part.trim();
    const fault = typeFault(type);
    if (fault !== undefined) throw new InvalidArgumentError(fault);
    return type as SampleType;
  });
}
