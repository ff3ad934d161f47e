// Printable page of a monthly statement. The page has no script, and its content security policy
// allows nothing but an inline style.
import { createHash } from 'node:crypto';
import type { StatementLine } from '../../db/money/statements.ts';
import type { statementOf } from '../../domain/accounts/statement.ts';
import { formatSol, formatUsdc, replaceHidden } from '../../format.ts';
import { escapeHtml } from './open-graph.ts';

interface Parties {
  readonly appName: string;
  readonly merchantName: string | null;
  readonly wallet: string;
  readonly month: string;
}

const style = `body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#111;background:#fff}
table{border-collapse:collapse;width:100%;margin:1rem 0 2rem}
th,td{border-bottom:1px solid #bbb;padding:.25rem .5rem;text-align:left;vertical-align:top}
.n{text-align:right;font-variant-numeric:tabular-nums}
.s{font-family:ui-monospace,monospace;font-size:11px;word-break:break-all}
.t{overflow-x:auto}@media print{.t{overflow:visible}}
thead{display:table-header-group}tr{break-inside:avoid}
@page{size:A4 landscape;margin:12mm}`;

/**
 * CSP hash of the inline style. The dashboard's `style-src` includes it, because a statement that
 * the dashboard opens inherits the dashboard's policy.
 */
export const STATEMENT_STYLE = `'sha256-${createHash('sha256').update(style).digest('base64')}'`;

const cell = (text: string, kind = '') =>
  `<td${kind === '' ? '' : ` class="${kind}"`}>${escapeHtml(replaceHidden(text, () => '�'))}</td>`;
const usdc = (units: bigint | string) => {
  const value = BigInt(units);
  return cell(value < 0n ? `-${formatUsdc(-value)}` : formatUsdc(value), 'n');
};
const row = (cells: readonly string[]) => `<tr>${cells.join('')}</tr>\n`;
const head = (names: readonly string[]) =>
  `<thead>${row(names.map((name) => `<th scope="col">${name}</th>`))}</thead>`;
/**
 * Returns the start of a table. On a narrow screen the table scrolls sideways, also with the
 * keyboard.
 */
const table = (label: string, names: readonly string[]) =>
  `<div class="t" role="region" aria-label="${label}" tabindex="0"><table>${head(names)}<tbody>\n`;
const TABLE_END = '</tbody></table></div>';

const SUMS = ['Payments', 'Gross', 'Fees', 'Net', 'Refunded', 'Net after refunds', 'Sponsored SOL'];
const LINES = [
  ...['Time', 'Kind', 'Plan', 'Customer', 'Gross', 'Fee', 'Net'],
  ...['Refunded', 'Credit', 'SOL', 'Signature'],
];

/** Returns the beginning of the page: parties, totals and days. */
export function statementHead(
  { appName, merchantName, wallet, month }: Parties,
  { daily, ...whole }: ReturnType<typeof statementOf>,
): string {
  const sums = (of: typeof whole) => [
    cell(String(of.payments), 'n'),
    usdc(of.gross),
    usdc(of.fees),
    usdc(of.net),
    usdc(of.refunded),
    usdc(of.netAfterRefunds),
    cell(formatSol(of.sponsoredLamports), 'n'),
  ];
  const text = (value: string) => escapeHtml(replaceHidden(value, () => '�'));
  const title = `Statement ${month} · ${text(appName)}`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${style}</style></head><body><main>
<h1>${title}</h1>
<p>${text(merchantName ?? '')}<br><span class="s">${text(wallet)}</span></p>
<p>USDC. Days are UTC.</p>
${table('Days', ['Day', ...SUMS])}${row([cell('All'), ...sums(whole)])}${daily.map((day) => row([cell(day.date), ...sums(day)])).join('')}${TABLE_END}
${table('Payments and refunds', LINES)}`;
}

/** Returns one table row for each line. */
export function statementRows(lines: readonly StatementLine[]): string {
  return lines
    .map((line) =>
      row([
        cell(line.occurredAt.toISOString()),
        cell(line.kind),
        cell(line.planName ?? ''),
        cell(line.externalId ?? line.wallet, 's'),
        usdc(line.gross),
        usdc(line.fee),
        usdc(line.net),
        usdc(line.refunded),
        usdc(line.creditSpent),
        cell(formatSol(line.lamports), 'n'),
        cell(line.txSignature ?? '', 's'),
      ]),
    )
    .join('');
}

export const statementEnd = `${TABLE_END}</main></body></html>\n`;
