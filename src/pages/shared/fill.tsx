import { Fragment, type ReactElement, type ReactNode } from 'react';

/** Renders a text of the catalogue. The element of the same name replaces each `{name}`. */
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
