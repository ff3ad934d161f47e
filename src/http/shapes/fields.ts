// Field schemas that the routes share. Handlers return database rows as they are. The serializer
// writes bigint and Date as strings.
import { Type, type Static, type TSchema } from '@sinclair/typebox';
import { isAddress } from '../../chain/program/addresses.ts';
import { isId } from '../../db/postgres/ids.ts';
import { isDisplayName } from '../../domain/names.ts';
import { invalidField } from '../../errors.ts';
import { isCalendarDay } from '../../format.ts';

const MAX_AMOUNT = 2n ** 63n - 1n;
// Times in the year 9999 or later are refused. A time zone could move such a time into the year
// 10000, which has five digits.
const LATEST_TIME = Date.UTC(9999, 0, 1);
const time = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;
// Postgres cannot store NUL. Lone surrogates are not valid text. Control characters other than line
// breaks and tabs are refused.
const unstorable = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]|\p{Surrogate}/u;

// Maximum length of an origin. The host name in it has at most 253 characters.
const MAX_ORIGIN = 270;

// The length is counted in code points, like length() in Postgres.
const isText = (text: string, maxLength: number) =>
  !unstorable.test(text) && Array.from(text).length <= maxLength;
const isHttpUrl = (text: string) =>
  isText(text, 2048) &&
  !/\s/.test(text) &&
  URL.canParse(text) &&
  /^https?:$/.test(new URL(text).protocol);

/** Custom formats. `message` describes the valid values. */
export const formats = {
  address: { fits: isAddress, message: 'must be a Solana address in Base58' },
  signature: {
    fits: (text: string) => /^[1-9A-HJ-NP-Za-km-z]{64,90}$/.test(text),
    message: 'must be a signature in Base58',
  },
  amount: {
    fits: (text: string) => /^[1-9]\d{0,18}$/.test(text) && BigInt(text) <= MAX_AMOUNT,
    message:
      'must be a whole number of USDC base units as a string, from "1" to "9223372036854775807"',
  },
  'signed-amount': {
    fits: (text: string) =>
      /^-?[1-9]\d{0,18}$/.test(text) && BigInt(text.replace('-', '')) <= MAX_AMOUNT,
    message:
      'must be a whole number of USDC base units as a string, from "1" to "9223372036854775807", with a minus for less',
  },
  name: {
    fits: (text: string) =>
      text.trim() !== '' && !/[\p{Cc}\p{Cf}\u2028\u2029]/u.test(text) && isText(text, 120),
    message: 'must be 1 to 120 characters on one line, none of them control or format characters',
  },
  'display-name': {
    fits: isDisplayName,
    message:
      'must be 1 to 120 characters on one line: none invisible, unassigned or for private use, at most two combining marks on a letter unless its script needs more, and letters of one living script in each word',
  },
  text: {
    fits: (text: string) => isText(text, 2000),
    message: 'must be text of at most 2000 characters',
  },
  'receipt-line': {
    fits: (text: string) => text.trim() !== '' && !/\p{Cc}/u.test(text) && isText(text, 60),
    message: 'must be 1 to 60 characters on one line',
  },
  'short-text': {
    fits: (text: string) => text.trim() !== '' && isText(text, 500),
    message: 'must be text of 1 to 500 characters',
  },
  email: {
    fits: (text: string) => isText(text, 254) && /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(text),
    message: 'must be an e-mail address of at most 254 characters',
  },
  'http-url': {
    fits: isHttpUrl,
    message: 'must be an http:// or https:// URL of at most 2048 characters without white space',
  },
  origin: {
    fits: (text: string) =>
      text.length <= MAX_ORIGIN && isHttpUrl(text) && new URL(text).origin === text,
    message: 'must be an origin such as https://coffee.example: scheme, host and port alone',
  },
  'metadata-uri': {
    fits: (text: string) => isText(text, 128) && !/\s/.test(text) && Buffer.byteLength(text) <= 128,
    message: 'must be at most 128 bytes without white space',
  },
  instant: {
    fits: (text: string) =>
      time.test(text) &&
      Date.parse(text) >= 0 &&
      Date.parse(text) < LATEST_TIME &&
      isCalendarDay(text.slice(0, 10)),
    message:
      'must be an ISO 8601 time such as 2026-01-31T00:00:00Z, or a date (its midnight in UTC), from 1970 on; the day must exist',
  },
  'idempotency-key': {
    fits: (text: string) => /^[\x20-\x7e]{1,255}$/.test(text),
    message: 'must be 1 to 255 printable ASCII characters',
  },
  uuid: { fits: (text: string) => isId(text.toLowerCase()), message: 'must be an id: a UUID' },
} as const;

