import { Fragment, type ReactElement, type ReactNode } from 'react';

/** Shows a text of the catalogue with elements in place of its `{name}`. */
export function Fill({
  text,
  ...values
}: { text: string } & Readonly<Record<string, ReactNode>>): ReactElement {
  return (
    <>
      {text.split(/\{(\w+)\}/).map((part, place) => (
        <Fragment key={place}>{place % 2 === 0 ? part : values[part]}</Fragment>
      ))}
    </>
  );
}
