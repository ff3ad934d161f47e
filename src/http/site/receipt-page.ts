// HTML of a receipt. Texts from the merchant and the buyer are escaped, and hidden characters are
// replaced.
import type { BuyerDetails, ReceiptRefund, ReceiptRow } from '../../db/money/receipts.ts';
import { explorerUrl } from '../../explorer.ts';
import { formatUsdc, replaceHidden } from '../../format.ts';
import { type Catalogue, catalogues } from '../../words/catalogues.ts';
import { fill } from '../../words/fill.ts';
import { type Language, languages } from '../../words/languages.ts';
import { escapeHtml } from './open-graph.ts';

type ReceiptWords = Catalogue['receipts'];

/** Maximum lengths of the buyer's details, as in sql/0004_money.sql. */
export const MAX_LENGTHS: Readonly<Record<keyof BuyerDetails, number>> = {
  name: 120,
  address: 500,
  taxId: 60,
  note: 500,
};

/** `head` returns the elements of `<head>`. `script` is the URL of the print button's script. */
export interface ReceiptParts {
  readonly head: (title: string) => string;
  readonly script: string;
}

interface Shown {
  readonly receipt: ReceiptRow;
  readonly refunds: readonly ReceiptRefund[];
  readonly cluster: string;
  readonly language: Language;
  /** Locale for dates and amounts: the variant of `language` that the reader's browser prefers. */
  readonly locale: string;
  /** Whether the buyer's details are shown on this page but not stored. */
  readonly isUnsaved: boolean;
  /** The form field whose text is too long, if any. */
  readonly tooLong: keyof BuyerDetails | undefined;
}

const text = (given: string) => escapeHtml(replaceHidden(given, () => '�'));
/** Converts a text with line breaks to HTML. */
const lines = (given: string) => given.split('\n').map(text).join('<br>');
const paragraph = (html: string, kind = '') =>
  html === '' ? '' : `<p${kind === '' ? '' : ` class="${kind}"`}>${html}</p>`;

/** Returns the page for a URL whose token is wrong. */
export function unknownReceipt({ head }: ReceiptParts, language: Language): string {
  const { unknown, copyWhole } = catalogues[language].receipts;
  return documentOf(
    head(unknown),
    language,
    `<main class="boot">\n<h1>${unknown}</h1>\n<p>${copyWhole}</p>\n</main>`,
  );
}

export function receiptPage({ head, script }: ReceiptParts, shown: Shown): string {
  const { receipt, language, isUnsaved, tooLong } = shown;
  const { receipts: words, site } = catalogues[language];
  const { title } = site.receipt;
  const notice =
    tooLong !== undefined
      ? `<div class="notice error no-print" role="alert">${fill(words.tooLong, { field: labelsOf(words)[tooLong], max: MAX_LENGTHS[tooLong] })}</div>`
      : isUnsaved
        ? `<div class="notice warning no-print" role="status">${words.printNow}</div>`
        : '';
  return documentOf(
    `${head(`${title} · ${text(receipt.appName)}`)}\n<script type="module" src="${script}"></script>`,
    language,
    `<main class="receipt">
${notice}
<div class="receipt-head"><h1>${title}</h1><button class="button no-print" id="print" type="button" hidden>${words.print}</button></div>
<div class="receipt-parties">
${sellerOf(words, receipt)}
${buyerOf(words, receipt)}
</div>
${paymentOf(words, shown)}
${formOf(words, receipt)}
<nav class="receipt-languages no-print small" aria-label="${words.language}">${languageLinks(language)}</nav>
</main>`,
  );
}

function documentOf(head: string, language: Language, body: string): string {
  return `<!doctype html>
<html lang="${language}">
<head>
${head}
</head>
<body>
${body}
</body>
</html>
`;
}

function sellerOf(words: ReceiptWords, receipt: ReceiptRow): string {
  const { legalName, merchantName, appName, legalAddress, taxId, merchantWallet } = receipt;
  return party(words.seller, [
    `<strong>${text(legalName ?? merchantName ?? appName)}</strong>`,
    legalAddress === null ? '' : lines(legalAddress),
    taxId === null ? '' : `${words.taxId}: ${text(taxId)}`,
    `<span class="muted">${words.wallet}</span> <code>${text(merchantWallet)}</code>`,
    receipt.supportEmail === null ? '' : `${words.support}: ${text(receipt.supportEmail)}`,
  ]);
}

function buyerOf(words: ReceiptWords, { details, subscriberWallet }: ReceiptRow): string {
  const { name = null, address = null, taxId = null, note = null } = details ?? {};
  return party(words.buyer, [
    name === null ? '' : `<strong>${text(name)}</strong>`,
    address === null ? '' : lines(address),
    taxId === null ? '' : `${words.taxId}: ${text(taxId)}`,
    note === null ? '' : lines(note),
    `<span class="muted">${words.wallet}</span> <code>${text(subscriberWallet)}</code>`,
  ]);
}

const party = (heading: string, content: readonly string[]) =>
  `<section><h2>${heading}</h2>${content.map((html) => paragraph(html)).join('')}</section>`;