const EXAMPLE_ID = '019a2f6e-7c3a-7d5e-9b1f-3c8a5d2e4f60';
const EXAMPLE_TIME = '2026-01-31T12:00:00.000Z';
const EXAMPLE_WALLET = '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDSGYdLVL9zYtAWWM';

export const Id = Type.String({
  format: 'uuid',
  description: 'UUIDv7 in lower case.',
  examples: [EXAMPLE_ID],
});
/**
 * An id in a path. The schema accepts any string, so that a malformed id gives 404, not 400. The
 * handler responds 404, so an invalid body gives 400 first.
 */
export const PathId = Type.String({ description: 'UUIDv7 in lower case.', examples: [EXAMPLE_ID] });
export const Wallet = Type.String({
  format: 'address',
  description: 'A Solana address in Base58.',
  examples: [EXAMPLE_WALLET],
});
export const Pda = Type.String({
  format: 'address',
  description: 'Address of the account on chain, in Base58.',
  examples: ['7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2'],
});
export const Name = Type.String({
  format: 'name',
  description: '1 to 120 characters.',
  examples: ['Coffee club'],
});
/**
 * A name that subscribers see. Only requests use this schema. A stored name may be older than the
 * rules of the schema, and a response must still return the name.
 */
export const NameInput = Type.String({
  format: 'display-name',
  description:
    '1 to 120 characters. Subscribers see it: no invisible characters, and letters of one script in each word.',
  examples: ['Coffee club'],
});
export const UnsignedTransaction = Type.String({
  contentEncoding: 'base64',
  description: 'An unsigned Solana transaction in Base64, for the wallet to sign and send.',
  examples: ['AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'],
});

/** Response fields of an offer: an unsigned transaction that a wallet may sign. */
export const offerFields = {
  transaction: UnsignedTransaction,
  offerId: Type.String({
    format: 'uuid',
    description: 'Names the transaction when it is sent back signed.',
    examples: [EXAMPLE_ID],
  }),
  minContextSlot: Type.Integer({
    description:
      'The option minContextSlot of a wallet that sends the transaction itself: the slot of its blockhash.',
    examples: [312000000],
  }),
};

export const Offer = Type.Object(offerFields, { title: 'Offer' });

/** USDC base units (6 decimals) as a string. Responses only. */
export const Amount = Type.Unsafe<bigint>({
  type: 'string',
  pattern: '^(0|[1-9][0-9]*)$',
  description: 'USDC base units (6 decimals) as a string.',
  examples: ['10000000'],
});
/**
 * An Amount or null in a response. The serializer cannot write a bigint to a field with two types,
 * so handlers convert the amount to a string.
 */
export const AmountOrNull = Type.Unsafe<string | null>({ ...Amount, type: ['string', 'null'] });
/** USDC base units as a string, negative for a reduction. Responses only. */
export const SignedAmount = Type.Unsafe<bigint>({
  type: 'string',
  pattern: '^(0|-?[1-9][0-9]*)$',
  description: 'USDC base units (6 decimals) as a string; negative for a reduction.',
  examples: ['-2500000'],
});
/** Lamports (9 decimals of SOL) as a string. Responses only. */
export const Lamports = Type.Unsafe<bigint>({
  type: 'string',
  pattern: '^[0-9]+$',
  description: 'Lamports (9 decimals of SOL) as a string.',
  examples: ['12600'],
});
/** USDC base units (6 decimals) as a string. Requests only. */
export const AmountInput = Type.String({
  format: 'amount',
  pattern: '^[1-9][0-9]{0,18}$',
  description: 'USDC base units (6 decimals) as a string, from 1 to 2^63-1.',
  examples: ['10000000'],
});
/** USDC base units (6 decimals) as a string, with a minus for less. Requests only. */
export const SignedAmountInput = Type.String({
  format: 'signed-amount',
  pattern: '^-?[1-9][0-9]{0,18}$',
  description: 'USDC base units (6 decimals) as a string, from 1 to 2^63-1, with a minus for less.',
  examples: ['2500000', '-2500000'],
});
export const Time = Type.Unsafe<Date>({
  type: 'string',
  format: 'date-time',
  description: 'ISO 8601, UTC.',
  examples: [EXAMPLE_TIME],
});
export const TimeInput = Type.String({
  format: 'instant',
  description: 'ISO 8601 time or date.',
  examples: ['2026-01-31T00:00:00Z'],
});

