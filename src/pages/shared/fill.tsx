import { Fragment, type ReactElement, type ReactNode } from 'react';

/**
 * Renders a text of the catalogue. Each `{name}` in the text is replaced by the element with that
 * name.
 */
export function Fill({
  text,
  ...values
}: { text: string } & Readonly<Record<string, ReactNode>>): ReactElement {
  return (
    <>
      {text.split(/\{(\w+)\}/).map((part, index) => (
        <Fragment key={index}>{index % 2 === 0 ? part : values[part]}</Fragment>
      ))}
    </>
  );
}