/** Returns the lines about the payment and its refunds. */
function paymentOf(words: ReceiptWords, { receipt, refunds, cluster, locale }: Shown): string {
  const { amountGross, amountRefunded, creditSpent, txSignature } = receipt;
  const usdc = (units: bigint) => `<span class="amount">${amountIn(locale, units)}</span>`;
  const at = (time: Date) => timeIn(locale, time);
  const rows = [
    [words.number, `<code>${receipt.id}</code>`],
    [words.date, at(receipt.occurredAt)],
    [words.service, `${text(receipt.planName)}, ${text(receipt.appName)}`],
    [words.period, `${at(receipt.coversFrom)} – ${at(receipt.periodEnd)}`],
    ...(creditSpent > 0n ? [[words.credit, usdc(creditSpent)]] : []),
    [words.paid, `<strong>${usdc(amountGross)}</strong>`],
    ...refunds.map((refund) => [
      fill(words.refund, { date: at(refund.occurredAt) }),
      `${usdc(-refund.amount)}${transactionOf(words, cluster, refund.txSignature)}`,
    ]),
    ...(amountRefunded > 0n
      ? [[words.rest, `<strong>${usdc(amountGross - amountRefunded)}</strong>`]]
      : []),
    [words.network, cluster === 'mainnet-beta' ? 'Solana' : `Solana ${text(cluster)}`],
    ...(txSignature === null
      ? []
      : [[words.transaction, transactionOf(words, cluster, txSignature)]]),
  ];
  return `<dl class="receipt-lines">\n${rows
    .map(([name = '', value = '']) => `<div><dt>${name}</dt><dd>${value}</dd></div>`)
    .join('\n')}\n</dl>`;
}

/** Returns a signature with a link to the explorer. On paper, the link's URL is printed too. */
function transactionOf({ explorer }: ReceiptWords, cluster: string, signature: string): string {
  const url = explorerUrl(cluster, 'tx', signature);
  const link =
    url === undefined
      ? ''
      : ` <a href="${text(url)}" target="_blank" rel="noreferrer">${explorer}</a>`;
  return `<span class="receipt-transaction"><code>${text(signature)}</code>${link}</span>`;
}

const labelsOf = ({ name, address, taxId, note }: ReceiptWords) => ({ name, address, taxId, note });

/** Returns the form for the buyer's details. */
function formOf(words: ReceiptWords, { details, keepBuyerDetails }: ReceiptRow): string {
  const labels = labelsOf(words);
  const value = (field: keyof BuyerDetails) => text(details?.[field] ?? '');
  const attributes = (field: keyof BuyerDetails, completion: string) =>
    `name="${field}" maxlength="${MAX_LENGTHS[field]}" autocomplete="${completion}"`;
  const input = (field: keyof BuyerDetails, completion: string) =>
    `<label>${labels[field]}<input ${attributes(field, completion)} value="${value(field)}"></label>`;
  const area = (field: keyof BuyerDetails, completion: string) => {
    const content = (details?.[field] ?? '').split('\n').map(text).join('\n');
    return `<label>${labels[field]}<textarea ${attributes(field, completion)} rows="3">${content}</textarea></label>`;
  };
  return `<form class="card form no-print" method="post">
<div><h2>${words.details}</h2>${paragraph(keepBuyerDetails ? words.kept : words.notKept, 'muted small')}</div>
${input('name', 'organization')}
${area('address', 'street-address')}
${input('taxId', 'off')}
${area('note', 'off')}
<div class="actions"><button class="button primary" type="submit">${keepBuyerDetails ? words.save : words.show}</button></div>
</form>`;
}

function languageLinks(language: Language): string {
  return Object.entries(languages)
    .map(([code, name]) =>
      code === language
        ? `<span lang="${code}" aria-current="true">${name}</span>`
        : `<a href="?lang=${code}" lang="${code}" hreflang="${code}">${name}</a>`,
    )
    .join(' ');
}

/** An exact amount of USDC: `1,234.50 USDC`. */
function amountIn(locale: string, units: bigint): string {
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 6 };
  const exact = units < 0n ? `-${formatUsdc(-units)}` : formatUsdc(units);
  const format = new Intl.NumberFormat(locale, digits);
  return `${format.format(exact as Intl.StringNumericLiteral)} USDC`;
}

/**
 * Returns a time in UTC, so that the receipt is the same for all readers. The format is the same as
 * in pages/shared/time.tsx. On the screen, the script of the receipt (pages/receipt/main.ts) adds
 * the time in the reader's time zone.
 */
function timeIn(locale: string, time: Date): string {
  const day = { year: 'numeric', month: 'short', day: 'numeric' } as const;
  const parts = { ...day, hour: '2-digit', minute: '2-digit', timeZone: 'UTC' } as const;
  const shown = new Intl.DateTimeFormat(locale, parts).format(time);
  return `<time datetime="${time.toISOString()}">${escapeHtml(shown)} UTC</time>`;
}