/** The customer's id in the merchant's own system. */
export const ExternalId = Type.String({
  format: 'name',
  description: 'Your id of the customer, 1 to 120 characters. Several subscriptions may share it.',
  examples: ['customer-1'],
});
/** Who set externalId and metadata of a subscription. */
export const OwnIdsFrom = Type.Unsafe<'checkout' | 'merchant' | 'subscriber' | null>({
  title: 'OwnIdsFrom',
  type: ['string', 'null'],
  enum: ['checkout', 'merchant', 'subscriber', null],
  description:
    'Who set externalId and metadata last: a checkout session, the merchant (PATCH), or the subscriber (not verified). Null without either.',
});
const MAX_METADATA_BYTES = 4096;
const metadata = {
  type: 'object',
  additionalProperties: { type: 'string', format: 'text' },
  description: 'Your own key-value data: up to 20 strings, 4 KiB in total.',
  examples: [{ order: '1234' }],
};
/** The merchant's own data: short keys, each with a text. */
export const Metadata = Type.Unsafe<Record<string, string>>({ ...metadata, title: 'Metadata' });
export const MetadataInput = Type.Unsafe<Record<string, string>>({
  ...metadata,
  title: 'MetadataInput',
  maxProperties: 20,
  propertyNames: { type: 'string', format: 'name' },
});

/** Throws VALIDATION_ERROR when the metadata exceeds 4 KiB as JSON. */
export function refuseLongMetadata(metadata: Readonly<Record<string, string>> | undefined): void {
  if (metadata === undefined) return;
  if (Buffer.byteLength(JSON.stringify(metadata)) <= MAX_METADATA_BYTES) return;
  throw invalidField('metadata', 'must be at most 4096 bytes as JSON');
}

/** Returns the schema of a value that may also be null. */
export function nullable<T extends TSchema>(schema: T) {
  const { type, enum: words, ...rest } = schema as T & { type: string; enum?: unknown[] };
  return Type.Unsafe<Static<T> | null>({
    ...rest,
    ...(words !== undefined && { enum: [...words, null] }),
    type: [type, 'null'],
  });
}

/** Returns the schema of a string that is one of `words`. */
export function oneOf<const T extends string>(words: readonly T[], description?: string) {
  return Type.Unsafe<T>({
    type: 'string',
    enum: [...words],
    ...(description !== undefined && { description }),
  });
}

/**
 * Returns the schema of an optional query parameter: one or more of `words`, separated by commas.
 */
export function several<const T extends string>(words: readonly T[], description: string) {
  return Type.Optional(
    Type.Unsafe<T[]>({
      type: 'array',
      items: { type: 'string', enum: [...words] },
      minItems: 1,
      description: `${description} Several are separated by commas.`,
    }),
  );
}

/**
 * Returns the schema of a string that is a key of `words`. The schema's description explains each
 * key. A schema that several objects have needs a `title`.
 */
export function meaning(
  words: Readonly<Record<string, string>>,
  description: string,
  title?: string,
) {
  const list = Object.entries(words).map(([word, about]) => `- \`${word}\`: ${about}`);
  const schema = oneOf<string>(Object.keys(words), `${description}\n\n${list.join('\n')}`);
  return title === undefined ? schema : { ...schema, title };
}

/**
 * The body of a POST without input: an empty object or no body. For no body, Fastify passes null to
 * the schema.
 */
export const NoBody = nullable(Type.Object({}, { additionalProperties: false }));

/** Returns the time of a query parameter, or null when the parameter is absent. */
export function timeOrNull(text: string | undefined): Date | null {
  return text === undefined ? null : new Date(text);
}

export const replacedApproval = Type.Unsafe<{ delegate: string; amount: bigint } | null>({
  title: 'ReplacedApproval',
  type: ['object', 'null'],
  properties: { delegate: Wallet, amount: Amount },
  required: ['delegate', 'amount'],
  description:
    'The approval of another program on the wallet’s USDC account, which subscribing would replace; null without one.',
});
