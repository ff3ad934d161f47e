import type { ReactElement, ReactNode } from 'react';

export interface Column<Row> {
  /**
   * The column's head: a text, or an element such as a check box. If the head is a text, each card
   * on a phone repeats the text.
   */
  head: ReactNode;
  /** Whether the column has numbers. Numbers are aligned right. */
  isNumber?: boolean;
  cell: (row: Row) => ReactNode;
}

/** Returns the head of a column of buttons or check boxes. Only screen readers read it. */
export const hiddenHead = (text: string): ReactElement => (
  <span className="visually-hidden">{text}</span>
);

/**
 * Shows rows as a table or, on a phone, as one card per row. `label` names the table for screen
 * readers. The roles are explicit, because the style of the cards removes the elements' own roles.
 */
export function Table<Row extends { id: string }>({
  label,
  rows,
  columns,
}: {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
}): ReactElement {
  const classOf = ({ isNumber }: Column<Row>) => (isNumber === true ? 'number' : undefined);
  return (
    <div className="table" tabIndex={0} role="region" aria-label={label}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column, index) => (
              <th key={index} scope="col" role="columnheader" className={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={row.id} role="row">
              {columns.map((column, index) => (
                <td
                  key={index}
                  role="cell"
                  className={classOf(column)}
                  data-head={typeof column.head === 'string' ? column.head : undefined}
                >
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
