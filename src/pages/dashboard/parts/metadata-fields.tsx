import type { ReactElement } from 'react';
import { Button } from '../../shared/parts.tsx';

/** Maximum number of pairs in the metadata of a checkout link or a subscription. */
export const MAX_METADATA = 20;

/** Names and values as they are typed. */
export type Pairs = readonly (readonly [name: string, value: string])[];

/** Converts the pairs to an object. Pairs without a name are left out. */
export const objectOf = (pairs: Pairs): Record<string, string> =>
  Object.fromEntries(pairs.filter(([name]) => name.trim() !== ''));

/** Inputs for pairs of a name and a value, such as metadata. */
export function PairFields({
  legend,
  pairs,
  most,
  nameExample,
  valueExample,
  onChange,
}: {
  legend: string;
  pairs: Pairs;
  /** Maximum number of pairs. */
  most: number;
  nameExample: string;
  valueExample: string;
  onChange: (pairs: Pairs) => void;
}): ReactElement {
  const change = (place: number, pair: readonly [string, string]) =>
    onChange(pairs.map((one, index) => (index === place ? pair : one)));
  return (
    <fieldset className="pairs">
      <legend>{legend}</legend>
      {pairs.map(([name, value], place) => (
        <div key={place} className="pair">
          <input
            aria-label={`${legend}: name ${place + 1}`}
            value={name}
            placeholder={nameExample}
            spellCheck={false}
            onChange={({ target }) => change(place, [target.value, value])}
          />
          <input
            aria-label={`${legend}: value ${place + 1}`}
            value={value}
            placeholder={valueExample}
            spellCheck={false}
            onChange={({ target }) => change(place, [name, target.value])}
          />
          <Button
            kind="link"
            aria-label={`Remove ${name === '' ? `row ${place + 1}` : name}`}
            onClick={() => onChange(pairs.filter((_, index) => index !== place))}
          >
            Remove
          </Button>
        </div>
      ))}
      {pairs.length < most && (
        <Button kind="link" onClick={() => onChange([...pairs, ['', '']])}>
          Add a row
        </Button>
      )}
    </fieldset>
  );
}
