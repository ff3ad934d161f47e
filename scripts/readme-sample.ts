// The README's sample of a sandbox run. `npm run pictures` makes the sample from the output of a
// run. test/docs/sample.long.ts compares it with the output of a new run.

/** The arguments of the run whose output the README shows. */
export const SAMPLE_ARGS = ['sandbox', '--once', '--subscribers', '50', '--periods', '6'];

const EVENTS_PER_LINE = 3;
const SHOWN_PERIODS = 3;
const SHOWN_INVARIANTS = 4;

/**
 * Shortens the output of the run to three periods and four invariants, with three events per line.
 */
export function sampleOf(output: string): string {
  let invariants = 0;
  const lines = output.split('\n').flatMap((line) => {
    const [, period] = /^period (\d+) of/.exec(line) ?? [];
    if (Number(period) > SHOWN_PERIODS) return Number(period) === SHOWN_PERIODS + 1 ? ['...'] : [];
    if (line.startsWith('holds')) {
      invariants += 1;
      if (invariants > SHOWN_INVARIANTS) return invariants === SHOWN_INVARIANTS + 1 ? ['...'] : [];
    }
    if (line.startsWith('events')) return wrapped(line);
    return line === '' ? [] : [line];
  });
  return `${lines.join('\n')}\n`;
}

/** Breaks the line of events after every third event. */
function wrapped(line: string): string[] {
  const [name = ''] = /^events +/.exec(line) ?? [];
  const events = line.slice(name.length).split(', ');
  const count = Math.ceil(events.length / EVENTS_PER_LINE);
  return Array.from({ length: count }, (_, index) => {
    const part = events.slice(index * EVENTS_PER_LINE, (index + 1) * EVENTS_PER_LINE).join(', ');
    const begin = index === 0 ? name : ' '.repeat(name.length);
    return `${begin}${part}${index === count - 1 ? '' : ','}`;
  });
}

/** Matches the sample in the README. */
export const samplePattern = /(?<=^```\n)everything is up[^`]*(?=^```$)/m;

/** Replaces all numbers with 0, because times and counts differ from run to run. */
export const shapeOf = (text: string): string => text.replaceAll(/\d+(?:\.\d+)?/g, '0');
