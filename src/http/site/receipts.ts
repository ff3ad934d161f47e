// Receipt page of a payment. Only the merchant and the buyer know the page's URL. The buyer can
// enter details in a form. If the merchant has chosen to keep buyers' details, the service stores
// them. Otherwise only the response to the form shows them.
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type BuyerDetails,
  findReceipt,
  listReceiptRefunds,
  type ReceiptRow,
  storeBuyerDetails,
} from '../../db/money/receipts.ts';
import { isId } from '../../db/postgres/ids.ts';
import { isReceiptToken } from '../../domain/accounts/receipts.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { replaceHidden } from '../../format.ts';
import { isLanguage, type Language } from '../../words/languages.ts';
import type { Api, ApiDeps } from '../door/context.ts';
import { bodyText } from '../door/encoding.ts';
import { languageOf, localeOf } from './accept-language.ts';
import { MAX_LENGTHS, receiptPage, type ReceiptParts, unknownReceipt } from './receipt-page.ts';
import { receiptKey } from './receipt-urls.ts';

const PATH = '/receipts/:subscriptionId/:reference/:token';
/** Maximum size of the form's body. Four fields of maximum length fit, even percent-encoded. */
const MAX_FORM_BYTES = 16 * 1024;

interface Parts extends ReceiptParts {
  send: (reply: FastifyReply, html: string) => FastifyReply;
}

interface Route {
  Params: { subscriptionId: string; reference: string; token: string };
  Querystring: { lang?: unknown };
}

export function isReceiptPath(url: string): boolean {
  return url === PATH;
}

export function receiptRoutes(api: Api, deps: ApiDeps, { send, ...parts }: Parts): void {
  const { sql, cluster } = deps;
  readForms(api);

  const page = async (
    request: FastifyRequest<Route>,
    receipt: ReceiptRow,
    typed: { details?: BuyerDetails; isUnsaved?: boolean; tooLong?: keyof BuyerDetails } = {},
  ) => {
    const refunds = await listReceiptRefunds(sql, receipt.id);
    const language = chosenLanguage(request);
    return receiptPage(parts, {
      receipt: { ...receipt, ...typed },
      refunds,
      cluster,
      language,
      locale: localeOf(request, language),
      isUnsaved: typed.isUnsaved ?? false,
      tooLong: typed.tooLong,
    });
  };
  const absent = (request: FastifyRequest<Route>, reply: FastifyReply) =>
    send(secret(reply.code(404)), unknownReceipt(parts, chosenLanguage(request)));

  api.get<Route>(PATH, async (request, reply) => {
    const receipt = await receiptOf(deps, request);
    if (receipt === undefined) return absent(request, reply);
    return send(secret(reply), await page(request, receipt));
  });

  api.post<Route>(PATH, async (request, reply) => {
    const receipt = await receiptOf(deps, request);
    if (receipt === undefined) return absent(request, reply);
    const details = detailsOf(request.body);
    const tooLong = (Object.keys(MAX_LENGTHS) as (keyof BuyerDetails)[]).find(
      (field) => Array.from(details[field] ?? '').length > MAX_LENGTHS[field],
    );
    if (tooLong !== undefined)
      return send(secret(reply.code(400)), await page(request, receipt, { details, tooLong }));
    if (await storeBuyerDetails(sql, receipt.id, details))
      return secret(reply).redirect(request.url, 303);
    return send(secret(reply), await page(request, receipt, { details, isUnsaved: true }));
  });
}

/** Search engines must not index a receipt, even if another page links to it. */
const secret = (reply: FastifyReply) => reply.header('x-robots-tag', 'noindex, nofollow');

/** Returns the receipt that the URL names, or undefined if the URL's token is wrong. */
async function receiptOf(
  { sql }: ApiDeps,
  { params: { subscriptionId, reference, token } }: FastifyRequest<Route>,
): Promise<ReceiptRow | undefined> {
  if (!isId(subscriptionId)) return undefined;
  const key = await receiptKey(sql);
  if (!isReceiptToken(key, subscriptionId, reference, token)) return undefined;
  return findReceipt(sql, subscriptionId, reference);
}

/** Returns the language of the query parameter `lang`, or else of the browser. */
function chosenLanguage(request: FastifyRequest<Route>): Language {
  const { lang } = request.query;
  return typeof lang === 'string' && isLanguage(lang) ? lang : languageOf(request);
}

/** Adds a parser for the page's form. The parser refuses a body that is not UTF-8. */
function readForms(api: Api): void {
  api.addContentTypeParser<Buffer>(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer', bodyLimit: MAX_FORM_BYTES },
    (request, body, done) => {
      const text = bodyText(request, body);
      if (text instanceof ServiceError) {
        done(text);
        return;
      }
      try {
        decodeURIComponent(text);
      } catch {
        done(invalidField('body', 'must be percent-encoded UTF-8'));
        return;
      }
      done(null, new URLSearchParams(text));
    },
  );
}

function detailsOf(form: unknown): BuyerDetails {
  if (!(form instanceof URLSearchParams))
    throw new ServiceError(
      'VALIDATION_ERROR',
      'Send the form of the page, as application/x-www-form-urlencoded.',
    );
  const line = (name: keyof BuyerDetails) => cleaned(form.get(name) ?? '').replaceAll('\n', ' ');
  const details = {
    name: line('name'),
    address: cleaned(form.get('address') ?? ''),
    taxId: line('taxId'),
    note: cleaned(form.get('note') ?? ''),
  };
  const orNull = (text: string) => (text === '' ? null : text);
  return {
    name: orNull(details.name),
    address: orNull(details.address),
    taxId: orNull(details.taxId),
    note: orNull(details.note),
  };
}

/** Removes hidden characters, and white space around lines. */
function cleaned(text: string): string {
  const lines = text.normalize('NFC').split(/\r\n?|\n/);
  return lines
    .map((line) => replaceHidden(line, () => '').trim())
    .join('\n')
    .trim();
}
