import type { ReactElement, ReactNode } from 'react';

export interface Column<Row> {
  head: ReactNode;
  /** The column has numbers, which are aligned right. */
  isNumber?: boolean;
  cell: (row: Row) => ReactNode;
}

/** Returns the head of a column of buttons or check boxes. Only screen readers read this head. */
export const hiddenHead = (text: string): ReactElement => (
  <span className="visually-hidden">{text}</span>
);

/**
 * Shows rows as a table that scrolls sideways on a narrow screen. `label` names the table for
 * screen readers.
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
      <table>
        <thead>
          <tr>
            {columns.map((column, place) => (
              <th key={place} scope="col" className={classOf(column)}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id}>
              {columns.map((column, place) => (
                <td key={place} className={classOf(column)}>
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
