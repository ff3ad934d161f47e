// Parses event types from command-line arguments. Suggests an event type for a mistyped argument.
import { InvalidArgumentError } from 'commander';
import { closest } from '../../config/unknown-names.ts';
import { sampleTypes, type SampleType } from '../../domain/outbox/samples.ts';

/** Returns an error message if the text is not an event type. Otherwise returns undefined. */
export function typeFault(text: string): string | undefined {
  if (sampleTypes.some((type) => type === text)) return undefined;
  const [nearest = '', letters = Infinity] = closest(text, sampleTypes);
  // If more than a third of the letters differ, the user probably did not mean the nearest type.
  const isNear = letters <= Math.ceil(text.length / 3);
  const hint = isNear ? ` Did you mean ${nearest}?` : '';
  return `"${text}" is not an event type.${hint} The types are ${sampleTypes.join(', ')}.`;
}

/** Parses a comma-separated list of event types, for commander. */
export function eventTypesOf(value: string): SampleType[] {
  return value.split(',').map((part) => {
    const type = part.trim();
    const fault = typeFault(type);
    if (fault !== undefined) throw new InvalidArgumentError(fault);
    return type as SampleType;
  });
}
